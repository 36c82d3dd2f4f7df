//! By which means a limit is kept, and how exactly.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Resource;

/// By which means a limit is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// A control group of version 1.
    GroupV1,
    /// A control group of version 2.
    GroupV2,
    /// A limit of each process.
    Process,
    /// A limit of each process, and a measurement of all of them.
    ProcessAndMeasured,
    /// A measurement, and what the policy says.
    Measured,
    /// The priority of each process.
    Priority,
    /// Nothing: it is not limited.
    None,
}

impl Means {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GroupV1 => "cgroup v1",
            Self::GroupV2 => "cgroup v2",
            Self::Process => "rlimit",
            Self::ProcessAndMeasured => "rlimit and measuring",
            Self::Measured => "measuring",
            Self::Priority => "priority",
            Self::None => "none",
        }
    }

    /// How exactly it keeps this, in a few words.
    #[must_use]
    pub fn exactness(self, resource: Resource) -> &'static str {
        match (self, resource) {
            (Self::None, _) => "not limited",
            (Self::GroupV1 | Self::GroupV2, Resource::Cpu) => "by the system, when it is busy",
            (Self::GroupV1 | Self::GroupV2, _) => "by the system, for the whole pane",
            (Self::Process, _) => "by the system, for each process",
            (Self::ProcessAndMeasured, _) => {
                "by the system for each process; for the whole pane within half a second"
            }
            (Self::Measured, Resource::Disk) => "within seconds, sooner near the limit",
            (Self::Measured, _) => "within half a second",
            (Self::Priority, _) => "roughly, for each process, when the system is busy",
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The nice value that comes closest to a share of the processor: each step is a quarter. Nobody
/// but the system's administrator may go above the others.
#[must_use]
pub fn nice(weight: u64) -> i32 {
    let mut nice = 0;
    let mut share = 100_000;
    while nice < 19 && share > weight * 1000 * 9 / 8 {
        share = share * 4 / 5;
        nice += 1;
    }
    nice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_share_is_a_lower_priority() {
        let cases = [(100, 0), (10_000, 0), (80, 1), (50, 3), (10, 10), (1, 19)];
        for (weight, expected) in cases {
            assert_eq!(nice(weight), expected, "{weight}");
        }
    }
}
