//! The output log of a pane: raw bytes, addressed by an offset that only grows.
//!
//! ```text
//! log/00000000000000000000.out      bytes 0 …
//! log/00000000000004194304.snap     escape sequences that rebuild the screen at this offset
//! log/00000000000004194304.out      bytes 4194304 …
//! log/sizes                         "offset columns rows", one line per change of size
//! ```
//!
//! The keeper is the only writer. Everybody may read, while it writes and after it is gone. Old
//! segments are removed when the log grows over its limit; since every later segment begins with a
//! snapshot, what is left can always be replayed exactly. Bytes that could not be written, because
//! the disk was full, leave a hole between two segments: offsets stay true.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use model::Size;

use crate::file::{self, FileError, Survive, open_append};

/// When a new segment is begun, at the next boundary between sequences.
const SEGMENT: u64 = 4 << 20;

/// When a new segment is begun even in the middle of a sequence.
const SEGMENT_AT_MOST: u64 = 2 * SEGMENT;

/// How much of a pane's output is kept.
pub const KEPT: u64 = 64 << 20;

/// The end of the log, held by the keeper.
#[derive(Debug)]
pub struct LogWriter {
    dir: PathBuf,
    segments: Vec<Segment>,
    /// The last segment, unless writing it failed.
    open: Option<File>,
    end: u64,
    problem: Option<String>,
}

/// One file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The offset of its first byte.
    pub start: u64,
    /// How many bytes it has.
    pub len: u64,
}

impl Segment {
    /// The offset after its last byte.
    #[must_use]
    pub fn end(self) -> u64 {
        self.start + self.len
    }
}

impl LogWriter {
    /// Goes on with the log in `dir`, or begins it.
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

    /// How many bytes the pane has written in its life.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The oldest byte that is kept.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(self.end, |first| first.start)
    }

    /// Why bytes are missing, if some are.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Appends bytes. They count even if they cannot be written: the hole is noted, the pane goes
    /// on.
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
                // Our own oldest output is what we can do without first.
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

    /// Whether it is time for [`LogWriter::roll`]. `boundary`: the last byte ended a sequence.
    #[must_use]
    pub fn wants_roll(&self, boundary: bool) -> bool {
        let len = self.segments.last().map_or(0, |last| last.len);
        len >= SEGMENT_AT_MOST || (boundary && len >= SEGMENT)
    }

    /// Begins a new segment, on top of a snapshot of the screen at this offset, and removes the
    /// oldest ones over the limit.
    ///
    /// A segment that cannot be begun is tried again by the next [`LogWriter::append`].
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

    /// Notes what the screen is at this offset.
    pub fn snapshot(&mut self, snapshot: &[u8]) {
        let path = self.path(self.end, "snap");
        // Without it, replay begins at an earlier one or with what the bytes themselves say.
        if let Err(error) = file::write_atomic(&path, snapshot, Survive::Kill) {
            self.problem = Some(error.to_string());
        }
    }

    /// Notes the size of the screen from this offset on.
    pub fn note_size(&mut self, size: Size) {
        let line = format!("{} {} {}\n", self.end, size.cols(), size.rows());
        let noted = open_append(&self.dir.join("sizes")).and_then(|mut sizes| {
            sizes.write_all(line.as_bytes()).map_err(FileError::when("write", &self.dir))
        });
        if let Err(error) = noted {
            self.problem = Some(error.to_string());
        }
    }

    /// Reads up to `max` bytes from `from` on; none if that offset is not kept.
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

    /// Removes the oldest segment, never the last one. Whether there was one to remove.
    fn remove_oldest(&mut self) -> bool {
        if self.segments.len() < 2 {
            return false;
        }
        let oldest = self.segments.remove(0);
        for kind in ["out", "snap"] {
            // What is not there any more does not have to be removed.
            let _gone = fs::remove_file(self.path(oldest.start, kind));
        }
        true
    }

    fn path(&self, offset: u64, kind: &str) -> PathBuf {
        path(&self.dir, offset, kind)
    }
}

/// A log, as somebody else than its keeper sees it.
#[derive(Debug)]
pub struct LogReader {
    dir: PathBuf,
    segments: Vec<Segment>,
    sizes: Vec<(u64, Size)>,
}

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The offset of its first byte: the one asked for, or the next one that is kept.
    pub from: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl LogReader {
    /// The log in `dir` as it is now.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn open(dir: &Path) -> Result<Self, FileError> {
        let sizes = fs::read_to_string(dir.join("sizes")).unwrap_or_default();
        let sizes = sizes.lines().filter_map(parse_size).collect();
        Ok(Self { dir: dir.to_owned(), segments: segments(dir)?, sizes })
    }

    /// The oldest byte that is kept.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(0, |first| first.start)
    }

    /// The offset after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.end())
    }

    /// Up to `max` bytes from `from` on, or from the next offset that is kept.
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

    /// The offsets at which a replay can begin, latest first, each with the snapshot to begin
    /// with. The last one is the oldest byte, with or without a snapshot.
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

    /// The size of the screen at this offset.
    #[must_use]
    pub fn size_at(&self, offset: u64) -> Size {
        let known = self.sizes.iter().rev().find(|(from, _)| *from <= offset);
        known.or(self.sizes.first()).map_or(Size::DEFAULT, |(_, size)| *size)
    }

    /// The changes of size after this offset, in order.
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

/// The offsets for which there is a file of this kind, in order.
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
    // Asked first, so that a directory that cannot be read is an error and not an empty log.
    fs::read_dir(dir).map_err(FileError::when("read", dir))?;
    let found = offsets(dir, "out").into_iter().filter_map(|start| {
        // A segment may be removed between the two looks.
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
    fn what_was_written_is_read_across_segments_and_after_a_restart() {
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
    fn an_old_log_loses_its_oldest_bytes_and_keeps_its_offsets() {
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
    fn a_screen_is_replayed_with_the_size_it_had() {
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
