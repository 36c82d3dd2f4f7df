//! Support for tests that repeat an operation many times.

/// Returns the number in the variable (default: `default`, small enough for every run).
///
/// # Panics
///
/// When the variable is not a number.
#[must_use]
#[track_caller]
pub fn repetitions(variable: &str, default: usize) -> usize {
    let wanted = std::env::vars().find(|(name, _)| name == variable);
    wanted.map_or(default, |(_, count)| count.parse().expect("a number"))
}

/// Pseudo-random numbers, the same in every run.
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Dice {
    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
