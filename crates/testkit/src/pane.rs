//! A pane started by a test.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use model::ProcessIdentity;
use serde_json::Value;

use crate::home::Home;
use crate::process;

/// A pane as it was when it started.
#[derive(Clone, Debug)]
pub struct Pane {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Its program's process.
    pub head: ProcessIdentity,
}

impl Home {
    /// Starts a detached pane of this name.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    pub fn start_pane<A: AsRef<OsStr>>(&self, name: &str, command: &[A]) -> Pane {
        let options = ["new", "-d", "--json", "-n", name, "--"].map(OsStr::new);
        let words: Vec<&OsStr> =
            options.into_iter().chain(command.iter().map(AsRef::as_ref)).collect();
        Pane::from_json(&self.ccmux(&words).json()["pane"])
    }

    /// Returns the current output of `show` for a pane.
    ///
    /// # Panics
    ///
    /// When there is no such pane.
    #[must_use]
    #[track_caller]
    pub fn show(&self, pane: &str) -> Value {
        self.ccmux(&["show", "--json", pane]).json()["pane"].take()
    }
}

impl Pane {
    /// Creates a pane from the output of `new` or `show`.
    ///
    /// # Panics
    ///
    /// When the JSON is not a pane's, or the process has exited.
    #[must_use]
    #[track_caller]
    pub fn from_json(pane: &Value) -> Self {
        let text = |field: &str| {
            let value = pane[field].as_str();
            value.unwrap_or_else(|| panic!("no {field} in {pane}")).to_owned()
        };
        let pid = pane["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.unwrap_or_else(|| panic!("no pid in {pane}"));
        let head = process::identity(pid).unwrap_or_else(|| panic!("{pid} has ended already"));
        Self { id: text("id"), name: text("name"), dir: text("dir").into(), head }
    }

    /// Returns the keeper named in its record.
    ///
    /// # Panics
    ///
    /// When the record is missing.
    #[must_use]
    #[track_caller]
    pub fn keeper(&self) -> ProcessIdentity {
        let record = read_record(&self.dir.join("keeper.json"));
        serde_json::from_value(record["keeper"].clone()).expect("the record names the keeper")
    }

    /// Returns the pane's complete output from its log.
    ///
    /// # Panics
    ///
    /// When the log cannot be read.
    #[must_use]
    pub fn log(&self) -> Vec<u8> {
        let mut segments: Vec<PathBuf> = fs::read_dir(self.dir.join("log"))
            .expect("a log")
            .map(|entry| entry.expect("an entry of the log").path())
            .filter(|path| path.extension() == Some(OsStr::new("out")))
            .collect();
        segments.sort();
        segments.iter().flat_map(|path| fs::read(path).expect("a segment")).collect()
    }
}

/// Returns the record in a file without verifying its checksum.
///
/// # Panics
///
/// When the file cannot be read.
#[must_use]
#[track_caller]
pub fn read_record(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut envelope: Value = serde_json::from_slice(&bytes).expect("JSON");
    envelope["record"].take()
}
