//! A pane that a test started, and what can be seen of it from outside.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use model::ProcessIdentity;
use serde_json::Value;

use crate::home::Home;
use crate::process;

/// A pane, as it was when it was started.
#[derive(Clone, Debug)]
pub struct Pane {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// The process at its head.
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

    /// What `show` says of a pane now.
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
    /// A pane from what `new` or `show` printed.
    ///
    /// # Panics
    ///
    /// When the JSON is of something else, or the process is gone.
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

    /// The keeper, by its own record.
    ///
    /// # Panics
    ///
    /// When the record is missing or the keeper is gone.
    #[must_use]
    #[track_caller]
    pub fn keeper(&self) -> ProcessIdentity {
        let record = read_record(&self.dir.join("keeper.json"));
        serde_json::from_value(record["keeper"].clone()).expect("the record names the keeper")
    }

    /// Everything the pane wrote, straight from its log.
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

/// The record in a file, without a look at its checksum.
///
/// # Panics
///
/// When there is none.
#[must_use]
#[track_caller]
pub fn read_record(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut envelope: Value = serde_json::from_slice(&bytes).expect("JSON");
    envelope["record"].take()
}
