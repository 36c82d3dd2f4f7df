//! From what a person typed to the row that was meant, or an error that helps.

use std::fmt::Write as _;

use host::store::{PaneRow, SessionRow, StoreError};
use model::resolve::{Candidate, Target, Unresolved, resolve};
use model::{Name, PaneId, SessionId};
use protocol::{ErrorBody, ErrorCode};

use crate::supervisor::Supervisor;

/// Everything there is, as the registry has it.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) panes: Vec<PaneRow>,
}

/// A session or a pane that was meant.
#[derive(Clone, Debug)]
pub(crate) enum Meant {
    Session(SessionRow),
    Pane(PaneRow),
}

impl Supervisor {
    /// Everything there is.
    pub(crate) async fn rows(&self) -> Result<Rows, StoreError> {
        let read = self.registry.read(|change| {
            Ok::<_, StoreError>(Rows { sessions: change.sessions()?, panes: change.panes()? })
        });
        let mut rows = read.await?;
        // A creation that failed while the registry could not be written is nothing to be seen.
        rows.panes.retain(|pane| pane.announced || self.pane(pane.id).is_some());
        Ok(rows)
    }
}

impl Rows {
    /// The session or pane that `text` names.
    pub(crate) fn find(&self, text: &str) -> Result<Meant, ErrorBody> {
        let candidates: Vec<Candidate> =
            self.session_candidates().chain(self.pane_candidates()).collect();
        match resolve(text, &candidates) {
            Ok(found) => Ok(self.row(&found)),
            Err(unresolved) => Err(explain("session or pane", text, unresolved)),
        }
    }

    /// The pane that `text` names. A session stands for its only pane.
    pub(crate) fn find_pane(&self, text: &str) -> Result<PaneRow, ErrorBody> {
        let panes: Vec<Candidate> = self.pane_candidates().collect();
        match resolve(text, &panes) {
            Ok(found) => match self.row(&found) {
                Meant::Pane(pane) => return Ok(pane),
                Meant::Session(_) => {}
            },
            Err(unresolved @ Unresolved::Ambiguous(_)) => {
                return Err(explain("pane", text, unresolved));
            }
            Err(Unresolved::NotFound) => {}
        }
        let sessions: Vec<Candidate> = self.session_candidates().collect();
        let Ok(Candidate { target: Target::Session(session), .. }) = resolve(text, &sessions)
        else {
            return Err(explain("pane", text, Unresolved::NotFound));
        };
        let own: Vec<PaneRow> = self.panes_of(session).cloned().collect();
        match <[PaneRow; 1]>::try_from(own) {
            Ok([pane]) => Ok(pane),
            Err(none) if none.is_empty() => {
                Err(ErrorBody::new(ErrorCode::NotFound, format!("the session {text} has no panes"))
                    .hint(format!("start one with `ccmux new --session {text}`")))
            }
            Err(several) => {
                let several: Vec<Candidate> =
                    several.iter().map(|pane| self.pane_candidate(pane)).collect();
                Err(ambiguous("pane", text, &several))
            }
        }
    }

    /// The sessions that are there for everybody.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &SessionRow> {
        let is_shown =
            |row: &&SessionRow| row.announced || self.panes_of(row.record.id).next().is_some();
        self.sessions.iter().filter(is_shown)
    }

    /// The session that `text` names.
    pub(crate) fn find_session(&self, text: &str) -> Result<&SessionRow, ErrorBody> {
        let sessions: Vec<Candidate> = self.session_candidates().collect();
        let found = resolve(text, &sessions).map_err(|why| explain("session", text, why))?;
        let row = self.sessions.iter().find(|row| row.record.id.to_string() == found.id);
        Ok(row.expect("the candidate was made from this row"))
    }

    /// The panes of a session, oldest first.
    pub(crate) fn panes_of(&self, session: SessionId) -> impl Iterator<Item = &PaneRow> {
        self.panes.iter().filter(move |pane| pane.session == session)
    }

    /// The session with this id.
    pub(crate) fn session(&self, id: SessionId) -> Option<&SessionRow> {
        self.sessions.iter().find(|row| row.record.id == id)
    }

    fn row(&self, found: &Candidate) -> Meant {
        match found.target {
            Target::Session(id) => Meant::Session(
                self.session(id).expect("the candidate was made from this row").clone(),
            ),
            Target::Pane(id) => {
                let row = self.panes.iter().find(|pane| pane.id == id);
                Meant::Pane(row.expect("the candidate was made from this row").clone())
            }
        }
    }

    fn session_candidates(&self) -> impl Iterator<Item = Candidate> {
        self.sessions.iter().map(|row| Candidate {
            target: Target::Session(row.record.id),
            id: row.record.id.to_string(),
            name: row.record.name.clone(),
            session: None,
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
        }
    }
}

/// There is no pane with this id.
pub(crate) fn no_pane(pane: PaneId) -> ErrorBody {
    ErrorBody::new(ErrorCode::NotFound, format!("there is no pane {pane}"))
        .hint("see what there is with `ccmux ls`")
}

fn explain(kind: &str, text: &str, unresolved: Unresolved) -> ErrorBody {
    match unresolved {
        Unresolved::NotFound => {
            ErrorBody::new(ErrorCode::NotFound, format!("there is no {kind} {text:?}"))
                .hint("see what there is with `ccmux ls`")
        }
        Unresolved::Ambiguous(candidates) => ambiguous(kind, text, &candidates),
    }
}

/// Several things could be meant: says which.
pub(crate) fn ambiguous(kind: &str, text: &str, candidates: &[Candidate]) -> ErrorBody {
    let mut hint = "name one of them by its id:".to_owned();
    for candidate in candidates {
        let session = candidate.session.as_ref().map(Name::as_str);
        let slash = if session.is_some() { "/" } else { "" };
        write!(
            hint,
            "\n  {}  {}{slash}{}",
            candidate.id,
            session.unwrap_or_default(),
            candidate.name
        )
        .expect("a string takes everything");
    }
    let message = format!("{text:?} could be any of {} ({kind})", candidates.len());
    ErrorBody::new(ErrorCode::Conflict, message).hint(hint)
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
    fn a_name_that_nothing_has_is_answered_with_where_to_look() {
        for error in [rows().find("nope").unwrap_err(), rows().find_pane("nope").unwrap_err()] {
            assert_eq!(error.code, ErrorCode::NotFound);
            assert!(error.message.contains("\"nope\""), "{}", error.message);
            assert!(error.hint.unwrap().contains("ccmux ls"));
        }
    }

    #[test]
    fn a_name_that_several_have_is_answered_with_all_of_them() {
        for error in [rows().find("dev").unwrap_err(), rows().find_pane("dev").unwrap_err()] {
            let hint = error.hint.unwrap();
            assert_eq!(error.code, ErrorCode::Conflict);
            for pane in &rows().panes[..2] {
                assert!(hint.contains(&pane.id.to_string()), "{hint}");
            }
            assert!(hint.contains("web/dev") && hint.contains("api/dev"), "{hint}");
        }
    }

    #[test]
    fn a_session_stands_for_its_only_pane() {
        let rows = rows();

        assert_eq!(rows.find_pane("web").unwrap(), rows.panes[0]);
        assert_eq!(rows.find_pane("api").unwrap_err().code, ErrorCode::Conflict);
        assert_eq!(rows.find_pane("empty").unwrap_err().code, ErrorCode::NotFound);
    }
}
