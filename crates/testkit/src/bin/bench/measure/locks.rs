//! Time to lock a file without contention.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ::client::Connection;
use anyhow::{Context as _, Result, bail, ensure};
use model::lock::{LockMode, LockScope};
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::control::{Request, Response};
use protocol::locks::{Acquire, LockRequest};

use super::Setup;
use crate::contender::{Contender, Kind};
use crate::report::{Report, Row, Target, percentile};

/// Number of concurrent clients.
const CROWD: usize = 8;

/// For ccmux, over its socket; for the bare system, `flock(1)`, one process per lock.
pub(super) fn locks(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, times) = ("locks", s.amount(5000, 200));
    let info = |what| Row::new(name, what, "µs", Target::Information);
    let mut each = info("lock and give back, p50 (bare: flock(1))");
    let mut slow = Row::new(name, "lock and give back, p99", "µs", Target::AtMost(10_000.0));
    let per_second = |what: String| Row::new(name, what, "/s", Target::Information);
    let mut alone = per_second("locks taken and given back, one client".to_owned());
    let mut crowd = per_second(format!("locks taken and given back, {CROWD} clients"));
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        match contender.kind() {
            Kind::Ccmux => {
                let run = running(s.dir())?;
                let (samples, took) = lock_often(&run, s.dir().join("alone"), times)?;
                each.sample(Kind::Ccmux, percentile(&samples, 50).context("no samples")?);
                slow.sample(Kind::Ccmux, percentile(&samples, 99).context("no samples")?);
                alone.sample(Kind::Ccmux, rate(times, took));
                let took = concurrently(s, &run, times / CROWD)?;
                crowd.sample(Kind::Ccmux, rate(times / CROWD * CROWD, took));
            }
            Kind::Bare => {
                for _ in 0..s.amount(200, 10) {
                    each.sample(Kind::Bare, flock(s)?);
                }
            }
            Kind::Tmux => {}
        }
        Ok(())
    });
    [each, slow, alone, crowd].into_iter().for_each(|row| report.add(row));
}

/// Returns the socket directory of the current daemon: every start has its own state root.
fn running(dir: &Path) -> Result<PathBuf> {
    let mut roots =
        std::fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path().join("run")));
    roots.find(|run| run.join(CONTROL_SOCKET).exists()).context("no daemon runs")
}

/// Takes and releases a lock repeatedly; returns the microseconds of each, and the total time.
fn lock_often(run: &Path, file: PathBuf, times: usize) -> Result<(Vec<f64>, Duration)> {
    let mut daemon = Connection::open(run, CONTROL_SOCKET)?;
    let path = file.into_os_string().into_string().ok().context("a path that is text")?;
    let acquire = Request::Lock(LockRequest::Acquire(Acquire {
        paths: vec![path],
        mode: LockMode::Write,
        tree: false,
        scope: LockScope::Worktree,
        pane: None,
        process: Some(std::process::id()),
        ttl_ms: None,
        wait_ms: 0,
        tag: None,
    }));
    let begin = Instant::now();
    let mut samples = Vec::with_capacity(times);
    for _ in 0..times {
        let once = Instant::now();
        let Response::Locks(locks) = daemon.ask(&acquire)? else { bail!("no lock") };
        let id = locks.locks.first().context("no lock")?.id;
        daemon.ask(&Request::Lock(LockRequest::Release { id, token: None }))?;
        samples.push(once.elapsed().as_secs_f64() * 1e6);
    }
    Ok((samples, begin.elapsed()))
}

/// Runs several clients at once, each with its own file.
fn concurrently(s: &Setup, run: &Path, times: usize) -> Result<Duration> {
    let begin = Instant::now();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CROWD)
            .map(|n| {
                let file = s.dir().join(format!("crowd-{n}"));
                scope.spawn(move || lock_often(run, file, times))
            })
            .collect();
        clients.into_iter().try_for_each(|client| match client.join() {
            Ok(locked) => locked.map(drop),
            Err(_) => bail!("a client panicked"),
        })
    })?;
    Ok(begin.elapsed())
}

/// Returns the microseconds of one `flock(1)`.
fn flock(s: &Setup) -> Result<f64> {
    let begin = Instant::now();
    let mut flock = Command::new("flock");
    let status = flock.arg(s.dir().join("flocked")).arg("true").stdin(Stdio::null()).status()?;
    ensure!(status.success(), "{flock:?} failed");
    Ok(begin.elapsed().as_secs_f64() * 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "fewer locks than a float has digits")]
fn rate(times: usize, took: Duration) -> f64 {
    times as f64 / took.as_secs_f64()
}
