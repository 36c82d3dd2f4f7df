//! Looking at what a pane shows and wrote, alive or not.

use std::path::PathBuf;
use std::time::Duration;

use host::file::FileError;
use host::log::LogReader;
use model::PaneState;
use protocol::control::Response;
use protocol::frame::MAX_BODY;
use protocol::look::{LOG_PIECE, Text, View};
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use protocol::{ErrorBody, ErrorCode};

use super::Failure;
use crate::keeper;
use crate::pane::{Pane, log_dir};
use crate::replay::{self, Replayed};
use crate::supervisor::{Supervisor, run_blocking};

/// How long a keeper may take to say what its screen shows, before the log is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest answer, with room for the frame around it.
const ANSWER_MAX: usize = MAX_BODY - 4096;

impl Supervisor {
    pub(super) async fn read(&self, target: &str, view: View) -> Result<Response, Failure> {
        let row = self.rows().await?.find_pane(target)?;
        let log = log_dir(&self.root.pane(row.session, row.id));
        let text = match view {
            View::Screen => {
                let shown = match self.pane(row.id) {
                    Some(pane) => shown_now(&pane).await,
                    None => None,
                };
                match shown {
                    Some(text) => text,
                    None => replayed(log, |log| replay::screen(&log)).await?,
                }
            }
            View::Lines(lines) => replayed(log, move |log| replay::lines(&log, lines)).await?,
            View::Log { from } => run_blocking(move || piece(&log, from)).await.map_err(unread)?,
        };
        Ok(Response::Text(text))
    }
}

/// What the keeper of a live pane says that it shows; none if it does not say.
async fn shown_now(pane: &Pane) -> Option<Text> {
    let sight = pane.look();
    let usable = sight.keeper.is_some_and(|keeper| keeper.incompatible().is_none());
    if !usable
        || !matches!(sight.state, PaneState::Running | PaneState::Frozen | PaneState::Stopping)
    {
        return None;
    }
    match keeper::ask(&pane.dir, &KeeperRequest::Screen, PATIENCE).await {
        Ok(KeeperResponse::Screen(screen)) => Some(as_text(screen.text, screen.log_end)),
        Ok(_) | Err(_) => None,
    }
}

async fn replayed(
    log: PathBuf,
    replay: impl FnOnce(PathBuf) -> Result<Replayed, FileError> + Send + 'static,
) -> Result<Text, ErrorBody> {
    let Replayed { text, log_end } = run_blocking(move || replay(log)).await.map_err(unread)?;
    Ok(as_text(text, log_end))
}

fn as_text(text: String, next: u64) -> Text {
    Text { text, bytes: None, from: 0, next, more: false }
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function of `map_err`")]
fn unread(error: FileError) -> ErrorBody {
    ErrorBody::new(ErrorCode::Failed, error.to_string())
}

/// A piece of the log that fits into one answer.
fn piece(log: &std::path::Path, from: Option<u64>) -> Result<Text, FileError> {
    let reader = LogReader::open(log)?;
    let end = reader.end();
    let mut piece = reader.read(from.unwrap_or(0), LOG_PIECE)?;
    loop {
        let more = piece.from + (piece.bytes.len() as u64) < end;
        if more {
            let whole = whole_characters(&piece.bytes);
            piece.bytes.truncate(whole);
        }
        let text = text_of(piece.from, &piece.bytes, end);
        // Control characters and bytes that are no text take several times their length.
        let long = serde_json::to_string(&text).map_or(0, |json| json.len());
        if long <= ANSWER_MAX {
            return Ok(text);
        }
        let half = piece.bytes.len() / 2;
        piece.bytes.truncate(half);
    }
}

fn text_of(from: u64, bytes: &[u8], end: u64) -> Text {
    let next = from + bytes.len() as u64;
    let (text, bytes) = match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(bytes.to_vec())),
    };
    Text { text, bytes, from, next, more: next < end }
}

/// How many bytes there are without a character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use host::log::LogWriter;

    use super::*;

    fn whole(dir: &std::path::Path) -> Vec<u8> {
        let mut all = Vec::new();
        let mut from = None;
        loop {
            let text = piece(dir, from).unwrap();
            assert!(serde_json::to_string(&text).unwrap().len() <= ANSWER_MAX);
            assert_eq!(text.from, all.len() as u64);
            all.extend(text.bytes.unwrap_or_else(|| text.text.into_bytes()));
            assert_eq!(text.next, all.len() as u64);
            if !text.more {
                return all;
            }
            from = Some(text.next);
        }
    }

    #[test]
    fn a_log_comes_in_pieces_that_fit_and_add_up() {
        let logs = [
            "é".repeat(3 << 20).into_bytes(),
            vec![0x1b; 3 << 20],
            (0..=255).cycle().take(3 << 20).collect(),
            Vec::new(),
        ];
        for log in logs {
            let dir = tempfile::tempdir().unwrap();
            LogWriter::open(dir.path()).unwrap().append(&log);

            assert!(whole(dir.path()) == log);
        }
    }
}
