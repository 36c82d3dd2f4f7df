//! The screen and history of a pane, replayed from its log. Only this file uses the emulator.

use std::path::Path;

use host::file::FileError;
use host::log::LogReader;
use model::Size;
use regex::Regex;
use terminal::Terminal;

/// Size of the chunks in which the log is read.
const READ_CHUNK: usize = 1 << 20;

/// Maximum number of lines that are replayed. More would need hundreds of megabytes.
pub(crate) const LINES_MAX: usize = 20_000;

/// Bytes of output between two searches for the pattern.
const MATCH_CHUNK: usize = 4 << 10;

/// History lines that an [`OutputMatcher`] keeps: more than one chunk can add.
const MATCHER_HISTORY: usize = 5000;

/// Text of a pane, as of an offset in its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) text: String,
    pub(crate) log_end: u64,
}

/// Returns the last screen of the log in `dir`. Blocks.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn screen(dir: &Path) -> Result<Replayed, FileError> {
    let reader = LogReader::open(dir)?;
    let points = reader.replay_points();
    let text = match points.first() {
        Some(newest) => replay(&reader, newest, 0)?.screen_text(),
        None => String::new(),
    };
    Ok(Replayed { text, log_end: reader.end() })
}

/// Returns escape sequences that rebuild the last screen of the log in `dir`, the offset of that
/// screen and its size. Blocks.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn snapshot(dir: &Path) -> Result<(Vec<u8>, u64, Size), FileError> {
    let reader = LogReader::open(dir)?;
    let points = reader.replay_points();
    let Some(newest) = points.first() else {
        return Ok((Vec::new(), reader.end(), reader.size_at(reader.end())));
    };
    let mut terminal = replay(&reader, newest, 0)?;
    Ok((terminal.snapshot(), reader.end(), terminal.size()))
}

/// Returns the last lines of screen and history of the log in `dir`. Blocks.
///
/// Replay starts at the newest replay point. If that yields too few lines, it starts again at an
/// earlier point, each time twice as far back, so at most twice the length of the log is replayed.
///
/// # Errors
///
/// [`FileError`].
pub(crate) fn lines(dir: &Path, lines: usize) -> Result<Replayed, FileError> {
    let lines = lines.min(LINES_MAX);
    let reader = LogReader::open(dir)?;
    let points = reader.replay_points();
    let mut at = 0;
    while let Some(point) = points.get(at) {
        let mut terminal = replay(&reader, point, lines)?;
        let text = last_lines(&mut terminal, lines);
        if text.lines().count() >= lines || at + 1 == points.len() {
            return Ok(Replayed { text, log_end: reader.end() });
        }
        at = (2 * at + 1).min(points.len() - 1);
    }
    Ok(Replayed { text: String::new(), log_end: reader.end() })
}

/// Returns the last lines of screen and history.
fn last_lines(terminal: &mut Terminal, lines: usize) -> String {
    let all = terminal.text(lines + usize::from(terminal.size().rows()));
    let all: Vec<&str> = all.lines().collect();
    let skipped = all.len().saturating_sub(lines);
    all[skipped..].join("\n")
}

fn replay(
    reader: &LogReader,
    (from, snapshot): &(u64, Option<Vec<u8>>),
    history: usize,
) -> Result<Terminal, FileError> {
    let mut terminal = Terminal::new(reader.size_at(*from), history);
    if let Some(snapshot) = snapshot {
        terminal.feed(snapshot);
    }
    let mut at = *from;
    let sizes = reader.sizes_after(*from).map(Some).chain([None]);
    for change in sizes {
        let until = change.map_or(reader.end(), |(offset, _)| offset);
        while at < until {
            let most = usize::try_from(until - at).unwrap_or(READ_CHUNK).min(READ_CHUNK);
            let chunk = reader.read(at, most)?;
            if chunk.bytes.is_empty() {
                break;
            }
            at = chunk.from + chunk.bytes.len() as u64;
            terminal.feed(&chunk.bytes);
        }
        if let Some((_, size)) = change {
            terminal.resize(size);
        }
    }
    Ok(terminal)
}

/// Searches the output of a pane for a pattern, line by line.
pub(crate) struct OutputMatcher {
    terminal: Terminal,
    pattern: Regex,
}

impl OutputMatcher {
    pub(crate) fn new(size: Size, pattern: Regex) -> Self {
        Self { terminal: Terminal::new(size, MATCHER_HISTORY), pattern }
    }

    /// Starts over with this screen. Returns the first matching line.
    pub(crate) fn reset(&mut self, snapshot: &[u8]) -> Option<String> {
        self.terminal = Terminal::new(self.terminal.size(), MATCHER_HISTORY);
        self.terminal.feed(snapshot);
        self.search(0)
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.terminal.resize(size);
    }

    /// Processes output. Returns the first matching line, even if it has scrolled off the screen.
    pub(crate) fn feed(&mut self, output: &[u8]) -> Option<String> {
        output.chunks(MATCH_CHUNK).find_map(|chunk| {
            let before = self.terminal.history_len();
            self.terminal.feed(chunk);
            let after = self.terminal.history_len();
            let scrolled = if after < MATCHER_HISTORY {
                after.saturating_sub(before)
            } else {
                // A full history does not grow, so assume as many lines as possible.
                self.max_lines(chunk)
            };
            self.search(scrolled)
        })
    }

    /// Returns an upper bound for the number of lines that a chunk can add.
    fn max_lines(&self, chunk: &[u8]) -> usize {
        let size = self.terminal.size();
        let feeds = chunk.iter().filter(|byte| matches!(byte, b'\n' | 0x0b | 0x0c)).count();
        let wraps = chunk.len() / usize::from(size.cols()) + 1;
        // An escape sequence can scroll a whole screen.
        let sequences = chunk.iter().filter(|byte| **byte == 0x1b).count();
        (feeds + wraps + sequences * usize::from(size.rows())).min(MATCHER_HISTORY)
    }

    fn search(&mut self, scrolled: usize) -> Option<String> {
        let rows = usize::from(self.terminal.size().rows());
        first_match(&self.terminal.text(rows + scrolled), &self.pattern)
    }
}

/// Returns the first matching line.
pub(crate) fn first_match(text: &str, pattern: &Regex) -> Option<String> {
    text.lines().find(|line| pattern.is_match(line)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use host::log::LogWriter;

    use super::*;

    /// Writes a log of numbered lines with a replay point after every `every` lines.
    fn write_numbered(dir: &Path, count: usize, every: usize) {
        let size = Size::new(40, 10).unwrap();
        let mut log = LogWriter::open(dir).unwrap();
        let mut terminal = Terminal::new(size, 0);
        log.note_size(size);
        for n in 1..=count {
            let line = format!("line {n}\r\n");
            log.append(line.as_bytes());
            terminal.feed(line.as_bytes());
            if n % every == 0 {
                log.roll(Some(&terminal.snapshot()));
            }
        }
    }

    fn last(count: usize, lines: usize) -> String {
        let lines: Vec<String> = (count - lines + 1..=count).map(|n| format!("line {n}")).collect();
        lines.join("\n")
    }

    #[test]
    fn lines_are_collected_across_replay_points() {
        let dir = tempfile::tempdir().unwrap();
        write_numbered(dir.path(), 500, 20);

        for wanted in [1, 5, 30, 200, 500] {
            let replayed = lines(dir.path(), wanted).unwrap();
            assert_eq!(replayed.text, last(500, wanted), "{wanted} lines");
        }
        assert_eq!(lines(dir.path(), 10_000).unwrap().text, last(500, 500));
    }

    #[test]
    fn screen_shows_end_of_log() {
        let dir = tempfile::tempdir().unwrap();
        write_numbered(dir.path(), 100, 30);

        let replayed = screen(dir.path()).unwrap();

        assert_eq!(replayed.text.trim_end(), last(100, 9));
        assert_eq!(replayed.log_end, LogReader::open(dir.path()).unwrap().end());
    }

    #[test]
    fn matcher_finds_lines_that_scrolled_off_within_one_feed() {
        let size = Size::new(40, 10).unwrap();
        let mut flood = String::new();
        for n in 0..20_000 {
            write!(flood, "line {n}\r\n").unwrap();
        }
        for wanted in [3, 7000, 14_321, 19_999] {
            let pattern = Regex::new(&format!("^line {wanted}$")).unwrap();
            let mut matcher = OutputMatcher::new(size, pattern);

            assert_eq!(matcher.reset(b"hello"), None);
            assert_eq!(matcher.feed(flood.as_bytes()), Some(format!("line {wanted}")));
        }
    }
}
