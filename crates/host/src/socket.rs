//! Unix sockets in directories of any length, for one user only.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::file::FileError;

/// Listens on the socket `name` in `dir`, readable and writable by its owner alone.
///
/// A socket of that name is a leftover and is removed first: the caller holds the lock that says
/// so. The address goes through the open directory, so the path may be of any length.
///
/// # Errors
///
/// [`FileError`].
pub fn listen_in(dir: &Path, name: &str) -> Result<UnixListener, FileError> {
    let path = dir.join(name);
    let fail = || FileError::when("listen on", &path);
    let open = File::open(dir).map_err(fail())?;
    let short = format!("/proc/self/fd/{}/{name}", open.as_raw_fd());
    match fs::remove_file(&short) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail()(error)),
    }
    let listener = UnixListener::bind(&short).map_err(fail())?;
    fs::set_permissions(&short, Permissions::from_mode(0o600)).map_err(fail())?;
    Ok(listener)
}

/// Whether the other end of a connection belongs to the user we run as.
#[must_use]
pub fn is_ours(stream: impl AsFd) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_works_in_a_directory_far_longer_than_an_address() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("d".repeat(120)).join("e".repeat(120));
        fs::create_dir_all(&dir).unwrap();

        let listener = listen_in(&dir, "keeper.sock").unwrap();
        let again = listen_in(&dir, "keeper.sock").unwrap();
        drop(listener);

        let mode = fs::metadata(dir.join("keeper.sock")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(again);
    }
}
