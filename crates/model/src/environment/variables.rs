//! Names of the environment variables that ccmux sets in panes.

/// The id of the pane.
pub const PANE_ID: &str = "CCMUX_PANE_ID";

/// The id of the session that the pane belongs to.
pub const SESSION_ID: &str = "CCMUX_SESSION_ID";

/// The role of the pane, if it has one. The name dates from when `claude` was the only agent.
pub const ROLE: &str = "CLAUDE_ROLE";

/// The user's home directory, in a pane that has its own `HOME`.
pub const USER_HOME: &str = "CCMUX_USER_HOME";
