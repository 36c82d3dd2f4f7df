//! The client's environment, read once by `main` and passed down as a value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::SessionMode;
use model::environment::{is_examined, is_told};
use protocol::ErrorBody;

use crate::failure::usage;

/// The variable that names the state root.
pub(crate) const HOME: &str = "CCMUX_HOME";
/// The variable that names the directory of the test hooks.
pub(crate) const TEST_HOOKS: &str = "CCMUX_TEST_HOOKS";
/// In a pane: the daemon's control socket.
const SOCKET: &str = "CCMUX_SOCKET";
/// In a pane: its id.
const PANE_ID: &str = "CCMUX_PANE_ID";
/// The mode of new sessions.
const SESSION_MODE: &str = "CCMUX_SESSION_MODE";
/// `relay` keeps the client between the keeper and its terminal.
const ATTACH: &str = "CCMUX_ATTACH";

/// What the process was given by whoever started it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientEnv {
    variables: BTreeMap<String, String>,
    /// Names whose values are not UTF-8: nothing we pass on can carry them.
    unreadable: Vec<String>,
}

impl ClientEnv {
    /// Takes what the system gives; names that are not UTF-8 are left out.
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

    /// The value of a variable; an empty one counts as not set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a variable that the user named.
    pub(crate) fn named(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The state root that the variable names, as it is spelt there.
    pub(crate) fn home(&self) -> Option<&str> {
        self.get(HOME)
    }

    /// The mode that new sessions have unless an option says otherwise.
    ///
    /// # Errors
    ///
    /// A usage error for a mode that there is not.
    pub(crate) fn session_mode(&self) -> Result<Option<SessionMode>, ErrorBody> {
        let parsed = self.get(SESSION_MODE).map(str::parse).transpose();
        parsed.map_err(|error: String| {
            usage(format!("{SESSION_MODE}: {error}")).hint("unset it, or correct it")
        })
    }

    /// Where the test hooks are, if this is a test.
    pub(crate) fn test_hooks(&self) -> Option<&Path> {
        self.get(TEST_HOOKS).map(Path::new)
    }

    /// The pane that we run in, if we do.
    pub(crate) fn pane(&self) -> Option<&str> {
        self.get(PANE_ID)
    }

    /// Whether the user wants the client to stay between keeper and terminal.
    pub(crate) fn wants_relay(&self) -> bool {
        self.get(ATTACH) == Some("relay")
    }

    /// Whether text may have colours, as far as the environment has a say.
    pub(crate) fn allows_colour(&self) -> bool {
        self.get("NO_COLOR").is_none() && self.get("TERM").is_some_and(|term| term != "dumb")
    }

    /// What a new pane may take over, or what it takes to plan it. The rest, with whatever secrets are in it, never leaves
    /// this process.
    pub(crate) fn for_pane(&self) -> BTreeMap<String, String> {
        let kept = self.variables.iter().filter(|(name, _)| is_told(name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// What says where programs and the user's own directories are.
    pub(crate) fn for_doctor(&self) -> BTreeMap<String, String> {
        let kept = self.variables.iter().filter(|(name, _)| is_examined(name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The whole environment of a daemon that this client starts: what it needs to find programs
    /// and files, and nothing that says who happened to start it.
    pub(crate) fn for_daemon(&self, home: &Path) -> BTreeMap<&'static str, OsString> {
        const HANDED_DOWN: [&str; 5] = ["PATH", "HOME", "USER", "LANG", TEST_HOOKS];
        let mut env: BTreeMap<&'static str, OsString> = HANDED_DOWN
            .into_iter()
            .filter_map(|name| Some((name, OsString::from(self.variables.get(name)?))))
            .collect();
        env.insert(HOME, home.into());
        env
    }

    /// The state root: what the option says, then the variable, then, in a pane, the one that the
    /// pane belongs to, then `~/.ccmux`.
    ///
    /// Relative paths count from the current directory.
    ///
    /// # Errors
    ///
    /// A usage error if nothing says where, or if it is not UTF-8: records and messages are text.
    pub(crate) fn state_root(&self, option: Option<&Path>) -> Result<PathBuf, ErrorBody> {
        if option.is_none() && self.unreadable.iter().any(|name| name == HOME) {
            return Err(usage("the state root in CCMUX_HOME is not UTF-8").hint(ELSEWHERE));
        }
        let chosen = option
            .map(Path::to_owned)
            .or_else(|| self.get(HOME).map(PathBuf::from))
            .or_else(|| self.root_of_this_pane())
            .or_else(|| self.get("HOME").map(|home| Path::new(home).join(".ccmux")))
            .ok_or_else(|| {
                usage("no state root: neither CCMUX_HOME nor HOME is set")
                    .hint("name a directory with --home")
            })?;
        let absolute = std::path::absolute(&chosen).map_err(|error| {
            usage(format!("the state root `{}` has no absolute path: {error}", chosen.display()))
                .hint(ELSEWHERE)
        })?;
        if absolute.to_str().is_none() {
            let message = format!("the state root `{}` is not UTF-8", absolute.display());
            return Err(usage(message).hint(ELSEWHERE));
        }
        // A slash at the end would make the check for symbolic links look behind the link.
        Ok(absolute.components().collect())
    }

    /// Where the control socket of our own pane lies, two levels up.
    fn root_of_this_pane(&self) -> Option<PathBuf> {
        Some(Path::new(self.get(SOCKET)?).parent()?.parent()?.to_owned())
    }
}

const ELSEWHERE: &str = "choose another directory with --home or CCMUX_HOME";

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> ClientEnv {
        ClientEnv::new(pairs.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn a_daemon_learns_nothing_about_the_client_that_started_it() {
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
    fn the_option_wins_over_the_variable_and_the_variable_over_the_default() {
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
    fn variables_that_are_no_text_are_left_out_but_never_mistaken_for_unset() {
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

    /// R28: the mode can be had from the environment.
    #[test]
    fn a_mode_that_there_is_not_is_named_together_with_those_that_there_are() {
        let mode = |text: &str| env(&[("CCMUX_SESSION_MODE", text)]).session_mode();

        assert_eq!(mode("legacy").unwrap(), Some(SessionMode::Legacy));
        assert_eq!(mode("").unwrap(), None);
        let refused = mode("shared").unwrap_err().message;
        assert!(refused.contains("isolated") && refused.contains("legacy"), "{refused}");
        assert!(refused.contains("CCMUX_SESSION_MODE") && refused.contains("shared"), "{refused}");
    }

    #[test]
    fn only_what_a_pane_may_take_over_leaves_the_client() {
        let client = env(&[("SHELL", "/bin/zsh"), ("AWS_SECRET_ACCESS_KEY", "hunter2")]);

        let seen: Vec<_> = client.for_pane().into_keys().collect();

        assert_eq!(seen, ["SHELL"]);
    }
}
