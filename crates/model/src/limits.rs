//! Resource limits of a pane: disk, memory, processes, CPU, open files (R17, B6).
//!
//! The configuration and the request are lists of [`LimitOverride`]s of [`Limits::default`]; the
//! last one takes precedence. A pane's [`Policy`] says what happens when it exceeds a limit.

pub mod amount;
pub mod enforcement;
pub mod event;
pub mod gauge;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use amount::{Amount, InvalidAmount};
pub use enforcement::Enforcement;
pub use event::{Frozen, LimitEvent, OverLimit};

/// The resource limits of a pane; none means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Disk usage of its directories, in bytes.
    pub disk: Option<Amount>,
    /// Memory usage of all its processes, in bytes.
    pub memory: Option<Amount>,
    /// Number of processes.
    pub processes: Option<u64>,
    /// CPU weight; a pane without this limit has 100.
    pub cpu: Option<u64>,
    /// Number of open files of each process.
    pub files: Option<u64>,
    /// The action when a limit is exceeded that the kernel does not enforce.
    pub policy: Policy,
    /// Whether to use control groups if possible.
    pub groups: bool,
    /// Whether directories that git ignores count towards the disk limit.
    pub count_ignored: bool,
}

/// The action when a pane exceeds a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Suspend its processes until it is thawed.
    Freeze,
    /// Stop its processes.
    Stop,
    /// Only report it.
    #[default]
    Warn,
}

/// The resources that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Disk usage in bytes.
    Disk,
    /// Memory usage in bytes.
    Memory,
    /// Number of processes.
    Processes,
    /// CPU weight.
    Cpu,
    /// Number of open files of a process.
    Files,
}

/// A changed limit, written `NAME=VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LimitOverride {
    /// See [`Limits::disk`].
    Disk(Option<Amount>),
    /// See [`Limits::memory`].
    Memory(Option<Amount>),
    /// See [`Limits::processes`].
    Processes(Option<u64>),
    /// See [`Limits::cpu`].
    Cpu(Option<u64>),
    /// See [`Limits::files`].
    Files(Option<u64>),
    /// See [`Limits::policy`].
    Policy(Policy),
    /// See [`Limits::groups`].
    Groups(bool),
    /// See [`Limits::count_ignored`].
    CountIgnored(bool),
}

/// A list of changed limits, separated by commas; the last one takes precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LimitOverrides(pub Vec<LimitOverride>);

impl LimitOverrides {
    /// Returns true if no limit is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A text that is not a valid limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimit {
    /// Not a name and a value.
    #[error("{0:?} is not a limit: write NAME=VALUE, such as disk=1G")]
    Form(String),
    /// The name is unknown.
    #[error("unknown limit {0:?}; expected one of {NAMES}")]
    Name(String),
    /// The value is not an amount of bytes.
    #[error("{name}: {why}")]
    Amount {
        /// The name of the limit.
        name: &'static str,
        /// The cause.
        why: InvalidAmount,
    },
    /// The value is not a number in the valid range.
    #[error("{name}: {found:?} is not a whole number between {least} and {most}, or `none`")]
    Number {
        /// The name of the limit.
        name: &'static str,
        /// The text.
        found: String,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// The value is not one of the allowed words.
    #[error("{name}: unknown value {found:?}; expected one of {known}")]
    Word {
        /// The name of the limit.
        name: &'static str,
        /// The text.
        found: String,
        /// The allowed words.
        known: &'static str,
    },
}

/// The value that removes a limit.
const NONE: &str = "none";
const NAMES: &str = "disk, memory, processes, cpu, files, policy, groups, count_ignored";
const POLICIES: &str = "freeze, stop, warn";

/// The minimum limits. Smaller ones are probably typing errors, with failures that are hard to
/// explain.
const LEAST_DISK: u64 = 1 << 20;
const LEAST_MEMORY: u64 = 16 << 20;
const LEAST_FILES: u64 = 16;
/// The maximum number of processes and of files on Linux.
const MOST: u64 = 1 << 22;
/// The maximum CPU weight of the kernel.
const MOST_CPU: u64 = 10_000;

/// The default disk limit.
pub const DEFAULT_DISK: Amount = Amount(1 << 30);

impl Default for Limits {
    fn default() -> Self {
        Self {
            disk: Some(DEFAULT_DISK),
            memory: None,
            processes: None,
            cpu: None,
            files: None,
            policy: Policy::default(),
            groups: true,
            count_ignored: false,
        }
    }
}

impl Limits {
    /// Returns these limits with the overrides applied.
    #[must_use]
    pub fn with(mut self, overrides: &LimitOverrides) -> Self {
        for change in &overrides.0 {
            match *change {
                LimitOverride::Disk(disk) => self.disk = disk,
                LimitOverride::Memory(memory) => self.memory = memory,
                LimitOverride::Processes(processes) => self.processes = processes,
                LimitOverride::Cpu(cpu) => self.cpu = cpu,
                LimitOverride::Files(files) => self.files = files,
                LimitOverride::Policy(policy) => self.policy = policy,
                LimitOverride::Groups(groups) => self.groups = groups,
                LimitOverride::CountIgnored(count) => self.count_ignored = count,
            }
        }
        self
    }

    /// Returns the limit of a resource, in its unit.
    #[must_use]
    pub fn of(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Disk => self.disk.map(|amount| amount.0),
            Resource::Memory => self.memory.map(|amount| amount.0),
            Resource::Processes => self.processes,
            Resource::Cpu => self.cpu,
            Resource::Files => self.files,
        }
    }
}

impl Policy {
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 3] = [Self::Freeze, Self::Stop, Self::Warn];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Stop => "stop",
            Self::Warn => "warn",
        }
    }
}

impl Resource {
    /// All values, in the order in which they are documented.
    pub const ALL: [Self; 5] = [Self::Disk, Self::Memory, Self::Processes, Self::Cpu, Self::Files];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "cpu",
            Self::Files => "files",
        }
    }

    /// Formats an amount of this resource.
    #[must_use]
    pub fn text(self, number: u64) -> String {
        match self {
            Self::Disk | Self::Memory => Amount(number).to_string(),
            Self::Processes | Self::Cpu | Self::Files => number.to_string(),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        let found = || text.to_owned();
        named.ok_or_else(|| InvalidLimit::Word { name: "policy", found: found(), known: POLICIES })
    }
}

impl LimitOverride {
    /// Parses the value of the limit `name`.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`].
    pub fn new(name: &str, value: &str) -> Result<Self, InvalidLimit> {
        match name {
            "disk" => amount("disk", value, LEAST_DISK).map(Self::Disk),
            "memory" => amount("memory", value, LEAST_MEMORY).map(Self::Memory),
            "processes" => number("processes", value, 1, MOST).map(Self::Processes),
            "cpu" => number("cpu", value, 1, MOST_CPU).map(Self::Cpu),
            "files" => number("files", value, LEAST_FILES, MOST).map(Self::Files),
            "policy" => value.parse().map(Self::Policy),
            "groups" => switch("groups", value).map(Self::Groups),
            "count_ignored" => switch("count_ignored", value).map(Self::CountIgnored),
            _ => Err(InvalidLimit::Name(name.to_owned())),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Disk(_) => "disk",
            Self::Memory(_) => "memory",
            Self::Processes(_) => "processes",
            Self::Cpu(_) => "cpu",
            Self::Files(_) => "files",
            Self::Policy(_) => "policy",
            Self::Groups(_) => "groups",
            Self::CountIgnored(_) => "count_ignored",
        }
    }

    /// Returns the value as text.
    #[must_use]
    pub fn value(self) -> String {
        match self {
            Self::Disk(amount) | Self::Memory(amount) => {
                amount.map_or_else(|| NONE.to_owned(), |amount| amount.to_string())
            }
            Self::Processes(number) | Self::Cpu(number) | Self::Files(number) => {
                number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
            }
            Self::Policy(policy) => policy.to_string(),
            Self::Groups(on) | Self::CountIgnored(on) => if on { "on" } else { "off" }.to_owned(),
        }
    }
}

fn amount(name: &'static str, value: &str, least: u64) -> Result<Option<Amount>, InvalidLimit> {
    if value == NONE {
        return Ok(None);
    }
    let parsed = Amount::at_least(value, Amount(least));
    parsed.map(Some).map_err(|why| InvalidLimit::Amount { name, why })
}

fn switch(name: &'static str, value: &str) -> Result<bool, InvalidLimit> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(InvalidLimit::Word { name, found: value.to_owned(), known: "on, off" }),
    }
}

fn number(
    name: &'static str,
    value: &str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, InvalidLimit> {
    if value == NONE {
        return Ok(None);
    }
    let wrong = || InvalidLimit::Number { name, found: value.to_owned(), least, most };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
    if (least..=most).contains(&number) { Ok(Some(number)) } else { Err(wrong()) }
}

impl fmt::Display for LimitOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.value())
    }
}

impl FromStr for LimitOverride {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || InvalidLimit::Form(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(form)?;
        Self::new(name, value)
    }
}

impl From<LimitOverride> for String {
    fn from(change: LimitOverride) -> Self {
        change.to_string()
    }
}

impl TryFrom<String> for LimitOverride {
    type Error = InvalidLimit;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for LimitOverrides {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_round_trip() {
        let text = "disk=2G,memory=256M,processes=500,cpu=50,files=4096,policy=stop,groups=off,\
                    count_ignored=on";

        let overrides: LimitOverrides = text.parse().unwrap();
        let limits = Limits::default().with(&overrides);

        assert_eq!(limits.disk, Some(Amount(2 << 30)));
        assert_eq!(limits.memory, Some(Amount(256 << 20)));
        assert_eq!((limits.processes, limits.cpu, limits.files), (Some(500), Some(50), Some(4096)));
        assert_eq!((limits.policy, limits.groups), (Policy::Stop, false));
        assert!(limits.count_ignored);
        let again: Vec<String> = overrides.0.iter().map(ToString::to_string).collect();
        assert_eq!(again.join(","), text);
    }

    #[test]
    fn last_override_wins_and_none_removes_a_limit() {
        let overrides = "disk=2G,files=64,disk=none,files=none".parse().unwrap();

        let limits = Limits::default().with(&overrides);

        assert_eq!((limits.disk, limits.files), (None, None));
    }

    #[test]
    fn invalid_limit_is_rejected_with_the_valid_values() {
        let cases = [
            ("disk", "\"disk\" is not a limit: write NAME=VALUE, such as disk=1G"),
            ("", "\"\" is not a limit: write NAME=VALUE, such as disk=1G"),
            (
                "ram=1G",
                "unknown limit \"ram\"; expected one of disk, memory, processes, cpu, files, \
                 policy, groups, count_ignored",
            ),
            ("disk=1K", "disk: \"1K\" is less than 1M"),
            ("memory=1M", "memory: \"1M\" is less than 16M"),
            (
                "processes=0",
                "processes: \"0\" is not a whole number between 1 and 4194304, or `none`",
            ),
            ("cpu=+5", "cpu: \"+5\" is not a whole number between 1 and 10000, or `none`"),
            ("files=3", "files: \"3\" is not a whole number between 16 and 4194304, or `none`"),
            ("policy=kill", "policy: unknown value \"kill\"; expected one of freeze, stop, warn"),
            ("groups=yes", "groups: unknown value \"yes\"; expected one of on, off"),
        ];
        for (text, expected) in cases {
            let refused = text.parse::<LimitOverride>().unwrap_err();
            assert_eq!(refused.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn default_limits_only_the_disk() {
        let limits: Limits = serde_json::from_str("{}").unwrap();

        assert_eq!(limits, Limits::default());
        let limited = Resource::ALL.map(|resource| limits.of(resource));
        assert_eq!(limited, [Some(1 << 30), None, None, None, None]);
        assert_eq!(limits.policy, Policy::Warn);
    }
}
