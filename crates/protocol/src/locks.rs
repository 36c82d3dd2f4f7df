//! What is asked of the lock service, and what it answers.

use model::lock::{LockMode, LockScope, Token};
use model::{LockId, Name, PaneId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ErrorBody;

/// A question to the lock service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "lock", rename_all = "snake_case")]
pub enum LockRequest {
    /// Lock paths, all of them or none: [`Locks`] with one lock per path, or an error with a
    /// [`Refusal`]. Whoever has one of them already gets that one again, renewed.
    Acquire(Acquire),
    /// Lengthen a lease by what it was given at first: [`Locks`] with this one.
    Renew {
        /// The lock.
        id: LockId,
        /// Its token, where the asker wants to be sure.
        #[serde(default)]
        token: Option<Token>,
    },
    /// Give a lock back: [`Locks`] with this one, as it was.
    Release {
        /// The lock.
        id: LockId,
        /// Its token, where the asker wants to be sure.
        #[serde(default)]
        token: Option<Token>,
    },
    /// Give back what a pane holds: [`Locks`] with those. None is no error.
    ReleaseOwner {
        /// Name, id or unique beginning of an id.
        pane: String,
        /// Only what was taken with this tag; everything otherwise.
        #[serde(default)]
        tag: Option<String>,
    },
    /// Whether this token still holds this path: [`Locks`] with the lock, or an error of code
    /// `conflict`.
    Check {
        /// The path, absolute.
        path: String,
        /// The token that came with the lock.
        token: Token,
    },
    /// Every lock, oldest first: [`Locks`].
    List {
        /// Only those of this pane: name, id or unique beginning of an id.
        #[serde(default)]
        pane: Option<String>,
        /// Only those that stand for this path, absolute.
        #[serde(default)]
        path: Option<String>,
    },
}

/// What is to be locked, by whom, how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// The paths, absolute; what they name need not exist.
    pub paths: Vec<String>,
    /// How much of them.
    pub mode: LockMode,
    /// With everything below them.
    #[serde(default)]
    pub tree: bool,
    /// What makes two paths the same.
    #[serde(default)]
    pub scope: LockScope,
    /// The pane that will hold it: name, id or unique beginning of an id.
    #[serde(default)]
    pub pane: Option<String>,
    /// Without a pane: the process that will hold it.
    #[serde(default)]
    pub process: Option<u32>,
    /// The length of the lease, which is then only renewed when asked for. None: it is renewed for
    /// as long as the owner lives and is not stopped.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// How long to wait for those who have it.
    #[serde(default)]
    pub wait_ms: u64,
    /// What it is taken for, for [`LockRequest::ReleaseOwner`].
    #[serde(default)]
    pub tag: Option<String>,
}

impl LockRequest {
    /// Whether it changes something that must be done even if nobody waits for the answer any
    /// more. Who no longer waits for a lock does not want it.
    #[must_use]
    pub fn changes_something(&self) -> bool {
        match self {
            Self::Renew { .. } | Self::Release { .. } | Self::ReleaseOwner { .. } => true,
            Self::Acquire(_) | Self::Check { .. } | Self::List { .. } => false,
        }
    }

    /// How long the answer may take by its own word, in milliseconds.
    #[must_use]
    pub fn allowed_ms(&self) -> u64 {
        match self {
            Self::Acquire(acquire) => acquire.wait_ms,
            Self::Renew { .. }
            | Self::Release { .. }
            | Self::ReleaseOwner { .. }
            | Self::Check { .. }
            | Self::List { .. } => 0,
        }
    }
}

/// Locks, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locks {
    /// The locks.
    pub locks: Vec<LockView>,
}

/// A lock, as everybody sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lock)]
pub struct LockView {
    /// Its identity.
    #[schema(value_type = String)]
    pub id: LockId,
    /// What it claims: an absolute path with symbolic links followed.
    pub path: String,
    /// With everything below it.
    #[serde(default)]
    pub tree: bool,
    /// How much of it.
    #[schema(value_type = crate::http::LockModeWord)]
    pub mode: LockMode,
    /// The pane that holds it, if one does.
    #[schema(value_type = Option<String>)]
    pub pane: Option<PaneId>,
    /// What people call that pane.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub name: Option<Name>,
    /// The process that holds it: of a pane, the one at its head.
    pub process: u32,
    /// Its place among all locks ever granted.
    #[schema(value_type = u64)]
    pub token: Token,
    /// When it was granted.
    #[schema(value_type = i64)]
    pub acquired: Timestamp,
    /// When it ends, unless it is renewed.
    #[schema(value_type = i64)]
    pub expires: Timestamp,
    /// It is renewed by itself while its owner lives and is not stopped.
    #[serde(default)]
    pub automatic: bool,
    /// What it was taken for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// How many wait for it.
    #[serde(default)]
    pub waiting: usize,
    /// Its owner's place in the order of asking, since the daemon started.
    #[serde(default)]
    pub turn: u64,
}

impl LockView {
    /// Who holds it, for people.
    #[must_use]
    pub fn holder(&self) -> String {
        match (&self.name, self.pane) {
            (Some(name), _) => format!("pane {name}"),
            (None, Some(pane)) => format!("pane {}", pane.short()),
            (None, None) => format!("process {}", self.process),
        }
    }
}

/// Why a lock was not granted: the details of an error of code `conflict` or `timed_out`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum Refusal {
    /// Others have it, and it was not to be waited for.
    Conflict {
        /// What stands in the way.
        holders: Vec<LockView>,
    },
    /// Others had it for all of the time that was given.
    Timeout {
        /// What stands in the way.
        holders: Vec<LockView>,
    },
    /// Each of these waits for the next, and the last one for the first, who is the asker.
    Deadlock {
        /// Who waits for whom.
        cycle: Vec<Waits>,
    },
}

/// One step of a circle of waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Who waits.
    pub who: String,
    /// For what.
    pub path: String,
    /// Who has it.
    pub held_by: String,
}

impl Refusal {
    /// What an error says about locks, if it does.
    #[must_use]
    pub fn of(body: &ErrorBody) -> Option<Self> {
        serde_json::from_value(body.details.clone()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Request;

    #[test]
    fn questions_about_locks_keep_their_form_on_the_wire() {
        let release = Request::Lock(LockRequest::Release {
            id: LockId::from_random([1; 16]),
            token: Some(Token(7)),
        });

        let text = serde_json::to_string(&release).unwrap();

        assert_eq!(
            text,
            r#"{"do":"lock","lock":"release","id":"01010101-0101-4101-8101-010101010101","token":7}"#
        );
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), release);
        let short = r#"{"do":"lock","lock":"acquire","paths":["/a"],"mode":"write"}"#;
        let Request::Lock(LockRequest::Acquire(acquire)) = serde_json::from_str(short).unwrap()
        else {
            panic!("{short}")
        };
        assert_eq!((acquire.wait_ms, acquire.scope), (0, LockScope::Repository));
    }
}
