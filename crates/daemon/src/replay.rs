//! What a pane showed, from its log. The only file that knows the emulator.

use std::path::Path;

use host::file::FileError;
use host::log::LogReader;
use model::Size;
use regex::Regex;
use terminal::Terminal;

/// How much of the log is read at once.
const PIECE: usize = 1 << 20;

/// The most lines that are looked at: more would cost an emulator hundreds of megabytes.
pub(crate) const LINES_MAX: usize = 20_000;

/// How much output is taken in between two looks for a text.
const STEP: usize = 4 << 10;

/// How many lines that scrolled away a [`Lookout`] keeps: more than one step can bring.
const LOOKOUT_HISTORY: usize = 5000;

/// Text of a pane, and the offset in its log that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) text: String,
    pub(crate) log_end: u64,
}

/// The last screen in the log in `dir`. Blocks.
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

/// Escape sequences that rebuild the last screen in the log in `dir`, the offset that they stand for
/// and the size of that screen. Blocks.
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

/// The last lines of screen and history in the log in `dir`. Blocks.
///
/// The newest point at which a replay can begin is tried first. If there are not enough lines after
/// it, an earlier one is, each time twice as far back: the whole log is replayed twice at most.
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

/// The last lines that are not blank.
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
            let most = usize::try_from(until - at).unwrap_or(PIECE).min(PIECE);
            let piece = reader.read(at, most)?;
            if piece.bytes.is_empty() {
                break;
            }
            at = piece.from + piece.bytes.len() as u64;
            terminal.feed(&piece.bytes);
        }
        if let Some((_, size)) = change {
            terminal.resize(size);
        }
    }
    Ok(terminal)
}

/// Looks out for a text in what a pane shows, line by line.
pub(crate) struct Lookout {
    terminal: Terminal,
    pattern: Regex,
}

impl Lookout {
    pub(crate) fn new(size: Size, pattern: Regex) -> Self {
        Self { terminal: Terminal::new(size, LOOKOUT_HISTORY), pattern }
    }

    /// Forgets everything and begins with this screen; the line that matches, if one does.
    pub(crate) fn begin(&mut self, snapshot: &[u8]) -> Option<String> {
        self.terminal = Terminal::new(self.terminal.size(), LOOKOUT_HISTORY);
        self.terminal.feed(snapshot);
        self.look(0)
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.terminal.resize(size);
    }

    /// Takes output in; the first line that matches, on the screen or scrolled away meanwhile.
    pub(crate) fn feed(&mut self, output: &[u8]) -> Option<String> {
        output.chunks(STEP).find_map(|step| {
            let before = self.terminal.history_len();
            self.terminal.feed(step);
            let after = self.terminal.history_len();
            let scrolled = if after < LOOKOUT_HISTORY {
                after.saturating_sub(before)
            } else {
                // A full history does not grow: as many lines as the step can have brought.
                self.most_lines(step)
            };
            self.look(scrolled)
        })
    }

    /// No step of output brings more lines than this.
    fn most_lines(&self, step: &[u8]) -> usize {
        let size = self.terminal.size();
        let feeds = step.iter().filter(|byte| matches!(byte, b'\n' | 0x0b | 0x0c)).count();
        let wraps = step.len() / usize::from(size.cols()) + 1;
        // A sequence may scroll a whole screen.
        let sequences = step.iter().filter(|byte| **byte == 0x1b).count();
        (feeds + wraps + sequences * usize::from(size.rows())).min(LOOKOUT_HISTORY)
    }

    fn look(&mut self, scrolled: usize) -> Option<String> {
        let rows = usize::from(self.terminal.size().rows());
        first_match(&self.terminal.text(rows + scrolled), &self.pattern)
    }
}

/// The first line that matches.
pub(crate) fn first_match(text: &str, pattern: &Regex) -> Option<String> {
    text.lines().find(|line| pattern.is_match(line)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use host::log::LogWriter;

    use super::*;

    /// A log of numbered lines with a point for replay after every `every` lines.
    fn numbered(dir: &Path, count: usize, every: usize) {
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
    fn the_last_lines_are_found_however_far_back_they_begin() {
        let dir = tempfile::tempdir().unwrap();
        numbered(dir.path(), 500, 20);

        for wanted in [1, 5, 30, 200, 500] {
            let replayed = lines(dir.path(), wanted).unwrap();
            assert_eq!(replayed.text, last(500, wanted), "{wanted} lines");
        }
        assert_eq!(lines(dir.path(), 10_000).unwrap().text, last(500, 500));
    }

    #[test]
    fn the_last_screen_is_what_the_log_ends_with() {
        let dir = tempfile::tempdir().unwrap();
        numbered(dir.path(), 100, 30);

        let replayed = screen(dir.path()).unwrap();

        assert_eq!(replayed.text.trim_end(), last(100, 9));
        assert_eq!(replayed.log_end, LogReader::open(dir.path()).unwrap().end());
    }

    #[test]
    fn a_line_that_flies_by_is_seen() {
        let size = Size::new(40, 10).unwrap();
        let mut flood = String::new();
        for n in 0..20_000 {
            write!(flood, "line {n}\r\n").unwrap();
        }
        for wanted in [3, 7000, 14_321, 19_999] {
            let pattern = Regex::new(&format!("^line {wanted}$")).unwrap();
            let mut lookout = Lookout::new(size, pattern);

            assert_eq!(lookout.begin(b"hello"), None);
            assert_eq!(lookout.feed(flood.as_bytes()), Some(format!("line {wanted}")));
        }
    }
}
