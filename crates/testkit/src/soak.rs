//! What the suites share that do a thing again and again: how often, and chance that repeats itself.

/// How often: what the variable says, else `default`, which is short enough for every day.
///
/// # Panics
///
/// When the variable is no number.
#[must_use]
#[track_caller]
pub fn how_often(variable: &str, default: usize) -> usize {
    let wanted = std::env::vars().find(|(name, _)| name == variable);
    wanted.map_or(default, |(_, count)| count.parse().expect("a number"))
}

/// Numbers that look like chance and are the same in every run.
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
