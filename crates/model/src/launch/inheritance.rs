//! The variables that a pane inherits from the client that requested it.

use std::collections::BTreeMap;

use crate::agent;
use crate::environment::Environment;
use crate::environment::variables::USER_HOME;

/// The exact names of inherited variables.
///
/// These are the ones that a shell and its tools need to work as usual. The agents list additional
/// ones ([`crate::agent::is_inherited`]). All others must be set explicitly.
const INHERITED: &[&str] = &[
    "BROWSER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "EDITOR",
    "GPG_AGENT_INFO",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "LS_COLORS",
    "NO_COLOR",
    "NO_PROXY",
    "PAGER",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TZ",
    "USER",
    "VISUAL",
    "WAYLAND_DISPLAY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Prefixes of inherited variables.
const INHERITED_PREFIXES: &[&str] =
    &["LC_", "XDG_", "GIT_AUTHOR_", "GIT_COMMITTER_", "NODE_EXTRA_"];

/// Returns true if a pane inherits this variable from the client.
#[must_use]
pub fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name)
        || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || agent::is_inherited(name)
}

/// Returns true if a client must send this variable with a launch request: the pane inherits it, or
/// it locates the user's configuration.
#[must_use]
pub fn is_sent_for_launch(name: &str) -> bool {
    is_inherited(name) || name == USER_HOME || agent::is_consulted(name)
}

/// Returns true if a client must send this variable for a diagnosis: it locates programs or the
/// user's directories.
#[must_use]
pub fn is_sent_for_diagnosis(name: &str) -> bool {
    matches!(name, "PATH" | "HOME" | USER_HOME) || agent::is_consulted(name)
}

/// Returns the inherited variables of `client`.
#[must_use]
pub fn inherited(client: &BTreeMap<String, String>) -> Environment {
    let kept = client.iter().filter(|(name, _)| is_inherited(name));
    let mut environment = Environment::default();
    for (name, value) in kept {
        // No process can have a variable that is invalid, so nothing is lost.
        let _unusable = environment.set(name, value);
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_variable_is_not_inherited() {
        let client = BTreeMap::from(
            [
                ("PATH", "/usr/bin"),
                ("LC_ALL", "C.UTF-8"),
                ("TMUX", "/tmp/tmux-0/default,1,0"),
                ("CLAUDECODE", "1"),
                ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );

        let pane = inherited(&client);

        let seen: Vec<_> = pane.iter().collect();
        assert_eq!(seen, [("LC_ALL", "C.UTF-8"), ("PATH", "/usr/bin")]);
    }
}
