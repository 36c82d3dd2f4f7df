//! Requests to the lock service and its replies.

use model::lock::{LockMode, LockScope, Token};
use model::{LockId, Name, PaneId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ErrorBody;
use crate::schema;

/// A request to the lock service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "lock", rename_all = "snake_case")]
pub enum LockRequest {
    /// Lock all paths or none of them. Replies with one lock per path, or with an error whose
    /// details are a [`LockRefusal`]. A lock that the owner already holds is renewed and returned
    /// again.
    Acquire(Acquire),
    /// Extend a lease by its original duration. Replies with the lock.
    Renew {
        /// The lock.
        id: LockId,
        /// Its fencing token, which is checked if given.
        #[serde(default)]
        token: Option<Token>,
    },
    /// Release a lock. Replies with its last state.
    Release {
        /// The lock.
        id: LockId,
        /// Its fencing token, which is checked if given.
        #[serde(default)]
        token: Option<Token>,
    },
    /// Release the locks of a pane. Replies with them; releasing none is not an error.
    ReleaseOwner {
        /// The pane: name, id or unique prefix of an id.
        pane: String,
        /// Release only locks with this tag (default: all).
        #[serde(default)]
        tag: Option<String>,
    },
    /// Check that a token still holds a path. Replies with the lock, or with an error of code
    /// `conflict`.
    Check {
        /// Absolute path.
        path: String,
        /// The token returned with the lock.
        token: Token,
    },
    /// List locks, oldest first.
    List {
        /// Only locks of this pane: name, id or unique prefix of an id.
        #[serde(default)]
        pane: Option<String>,
        /// Only locks that cover this absolute path.
        #[serde(default)]
        path: Option<String>,
    },
}

/// The parameters of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// Absolute paths, which need not exist.
    pub paths: Vec<String>,
    /// The access to claim.
    pub mode: LockMode,
    /// Include everything below the paths.
    #[serde(default)]
    pub tree: bool,
    /// Whether the same file in several worktrees counts as one.
    #[serde(default)]
    pub scope: LockScope,
    /// The owning pane: name, id or unique prefix of an id.
    #[serde(default)]
    pub pane: Option<String>,
    /// The owning process, if no pane is given.
    #[serde(default)]
    pub process: Option<u32>,
    /// The duration of a lease that is renewed only on request, in milliseconds (none: the lease
    /// is renewed while the owner is alive and not stopped).
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// How long to wait for current owners, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// A tag for [`LockRequest::ReleaseOwner`].
    #[serde(default)]
    pub tag: Option<String>,
}

impl LockRequest {
    /// Returns whether the request must be carried out even if the client disconnects. An
    /// acquisition is not: a client that has gone no longer wants the lock.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        match self {
            Self::Renew { .. } | Self::Release { .. } | Self::ReleaseOwner { .. } => true,
            Self::Acquire(_) | Self::Check { .. } | Self::List { .. } => false,
        }
    }

    /// Returns how long the request allows the server to wait, in milliseconds.
    #[must_use]
    pub fn server_wait_ms(&self) -> u64 {
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

/// The current state of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locks {
    /// The locks.
    pub locks: Vec<LockView>,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lock)]
pub struct LockView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: LockId,
    /// The locked path: absolute, with symbolic links resolved.
    pub path: String,
    /// Whether it covers everything below the path.
    #[serde(default)]
    pub tree: bool,
    /// The claimed access.
    #[schema(value_type = schema::LockMode)]
    pub mode: LockMode,
    /// The pane that holds it, if one does.
    #[schema(value_type = Option<String>)]
    pub pane: Option<PaneId>,
    /// The pane's name.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub name: Option<Name>,
    /// The process that holds it (for a pane, its main process).
    pub process: u32,
    /// The fencing token, which increases with every lock granted.
    #[schema(value_type = u64)]
    pub token: Token,
    /// When it was granted, in milliseconds since the Unix epoch.
    #[schema(value_type = i64)]
    pub acquired: Timestamp,
    /// When it expires unless renewed, in milliseconds since the Unix epoch.
    #[schema(value_type = i64)]
    pub expires: Timestamp,
    /// Whether it is renewed automatically while its owner is alive and not stopped.
    #[serde(default)]
    pub automatic: bool,
    /// The tag it was acquired with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The number of owners waiting for it.
    #[serde(default)]
    pub waiting: usize,
    /// The position of its owner in the order of requests since the daemon started.
    #[serde(default)]
    pub turn: u64,
}

impl LockView {
    /// Returns a description of the owner for messages.
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
pub enum LockRefusal {
    /// Other owners hold the paths, and the request did not allow waiting.
    Conflict {
        /// The conflicting locks.
        holders: Vec<LockView>,
    },
    /// Other owners held the paths for the whole time allowed.
    Timeout {
        /// The conflicting locks.
        holders: Vec<LockView>,
    },
    /// Waiting would create a deadlock. The cycle starts and ends with the requester.
    Deadlock {
        /// The steps of the cycle.
        cycle: Vec<WaitStep>,
    },
}

/// One step of a deadlock cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStep {
    /// The owner that waits.
    pub who: String,
    /// The path it waits for.
    pub path: String,
    /// The owner that holds the path.
    pub held_by: String,
}

impl LockRefusal {
    /// Parses the details of an error. Returns none if they are not about locks.
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
    fn lock_requests_keep_their_wire_format() {
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
