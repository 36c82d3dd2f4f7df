//! Connections to the sockets of the user's own servers, with addresses of any length.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use protocol::frame::Frame;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::geteuid;

/// A server that another user controls or could replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignServer {
    /// The directory of the socket belongs to another user.
    #[error("its directory belongs to user {owner}, not to user {us}")]
    Directory {
        /// The owner of the directory.
        owner: u32,
        /// The current user.
        us: u32,
    },
    /// Other users can replace the socket.
    #[error("its directory is writable by other users (mode {0:04o})")]
    Writable(u32),
    /// The process that listens runs as another user.
    #[error("the server runs as user {owner}, not as user {us}")]
    Process {
        /// The user of the server.
        owner: u32,
        /// The current user.
        us: u32,
    },
}

impl From<ForeignServer> for io::Error {
    fn from(error: ForeignServer) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, error)
    }
}

/// Connects to the socket `name` in `dir`. The path of the directory may be longer than a socket
/// address can be.
///
/// # Errors
///
/// Any I/O error, and [`ForeignServer`] unless the directory and the server belong to the current
/// user. Nothing was sent then.
pub fn connect_in(dir: &Path, name: &str) -> io::Result<UnixStream> {
    let flags = i32::try_from(OFlags::DIRECTORY.bits()).unwrap_or_default();
    let dir = OpenOptions::new().read(true).custom_flags(flags).open(dir)?;
    check_directory(&dir)?;
    let stream = UnixStream::connect(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?;
    let (owner, us) = (socket_peercred(&stream)?.uid.as_raw(), geteuid().as_raw());
    if owner != us {
        return Err(ForeignServer::Process { owner, us }.into());
    }
    Ok(stream)
}

fn check_directory(dir: &File) -> io::Result<()> {
    let found = dir.metadata()?;
    let (owner, us) = (found.uid(), geteuid().as_raw());
    if owner != us {
        return Err(ForeignServer::Directory { owner, us }.into());
    }
    if found.mode() & 0o022 != 0 {
        return Err(ForeignServer::Writable(found.mode() & 0o7777).into());
    }
    Ok(())
}

/// Sends a frame with a descriptor, which the keeper receives with the first byte.
pub(crate) fn send_with_descriptor(
    to: &UnixStream,
    frame: &Frame,
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let bytes = frame.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    assert!(
        control.push(SendAncillaryMessage::ScmRights(&descriptors)),
        "the buffer has space for one descriptor"
    );
    let sent = loop {
        let parts = [IoSlice::new(&bytes)];
        match sendmsg(to.as_fd(), &parts, &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) => break sent,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    (&mut &*to).write_all(&bytes[sent..])
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn connect_in_refuses_directory_that_others_can_write_to() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();

        connect_in(dir.path(), "socket").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let refused = connect_in(dir.path(), "socket").unwrap_err();

        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("0777"), "{refused}");
        listener.set_nonblocking(true).unwrap();
        listener.accept().unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
