//! The command lines of the programs inside of panes, and how the bench talks to them.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use testkit::wait::try_wait_for;

/// How long anything may take before it counts as broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A text that occurs in no payload and was not used before.
pub(crate) fn fresh_marker(what: &str) -> String {
    format!("<<{what}-{}>>", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The arguments that make this program play `words` inside of a pane.
pub(crate) fn in_pane(words: &[&str]) -> Result<Vec<String>> {
    let me = std::env::current_exe().context("cannot find the bench itself")?;
    let me = me.to_str().context("the bench is in a directory without a plain name")?;
    Ok([me, "in-pane"].iter().chain(words).map(|&word| word.to_owned()).collect())
}

/// One printing of a file whose beginning is commanded and whose end is noted.
#[derive(Debug)]
pub(crate) struct Cat {
    go: PathBuf,
    result: PathBuf,
    argv: Vec<String>,
}

/// A [`Cat`] that is ready and waits for the word.
#[derive(Debug)]
pub(crate) struct ReadyCat {
    result: PathBuf,
    go: OwnedFd,
}

/// When a program began and ended, in nanoseconds of the machine's monotonic clock.
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

    /// Waits until the program runs and has opened its end.
    pub(crate) fn wait_ready(self) -> Result<ReadyCat> {
        let open =
            || match rustix::fs::open(&self.go, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
                Err(Errno::NXIO) => None,
                opened => Some(opened),
            };
        let go =
            try_wait_for(PATIENCE, open).context("the program in the pane did not start")??;
        fs::remove_file(&self.go)?;
        Ok(ReadyCat { result: self.result, go })
    }
}

impl ReadyCat {
    /// Gives the word; what is returned waits for the end.
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

/// Nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "a measurement has fewer digits than that")]
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Now, on the clock that all processes share.
pub(crate) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let whole = u64::try_from(now.tv_sec).unwrap_or_default();
    whole * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}

/// Writes a result so that it is there completely or not at all.
pub(crate) fn write_result(file: &Path, span: Span) -> Result<()> {
    use std::io::Write as _;
    let beside = file.with_extension("new");
    write!(File::create(&beside)?, "{} {}", span.begin, span.end)?;
    Ok(fs::rename(&beside, file)?)
}

fn wait_result(file: &Path) -> Result<Span> {
    let text = try_wait_for(PATIENCE, || fs::read_to_string(file).ok())
        .context("the program in the pane did not get its answer")?;
    fs::remove_file(file)?;
    match text.split_once(' ') {
        Some((begin, end)) => Ok(Span { begin: begin.parse()?, end: end.parse()? }),
        None => bail!("a strange result: {text:?}"),
    }
}
