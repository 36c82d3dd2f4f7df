//! Lookup of sessions and panes by id, id prefix or name.

use host::store::{PaneRow, SessionRow, StoreError};
use model::resolve::{Candidate, Target, Unresolved, resolve};
use model::{PaneId, SessionId};

use super::Registry;
use crate::fault::{Advice, Description, Fault, FaultKind};

/// A snapshot of all sessions and panes in the registry.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) panes: Vec<PaneRow>,
}

/// The row that a target resolves to.
#[derive(Clone, Debug)]
pub(crate) enum PaneOrSessionRow {
    Session(SessionRow),
    Pane(PaneRow),
}

impl Registry {
    /// Reads every session and pane.
    pub(crate) async fn rows(&self) -> Result<Rows, StoreError> {
        let read = self.read(|change| {
            Ok::<_, StoreError>(Rows { sessions: change.sessions()?, panes: change.panes()? })
        });
        read.await
    }
}

impl Rows {
    /// Finds the session or pane that `text` identifies.
    pub(crate) fn find(&self, text: &str) -> Result<PaneOrSessionRow, TargetError> {
        let candidates: Vec<Candidate> =
            self.session_candidates().chain(self.pane_candidates()).collect();
        match resolve(text, &candidates) {
            Ok(found) => Ok(self.row(&found)),
            Err(unresolved) => Err(TargetError::new("session or pane", text, unresolved)),
        }
    }

    /// Finds the pane that `text` identifies. A session with one pane identifies that pane.
    pub(crate) fn find_pane(&self, text: &str) -> Result<PaneRow, TargetError> {
        let panes: Vec<Candidate> = self.pane_candidates().collect();
        match resolve(text, &panes) {
            Ok(found) => match self.row(&found) {
                PaneOrSessionRow::Pane(pane) => return Ok(pane),
                PaneOrSessionRow::Session(_) => {}
            },
            Err(unresolved @ Unresolved::Ambiguous(_)) => {
                return Err(TargetError::new("pane", text, unresolved));
            }
            Err(Unresolved::NotFound) => {}
        }
        let sessions: Vec<Candidate> = self.session_candidates().collect();
        let Ok(Candidate { target: Target::Session(session), .. }) = resolve(text, &sessions)
        else {
            return Err(TargetError::new("pane", text, Unresolved::NotFound));
        };
        let panes: Vec<PaneRow> = self.panes_of(session).cloned().collect();
        match <[PaneRow; 1]>::try_from(panes) {
            Ok([pane]) => Ok(pane),
            Err(none) if none.is_empty() => Err(TargetError::NoPanes { session: text.to_owned() }),
            Err(several) => {
                let several: Vec<Candidate> =
                    several.iter().map(|pane| self.pane_candidate(pane)).collect();
                Err(TargetError::new("pane", text, Unresolved::Ambiguous(several)))
            }
        }
    }

    /// Returns the sessions that clients can see.
    pub(crate) fn visible_sessions(&self) -> impl Iterator<Item = &SessionRow> {
        let is_visible =
            |row: &&SessionRow| row.announced || self.panes_of(row.record.id).next().is_some();
        self.sessions.iter().filter(is_visible)
    }

    /// Finds the session that `text` identifies.
    pub(crate) fn find_session(&self, text: &str) -> Result<&SessionRow, TargetError> {
        let sessions: Vec<Candidate> = self.session_candidates().collect();
        let found =
            resolve(text, &sessions).map_err(|why| TargetError::new("session", text, why))?;
        let row = self.sessions.iter().find(|row| row.record.id.to_string() == found.id);
        Ok(row.expect("every candidate is built from a row"))
    }

    /// Returns the panes of a session, oldest first.
    pub(crate) fn panes_of(&self, session: SessionId) -> impl Iterator<Item = &PaneRow> {
        self.panes.iter().filter(move |pane| pane.session == session)
    }

    /// Returns the session with this id.
    pub(crate) fn session(&self, id: SessionId) -> Option<&SessionRow> {
        self.sessions.iter().find(|row| row.record.id == id)
    }

    fn row(&self, found: &Candidate) -> PaneOrSessionRow {
        match found.target {
            Target::Session(id) => PaneOrSessionRow::Session(
                self.session(id).expect("every candidate is built from a row").clone(),
            ),
            Target::Pane(id) => {
                let row = self.panes.iter().find(|pane| pane.id == id);
                PaneOrSessionRow::Pane(row.expect("every candidate is built from a row").clone())
            }
        }
    }

    fn session_candidates(&self) -> impl Iterator<Item = Candidate> {
        self.sessions.iter().map(|row| Candidate {
            target: Target::Session(row.record.id),
            id: row.record.id.to_string(),
            name: row.record.name.clone(),
            session: None,
            live: false,
        })
    }

    fn pane_candidates(&self) -> impl Iterator<Item = Candidate> {
        self.panes.iter().map(|pane| self.pane_candidate(pane))
    }

    pub(crate) fn pane_candidate(&self, pane: &PaneRow) -> Candidate {
        Candidate {
            target: Target::Pane(pane.id),
            id: pane.id.to_string(),
            name: pane.name.clone(),
            session: self.session(pane.session).map(|row| row.record.name.clone()),
            live: pane.ended.is_none(),
        }
    }
}

/// Why a name or id does not identify exactly one session or pane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("no {kind} {text:?}")]
    NotFound { kind: &'static str, text: String },
    #[error("{text:?} is ambiguous: it matches {} {kind}s", candidates.len())]
    Ambiguous { kind: &'static str, text: String, candidates: Vec<Candidate> },
    #[error("session {session} has no panes")]
    NoPanes { session: String },
    #[error("no pane {0}")]
    NoPane(PaneId),
}

impl TargetError {
    pub(crate) fn new(kind: &'static str, text: &str, unresolved: Unresolved) -> Self {
        let text = text.to_owned();
        match unresolved {
            Unresolved::NotFound => Self::NotFound { kind, text },
            Unresolved::Ambiguous(candidates) => Self::Ambiguous { kind, text, candidates },
        }
    }
}

impl Fault for TargetError {
    fn describe(&self) -> Description {
        match self {
            Self::NotFound { .. } | Self::NoPane(_) => {
                FaultKind::NotFound.advise(Advice::ListSessions)
            }
            Self::Ambiguous { candidates, .. } => {
                FaultKind::Conflict.advise(Advice::NameOneOf(candidates.clone()))
            }
            Self::NoPanes { session } => {
                FaultKind::NotFound.advise(Advice::StartPane { session: session.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{SessionMode, SessionRecord, Timestamp};

    use super::*;

    fn session(n: u8, name: &str) -> SessionRow {
        let record = SessionRecord {
            id: SessionId::from_random([n; 16]),
            name: name.parse().unwrap(),
            mode: SessionMode::Isolated,
            created: Timestamp(0),
            implicit: false,
            isolation: None,
            env: std::collections::BTreeMap::new(),
            template: None,
            project: None,
        };
        SessionRow { record, announced: true }
    }

    fn pane(n: u8, session: u8, name: &str) -> PaneRow {
        PaneRow {
            seq: u64::from(n),
            id: PaneId::from_random([n; 16]),
            session: SessionId::from_random([session; 16]),
            name: name.parse().unwrap(),
            created: Timestamp(0),
            announced: true,
            closing: false,
            ended: None,
        }
    }

    fn rows() -> Rows {
        Rows {
            sessions: vec![session(1, "web"), session(2, "api"), session(3, "empty")],
            panes: vec![pane(10, 1, "dev"), pane(11, 2, "dev"), pane(12, 2, "qa")],
        }
    }

    #[test]
    fn find_unknown_name_returns_not_found() {
        for error in [rows().find("nope").unwrap_err(), rows().find_pane("nope").unwrap_err()] {
            assert!(matches!(&error, TargetError::NotFound { text, .. } if text == "nope"));
            assert_eq!(error.describe().advice, Some(Advice::ListSessions));
        }
    }

    #[test]
    fn find_ambiguous_name_lists_all_candidates() {
        for error in [rows().find("dev").unwrap_err(), rows().find_pane("dev").unwrap_err()] {
            let TargetError::Ambiguous { candidates, .. } = error else { panic!("{error:?}") };
            let found: Vec<String> = candidates.into_iter().map(|candidate| candidate.id).collect();
            assert_eq!(
                found,
                rows().panes[..2].iter().map(|pane| pane.id.to_string()).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn find_pane_accepts_the_name_of_a_session_with_one_pane() {
        let rows = rows();

        assert_eq!(rows.find_pane("web").unwrap(), rows.panes[0]);
        assert!(matches!(rows.find_pane("api"), Err(TargetError::Ambiguous { .. })));
        assert!(matches!(rows.find_pane("empty"), Err(TargetError::NoPanes { .. })));
    }
}
