//! Authorisation: the access of callers to sessions.
//!
//! [`decide`] is the whole rule. The layers that accept requests identify the [`Caller`]; the
//! operations name the [`Access`] that they need and the session.
//!
//! | caller | own session | other session | no session |
//! |---|---|---|---|
//! | daemon, local user | everything | everything | everything |
//! | pane, policy `session` | all but administer | list | list, read |
//! | pane, policy `all` | all but administer | all but administer | all but administer |
//! | HTTP token, `read` scope | – | list, read | list, read |
//! | HTTP token, `control` scope | – | everything | everything |

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::http::Scope;
use crate::ids::{PaneId, SessionId};

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Caller {
    /// The daemon itself: recovery, cleanup, and processes that ended on their own.
    Daemon,
    /// A process of the user outside all panes.
    LocalUser,
    /// A process in a pane.
    Pane {
        /// The pane.
        pane: PaneId,
        /// The session of that pane.
        session: SessionId,
    },
    /// An HTTP client that presented a valid token.
    HttpToken {
        /// The scope of the token.
        scope: Scope,
    },
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daemon => f.write_str("daemon"),
            Self::LocalUser => f.write_str("user"),
            Self::Pane { pane, .. } => write!(f, "pane {pane}"),
            Self::HttpToken { scope } => write!(f, "http token ({scope})"),
        }
    }
}

/// The kind of access that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Listing sessions and panes.
    List,
    /// Reading output and details.
    Read,
    /// Changing a session, typing into its panes, or sending them messages.
    Control,
    /// Changing the daemon as a whole: tokens, HTTP server, trust, configuration, shutdown, cleanup.
    Administer,
}

impl Access {
    /// All kinds, from the least to the most powerful.
    pub const ALL: [Self; 4] = [Self::List, Self::Read, Self::Control, Self::Administer];

    /// The name used in files and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Control => "control",
            Self::Administer => "administer",
        }
    }
}

words!(Access);

/// The sessions that a pane may act on (`authority.panes`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneAuthority {
    /// Its own session.
    #[default]
    Session,
    /// All sessions.
    All,
}

impl PaneAuthority {
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 2] = [Self::Session, Self::All];

    /// The name used in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::All => "all",
        }
    }
}

words!(PaneAuthority);

/// A refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// A pane asked for access to another session.
    #[error(
        "{access} access to session {target} denied: pane {pane} may only list sessions other \
         than its own"
    )]
    OtherSession {
        /// The pane that asked.
        pane: PaneId,
        /// The session that it asked for.
        target: SessionId,
        /// The access that it asked for.
        access: Access,
    },
    /// A pane asked for a change outside its session, such as a new session.
    #[error("{access} access denied: pane {pane} may not act outside its own session")]
    OutsideSession {
        /// The pane that asked.
        pane: PaneId,
        /// The access that it asked for.
        access: Access,
    },
    /// A pane asked for a change to the daemon.
    #[error("administer access denied: pane {pane} may not change the daemon or its configuration")]
    Administration {
        /// The pane that asked.
        pane: PaneId,
    },
    /// The scope of the HTTP token is too narrow.
    #[error("{access} access denied: the token has the scope `{scope}`")]
    Scope {
        /// The scope of the token.
        scope: Scope,
        /// The access that was asked for.
        access: Access,
    },
}

/// Decides whether `caller` has `access` to the session `target`, or to no session in particular.
///
/// # Errors
///
/// [`Denied`], with the rule that refuses the request.
pub fn decide(
    caller: &Caller,
    access: Access,
    target: Option<SessionId>,
    policy: PaneAuthority,
) -> Result<(), Denied> {
    match *caller {
        Caller::Daemon | Caller::LocalUser => Ok(()),
        Caller::Pane { pane, session } => decide_pane(pane, session, access, target, policy),
        Caller::HttpToken { scope } => {
            let needed = match access {
                Access::List | Access::Read => Scope::Read,
                Access::Control | Access::Administer => Scope::Control,
            };
            if scope.allows(needed) { Ok(()) } else { Err(Denied::Scope { scope, access }) }
        }
    }
}

fn decide_pane(
    pane: PaneId,
    own: SessionId,
    access: Access,
    target: Option<SessionId>,
    policy: PaneAuthority,
) -> Result<(), Denied> {
    match (access, target, policy) {
        (Access::Administer, _, _) => Err(Denied::Administration { pane }),
        (Access::List, _, _) | (_, _, PaneAuthority::All) | (Access::Read, None, _) => Ok(()),
        (Access::Control, None, PaneAuthority::Session) => {
            Err(Denied::OutsideSession { pane, access })
        }
        (_, Some(target), PaneAuthority::Session) if target == own => Ok(()),
        (_, Some(target), PaneAuthority::Session) => {
            Err(Denied::OtherSession { pane, target, access })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Administer, Control, List, Read};
    use super::*;

    fn session(n: u8) -> SessionId {
        SessionId::from_random([n; 16])
    }

    /// A pane of session 1.
    fn pane() -> Caller {
        Caller::Pane { pane: PaneId::from_random([9; 16]), session: session(1) }
    }

    fn granted(caller: &Caller, target: Option<SessionId>, policy: PaneAuthority) -> Vec<Access> {
        Access::ALL
            .into_iter()
            .filter(|access| decide(caller, *access, target, policy).is_ok())
            .collect()
    }

    #[test]
    fn decide_grants_exactly_the_documented_access() {
        let read_token = Caller::HttpToken { scope: Scope::Read };
        let control_token = Caller::HttpToken { scope: Scope::Control };
        let (own, other) = (Some(session(1)), Some(session(2)));
        let everything: &[Access] = &Access::ALL;
        let all_but_administer: &[Access] = &[List, Read, Control];
        let by_session: [(Caller, Option<SessionId>, &[Access]); 12] = [
            (Caller::LocalUser, own, everything),
            (Caller::LocalUser, other, everything),
            (Caller::LocalUser, None, everything),
            (pane(), own, all_but_administer),
            (pane(), other, &[List]),
            (pane(), None, &[List, Read]),
            (read_token, own, &[List, Read]),
            (read_token, other, &[List, Read]),
            (read_token, None, &[List, Read]),
            (control_token, own, everything),
            (control_token, other, everything),
            (control_token, None, everything),
        ];
        for (caller, target, expected) in by_session {
            let actual = granted(&caller, target, PaneAuthority::Session);
            assert_eq!(actual, expected, "{caller} {target:?}");

            let expected = if caller == pane() { all_but_administer } else { expected };
            let actual = granted(&caller, target, PaneAuthority::All);
            assert_eq!(actual, expected, "{caller} {target:?}, policy all");
        }
    }

    #[test]
    fn denied_names_the_access_and_the_reason() {
        let text = |caller, access, target| {
            decide(&caller, access, target, PaneAuthority::Session).unwrap_err().to_string()
        };
        let id = PaneId::from_random([9; 16]);
        let other = session(2);
        let cases = [
            (
                text(pane(), Control, Some(other)),
                format!(
                    "control access to session {other} denied: pane {id} may only list sessions \
                     other than its own"
                ),
            ),
            (
                text(pane(), Control, None),
                format!("control access denied: pane {id} may not act outside its own session"),
            ),
            (
                text(pane(), Administer, Some(session(1))),
                format!(
                    "administer access denied: pane {id} may not change the daemon or its \
                     configuration"
                ),
            ),
            (
                text(Caller::HttpToken { scope: Scope::Read }, Control, None),
                "control access denied: the token has the scope `read`".to_owned(),
            ),
        ];
        for (actual, expected) in cases {
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn caller_display_and_json_are_stable() {
        let Caller::Pane { pane: id, session } = pane() else { unreachable!() };
        let cases = [
            (Caller::LocalUser, "user".to_owned(), r#"{"kind":"local_user"}"#.to_owned()),
            (
                pane(),
                format!("pane {id}"),
                format!(r#"{{"kind":"pane","pane":"{id}","session":"{session}"}}"#),
            ),
            (
                Caller::HttpToken { scope: Scope::Read },
                "http token (read)".to_owned(),
                r#"{"kind":"http_token","scope":"read"}"#.to_owned(),
            ),
        ];
        for (caller, display, json) in cases {
            assert_eq!(caller.to_string(), display);
            assert_eq!(serde_json::to_string(&caller).unwrap(), json);
            assert_eq!(serde_json::from_str::<Caller>(&json).unwrap(), caller);
        }
    }

    #[test]
    fn words_round_trip() {
        for access in Access::ALL {
            assert_eq!(access.to_string().parse(), Ok(access));
        }
        for policy in PaneAuthority::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }
}
