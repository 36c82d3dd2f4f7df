//! The output log of a pane: raw bytes, addressed by an increasing offset.
//!
//! ```text
//! log/00000000000000000000.out      bytes 0 …
//! log/00000000000004194304.snap     escape sequences that rebuild the screen at this offset
//! log/00000000000004194304.out      bytes 4194304 …
//! log/sizes                         "offset columns rows", one line per resize
//! ```
//!
//! The keeper is the only writer; any process may read, also after the keeper has ended. The oldest
//! segments are removed when the log exceeds its limit. Every later segment starts with a snapshot,
//! so the rest can be replayed exactly. Bytes that could not be written (disk full) leave a gap
//! between two segments; offsets remain valid.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use model::Size;

use crate::file::{self, Durability, FileError, open_append};

/// Segment size after which a new one starts, at the next boundary between escape sequences.
const SEGMENT: u64 = 4 << 20;

/// Segment size after which a new one starts even within a sequence.
const SEGMENT_AT_MOST: u64 = 2 * SEGMENT;

/// Maximum size of the retained output.
pub const KEPT: u64 = 64 << 20;

/// The writing end of a log, owned by the keeper.
#[derive(Debug)]
pub struct LogWriter {
    dir: PathBuf,
    segments: Vec<Segment>,
    /// The last segment; `None` after a failed write.
    open: Option<File>,
    end: u64,
    problem: Option<String>,
}

/// One file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first byte.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
}

impl Segment {
    /// Returns the offset after the last byte.
    #[must_use]
    pub fn end(self) -> u64 {
        self.start + self.len
    }
}

impl LogWriter {
    /// Opens the log in `dir`, or creates it.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn open(dir: &Path) -> Result<Self, FileError> {
        file::make_dir(dir)?;
        let segments = segments(dir)?;
        let end = segments.last().map_or(0, |last| last.end());
        let mut log = Self { dir: dir.to_owned(), segments, open: None, end, problem: None };
        match log.segments.last() {
            Some(last) => log.open = Some(open_append(&log.path(last.start, "out"))?),
            None => log.begin_segment()?,
        }
        Ok(log)
    }

    /// Returns the number of bytes that the pane has written in total.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the offset of the oldest retained byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(self.end, |first| first.start)
    }

    /// Returns the reason for missing bytes, if any are missing.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Appends bytes. The offset advances even if they cannot be written: the gap is recorded and
    /// the pane continues.
    pub fn append(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.write_some(rest) {
                Ok(written) => {
                    self.end += written as u64;
                    if let Some(last) = self.segments.last_mut() {
                        last.len += written as u64;
                    }
                    rest = &rest[written..];
                }
                // Make room by removing the oldest output.
                Err(_) if self.remove_oldest() => {}
                Err(error) => {
                    self.problem =
                        Some(format!("output from offset {} on is missing: {error}", self.end));
                    self.open = None;
                    self.end += rest.len() as u64;
                    return;
                }
            }
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open.is_none() {
            self.begin_segment().map_err(|error| error.source)?;
        }
        let file = self.open.as_mut().expect("a segment was begun above");
        loop {
            match file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => return Ok(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns whether [`LogWriter::roll`] is due. `boundary`: the last byte ended a sequence.
    #[must_use]
    pub fn wants_roll(&self, boundary: bool) -> bool {
        let len = self.segments.last().map_or(0, |last| last.len);
        len >= SEGMENT_AT_MOST || (boundary && len >= SEGMENT)
    }

    /// Starts a new segment with a snapshot of the screen, and removes the oldest segments over the
    /// limit.
    ///
    /// If this fails, the next [`LogWriter::append`] tries again.
    pub fn roll(&mut self, snapshot: Option<&[u8]>) {
        self.open = None;
        if let Some(snapshot) = snapshot {
            self.snapshot(snapshot);
        }
        while self.end - self.start() > KEPT - SEGMENT && self.remove_oldest() {}
        if let Err(error) = self.begin_segment() {
            self.problem = Some(error.to_string());
        }
    }

    /// Writes a snapshot of the screen at the current offset.
    pub fn snapshot(&mut self, snapshot: &[u8]) {
        let path = self.path(self.end, "snap");
        // Without it, a replay starts at an earlier snapshot or at the oldest byte.
        if let Err(error) = file::write_atomic(&path, snapshot, Durability::ProcessCrash) {
            self.problem = Some(error.to_string());
        }
    }

    /// Records the screen size from the current offset on.
    pub fn note_size(&mut self, size: Size) {
        let line = format!("{} {} {}\n", self.end, size.cols(), size.rows());
        let noted = open_append(&self.dir.join("sizes")).and_then(|mut sizes| {
            sizes.write_all(line.as_bytes()).map_err(FileError::when("write", &self.dir))
        });
        if let Err(error) = noted {
            self.problem = Some(error.to_string());
        }
    }

    /// Reads up to `max` bytes at `from`; `None` if that offset is not retained.
    #[must_use]
    pub fn read(&self, from: u64, max: usize) -> Option<Vec<u8>> {
        let segment = self.segments.iter().rev().find(|s| s.start <= from)?;
        let piece = read_segment(&self.path(segment.start, "out"), *segment, from, max).ok()?;
        (!piece.is_empty()).then_some(piece)
    }

    fn begin_segment(&mut self) -> Result<(), FileError> {
        self.open = Some(open_append(&self.path(self.end, "out"))?);
        if self.segments.last().is_none_or(|last| last.start != self.end) {
            self.segments.push(Segment { start: self.end, len: 0 });
        }
        Ok(())
    }

    /// Removes the oldest segment, never the last one. Returns whether one was removed.
    fn remove_oldest(&mut self) -> bool {
        if self.segments.len() < 2 {
            return false;
        }
        let oldest = self.segments.remove(0);
        for kind in ["out", "snap"] {
            // The file may be missing.
            let _gone = fs::remove_file(self.path(oldest.start, kind));
        }
        true
    }

    fn path(&self, offset: u64, kind: &str) -> PathBuf {
        path(&self.dir, offset, kind)
    }
}

/// The reading end of a log.
#[derive(Debug)]
pub struct LogReader {
    dir: PathBuf,
    segments: Vec<Segment>,
    sizes: Vec<(u64, Size)>,
}

/// Bytes read from a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte: the requested one, or the next one that is retained.
    pub from: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl LogReader {
    /// Opens the log in `dir` as it is now.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn open(dir: &Path) -> Result<Self, FileError> {
        let sizes = fs::read_to_string(dir.join("sizes")).unwrap_or_default();
        let sizes = sizes.lines().filter_map(parse_size).collect();
        Ok(Self { dir: dir.to_owned(), segments: segments(dir)?, sizes })
    }

    /// Returns the offset of the oldest retained byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(0, |first| first.start)
    }

    /// Returns the offset after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.end())
    }

    /// Reads up to `max` bytes at `from`, or at the next offset that is retained.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn read(&self, from: u64, max: usize) -> Result<Piece, FileError> {
        let Some(segment) = self.segments.iter().find(|s| s.end() > from) else {
            return Ok(Piece { from: from.min(self.end()), bytes: Vec::new() });
        };
        let from = from.max(segment.start);
        let path = path(&self.dir, segment.start, "out");
        let bytes =
            read_segment(&path, *segment, from, max).map_err(FileError::when("read", &path))?;
        Ok(Piece { from, bytes })
    }

    /// Returns the offsets at which a replay can start, latest first, each with its snapshot. The
    /// last one is the oldest byte, with or without a snapshot.
    #[must_use]
    pub fn replay_points(&self) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut points: Vec<(u64, Option<Vec<u8>>)> = offsets(&self.dir, "snap")
            .into_iter()
            .rev()
            .filter_map(|at| Some((at, Some(fs::read(path(&self.dir, at, "snap")).ok()?))))
            .collect();
        if points.last().is_none_or(|(at, _)| *at > self.start()) {
            points.push((self.start(), None));
        }
        points
    }

    /// Returns the screen size at this offset.
    #[must_use]
    pub fn size_at(&self, offset: u64) -> Size {
        let known = self.sizes.iter().rev().find(|(from, _)| *from <= offset);
        known.or(self.sizes.first()).map_or(Size::DEFAULT, |(_, size)| *size)
    }

    /// Returns the changes of size after this offset, in order.
    pub fn sizes_after(&self, offset: u64) -> impl Iterator<Item = (u64, Size)> {
        self.sizes.iter().copied().filter(move |(at, _)| *at > offset)
    }
}

fn parse_size(line: &str) -> Option<(u64, Size)> {
    let mut fields = line.split(' ');
    let offset = fields.next()?.parse().ok()?;
    let size = Size::new(fields.next()?.parse().ok()?, fields.next()?.parse().ok()?).ok()?;
    Some((offset, size))
}

fn path(dir: &Path, offset: u64, kind: &str) -> PathBuf {
    dir.join(format!("{offset:020}.{kind}"))
}

/// Returns the offsets that have a file of this kind, sorted.
fn offsets(dir: &Path, kind: &str) -> Vec<u64> {
    let mut found: Vec<u64> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let (offset, ending) = name.to_str()?.split_once('.')?;
            (ending == kind && offset.len() == 20).then(|| offset.parse().ok())?
        })
        .collect();
    found.sort_unstable();
    found
}

fn segments(dir: &Path) -> Result<Vec<Segment>, FileError> {
    // Read first, so that an unreadable directory is an error and not an empty log.
    fs::read_dir(dir).map_err(FileError::when("read", dir))?;
    let found = offsets(dir, "out").into_iter().filter_map(|start| {
        // A segment may be removed meanwhile.
        let len = fs::metadata(path(dir, start, "out")).ok()?.len();
        Some(Segment { start, len })
    });
    Ok(found.collect())
}

fn read_segment(path: &Path, segment: Segment, from: u64, max: usize) -> io::Result<Vec<u8>> {
    let left = segment.end().saturating_sub(from);
    let length = usize::try_from(left).unwrap_or(max).min(max);
    let mut bytes = vec![0; length];
    let mut filled = 0;
    let file = File::open(path)?;
    while filled < length {
        match file.read_at(&mut bytes[filled..], from - segment.start + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(dir: &Path) -> Vec<u8> {
        let reader = LogReader::open(dir).unwrap();
        let mut bytes = Vec::new();
        let mut at = reader.start();
        while at < reader.end() {
            let piece = reader.read(at, 100_000).unwrap();
            at = piece.from + piece.bytes.len() as u64;
            bytes.extend(piece.bytes);
        }
        bytes
    }

    #[test]
    fn log_is_read_across_segments_and_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let piece: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let mut log = LogWriter::open(dir.path()).unwrap();

        for _ in 0..5 {
            log.append(&piece);
            if log.wants_roll(true) {
                log.roll(Some(b"snapshot"));
            }
        }
        drop(log);
        let mut log = LogWriter::open(dir.path()).unwrap();
        log.append(b"the end");

        assert_eq!(log.end(), (5 << 20) + 7);
        assert!(whole(dir.path()) == [piece.repeat(5), b"the end".to_vec()].concat());
        assert_eq!(log.read(log.end() - 3, 10).unwrap(), b"end");
        assert_eq!(log.read(log.end(), 10), None);
        let reader = LogReader::open(dir.path()).unwrap();
        let points = reader.replay_points();
        assert_eq!(points, [(4 << 20, Some(b"snapshot".to_vec())), (0, None)]);
    }

    #[test]
    fn log_over_limit_drops_oldest_bytes_and_keeps_offsets() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path()).unwrap();

        for _ in 0..100 {
            log.append(&[b'x'; 1 << 20]);
            if log.wants_roll(true) {
                log.roll(Some(b"s"));
            }
        }

        assert_eq!(log.end(), 100 << 20);
        assert!(log.end() - log.start() <= KEPT);
        assert!(log.end() - log.start() >= KEPT - 2 * SEGMENT);
        assert_eq!(log.read(0, 10), None);
        let reader = LogReader::open(dir.path()).unwrap();
        assert_eq!(reader.start(), log.start());
        assert_eq!(reader.read(0, 10).unwrap().from, log.start());
        assert_eq!(reader.replay_points().last().unwrap().0, log.start());
    }

    #[test]
    fn size_at_returns_size_recorded_for_offset() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path()).unwrap();
        let (small, large) = (Size::new(80, 24).unwrap(), Size::new(200, 50).unwrap());

        log.note_size(small);
        log.append(b"0123456789");
        log.note_size(large);

        let reader = LogReader::open(dir.path()).unwrap();
        assert_eq!(reader.size_at(9), small);
        assert_eq!(reader.size_at(10), large);
        assert_eq!(reader.sizes_after(0).collect::<Vec<_>>(), [(10, large)]);
    }
}
