//! The keys of `[ports]`.

use crate::config::Config;
use crate::config::key::{Access, Fault, Key};

/// The first unprivileged port.
const FIRST: i64 = 1024;

/// The maximum number of ports per pane.
const MOST: i64 = 1000;

const A_PORT: &str = "a port from 1024 to 65535";

pub(super) const BASE: Key<Config> = Key {
    name: "ports.base",
    meaning: "First port of the range for panes. Ephemeral ports of the kernel are used only when no \
              others are left.",
    takes: A_PORT,
    access: Access::Number {
        get: |config| config.ports.base.into(),
        set: |config, number| set(&mut config.ports.base, number, FIRST, u16::MAX.into()),
    },
};

pub(super) const END: Key<Config> = Key {
    name: "ports.end",
    meaning: "Last port of the range for panes.",
    takes: A_PORT,
    access: Access::Number {
        get: |config| config.ports.end.into(),
        set: |config, number| set(&mut config.ports.end, number, FIRST, u16::MAX.into()),
    },
};

pub(super) const COUNT: Key<Config> = Key {
    name: "ports.count",
    meaning: "Number of consecutive ports that each new pane gets (0: none). `PORT` is set to the \
              first one.",
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
