//! Starting the daemon for a program in the pane.
//!
//! A daemon inherits resource limits, control groups, namespaces and the environment of the process
//! that starts it, and a process cannot leave all of them. So a client in a pane does not start the
//! daemon itself but asks its keeper, which is outside of the pane's limits.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use host::own_pane::stdin_of_child;
use host::root_identity::same_dir;
use host::{hooks, own_processes};
use protocol::error::{ErrorBody, ErrorCode};

/// Appended by the kernel to the path of a program that was replaced.
const DELETED: &[u8] = b" (deleted)";

/// Starts the daemon of the state root, with `ready` as its standard output. The keeper reaps it
/// like every child.
///
/// # Errors
///
/// If the client is of another release, or the system's error.
pub(crate) fn start(version: &str, ready: Option<OwnedFd>) -> Result<(), ErrorBody> {
    const OWN: &str = env!("CARGO_PKG_VERSION");
    if version != OWN {
        let message = format!("the keeper has release {OWN}, the client {version}");
        return Err(ErrorBody::new(ErrorCode::Conflict, message));
    }
    spawn(ready).map_err(|error| {
        ErrorBody::new(ErrorCode::Failed, format!("cannot start the daemon: {error}"))
    })
}

fn spawn(ready: Option<OwnedFd>) -> std::io::Result<()> {
    let mut command = Command::new(program()?);
    command.args(["daemon", "run", "--detached"]).current_dir("/").env_clear();
    command.env(own_processes::VARIABLE, home()?);
    command.envs(hooks::dir().map(|dir| (hooks::VARIABLE, dir)));
    command
        .stdin(OwnedFd::from(stdin_of_child()?))
        .stdout(ready.map_or_else(Stdio::null, |ready| File::from(ready).into()))
        .stderr(Stdio::null());
    command.spawn().map(drop)
}

/// Returns the state root, spelled as in the environment of this process unless it was moved since.
#[expect(clippy::disallowed_methods, reason = "the user's spelling is only in the environment")]
fn home() -> std::io::Result<PathBuf> {
    let pane = std::env::current_dir()?;
    let root = pane.ancestors().nth(4).ok_or(std::io::ErrorKind::NotFound)?;
    let spelled = std::env::var_os(own_processes::VARIABLE).map(PathBuf::from);
    Ok(spelled.filter(|spelled| same_dir(spelled, root)).unwrap_or_else(|| root.to_owned()))
}

/// Returns the path of this program, or of its replacement.
fn program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let bytes = path.as_os_str().as_bytes();
    Ok(match bytes.strip_suffix(DELETED) {
        Some(original) => std::ffi::OsString::from_vec(original.to_vec()).into(),
        None => path,
    })
}
