//! Processes of ccmux itself, which live in nobody's pane even where they descend from one.
//!
//! A command typed in a pane starts the daemon if there is none. That daemon, and every keeper it
//! starts, then descends from the pane: the kernel hands orphans to the nearest subreaper, which is
//! the pane's keeper. Ending the pane must not end them. They are known by what they were started
//! as and by the state root in their environment; programs in panes are not given that variable.

use std::fs;

/// The variable that names the state root.
pub const VARIABLE: &str = "CCMUX_HOME";

/// The daemon and the keepers of one state root.
#[derive(Clone, Debug, Default)]
pub struct Household(Option<String>);

impl Household {
    /// Those of the state root with this path, spelt as in their environment.
    #[must_use]
    pub fn of(home: &str) -> Self {
        Self(Some(format!("{VARIABLE}={home}")))
    }

    /// Nobody: everything that descends from a pane belongs to it.
    #[must_use]
    pub fn nobody() -> Self {
        Self(None)
    }

    /// Whether this process is one of them.
    #[must_use]
    pub fn contains(&self, pid: u32) -> bool {
        let Some(mark) = &self.0 else { return false };
        let words = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let line = words("cmdline");
        let role = line.split(|&byte| byte == 0).nth(1);
        let is_role = role.is_some_and(|role| role == b"keeper" || role == b"daemon");
        is_role && words("environ").split(|&byte| byte == 0).any(|var| var == mark.as_bytes())
    }
}
