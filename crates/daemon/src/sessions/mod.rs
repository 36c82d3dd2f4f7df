//! Sessions: atomic creation, and the view of clients (R25, R26, R32).
//!
//! ```text
//!  request --> entry --> directory --> template --> config.json, .session --> announced with a pane
//!             (registry)
//! ```
//!
//! A session is announced with its first pane. Recovery rolls back a session that was not announced
//! and has no pane: it removes the entry and retires the directory.

mod condition;
pub(crate) mod error;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::file::{self, Durability, FileError};
use host::store::{Change, StoreError};
use host::template;
use host::{StateRoot, clock, record};
use model::isolation::Method;
use model::resolve::{Candidate, Target, Unresolved, resolve};
use model::template::SESSION_DIRS;
use model::{LaunchRequest, Name, SessionId, SessionMode, SessionRecord, environment};
use serde_json::{Value, json};
use tracing::warn;

use self::condition::Conditions;
use self::error::{CreateError, JoinError};
use crate::lifecycle::Lifecycle;
use crate::registry::{Registry, TargetError};
use crate::runtime::{Runtime, point, run_blocking};
use crate::trash::{self, Expiry};

/// File name of the session record in a session's directory.
pub(crate) const SESSION_RECORD: &str = ".session";

/// The service that creates, shows, repairs and retires sessions.
pub(crate) struct Sessions {
    runtime: Arc<Runtime>,
    registry: Registry,
    lifecycle: Lifecycle,
    /// The session records that were found intact.
    conditions: Conditions,
}

/// File name of the request that a session was created from, in its directory.
pub(crate) const ORIGIN: &str = "config.json";

/// Further changes in the transaction that adds a session.
pub(crate) type AlsoInsert =
    Box<dyn FnOnce(&mut Change<'_>, &SessionRecord) -> Result<(), StoreError> + Send>;

/// The parameters of a new session.
#[derive(Default)]
pub(crate) struct NewSession {
    /// Its name (default: derived from its id).
    pub(crate) name: Option<Name>,
    pub(crate) mode: SessionMode,
    /// The template that its units and workflows are copied from. A legacy session uses those of its
    /// project and has no template.
    pub(crate) template: Option<String>,
    /// The directory that the panes of a legacy session share.
    pub(crate) project: Option<String>,
    pub(crate) isolation: Option<Method>,
    pub(crate) env: BTreeMap<String, String>,
    /// Whether it is removed with its last pane.
    pub(crate) implicit: bool,
    /// The request that it is created from, for `config.json`. Contains no secrets: see
    /// [`mask_secrets`].
    pub(crate) origin: Option<Value>,
    /// Further changes in the same transaction.
    pub(crate) also_insert: Option<AlsoInsert>,
}

impl NewSession {
    /// Returns the parameters of the session for a single pane.
    fn for_pane(request: &LaunchRequest, name: Option<Name>) -> Self {
        let mode = request.mode.or(request.default_mode).unwrap_or_default();
        Self {
            implicit: name.is_none(),
            name,
            mode,
            template: request.template.clone(),
            project: (mode == SessionMode::Legacy).then(|| request.cwd.clone()),
            isolation: request.isolation,
            env: request.session_env.clone(),
            origin: None,
            also_insert: None,
        }
    }
}

impl Sessions {
    pub(crate) fn new(runtime: Arc<Runtime>, registry: Registry, lifecycle: Lifecycle) -> Self {
        Self { runtime, registry, lifecycle, conditions: Conditions::default() }
    }

    /// Moves the directory of a session that was removed from the registry to the trash. Returns its
    /// new path.
    pub(crate) async fn retire(&self, session: SessionId, since: Expiry) -> Option<PathBuf> {
        self.conditions.forget(session);
        self.lifecycle.session_removed(session).await;
        let (dir, trash) = (self.runtime.root.session(session), self.runtime.root.trash());
        let moved = run_blocking(move || trash::retire(&dir, &trash, "session", session, since));
        moved.await.unwrap_or_else(|error| {
            warn!(%session, %error, "session directory not moved to trash");
            None
        })
    }

    /// Creates the entry and the directory of a session without panes. It is not announced before its
    /// first pane.
    ///
    /// # Errors
    ///
    /// [`CreateError`]; nothing is left behind.
    pub(crate) async fn create(&self, mut new: NewSession) -> Result<SessionRecord, CreateError> {
        self.check_template(new.mode, new.template.as_deref()).await?;
        let id = SessionId::from_random(clock::random_id());
        let origin = new.origin.take();
        let added = self.registry.apply(Durability::ProcessCrash, move |change| {
            let also_insert = new.also_insert.take();
            let record = add(change, id, new)?;
            if let Some(also_insert) = also_insert {
                also_insert(change, &record)?;
            }
            Ok::<_, StoreError>(record)
        });
        let record = added.await?;
        point("session.entered").await;
        let (root, session) = (self.runtime.root.clone(), record.clone());
        let created = run_blocking(move || {
            create_dir(&root, &session, origin.as_ref())?;
            let dir = root.session(id);
            record::write(&dir.join(SESSION_RECORD), &session, Durability::PowerLoss)
                .and_then(|()| sync(&root, &session))
                .map_err(|error| CreateError::NotCreated(error.into()))
        });
        let created = created.await;
        point("session.made").await;
        if let Err(error) = created {
            self.roll_back(id).await;
            return Err(error);
        }
        Ok(record)
    }

    /// Removes a session that was not announced and has no pane.
    async fn roll_back(&self, id: SessionId) {
        let removed = self.registry.change(move |change| change.remove_session_if_unused(id)).await;
        match removed {
            Ok(true) => drop(self.retire(id, Expiry::AfterRetention).await),
            Ok(false) => {}
            Err(error) => warn!(%error, session = %id, "registry entry not rolled back"),
        }
    }

    /// Checks that a new session can use this template.
    ///
    /// # Errors
    ///
    /// [`CreateError`].
    pub(crate) async fn check_template(
        &self,
        mode: SessionMode,
        template: Option<&str>,
    ) -> Result<(), CreateError> {
        let Some(name) = template.map(str::to_owned) else { return Ok(()) };
        if mode == SessionMode::Legacy {
            return Err(CreateError::LegacyTemplate);
        }
        let root = self.runtime.root.clone();
        let found = run_blocking(move || template::find(&root, &name).map(drop)).await;
        found.map_err(CreateError::Template)
    }
}

/// Adds a session to the registry, not announced.
fn add(
    change: &mut Change<'_>,
    id: SessionId,
    new: NewSession,
) -> Result<SessionRecord, StoreError> {
    let name = match new.name {
        Some(name) => name,
        None => {
            let name = SessionRecord::default_name(&id);
            name.free(|name| change.has_session_named(name).unwrap_or(false))
        }
    };
    let record = SessionRecord {
        id,
        name,
        mode: new.mode,
        created: clock::now(),
        implicit: new.implicit,
        isolation: new.isolation,
        env: new.env,
        template: new.template,
        project: new.project,
    };
    change.add_session(&record)?;
    Ok(record)
}

/// Finds or adds the session that a request names. Also returns whether it is not announced yet.
pub(crate) fn session_for(
    change: &mut Change<'_>,
    request: &LaunchRequest,
) -> Result<(SessionRecord, bool), JoinError> {
    let id = SessionId::from_random(clock::random_id());
    let Some(requested) = &request.session else {
        return Ok((add(change, id, NewSession::for_pane(request, None))?, true));
    };
    let rows = change.sessions()?;
    let candidates: Vec<Candidate> = rows.iter().map(|row| candidate(&row.record)).collect();
    match resolve(requested, &candidates) {
        Ok(Candidate { target: Target::Session(found), .. }) => {
            let row = change.session(found)?;
            if request.run != Some(found) && change.pending()?.contains(&found) {
                return Err(JoinError::Pending { session: requested.clone() });
            }
            if let Some(mode) = request.mode.filter(|mode| *mode != row.record.mode) {
                let (session, is) = (requested.clone(), row.record.mode);
                return Err(JoinError::OtherMode { session, is, asked: mode });
            }
            let template = request.template.as_ref();
            if template.is_some() && template != row.record.template.as_ref() {
                return Err(JoinError::OtherTemplate { session: requested.clone() });
            }
            Ok((row.record, !row.announced))
        }
        Err(ambiguous @ Unresolved::Ambiguous(_)) => {
            Err(TargetError::new("session", requested, ambiguous).into())
        }
        Ok(_) | Err(Unresolved::NotFound) => {
            let name: Name = requested
                .parse()
                .map_err(|why| JoinError::InvalidName { session: requested.clone(), why })?;
            Ok((add(change, id, NewSession::for_pane(request, Some(name)))?, true))
        }
    }
}

fn candidate(record: &SessionRecord) -> Candidate {
    Candidate {
        target: Target::Session(record.id),
        id: record.id.to_string(),
        name: record.name.clone(),
        session: None,
        live: false,
    }
}

/// Creates the directory of a session and its contents, except for the session record. Idempotent,
/// also when called concurrently. Blocks.
///
/// # Errors
///
/// [`CreateError`]; a part may have been created.
pub(crate) fn create_dir(
    root: &StateRoot,
    session: &SessionRecord,
    origin: Option<&Value>,
) -> Result<(), CreateError> {
    let dir = root.session(session.id);
    let failed = |error: FileError| CreateError::NotCreated(error.into());
    file::make_dir(&dir).map_err(failed)?;
    file::make_dir(&dir.join("panes")).map_err(failed)?;
    if let Some(name) = &session.template {
        let copied =
            template::find(root, name).and_then(|template| template::copy_into(&template, &dir));
        copied.map_err(CreateError::NotCreated)?;
    }
    for part in SESSION_DIRS {
        file::make_dir(&dir.join(part)).map_err(failed)?;
    }
    if let Some(origin) = origin {
        let text = format!("{origin:#}\n");
        file::write_atomic(&dir.join(ORIGIN), text.as_bytes(), Durability::ProcessCrash)
            .map_err(failed)?;
    }
    Ok(())
}

/// Syncs everything that [`create_dir`] created to the disk. Blocks.
fn sync(root: &StateRoot, session: &SessionRecord) -> Result<(), FileError> {
    let dir = root.session(session.id);
    if session.template.is_some() {
        template::sync(&dir)?;
    }
    file::sync(&dir.join(ORIGIN))?;
    file::sync_dir(&dir)?;
    file::sync_dir(&root.sessions())
}

/// Returns the content of `config.json` for the session of a single pane.
pub(crate) fn origin(request: &LaunchRequest) -> Value {
    let mut request = serde_json::to_value(request).unwrap_or_default();
    mask_secrets(&mut request);
    json!({ "kind": "new", "request": request })
}

/// Removes the client's environment from a request, and masks the values of variables that look like
/// secrets.
pub(crate) fn mask_secrets(request: &mut Value) {
    match request {
        Value::Object(fields) => {
            fields.remove("client_env");
            for (name, field) in fields.iter_mut() {
                let variables =
                    field.as_object_mut().filter(|_| name == "env" || name == "session_env");
                if let Some(variables) = variables {
                    for (name, value) in variables.iter_mut() {
                        let shown = value.as_str().map(|text| environment::shown(name, text));
                        *value = shown.map_or(Value::Null, Into::into);
                    }
                } else {
                    mask_secrets(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_secrets),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the directory of a part of a session. A legacy session uses that of its project, if it
/// exists.
pub(crate) fn part_dir(
    root: &StateRoot,
    session: &SessionRecord,
    part: &str,
) -> std::path::PathBuf {
    let shared = session.project.as_ref().filter(|_| session.mode == SessionMode::Legacy);
    let shared = shared.map(|project| Path::new(project).join(part));
    shared.filter(|dir| dir.is_dir()).unwrap_or_else(|| root.session(session.id).join(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(home: &Path) -> Sessions {
        let (runtime, registry) = crate::runtime::testing::empty(home);
        Sessions::new(runtime, registry, Lifecycle::default())
    }

    fn new_session(name: &str) -> NewSession {
        let name = name.parse().ok();
        NewSession { name, origin: Some(json!({ "kind": "run" })), ..NewSession::default() }
    }

    #[tokio::test]
    async fn create_makes_entry_directory_and_records() {
        let home = tempfile::tempdir().unwrap();
        let sessions = sessions(&home.path().join("home"));

        let record = sessions.create(new_session("work")).await.unwrap();

        let dir = sessions.runtime.root.session(record.id);
        assert_eq!(record::read::<SessionRecord>(&dir.join(SESSION_RECORD)).unwrap(), record);
        for part in ["panes", ORIGIN].into_iter().chain(SESSION_DIRS) {
            assert!(dir.join(part).exists(), "{part}");
        }
        let id = record.id;
        let row = sessions.registry.read(move |change| change.session(id)).await.unwrap();
        assert!(!row.announced);
    }

    #[tokio::test]
    async fn create_that_fails_in_transaction_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let sessions = sessions(&home.path().join("home"));
        let also_insert: AlsoInsert = Box::new(|_, _| Err(StoreError::Gone));
        let new = NewSession { also_insert: Some(also_insert), ..new_session("work") };

        let created = sessions.create(new).await;

        assert!(matches!(created, Err(CreateError::Store(StoreError::Gone))), "{created:?}");
        let rows = sessions.registry.rows().await.unwrap();
        assert!(rows.sessions.is_empty());
        let dirs = std::fs::read_dir(sessions.runtime.root.sessions()).unwrap();
        assert_eq!(dirs.count(), 0);
    }

    #[tokio::test]
    async fn repair_rewrites_damaged_record_and_keeps_the_old_file() {
        let home = tempfile::tempdir().unwrap();
        let sessions = sessions(&home.path().join("home"));
        let record = sessions.create(new_session("work")).await.unwrap();
        let dir = sessions.runtime.root.session(record.id);
        let path = dir.join(SESSION_RECORD);
        file::write_atomic(&path, b"{", Durability::ProcessCrash).unwrap();

        sessions.repair(&record).unwrap();

        assert_eq!(record::read::<SessionRecord>(&path).unwrap(), record);
        let entries = std::fs::read_dir(&dir).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.starts_with(".session.damaged")).count(), 1);
        assert_eq!(sessions.runtime.problems().len(), 1);
    }

    #[tokio::test]
    async fn repair_of_missing_directory_fails() {
        let home = tempfile::tempdir().unwrap();
        let sessions = sessions(&home.path().join("home"));
        let record = sessions.create(new_session("work")).await.unwrap();
        std::fs::remove_dir_all(sessions.runtime.root.session(record.id)).unwrap();

        let repaired = sessions.repair(&record);

        assert!(matches!(repaired, Err(error::RepairError::Missing { .. })), "{repaired:?}");
    }

    /// R19: secrets are not written to derived files.
    #[test]
    fn origin_contains_no_secrets() {
        let request = LaunchRequest {
            cwd: "/src".to_owned(),
            env: [("API_TOKEN", "hunter2"), ("LEVEL", "3")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            client_env: [("HOME".to_owned(), "/home/me".to_owned())].into(),
            ..LaunchRequest::default()
        };

        let text = origin(&request).to_string();

        assert!(!text.contains("hunter2") && !text.contains("/home/me"), "{text}");
        assert!(text.contains(r#""LEVEL":"3""#) && text.contains("API_TOKEN"), "{text}");
    }
}
