//! Entry point of keeper processes. The only file that depends on the keeper crate.

use std::path::Path;
use std::process::ExitCode;

use ::keeper::OwnProcesses;

/// Runs as a keeper until the pane exits.
pub(crate) fn run(home: Option<&str>, hooks: Option<&Path>) -> ExitCode {
    if let Some(dir) = hooks {
        ::keeper::hooks::enable(dir);
    }
    ::keeper::run(home.map_or_else(OwnProcesses::none, OwnProcesses::of_root))
}
