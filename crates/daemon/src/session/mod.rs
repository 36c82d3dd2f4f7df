//! Sessions: how one is made, whole or not at all, and how it is seen (R25, R26, R32).
//!
//! ```text
//!  wish --> entry --> directory --> template --> config.json, .session --> a pane tells of it
//!          (registry)
//! ```
//!
//! A session that nobody tells of and that has no pane never came to be: recovery takes back its
//! entry and retires its directory.

mod condition;
mod view;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use host::file::{self, FileError, Survive};
use host::store::Change;
use host::template::{self, TemplateError};
use host::{StateRoot, clock, record};
use model::isolation::Method;
use model::template::SESSION_DIRS;
use model::{LaunchRequest, Name, SessionId, SessionMode, SessionRecord, environment};
use protocol::{ErrorBody, ErrorCode};
use serde_json::{Value, json};
use tracing::warn;

use crate::command::Failure;
use crate::launch::SESSION_RECORD;
use crate::supervisor::{Supervisor, point, run_blocking};

pub(crate) use condition::Conditions;

/// What a session was made from, in its directory.
pub(crate) const ORIGIN: &str = "config.json";

/// What else is entered together with a session: all of it or nothing.
pub(crate) type Entering =
    Box<dyn FnOnce(&mut Change<'_>, &SessionRecord) -> Result<(), Failure> + Send>;

/// A session that somebody wants.
#[derive(Default)]
pub(crate) struct SessionWish {
    /// What people will call it; by its id otherwise.
    pub(crate) name: Option<Name>,
    pub(crate) mode: SessionMode,
    /// What to copy its units and workflows from. A legacy session has those of its project, and
    /// no template.
    pub(crate) template: Option<String>,
    /// The directory that the panes of a legacy session share.
    pub(crate) project: Option<String>,
    pub(crate) isolation: Option<Method>,
    pub(crate) env: BTreeMap<String, String>,
    /// It goes with its last pane.
    pub(crate) implicit: bool,
    /// What it is made from, for `config.json`. Without secrets: see [`masked`].
    pub(crate) origin: Option<Value>,
    /// What is entered in the same transaction.
    pub(crate) entering: Option<Entering>,
}

impl SessionWish {
    /// The session that a single pane asks for.
    pub(crate) fn of(request: &LaunchRequest, name: Option<Name>) -> Self {
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
            entering: None,
        }
    }
}

impl Supervisor {
    /// Makes a session without a pane: its entry and its directory, or neither. Nobody knows of it
    /// until its first pane is told of.
    ///
    /// # Errors
    ///
    /// Why not; nothing of it is left then.
    pub(crate) async fn make_session(
        self: &Arc<Self>,
        mut wish: SessionWish,
    ) -> Result<SessionRecord, ErrorBody> {
        self.check_template(wish.mode, wish.template.as_deref()).await?;
        let id = SessionId::from_random(clock::random_id());
        let origin = wish.origin.take();
        let entered = self.registry.apply(Survive::Kill, move |change| {
            let entering = wish.entering.take();
            let record = enter(change, id, wish)?;
            if let Some(entering) = entering {
                entering(change, &record)?;
            }
            Ok::<_, Failure>(record)
        });
        let record = entered.await.map_err(Failure::into_body)?;
        point("session.entered").await;
        let (root, filled) = (self.root.clone(), record.clone());
        let made = run_blocking(move || {
            fill(&root, &filled, origin.as_ref())?;
            let dir = root.session(id);
            record::write(&dir.join(SESSION_RECORD), &filled, Survive::PowerLoss)
                .and_then(|()| sync(&root, &filled))
                .map_err(|error| not_made(&error.into()))
        });
        let made = made.await;
        point("session.made").await;
        if let Err(error) = made {
            self.unmake_session(id).await;
            return Err(error);
        }
        Ok(record)
    }

    /// Takes back a session that nobody was told of and that has no pane.
    pub(crate) async fn unmake_session(&self, id: SessionId) {
        let removed = self.registry.change(move |change| change.remove_session_if_over(id)).await;
        match removed {
            Ok(true) => self.retire_session(id).await,
            Ok(false) => {}
            Err(error) => warn!(%error, session = %id, "the entry of a session stays"),
        }
    }

    /// Whether a new session can have this template.
    ///
    /// # Errors
    ///
    /// Why not, before anything is made.
    pub(crate) async fn check_template(
        &self,
        mode: SessionMode,
        template: Option<&str>,
    ) -> Result<(), ErrorBody> {
        let Some(name) = template.map(str::to_owned) else { return Ok(()) };
        if mode == SessionMode::Legacy {
            let message = "a legacy session has the units and workflows of its project, \
                           and no template";
            return Err(ErrorBody::new(ErrorCode::Usage, message)
                .hint("leave --template out, or use --mode isolated"));
        }
        let root = self.root.clone();
        let found = run_blocking(move || template::find(&root, &name).map(drop)).await;
        found.map_err(|error| template_failed(&error))
    }
}

/// Enters a session that nobody knows of yet.
pub(crate) fn enter(
    change: &mut Change<'_>,
    id: SessionId,
    wish: SessionWish,
) -> Result<SessionRecord, Failure> {
    let name = match wish.name {
        Some(name) => name,
        None => {
            let name = SessionRecord::default_name(&id);
            name.free(|name| change.has_session_named(name).unwrap_or(false))
        }
    };
    let record = SessionRecord {
        id,
        name,
        mode: wish.mode,
        created: clock::now(),
        implicit: wish.implicit,
        isolation: wish.isolation,
        env: wish.env,
        template: wish.template,
        project: wish.project,
    };
    change.add_session(&record)?;
    Ok(record)
}

/// Makes the directory of a session and what is in it, but for its record. May be done by several
/// at once, and twice. Blocks.
///
/// # Errors
///
/// Why not; a part of it may be there.
pub(crate) fn fill(
    root: &StateRoot,
    session: &SessionRecord,
    origin: Option<&Value>,
) -> Result<(), ErrorBody> {
    let dir = root.session(session.id);
    let told = |error: FileError| not_made(&error.into());
    file::make_dir(&dir).map_err(told)?;
    file::make_dir(&dir.join("panes")).map_err(told)?;
    if let Some(name) = &session.template {
        let copied =
            template::find(root, name).and_then(|template| template::copy_into(&template, &dir));
        copied.map_err(|error| not_made(&error))?;
    }
    for part in SESSION_DIRS {
        file::make_dir(&dir.join(part)).map_err(told)?;
    }
    if let Some(origin) = origin {
        let text = format!("{origin:#}\n");
        file::write_atomic(&dir.join(ORIGIN), text.as_bytes(), Survive::Kill).map_err(told)?;
    }
    Ok(())
}

/// Makes everything that [`fill`] made survive the death of the machine. Blocks.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn sync(root: &StateRoot, session: &SessionRecord) -> Result<(), FileError> {
    let dir = root.session(session.id);
    if session.template.is_some() {
        template::sync(&dir)?;
    }
    file::sync(&dir.join(ORIGIN))?;
    file::sync_dir(&dir)?;
    file::sync_dir(&root.sessions())
}

/// What a session is made from that a single pane asked for.
pub(crate) fn origin(request: &LaunchRequest) -> Value {
    let mut asked = serde_json::to_value(request).unwrap_or_default();
    masked(&mut asked);
    json!({ "kind": "new", "request": asked })
}

/// Leaves out of a request what the client's environment says, and the values of variables that
/// look like secrets.
pub(crate) fn masked(request: &mut Value) {
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
                    masked(field);
                }
            }
        }
        Value::Array(several) => several.iter_mut().for_each(masked),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Why there is no session.
fn not_made(error: &TemplateError) -> ErrorBody {
    let full = matches!(error, TemplateError::File(error) if error.is_full());
    let body = template_failed(error);
    let message = format!("the session was not made: {}", body.message);
    let told = ErrorBody { message, ..body };
    if full { told.hint("make room on the disk") } else { told }
}

/// Why something about a template was not done.
pub(crate) fn template_failed(error: &TemplateError) -> ErrorBody {
    let say = |code| ErrorBody::new(code, error.to_string());
    match error {
        TemplateError::NotFound(_) => {
            say(ErrorCode::NotFound).hint("see which there are with `ccmux template ls`")
        }
        TemplateError::Invalid { .. } => say(ErrorCode::Usage).hint(
            "a template has template.toml, and unit, workflows or files; nothing in it leads out",
        ),
        TemplateError::Shipped(_) => say(ErrorCode::Conflict)
            .hint("add one of your own under that name, and it takes its place"),
        TemplateError::File(_) => say(ErrorCode::Failed),
    }
}

/// Where the part of a session is that it may have from its project.
pub(crate) fn part_of(root: &StateRoot, session: &SessionRecord, part: &str) -> std::path::PathBuf {
    let shared = session.project.as_ref().filter(|_| session.mode == SessionMode::Legacy);
    let shared = shared.map(|project| Path::new(project).join(part));
    shared.filter(|dir| dir.is_dir()).unwrap_or_else(|| root.session(session.id).join(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R19: secrets are not written to what is derived.
    #[test]
    fn what_a_session_is_made_from_has_no_secrets_in_it() {
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
