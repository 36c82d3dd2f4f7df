//! Mechanisms that enforce limits, and their precision.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Resource;

/// The mechanism that enforces a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// A control group of version 1.
    GroupV1,
    /// A control group of version 2.
    GroupV2,
    /// A resource limit of each process.
    Process,
    /// A resource limit of each process, and measurement of the whole pane.
    ProcessAndMeasured,
    /// Measurement; the policy applies.
    Measured,
    /// The priority of each process.
    Priority,
    /// None: there is no limit.
    None,
}

impl Enforcement {
    /// Returns the name used in files and on the command line.
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

    /// Returns a short description of the precision for a resource.
    #[must_use]
    pub fn exactness(self, resource: Resource) -> &'static str {
        match (self, resource) {
            (Self::None, _) => "not limited",
            (Self::GroupV1 | Self::GroupV2, Resource::Cpu) => "by the kernel, when the CPU is busy",
            (Self::GroupV1 | Self::GroupV2, _) => "by the kernel, for the whole pane",
            (Self::Process, _) => "by the kernel, for each process",
            (Self::ProcessAndMeasured, _) => {
                "by the kernel for each process; for the whole pane within half a second"
            }
            (Self::Measured, Resource::Disk) => "within seconds, faster close to the limit",
            (Self::Measured, _) => "within half a second",
            (Self::Priority, _) => "approximately, for each process, when the CPU is busy",
        }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns the nice value closest to a CPU weight: each step is a factor of about 1.25. Only root may
/// raise the priority, so weights above 100 have no effect.
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
    fn smaller_weight_has_a_higher_nice_value() {
        let cases = [(100, 0), (10_000, 0), (80, 1), (50, 3), (10, 10), (1, 19)];
        for (weight, expected) in cases {
            assert_eq!(nice(weight), expected, "{weight}");
        }
    }
}
