//! Environment variables of the client, read once by `main` and passed down as a value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::SessionMode;
use model::launch::inheritance::{is_sent_for_diagnosis, is_sent_for_launch};
use protocol::ErrorBody;

use crate::failure::usage;

/// Variable with the path of the state root.
pub(crate) const HOME: &str = "CCMUX_HOME";
/// Variable with the directory of the test hooks.
pub(crate) const TEST_HOOKS: &str = "CCMUX_TEST_HOOKS";
/// Variable with the name of the shell that asks for completions.
pub(crate) const COMPLETE: &str = "CCMUX_COMPLETE";
/// Variable with the path of the daemon's control socket, set in panes.
const SOCKET: &str = "CCMUX_SOCKET";
/// Variable with the ID of the pane, set in panes.
const PANE_ID: &str = "CCMUX_PANE_ID";
/// Variable with the default mode of new sessions.
const SESSION_MODE: &str = "CCMUX_SESSION_MODE";
/// Variable that, set to `relay`, keeps the client between the keeper and the terminal.
const ATTACH: &str = "CCMUX_ATTACH";

/// The environment variables of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientEnv {
    variables: BTreeMap<String, String>,
    /// Names of variables whose values are not UTF-8, and so cannot be passed on.
    unreadable: Vec<String>,
}

impl ClientEnv {
    /// Collects `variables`; names that are not UTF-8 are dropped.
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut env = Self::default();
        for (name, value) in variables {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => drop(env.variables.insert(name, value)),
                Err(_) => env.unreadable.push(name),
            }
        }
        env
    }

    /// Returns the value of a variable, or `None` if it is unset or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the value of a variable selected by the user; it may be empty.
    pub(crate) fn named(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns the value of `CCMUX_HOME`, unchanged.
    pub(crate) fn home(&self) -> Option<&str> {
        self.get(HOME)
    }

    /// Returns the default mode of new sessions, if set.
    ///
    /// # Errors
    ///
    /// A usage error if the mode is unknown.
    pub(crate) fn session_mode(&self) -> Result<Option<SessionMode>, ErrorBody> {
        let parsed = self.get(SESSION_MODE).map(str::parse).transpose();
        parsed.map_err(|error: String| {
            usage(format!("{SESSION_MODE}: {error}")).hint("correct or unset the variable")
        })
    }

    /// Returns the directory of the test hooks, if set.
    pub(crate) fn test_hooks(&self) -> Option<&Path> {
        self.get(TEST_HOOKS).map(Path::new)
    }

    /// Returns the ID of the pane that this process runs in, if any.
    pub(crate) fn pane(&self) -> Option<&str> {
        self.get(PANE_ID)
    }

    /// Returns the shell that asks for completions, if one does.
    pub(crate) fn completing_shell(&self) -> Option<&str> {
        self.get(COMPLETE)
    }

    /// Returns whether the client should relay between keeper and terminal.
    pub(crate) fn wants_relay(&self) -> bool {
        self.get(ATTACH) == Some("relay")
    }

    /// Returns whether the environment allows coloured output.
    pub(crate) fn allows_colour(&self) -> bool {
        self.get("NO_COLOR").is_none() && self.get("TERM").is_some_and(|term| term != "dumb")
    }

    /// Returns the variables that a new pane inherits or that are needed to plan it. All others,
    /// which may be secrets, never leave this process.
    pub(crate) fn for_pane(&self) -> BTreeMap<String, String> {
        let kept = self.variables.iter().filter(|(name, _)| is_sent_for_launch(name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the variables that locate programs and the user's own directories.
    pub(crate) fn for_doctor(&self) -> BTreeMap<String, String> {
        let kept = self.variables.iter().filter(|(name, _)| is_sent_for_diagnosis(name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the complete environment for a daemon started by this client. Contains nothing
    /// specific to the client.
    pub(crate) fn for_daemon(&self, home: &Path) -> BTreeMap<&'static str, OsString> {
        const INHERITED: [&str; 5] = ["PATH", "HOME", "USER", "LANG", TEST_HOOKS];
        let mut env: BTreeMap<&'static str, OsString> = INHERITED
            .into_iter()
            .filter_map(|name| Some((name, OsString::from(self.variables.get(name)?))))
            .collect();
        env.insert(HOME, home.into());
        env
    }

    /// Returns the absolute path of the state root: the option, `CCMUX_HOME`, the root of the
    /// current pane, or `~/.ccmux`, in this order.
    ///
    /// Relative paths are resolved against the current directory.
    ///
    /// # Errors
    ///
    /// A usage error if none is set, or if the path is not UTF-8.
    pub(crate) fn state_root(&self, option: Option<&Path>) -> Result<PathBuf, ErrorBody> {
        if option.is_none() && self.unreadable.iter().any(|name| name == HOME) {
            return Err(usage("CCMUX_HOME is not valid UTF-8").hint(CHOOSE_ANOTHER));
        }
        let chosen = option
            .map(Path::to_owned)
            .or_else(|| self.get(HOME).map(PathBuf::from))
            .or_else(|| self.state_root_of_pane())
            .or_else(|| self.get("HOME").map(|home| Path::new(home).join(".ccmux")))
            .ok_or_else(|| {
                usage("no state root: neither CCMUX_HOME nor HOME is set")
                    .hint("set a directory with --home")
            })?;
        let absolute = std::path::absolute(&chosen).map_err(|error| {
            usage(format!("cannot resolve state root `{}`: {error}", chosen.display()))
                .hint(CHOOSE_ANOTHER)
        })?;
        if absolute.to_str().is_none() {
            let message = format!("the state root `{}` is not valid UTF-8", absolute.display());
            return Err(usage(message).hint(CHOOSE_ANOTHER));
        }
        // Removes a trailing slash, which would make lstat follow a symbolic link.
        Ok(absolute.components().collect())
    }

    /// Returns the state root of the current pane: two levels above its control socket.
    fn state_root_of_pane(&self) -> Option<PathBuf> {
        Some(Path::new(self.get(SOCKET)?).parent()?.parent()?.to_owned())
    }
}

const CHOOSE_ANOTHER: &str = "choose another directory with --home or CCMUX_HOME";

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> ClientEnv {
        ClientEnv::new(pairs.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn for_daemon_contains_nothing_specific_to_the_client() {
        let client = env(&[
            ("PATH", "/usr/bin"),
            ("HOME", "/home/me"),
            ("CCMUX_PANE_ID", "1"),
            ("CCMUX_SOCKET", "/s"),
            ("CCMUX_HOME", "relative"),
            ("ANTHROPIC_API_KEY", "hunter2"),
            ("CLAUDECODE", "1"),
        ]);

        let daemon = client.for_daemon(Path::new("/state"));

        let seen: Vec<_> = daemon.iter().map(|(n, v)| (*n, v.to_str().unwrap())).collect();
        assert_eq!(seen, [("CCMUX_HOME", "/state"), ("HOME", "/home/me"), ("PATH", "/usr/bin")]);
    }

    #[test]
    fn state_root_prefers_option_then_variable_then_pane_then_default() {
        let both = env(&[("CCMUX_HOME", "/variable/"), ("HOME", "/home/me")]);
        let neither = env(&[("CCMUX_HOME", ""), ("HOME", "/home/me")]);

        assert_eq!(both.state_root(Some(Path::new("/option"))).unwrap(), Path::new("/option"));
        assert_eq!(both.state_root(None).unwrap().as_os_str(), "/variable");
        assert_eq!(neither.state_root(None).unwrap(), Path::new("/home/me/.ccmux"));
        let pane = env(&[("CCMUX_SOCKET", "/state/of/run/control.sock"), ("HOME", "/home/me")]);
        assert_eq!(pane.state_root(None).unwrap(), Path::new("/state/of"));
        assert!(neither.state_root(Some(Path::new("here"))).unwrap().is_absolute());
        assert!(env(&[]).state_root(None).is_err());
    }

    #[test]
    fn non_utf8_state_root_is_an_error_unless_overridden() {
        let odd = OsString::from_vec(vec![b'/', 0xff]);
        let client = ClientEnv::new([
            (odd.clone(), "x".into()),
            (HOME.into(), odd),
            ("HOME".into(), "/home/me".into()),
        ]);

        assert_eq!(client.get(HOME), None);
        assert!(client.state_root(None).is_err());
        assert!(client.state_root(Some(Path::new("/s"))).is_ok());
    }

    /// R28: the session mode can be set in the environment.
    #[test]
    fn session_mode_error_lists_the_valid_modes() {
        let mode = |text: &str| env(&[("CCMUX_SESSION_MODE", text)]).session_mode();

        assert_eq!(mode("legacy").unwrap(), Some(SessionMode::Legacy));
        assert_eq!(mode("").unwrap(), None);
        let refused = mode("shared").unwrap_err().message;
        assert!(refused.contains("isolated") && refused.contains("legacy"), "{refused}");
        assert!(refused.contains("CCMUX_SESSION_MODE") && refused.contains("shared"), "{refused}");
    }

    #[test]
    fn for_pane_omits_variables_that_panes_do_not_inherit() {
        let client = env(&[("SHELL", "/bin/zsh"), ("AWS_SECRET_ACCESS_KEY", "hunter2")]);

        let seen: Vec<_> = client.for_pane().into_keys().collect();

        assert_eq!(seen, ["SHELL"]);
    }
}
