//! Writers that run while a pane is removed, and record each write that has completed.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use testkit::hooks::Hooks;
use testkit::soak::Dice;

/// Points of a removal at which a writer starts.
const STARTS: [&str; 8] = [
    "",
    "close.stopped",
    "close.checked",
    "removal.aside",
    "purge.stopped",
    "purge.examined",
    "retire.isolation_dirs",
    "purge.retired",
];

/// How a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// One file.
    One,
    /// New files until the directory is gone.
    Many,
    /// New files in directories that it creates again.
    Recreating,
    /// One file that it holds open.
    Descriptor,
}

/// The plan of a writer.
#[derive(Clone, Debug)]
pub(crate) struct WriterPlan {
    start: &'static str,
    manner: Manner,
    dir: PathBuf,
    stem: String,
}

/// A file whose content was written completely.
pub(crate) struct Written {
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
}

/// A running writer.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Written>>,
}

impl WriterPlan {
    /// Returns a random plan. Files are written to one of `dirs`, those held open to `private`.
    pub(crate) fn random(
        dice: &mut Dice,
        dirs: &[PathBuf],
        private: &Path,
        stem: String,
        may_recreate: bool,
    ) -> Self {
        let start = STARTS[pick(dice, STARTS.len())];
        let manners = [Manner::One, Manner::Many, Manner::Descriptor, Manner::Recreating];
        let manner = manners[pick(dice, if may_recreate { 4 } else { 3 })];
        let dir = dirs[pick(dice, dirs.len())].clone();
        let dir = if manner == Manner::Descriptor { private.to_owned() } else { dir };
        Self { start, manner, dir, stem }
    }

    pub(crate) fn start(self, hooks: &Hooks) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let (hooks, stopping) = (hooks.clone(), Arc::clone(&stop));
        let before = hooks.reached(self.start);
        let file = (self.manner == Manner::Descriptor).then(|| {
            fs::create_dir_all(&self.dir).unwrap();
            File::create(self.dir.join(&self.stem)).unwrap()
        });
        let thread = thread::spawn(move || {
            while !self.start.is_empty() && hooks.reached(self.start) == before {
                if stopping.load(Ordering::Relaxed) {
                    return Vec::new();
                }
                thread::yield_now();
            }
            match file {
                Some(file) => self.append(file, &stopping),
                None => self.write(&stopping),
            }
        });
        Writer { stop, thread }
    }

    fn append(&self, mut file: File, stop: &AtomicBool) -> Vec<Written> {
        let mut content = Vec::new();
        for number in 0..200 {
            let line = format!("{}-{number}\n", self.stem);
            file.write_all(line.as_bytes()).unwrap();
            content.extend_from_slice(line.as_bytes());
            if stop.load(Ordering::Relaxed) {
                break;
            }
            thread::yield_now();
        }
        // The descriptor is held until the operation has ended.
        while !stop.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        vec![Written { path: self.dir.join(&self.stem), content }]
    }

    fn write(&self, stop: &AtomicBool) -> Vec<Written> {
        let mut written = Vec::new();
        let count = if self.manner == Manner::One { 1 } else { 200 };
        for number in 0..count {
            let name = format!("{}-{number}", self.stem);
            if self.manner == Manner::Recreating {
                let _gone_again = fs::create_dir_all(&self.dir);
            }
            let path = self.dir.join(&name);
            let is_written = fs::write(&path, &name).is_ok();
            if is_written {
                written.push(Written { path, content: name.into_bytes() });
            }
            if stop.load(Ordering::Relaxed) || !is_written && self.manner != Manner::Recreating {
                break;
            }
            thread::yield_now();
        }
        written
    }
}

impl Writer {
    /// Ends the writer, and returns what it has written.
    pub(crate) fn end(self) -> Vec<Written> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Returns a random index below `count`.
pub(crate) fn pick(dice: &mut Dice, count: usize) -> usize {
    usize::try_from(dice.roll(count as u64)).unwrap()
}
