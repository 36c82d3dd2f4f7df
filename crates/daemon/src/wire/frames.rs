//! Frames over an asynchronous socket.

use std::io;

use protocol::{Decoder, Frame, FrameError};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

/// The size of the read buffer, in bytes.
const READ_SIZE: usize = 32 << 10;

/// The number of bytes that a client may send while its request is being processed. More stays in
/// the socket buffer.
const MAX_PIPELINED: usize = 1 << 20;

/// Why the next frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Invalid(#[from] FrameError),
}

/// A socket that carries frames. An idle connection holds no read buffer.
#[derive(Debug)]
pub(crate) struct Frames {
    stream: UnixStream,
    decoder: Decoder,
}

impl Frames {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, decoder: Decoder::default() }
    }

    /// Returns the next frame, or `None` at the end of the stream. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, FrameReadError> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(Some(frame));
            }
            if self.read_some().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits until the peer closes the connection. Bytes that arrive meanwhile are kept for
    /// [`Frames::next`].
    pub(crate) async fn closed(&mut self) {
        let mut pipelined = 0;
        while pipelined < MAX_PIPELINED {
            match self.read_some().await {
                Ok(0) | Err(_) => return,
                Ok(read) => pipelined += read,
            }
        }
        std::future::pending::<()>().await;
    }

    pub(crate) async fn write(&mut self, frame: &Frame) -> io::Result<()> {
        self.stream.write_all(&frame.encode()).await
    }

    async fn read_some(&mut self) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            match self.try_read() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Reads into a buffer on the stack, so that no buffer lives across an `.await`.
    fn try_read(&mut self) -> io::Result<usize> {
        let mut buffer = [0; READ_SIZE];
        let read = self.stream.try_read(&mut buffer)?;
        self.decoder.push(&buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Kind;

    use super::*;

    #[tokio::test]
    async fn frame_received_while_waiting_for_close_is_kept() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Frames::new(ours), Frames::new(theirs));
        let sent = Frame::new(Kind::Request, vec![b'x'; 100_000]);

        let (written, ()) = tokio::join!(
            async {
                let written = theirs.write(&sent).await;
                drop(theirs);
                written
            },
            ours.closed()
        );

        written.unwrap();
        assert_eq!(ours.next().await.unwrap(), Some(sent));
        assert_eq!(ours.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn invalid_frame_is_reported_as_such() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = Frames::new(ours);

        theirs.write_all(&[0xff; 64]).await.unwrap();

        assert!(matches!(ours.next().await, Err(FrameReadError::Invalid(_))));
    }
}
