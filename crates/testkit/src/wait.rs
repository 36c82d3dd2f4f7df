//! Waiting for a condition with a deadline.

use std::time::{Duration, Instant};

/// Deadline for events that should be immediate. Generous, so that a loaded machine is no failure;
/// a condition that holds is not waited for.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until `condition` holds.
///
/// # Panics
///
/// When `deadline` expires; the message names the condition.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, deadline, || condition().then_some(()));
}

/// Waits until `look` returns a value, and returns it.
///
/// # Panics
///
/// When `deadline` expires; the message names the condition.
#[track_caller]
pub fn wait_for<T>(what: &str, deadline: Duration, look: impl FnMut() -> Option<T>) -> T {
    match try_wait_for(deadline, look) {
        Some(found) => found,
        None => panic!("timed out after {deadline:?} waiting until {what}"),
    }
}

/// Waits until `look` returns a value or `deadline` expires.
pub fn try_wait_for<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let late = started.elapsed() >= deadline;
        match look() {
            Some(found) => return Some(found),
            None if late => return None,
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_that_already_holds_is_not_waited_for() {
        wait_until("true is true", Duration::ZERO, || true);
    }

    #[test]
    #[should_panic(expected = "waiting until pigs fly")]
    fn expired_wait_names_its_condition() {
        wait_until("pigs fly", Duration::ZERO, || false);
    }
}
