//! Command lines of the programs inside panes, and communication with them.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use testkit::wait::try_wait_for;

/// Timeout of every step.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns a text that occurs in no payload and was not used before.
pub(crate) fn fresh_marker(what: &str) -> String {
    format!("<<{what}-{}>>", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the command that runs this program inside a pane with `words`.
pub(crate) fn in_pane(words: &[&str]) -> Result<Vec<String>> {
    let me = std::env::current_exe().context("cannot find the bench itself")?;
    let me = me.to_str().context("the bench is in a directory without a plain name")?;
    Ok([me, "in-pane"].iter().chain(words).map(|&word| word.to_owned()).collect())
}

/// A program that prints a file on command and records the end.
#[derive(Debug)]
pub(crate) struct Cat {
    go: PathBuf,
    result: PathBuf,
    argv: Vec<String>,
}

/// A [`Cat`] that waits for the command.
#[derive(Debug)]
pub(crate) struct ReadyCat {
    result: PathBuf,
    go: OwnedFd,
}

/// Start and end in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl Cat {
    pub(crate) fn new(dir: &Path, file: &Path) -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (go, result) = (dir.join(format!("go{number}")), dir.join(format!("result{number}")));
        rustix::fs::mknodat(CWD, &go, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .context("cannot make a pipe")?;
        let name = |path: &Path| path.to_str().map(str::to_owned).context("a strange path");
        let argv =
            in_pane(&["cat", &name(file)?, "--go", &name(&go)?, "--result", &name(&result)?])?;
        Ok(Self { go, result, argv })
    }

    pub(crate) fn argv(&self) -> &[String] {
        &self.argv
    }

    /// Waits until the program has opened its end of the pipe.
    pub(crate) fn wait_ready(self) -> Result<ReadyCat> {
        let open =
            || match rustix::fs::open(&self.go, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
                Err(Errno::NXIO) => None,
                opened => Some(opened),
            };
        let go = try_wait_for(TIMEOUT, open).context("the program in the pane did not start")??;
        fs::remove_file(&self.go)?;
        Ok(ReadyCat { result: self.result, go })
    }
}

impl ReadyCat {
    /// Gives the command; the returned function waits for the end.
    pub(crate) fn go(self) -> impl FnOnce() -> Result<Span> {
        drop(self.go);
        let result = self.result;
        move || wait_result(&result)
    }
}

impl Span {
    pub(crate) fn seconds(self) -> f64 {
        seconds(self.end.saturating_sub(self.begin))
    }
}

/// Converts nanoseconds to seconds.
#[expect(clippy::cast_precision_loss, reason = "a measurement has fewer digits than that")]
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns the time of the monotonic clock, which all processes share.
pub(crate) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let whole = u64::try_from(now.tv_sec).unwrap_or_default();
    whole * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}

/// Writes a result atomically.
pub(crate) fn write_result(file: &Path, span: Span) -> Result<()> {
    use std::io::Write as _;
    let beside = file.with_extension("new");
    write!(File::create(&beside)?, "{} {}", span.begin, span.end)?;
    Ok(fs::rename(&beside, file)?)
}

fn wait_result(file: &Path) -> Result<Span> {
    let text = try_wait_for(TIMEOUT, || fs::read_to_string(file).ok())
        .context("the program in the pane did not get its answer")?;
    fs::remove_file(file)?;
    match text.split_once(' ') {
        Some((begin, end)) => Ok(Span { begin: begin.parse()?, end: end.parse()? }),
        None => bail!("a strange result: {text:?}"),
    }
}
