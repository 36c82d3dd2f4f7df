//! Reads the screen or output of a pane, live or ended.

use std::path::PathBuf;
use std::time::Duration;

use host::file::FileError;
use host::log::LogReader;
use host::store::StoreError;
use model::PaneState;
use model::authority::{Access, Caller};
use protocol::frame::MAX_BODY;
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use protocol::pane_io::{LOG_PIECE, ReadView, Text};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::panes::replay::{self, Replayed};
use crate::panes::{Pane, log_dir};
use crate::registry::TargetError;
use crate::runtime::run_blocking;
use crate::wire::keeper;

any_of! {
    /// Why the output of a pane was not read.
    pub(crate) enum ReadError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        File(FileError),
    }
}

/// How long to wait for a keeper's screen before the log is replayed instead.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum size of an answer, which leaves room for the rest of its frame.
const MAX_ANSWER: usize = MAX_BODY - 4096;

/// Returns the screen, the last lines, or part of the log of a pane.
pub(crate) async fn read(
    services: &Services,
    caller: &Caller,
    target: &str,
    view: ReadView,
) -> Result<Text, ReadError> {
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Read, Some(row.session)).await?;
    let log = log_dir(&services.runtime.root.pane(row.session, row.id));
    let text = match view {
        ReadView::Screen => {
            let live = match services.panes.get(row.id) {
                Some(pane) => live_screen(&pane).await,
                None => None,
            };
            match live {
                Some(text) => text,
                None => replayed(log, |log| replay::screen(&log)).await?,
            }
        }
        ReadView::Lines(lines) => replayed(log, move |log| replay::lines(&log, lines)).await?,
        ReadView::Log { from } => run_blocking(move || piece(&log, from)).await?,
    };
    Ok(text)
}

/// Asks the keeper of a live pane for the screen. Returns `None` if it does not answer.
async fn live_screen(pane: &Pane) -> Option<Text> {
    let status = pane.status();
    let usable = status.keeper.is_some_and(|keeper| keeper.incompatible().is_none());
    if !usable
        || !matches!(status.state, PaneState::Running | PaneState::Frozen | PaneState::Stopping)
    {
        return None;
    }
    match keeper::ask(&pane.dir, &KeeperRequest::Screen, KEEPER_TIMEOUT).await {
        Ok(KeeperResponse::Screen(screen)) => Some(as_text(screen.text, screen.log_end)),
        Ok(_) | Err(_) => None,
    }
}

async fn replayed(
    log: PathBuf,
    replay: impl FnOnce(PathBuf) -> Result<Replayed, FileError> + Send + 'static,
) -> Result<Text, FileError> {
    let Replayed { text, log_end } = run_blocking(move || replay(log)).await?;
    Ok(as_text(text, log_end))
}

fn as_text(text: String, next: u64) -> Text {
    Text { text, bytes: None, from: 0, next, more: false }
}

/// Returns the longest part of the log, from `from` on, that fits into one answer.
fn piece(log: &std::path::Path, from: Option<u64>) -> Result<Text, FileError> {
    let reader = LogReader::open(log)?;
    let end = reader.end();
    let mut piece = reader.read(from.unwrap_or(0), LOG_PIECE)?;
    loop {
        let more = piece.from + (piece.bytes.len() as u64) < end;
        if more {
            let length = whole_characters(&piece.bytes);
            piece.bytes.truncate(length);
        }
        let text = text_of(piece.from, &piece.bytes, end);
        // Control characters and invalid UTF-8 are several times longer in JSON.
        let size = serde_json::to_string(&text).map_or(0, |json| json.len());
        if size <= MAX_ANSWER {
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

/// Returns the length without an incomplete UTF-8 character at the end.
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

    fn read_all(dir: &std::path::Path) -> Vec<u8> {
        let mut all = Vec::new();
        let mut from = None;
        loop {
            let text = piece(dir, from).unwrap();
            assert!(serde_json::to_string(&text).unwrap().len() <= MAX_ANSWER);
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
    fn log_pieces_fit_one_answer_and_add_up_to_the_log() {
        let logs = [
            "é".repeat(3 << 20).into_bytes(),
            vec![0x1b; 3 << 20],
            (0..=255).cycle().take(3 << 20).collect(),
            Vec::new(),
        ];
        for log in logs {
            let dir = tempfile::tempdir().unwrap();
            LogWriter::open(dir.path()).unwrap().append(&log);

            assert!(read_all(dir.path()) == log);
        }
    }
}
