//! Unix sockets that only their owner can use, in directories with paths of any length.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::file::FileError;

/// Listens on the socket `name` in `dir`, accessible to its owner only.
///
/// An existing socket of that name is stale and removed first: the caller holds the lock that
/// guarantees this. The address goes through the open directory, so the path may be longer than a
/// socket address.
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

/// Returns whether the peer of a connection runs as the same user as this process.
#[must_use]
pub fn is_same_user(stream: impl AsFd) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_in_directory_longer_than_socket_address_works() {
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
