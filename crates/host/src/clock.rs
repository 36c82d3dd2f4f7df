//! Clocks and random numbers, which `model` takes as arguments.

use std::time::{SystemTime, UNIX_EPOCH};

use model::Timestamp;
use model::lock::Moment;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

/// Returns the current wall-clock time.
#[must_use]
pub fn now() -> Timestamp {
    let millis = |d: std::time::Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    Timestamp(match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => millis(since),
        // A clock before 1970 is wrong, but not a reason to fail.
        Err(before) => -millis(before.duration()),
    })
}

/// Returns the time since boot, including suspend. It cannot be set.
#[must_use]
pub fn moment() -> Moment {
    let now = clock_gettime(ClockId::Boottime);
    let millis = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    Moment(u64::try_from(millis).unwrap_or(0))
}

/// Returns random bytes for a new id.
///
/// # Panics
///
/// If the kernel has no random source, without which ids would not be unique.
#[must_use]
pub fn random_id() -> [u8; 16] {
    let mut bytes = [0; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "the kernel provides random bytes");
    bytes
}
