//! Frames over an asynchronous socket.

use std::io;

use protocol::{Decoder, Frame, FrameError};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

/// What one read takes at most.
const PIECE: usize = 32 << 10;

/// How much a client may send ahead while its question is being answered.
const AHEAD: usize = 1 << 20;

/// Why there is no next frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoFrame {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Garbage(#[from] FrameError),
}

/// A socket on which frames come and go. It has no buffer while nothing comes.
#[derive(Debug)]
pub(crate) struct Frames {
    stream: UnixStream,
    decoder: Decoder,
}

impl Frames {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, decoder: Decoder::default() }
    }

    /// The next frame; none at the end of the stream. Nothing is lost if it is not waited for.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, NoFrame> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(Some(frame));
            }
            if self.read_some().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits until the other end is gone; keeps what it still says.
    pub(crate) async fn gone(&mut self) {
        let mut ahead = 0;
        while ahead < AHEAD {
            match self.read_some().await {
                Ok(0) | Err(_) => return,
                Ok(read) => ahead += read,
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

    fn try_read(&mut self) -> io::Result<usize> {
        let mut piece = [0; PIECE];
        let read = self.stream.try_read(&mut piece)?;
        self.decoder.push(&piece[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Kind;

    use super::*;

    #[tokio::test]
    async fn what_comes_while_the_other_end_is_watched_is_not_lost() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Frames::new(ours), Frames::new(theirs));
        let sent = Frame::new(Kind::Request, vec![b'x'; 100_000]);

        let (written, ()) = tokio::join!(
            async {
                let written = theirs.write(&sent).await;
                drop(theirs);
                written
            },
            ours.gone()
        );

        written.unwrap();
        assert_eq!(ours.next().await.unwrap(), Some(sent));
        assert_eq!(ours.next().await.unwrap(), None);
    }
}
