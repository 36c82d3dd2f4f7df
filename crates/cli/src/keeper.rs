//! The way into a keeper. The only file that knows the keeper's crate.

use std::path::Path;
use std::process::ExitCode;

use ::keeper::Household;

/// Is a keeper, until its pane has ended.
pub(crate) fn run(home: Option<&str>, hooks: Option<&Path>) -> ExitCode {
    if let Some(dir) = hooks {
        ::keeper::hooks::enable(dir);
    }
    ::keeper::run(home.map_or_else(Household::nobody, Household::of))
}
