//! Waiting for something visible, with a deadline.

use std::time::{Duration, Instant};

/// How long a test waits for what should happen at once. Generous, because a loaded machine is no
/// reason to fail; a test that meets its condition does not wait.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until `condition` holds.
///
/// # Panics
///
/// When `deadline` passes first; the message says what was waited for.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, deadline, || condition().then_some(()));
}

/// Waits until `look` finds something, and returns it.
///
/// # Panics
///
/// When `deadline` passes first; the message says what was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, deadline: Duration, look: impl FnMut() -> Option<T>) -> T {
    match try_wait_for(deadline, look) {
        Some(found) => found,
        None => panic!("waited {deadline:?} in vain until {what}"),
    }
}

/// Waits until `look` finds something, or `deadline` passes.
pub fn try_wait_for<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let late = started.elapsed() >= deadline;
        match look() {
            Some(found) => return Some(found),
            None if late => return None,
            None => std::thread::sleep(LOOK_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_holds_already_is_seen_without_waiting() {
        wait_until("true is true", Duration::ZERO, || true);
    }

    #[test]
    #[should_panic(expected = "in vain until pigs fly")]
    fn a_wait_in_vain_says_what_it_waited_for() {
        wait_until("pigs fly", Duration::ZERO, || false);
    }
}
