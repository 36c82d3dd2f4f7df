//! The socket that the API is served on: TCP, or a Unix socket that only the user can reach.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};

use host::socket;
use model::http::Listen;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::runtime::run_blocking;

/// An open socket. The file of a Unix socket is removed when it is dropped.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// An accepted connection, and a description of its client.
pub(super) enum Accepted {
    Tcp(TcpStream, String),
    Unix(UnixStream, String),
}

impl Listener {
    pub(super) async fn open(address: &Listen) -> io::Result<Self> {
        match address {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Listen::Unix(path) => {
                let path = PathBuf::from(path);
                let (listener, file) = run_blocking(move || listen_at(path)).await?;
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(listener)?, file))
            }
        }
    }

    /// Returns the actual address, with the port that the system selected.
    pub(super) fn address(&self) -> io::Result<Listen> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Listen::Tcp),
            Self::Unix(_, file) => Ok(Listen::Unix(file.0.to_string_lossy().into_owned())),
        }
    }

    /// Waits for a connection. Connections of other users to a Unix socket are refused: its mode
    /// keeps them out only from the moment it is set.
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok(Accepted::Tcp(stream, address.to_string()))
            }
            Self::Unix(listener, _) => loop {
                let (stream, _) = listener.accept().await?;
                if !socket::is_same_user(&stream) {
                    tracing::warn!("HTTP connection of another user rejected");
                    continue;
                }
                let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
                let from = pid.map_or("unix".to_owned(), |pid| format!("unix, pid {pid}"));
                return Ok(Accepted::Unix(stream, from));
            },
        }
    }
}

/// The file of a Unix socket.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Best effort: a stale socket is replaced by the next listener.
        let _ignored = fs::remove_file(&self.0);
    }
}

/// Listens at a path with mode 0600. Replaces a stale socket, but no other file.
fn listen_at(path: PathBuf) -> io::Result<(std::os::unix::net::UnixListener, SocketFile)> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return Err(io::Error::other("the path has no file name"));
    };
    check_replaceable(&path)?;
    let listener = socket::listen_in(dir, name).map_err(|error| error.source)?;
    Ok((listener, SocketFile(path)))
}

fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::other("the file exists and is not a socket"))
        }
        Ok(_) if BlockingStream::connect(path).is_ok() => Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_at_replaces_stale_socket_but_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("http.sock");
        let (listener, file) = listen_at(path.clone()).unwrap();

        let in_use = listen_at(path.clone()).map(|_| ()).unwrap_err();
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        let (_second, second_file) = listen_at(path.clone()).unwrap();
        drop((file, second_file));
        assert!(!path.exists(), "removed with its listener");
        fs::File::create(&path).unwrap();
        assert!(listen_at(path.clone()).is_err());
        assert!(path.exists());
    }
}
