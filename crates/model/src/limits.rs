//! How much a pane may take: disk, memory, processes, processor, open files (R17, B6).
//!
//! The configuration says what holds for every pane, a request says what differs for one; both are
//! [`Wish`]es on top of [`Limits::default`], and the last word wins. What is done about a pane that
//! takes more is its [`Policy`].

pub mod amount;
pub mod gauge;
pub mod means;
pub mod news;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use amount::{Amount, InvalidAmount};
pub use means::Means;
pub use news::{Frozen, LimitNews};

/// What a pane may take. None: as much as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes on disk in its own directories.
    pub disk: Option<Amount>,
    /// Bytes of memory of all its processes.
    pub memory: Option<Amount>,
    /// Processes at one time.
    pub processes: Option<u64>,
    /// Its share of a busy processor, where an unlimited pane has 100.
    pub cpu: Option<u64>,
    /// Files that each of its processes may have open.
    pub files: Option<u64>,
    /// What is done where a limit can only be measured.
    pub policy: Policy,
    /// Use control groups of the system where they can be had.
    pub groups: bool,
}

/// What is done about a pane that takes more than it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Its processes stand still until somebody thaws them.
    #[default]
    Freeze,
    /// Its processes are ended.
    Stop,
    /// It is told, and nothing else.
    Warn,
}

/// The things that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Bytes on disk.
    Disk,
    /// Bytes of memory.
    Memory,
    /// Processes at one time.
    Processes,
    /// A share of the processor.
    Cpu,
    /// Open files of a process.
    Files,
}

/// One thing that somebody wants to be different, written `NAME=VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Wish {
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
}

/// Several wishes, written with commas between them; later ones win.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LimitWishes(pub Vec<Wish>);

impl LimitWishes {
    /// Whether nothing is wished for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a text is not a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimit {
    /// Not a name and a value.
    #[error("{0:?} is not a limit: write NAME=VALUE, such as disk=1G")]
    Form(String),
    /// Nothing of this name can be limited.
    #[error("{0:?} cannot be limited: what can is {NAMES}")]
    Name(String),
    /// Not an amount of bytes.
    #[error("{name}: {why}")]
    Amount {
        /// Which limit.
        name: &'static str,
        /// Why.
        why: InvalidAmount,
    },
    /// Not a number, or none that makes sense.
    #[error("{name}: {found:?} is not a whole number between {least} and {most}, nor none")]
    Number {
        /// Which limit.
        name: &'static str,
        /// What was written.
        found: String,
        /// The least that is possible.
        least: u64,
        /// The most that is possible.
        most: u64,
    },
    /// Not one of the known words.
    #[error("{name}: {found:?} is none of {known}")]
    Word {
        /// Which limit.
        name: &'static str,
        /// What was written.
        found: String,
        /// What could have been.
        known: &'static str,
    },
}

/// What takes a limit away.
const NONE: &str = "none";
const NAMES: &str = "disk, memory, processes, cpu, files, policy, groups";
const POLICIES: &str = "freeze, stop, warn";

/// The least that a pane can live with. Less is a typing mistake, and would only look like a fault.
const LEAST_DISK: u64 = 1 << 20;
const LEAST_MEMORY: u64 = 16 << 20;
const LEAST_FILES: u64 = 16;
/// The most processes and files that a system can number.
const MOST: u64 = 1 << 22;
/// The weights that the kernel knows.
const MOST_CPU: u64 = 10_000;

/// The disk of a pane for which nobody has said anything.
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
        }
    }
}

impl Limits {
    /// These, and what `wishes` make different.
    #[must_use]
    pub fn with(mut self, wishes: &LimitWishes) -> Self {
        for wish in &wishes.0 {
            match *wish {
                Wish::Disk(disk) => self.disk = disk,
                Wish::Memory(memory) => self.memory = memory,
                Wish::Processes(processes) => self.processes = processes,
                Wish::Cpu(cpu) => self.cpu = cpu,
                Wish::Files(files) => self.files = files,
                Wish::Policy(policy) => self.policy = policy,
                Wish::Groups(groups) => self.groups = groups,
            }
        }
        self
    }

    /// The limit of this, as a number in its own unit.
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
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 3] = [Self::Freeze, Self::Stop, Self::Warn];

    /// The word for it.
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
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 5] = [Self::Disk, Self::Memory, Self::Processes, Self::Cpu, Self::Files];

    /// The word for it.
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

    /// A number of it, as people write it.
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

impl Wish {
    /// Reads a value for `name`.
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
            "groups" => match value {
                "on" => Ok(Self::Groups(true)),
                "off" => Ok(Self::Groups(false)),
                _ => Err(InvalidLimit::Word {
                    name: "groups",
                    found: value.to_owned(),
                    known: "on, off",
                }),
            },
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
        }
    }

    /// The value, as it is written.
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
            Self::Groups(groups) => if groups { "on" } else { "off" }.to_owned(),
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

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.value())
    }
}

impl FromStr for Wish {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || InvalidLimit::Form(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(form)?;
        Self::new(name, value)
    }
}

impl From<Wish> for String {
    fn from(wish: Wish) -> Self {
        wish.to_string()
    }
}

impl TryFrom<String> for Wish {
    type Error = InvalidLimit;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for LimitWishes {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        let text = "disk=2G,memory=256M,processes=500,cpu=50,files=4096,policy=stop,groups=off";

        let wishes: LimitWishes = text.parse().unwrap();
        let limits = Limits::default().with(&wishes);

        assert_eq!(limits.disk, Some(Amount(2 << 30)));
        assert_eq!(limits.memory, Some(Amount(256 << 20)));
        assert_eq!((limits.processes, limits.cpu, limits.files), (Some(500), Some(50), Some(4096)));
        assert_eq!((limits.policy, limits.groups), (Policy::Stop, false));
        let again: Vec<String> = wishes.0.iter().map(ToString::to_string).collect();
        assert_eq!(again.join(","), text);
    }

    #[test]
    fn the_last_wish_wins_and_none_takes_a_limit_away() {
        let wishes = "disk=2G,files=64,disk=none,files=none".parse().unwrap();

        let limits = Limits::default().with(&wishes);

        assert_eq!((limits.disk, limits.files), (None, None));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let cases = [
            ("disk", "\"disk\" is not a limit: write NAME=VALUE, such as disk=1G"),
            ("", "\"\" is not a limit: write NAME=VALUE, such as disk=1G"),
            (
                "ram=1G",
                "\"ram\" cannot be limited: what can is disk, memory, processes, cpu, files, \
                 policy, groups",
            ),
            ("disk=1K", "disk: \"1K\" is less than 1M"),
            ("memory=1M", "memory: \"1M\" is less than 16M"),
            (
                "processes=0",
                "processes: \"0\" is not a whole number between 1 and 4194304, nor none",
            ),
            ("cpu=+5", "cpu: \"+5\" is not a whole number between 1 and 10000, nor none"),
            ("files=3", "files: \"3\" is not a whole number between 16 and 4194304, nor none"),
            ("policy=kill", "policy: \"kill\" is none of freeze, stop, warn"),
            ("groups=yes", "groups: \"yes\" is none of on, off"),
        ];
        for (text, expected) in cases {
            let refused = text.parse::<Wish>().unwrap_err();
            assert_eq!(refused.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn without_a_word_only_the_disk_is_limited() {
        let limits: Limits = serde_json::from_str("{}").unwrap();

        assert_eq!(limits, Limits::default());
        let limited = Resource::ALL.map(|resource| limits.of(resource));
        assert_eq!(limited, [Some(1 << 30), None, None, None, None]);
        assert_eq!(limits.policy, Policy::Freeze);
    }
}
