//! Cost of panes: creation, memory, idle CPU.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Setup;
use crate::contender::{Contender, Kind, WORK, cpu_ticks, memory as memory_of};
use crate::payload::Stream;
use crate::report::{Report, Row, Target};
use crate::script::{Cat, ReadyCat};

/// Lines of about 100 characters that each pane prints before its memory is measured.
const LINES: u32 = 10_000;

pub(super) fn create(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, panes) = ("create", s.amount(100, 10));
    let what = format!("create {panes} detached panes");
    let mut row = Row::new(name, &what, "ms", Target::TimesTmux(2.0));
    s.interleave(name, (s.rounds(5), None), contenders, report, |contender| {
        time_creation(contender, panes, &mut row)
    });
    report.add(row);
}

/// Creation without a disk: the files of both contenders are on a tmpfs.
pub(super) fn create_on_tmpfs(
    s: &Setup,
    contenders: &mut [Box<dyn Contender>],
    report: &mut Report,
) {
    const NAME: &str = "create-tmpfs";
    let panes = s.amount(100, 10);
    let what = format!("create {panes} detached panes on tmpfs");
    let mut row = Row::new(NAME, &what, "ms", Target::TimesTmux(1.5));
    let dir = match tmpfs() {
        Ok(dir) => dir,
        Err(error) => return report.fail(NAME, Kind::Ccmux, &error),
    };
    if let Err(error) = std::fs::create_dir(dir.path().join(WORK)) {
        return report.fail(NAME, Kind::Ccmux, &error.into());
    }
    contenders.iter_mut().for_each(|contender| contender.set_dir(dir.path()));
    s.interleave(NAME, (s.rounds(5), None), contenders, report, |contender| {
        time_creation(contender, panes, &mut row)
    });
    contenders.iter_mut().for_each(|contender| contender.set_dir(s.dir()));
    report.add(row);
}

/// Creation on a file system that has just created and removed thousands of files, as after a build
/// or a `git checkout`.
pub(super) fn create_after_churn(
    s: &Setup,
    contenders: &mut [Box<dyn Contender>],
    report: &mut Report,
) {
    const NAME: &str = "create-churn";
    let (panes, files) = (s.amount(100, 10), s.amount(5000, 200));
    let what = format!("create {panes} detached panes after churn of {files} files");
    let mut row = Row::new(NAME, &what, "ms", Target::TimesTmux(3.0));
    s.interleave(NAME, (s.rounds(5), None), contenders, report, |contender| {
        churn(&s.dir().join("churn"), files)?;
        time_creation(contender, panes, &mut row)
    });
    report.add(row);
}

/// A directory on a tmpfs, removed when dropped.
fn tmpfs() -> Result<tempfile::TempDir> {
    const MOUNTED: &str = "/dev/shm";
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    ensure!(rustix::fs::statfs(MOUNTED)?.f_type == TMPFS_MAGIC, "{MOUNTED} is no tmpfs");
    Ok(tempfile::Builder::new().prefix("cx-").tempdir_in(MOUNTED)?)
}

/// Creates and removes that many small files.
fn churn(dir: &Path, files: usize) -> Result<()> {
    for number in 0..files {
        let dir = dir.join((number % 50).to_string());
        fs::create_dir_all(&dir)?;
        File::create(dir.join(number.to_string()))?.write_all(&[b'x'; 4096])?;
    }
    Ok(fs::remove_dir_all(dir)?)
}

fn time_creation(contender: &dyn Contender, panes: usize, row: &mut Row) -> Result<()> {
    let begin = Instant::now();
    if open_sleepers(contender, panes)? {
        row.sample(contender.kind(), begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Cost of isolation: the difference between two successive creations on one server, by a user with
/// a configuration of realistic size.
pub(super) fn isolation(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, pairs) = ("isolation", s.amount(100, 10));
    let mut plain = Row::new(name, "create an unisolated pane, p50", "ms", Target::Information);
    let mut isolated = Row::new(name, "create an isolated pane, p50", "ms", Target::Information);
    let mut added = Row::new(name, "what isolation adds, p50", "ms", Target::AtMost(5.0));
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        s.write_user_config()?;
        for _ in 0..pairs {
            let (Some(without), Some(with)) =
                (contender.create_unisolated_command(), contender.create_command())
            else {
                return Ok(());
            };
            let (without, with) = (timed(without)?, timed(with)?);
            plain.sample(contender.kind(), without);
            isolated.sample(contender.kind(), with);
            added.sample(contender.kind(), with - without);
        }
        Ok(())
    });
    [plain, isolated, added].into_iter().for_each(|row| report.add(row));
}

/// Returns the milliseconds of a command.
fn timed(mut command: Command) -> Result<f64> {
    let begin = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed");
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

pub(super) fn memory(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, panes) = ("memory", s.amount(50, 10));
    let mut idle = Row::new(name, "memory per idle pane", "MB", Target::AtMost(1.6));
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        let before = base_memory(contender)?;
        if open_sleepers(contender, panes)? {
            idle.sample(contender.kind(), per_pane(contender, before, panes)?);
        }
        Ok(())
    });
    report.add(idle);

    let what = format!("memory per pane after {LINES} lines");
    let mut filled = Row::new(name, what, "MB", Target::AtMost(2.5));
    s.interleave(name, (s.rounds(3), Some(LINES)), contenders, report, |contender| {
        if contender.create_command().is_none() {
            return Ok(());
        }
        let before = base_memory(contender)?;
        let file = s.payload(Stream::Log, 100 * usize::try_from(LINES)?)?;
        let mut opened = Vec::new();
        for _ in 0..panes {
            let cat = Cat::new(s.dir(), &file)?;
            contender.open(cat.argv())?;
            opened.push(cat);
        }
        let ready = opened.into_iter().map(Cat::wait_ready).collect::<Result<Vec<_>>>()?;
        let running: Vec<_> = ready.into_iter().map(ReadyCat::go).collect();
        running.into_iter().try_for_each(|wait| wait().map(drop))?;
        filled.sample(contender.kind(), per_pane(contender, before, panes)?);
        Ok(())
    });
    report.add(filled);
}

pub(super) fn idle(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, panes, time) = ("idle", s.amount(100, 10), s.amount(10, 2));
    let what = format!("CPU of {panes} idle panes over {time} s");
    let mut row = Row::new(name, what, "ms", Target::AtMost(0.0));
    s.interleave(name, (s.rounds(1), None), contenders, report, |contender| {
        if !open_sleepers(contender, panes)? {
            return Ok(());
        }
        let servers = contender.servers()?;
        // Work left from the creation does not count.
        thread::sleep(Duration::from_secs(1));
        let before = cpu_ticks(&servers);
        thread::sleep(Duration::from_secs(time as u64));
        let ticks = u32::try_from(cpu_ticks(&servers) - before)?;
        let per_second = u32::try_from(rustix::param::clock_ticks_per_second())?;
        row.sample(contender.kind(), f64::from(ticks) * 1e3 / f64::from(per_second));
        Ok(())
    });
    report.add(row);
}

/// Opens panes with one command each; returns `false` if the contender has no such command.
fn open_sleepers(contender: &dyn Contender, panes: usize) -> Result<bool> {
    for _ in 0..panes {
        let Some(mut command) = contender.create_command() else { return Ok(false) };
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "{command:?} failed");
    }
    Ok(true)
}

/// Returns the memory of the servers before there are panes. ccmux's target includes the daemon's
/// share, so only tmux's server is subtracted.
fn base_memory(contender: &dyn Contender) -> Result<u64> {
    match contender.kind() {
        Kind::Tmux => Ok(memory_of(&contender.servers()?)),
        Kind::Ccmux | Kind::Bare => Ok(0),
    }
}

fn per_pane(contender: &dyn Contender, before: u64, panes: usize) -> Result<f64> {
    let servers = contender.servers()?;
    ensure!(!servers.is_empty(), "there is no server");
    // Zero if the server freed more memory than the panes took.
    let bytes = memory_of(&servers).saturating_sub(before);
    Ok(f64::from(u32::try_from(bytes / 1024)?) * 1024.0 / 1e6 / f64::from(u32::try_from(panes)?))
}
