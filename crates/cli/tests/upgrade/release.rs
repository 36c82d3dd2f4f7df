//! One release of ccmux in the home of a test.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::{Home, Invocation};

use crate::CCMUX;

/// Time limit for one command or wait. Generous, because a loaded machine is no reason to fail; a
/// command that hangs fails the test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A binary, and the home in which it is run.
#[derive(Clone, Copy)]
pub(crate) struct Release<'a> {
    pub(crate) home: &'a Home,
    program: &'a Path,
}

impl<'a> Release<'a> {
    /// The binary under test.
    pub(crate) fn this(home: &'a Home) -> Self {
        Self { home, program: Path::new(CCMUX) }
    }

    /// Another binary.
    pub(crate) fn other(home: &'a Home, program: &'a Path) -> Self {
        Self { home, program }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Invocation {
        self.home.program(self.program, words).timeout(PATIENCE)
    }

    #[track_caller]
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        self.command(words).ok()
    }

    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        // Before the verb: everything after `--` belongs to the program of the pane.
        self.command(&[&["--json"], words].concat()).json()
    }

    /// The panes of all sessions.
    #[track_caller]
    pub(crate) fn panes(&self) -> Vec<Value> {
        let listed = self.json(&["ls"]);
        let sessions = listed["sessions"].as_array().unwrap();
        sessions.iter().flat_map(|session| session["panes"].as_array().unwrap().clone()).collect()
    }

    #[track_caller]
    pub(crate) fn pane(&self, target: &str) -> Value {
        self.json(&["show", target])["pane"].take()
    }

    #[track_caller]
    pub(crate) fn state(&self, target: &str) -> String {
        text(&self.pane(target), "state")
    }
}

/// The text in a field.
#[track_caller]
pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}
