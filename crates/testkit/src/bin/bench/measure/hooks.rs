//! Time of an agent hook: the whole process.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::Setup;
use crate::contender::{Contender, Kind};
use crate::report::{Report, Row, Target, percentile};

/// For ccmux, the hook before an edit that is permitted; for the bare system, `true`.
pub(super) fn hooks(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, times) = ("hooks", s.amount(500, 20));
    let mut half =
        Row::new(name, "hook before an edit, p50 (bare: true)", "µs", Target::Information);
    let mut slow = Row::new(name, "hook before an edit, p99", "µs", Target::AtMost(10_000.0));
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        let kind = contender.kind();
        let samples = match kind {
            Kind::Ccmux => hook_often(s, times)?,
            Kind::Bare => (0..times).map(|_| run(Command::new("true"))).collect::<Result<_>>()?,
            Kind::Tmux => return Ok(()),
        };
        half.sample(kind, percentile(&samples, 50).context("no samples")?);
        slow.sample(kind, percentile(&samples, 99).context("no samples")?);
        Ok(())
    });
    [half, slow].into_iter().for_each(|row| report.add(row));
}

/// Runs a pane's hook repeatedly, and returns microseconds.
fn hook_often(s: &Setup, times: usize) -> Result<Vec<f64>> {
    let told = s.dir().join("told.json");
    let edit = json!({"cwd": "/", "tool_input": {"file_path": s.dir().join("edited")}});
    File::create(&told)?.write_all(edit.to_string().as_bytes())?;
    let new = ["new", "-d", "--json", "--workspace", "shared", "--", "sleep", "1000"];
    let pane = s.home.ccmux(&new).dir(s.dir()).json()["pane"]["id"].clone();
    let pane = pane.as_str().context("a pane")?;
    let hook = s.home.ccmux(&["hook", "pre-edit", "--pane", pane]);
    let samples = (0..times)
        .map(|_| {
            let mut hook = hook.command();
            hook.stdin(File::open(&told)?);
            run(hook)
        })
        .collect();
    s.home.ccmux(&["close", pane]).ok();
    samples
}

/// Returns the microseconds of one process.
fn run(mut command: Command) -> Result<f64> {
    let begin = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed");
    Ok(begin.elapsed().as_secs_f64() * 1e6)
}
