//! How long to wait for the reply to a request.

use std::time::Duration;

use protocol::control::Request;

/// The time allowed for a reply in addition to the time the request itself may take.
const MARGIN: Duration = Duration::from_secs(60);

/// Removing a workspace searches it for unsaved work, and it may be of any size.
const REMOVAL_MS: u64 = 600_000;

/// A workspace of any size may have to be copied or checked out.
const CREATION_MS: u64 = 900_000;

/// A session may have a hundred panes to restore.
const RESTORE_MS: u64 = 120_000;

/// The health check runs every installed agent, each with its own timeout.
const DOCTOR_MS: u64 = 120_000;

/// Returns how long to wait for the reply (none: indefinitely).
pub(crate) fn reply_timeout(request: &Request) -> Option<Duration> {
    let allowed = match request {
        Request::Stop { grace_ms, .. } => *grace_ms,
        Request::Close { grace_ms, .. } | Request::Purge { grace_ms, .. } => {
            grace_ms.saturating_add(REMOVAL_MS)
        }
        Request::New(_) => CREATION_MS,
        // Each pane of a team may have to be ready before the next one is created.
        Request::Run(_) | Request::Up(_) | Request::Migrate(_) => return None,
        Request::Send { timeout_ms, .. } => *timeout_ms,
        Request::Lock(request) => request.server_wait_ms(),
        Request::Wait { timeout_ms, .. } => (*timeout_ms)?,
        Request::Message(request) => request.server_wait_ms()?,
        // The hook's own wait plus the work of the lock service.
        Request::Hook(request) => request.wait_ms,
        Request::Restore { .. } => RESTORE_MS,
        Request::Doctor { .. } => DOCTOR_MS,
        // Garbage collection walks and deletes trees of any size.
        Request::Events { follow: true, .. } | Request::Gc { .. } => return None,
        Request::List
        | Request::Show { .. }
        | Request::Locate { .. }
        | Request::Limit { .. }
        | Request::Thaw { .. }
        | Request::LimitEvent { .. }
        | Request::Rename { .. }
        | Request::Read { .. }
        | Request::Env { .. }
        | Request::Events { follow: false, .. }
        | Request::Trust(_)
        | Request::Share(_)
        | Request::Resize { .. }
        | Request::Serve(_)
        | Request::Token(_)
        | Request::Template(_)
        | Request::DaemonStatus
        | Request::DaemonStop => 0,
    };
    Some(Duration::from_millis(allowed).saturating_add(MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_includes_the_time_the_request_allows() {
        let stop = |grace_ms| Request::Stop { target: "dev1".to_owned(), grace_ms };

        assert_eq!(reply_timeout(&Request::List), Some(MARGIN));
        assert_eq!(reply_timeout(&stop(5000)), Some(MARGIN + Duration::from_secs(5)));
        assert!(reply_timeout(&stop(u64::MAX)).is_some_and(|timeout| timeout > MARGIN));
        assert_eq!(reply_timeout(&Request::Events { after: None, follow: true, set: 0 }), None);
    }
}
