//! The keys of `[ports]`.

use crate::config::Config;
use crate::config::key::{Access, Fault, Key};

/// Which ports panes get (`[ports]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortsConfig {
    /// The first port that a pane may get.
    pub base: u16,
    /// The last one.
    pub end: u16,
    /// How many each pane gets; 0 for none.
    pub count: u16,
}

impl Default for PortsConfig {
    /// Below what kernels give away by themselves (32768 and up as a rule), and above where most
    /// services live.
    fn default() -> Self {
        Self { base: 20_000, end: 32_767, count: 10 }
    }
}

/// Ports below this one are the system's.
const FIRST: i64 = 1024;

/// More than this for one pane is a mistake.
const MOST: i64 = 1000;

const A_PORT: &str = "a port from 1024 to 65535";

pub(super) const BASE: Key<Config> = Key {
    name: "ports.base",
    meaning: "The first port that a pane may get. Ports that the kernel gives away by itself are \
              only used when no others are left.",
    takes: A_PORT,
    access: Access::Number {
        get: |config| config.ports.base.into(),
        set: |config, number| set(&mut config.ports.base, number, FIRST, u16::MAX.into()),
    },
};

pub(super) const END: Key<Config> = Key {
    name: "ports.end",
    meaning: "The last port that a pane may get.",
    takes: A_PORT,
    access: Access::Number {
        get: |config| config.ports.end.into(),
        set: |config, number| set(&mut config.ports.end, number, FIRST, u16::MAX.into()),
    },
};

pub(super) const COUNT: Key<Config> = Key {
    name: "ports.count",
    meaning: "How many ports each new pane gets for itself: neighbours, the first of them in \
              `PORT`. 0: none.",
    takes: "a number from 0 to 1000",
    access: Access::Number {
        get: |config| config.ports.count.into(),
        set: |config, number| set(&mut config.ports.count, number, 0, MOST),
    },
};

fn set(slot: &mut u16, number: i64, least: i64, most: i64) -> Result<(), Fault> {
    let fits = (least..=most).contains(&number).then(|| u16::try_from(number).ok()).flatten();
    *slot =
        fits.ok_or_else(|| Fault::whole(format!("{number} is not between {least} and {most}")))?;
    Ok(())
}
