//! Throughput of panes, and its CPU time.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::Setup;
use crate::contender::{Contender, cpu_ticks};
use crate::payload::Stream;
use crate::report::{Report, Row, Target};
use crate::script::{Cat, ReadyCat, Span, fresh_marker, in_pane, now, seconds};

const MB: usize = 1_000_000;

/// A stream through a detached pane, with its targets.
struct Flow {
    name: &'static str,
    what: &'static str,
    stream: Stream,
    megabytes: usize,
    wall: Target,
    cpu: Target,
}

pub(super) fn log(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let flow = Flow {
        name: "log",
        what: "log lines, detached",
        stream: Stream::Log,
        megabytes: s.amount(100, 4),
        wall: Target::TimesTmux(0.6),
        cpu: Target::TimesTmux(0.5),
    };
    detached(&flow, s, contenders, report);
}

pub(super) fn ink(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let flow = Flow {
        name: "ink",
        what: "agent's redraw, detached",
        stream: Stream::Ink,
        megabytes: s.amount(16, 2),
        wall: Target::Information,
        cpu: Target::TimesTmux(0.3),
    };
    detached(&flow, s, contenders, report);
}

pub(super) fn colour(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    dense("colour", "dense colour, detached", Stream::Colour, s, contenders, report);
}

pub(super) fn tui(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    dense("tui", "TUI frames, detached", Stream::Tui, s, contenders, report);
}

pub(super) fn unicode(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    dense("unicode", "wide Unicode, detached", Stream::Unicode, s, contenders, report);
}

fn dense(
    name: &'static str,
    what: &'static str,
    stream: Stream,
    s: &Setup,
    contenders: &mut [Box<dyn Contender>],
    report: &mut Report,
) {
    let (wall, cpu) = (Target::TimesTmux(0.8), Target::TimesTmux(0.8));
    let flow = Flow { name, what, stream, megabytes: s.amount(16, 2), wall, cpu };
    detached(&flow, s, contenders, report);
}

fn detached(flow: &Flow, s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, what) = (flow.name, format!("{} MB {}", flow.megabytes, flow.what));
    let mut wall = Row::new(name, &what, "s", flow.wall);
    let mut cpu = Row::new(name, format!("{what}, server CPU"), "s", flow.cpu);
    s.interleave(name, (s.rounds(5), None), contenders, report, |contender| {
        let file = s.payload(flow.stream, flow.megabytes * MB)?;
        let (mut pane, servers) = ready_panes(contender, s, &file, 1)?;
        let before = cpu_ticks(&servers);
        let pane = pane.pop().context("one pane was opened")?;
        let span = pane.go()()?;
        wall.sample(contender.kind(), span.seconds());
        if !servers.is_empty() {
            cpu.sample(contender.kind(), cpu_seconds(cpu_ticks(&servers) - before));
        }
        Ok(())
    });
    report.add(wall);
    report.add(cpu);
}

pub(super) fn ink_in_twenty_panes(
    s: &Setup,
    contenders: &mut [Box<dyn Contender>],
    report: &mut Report,
) {
    const NAME: &str = "ink-20";
    let (megabytes, panes) = (s.amount(16, 1), s.amount(20, 4));
    let what = format!("{panes} panes, {megabytes} MB agent's redraw each");
    let mut wall = Row::new(NAME, &what, "s", Target::TimesTmux(0.3));
    let mut cpu = Row::new(NAME, format!("{what}, server CPU"), "s", Target::Information);
    s.interleave(NAME, (s.rounds(3), None), contenders, report, |contender| {
        let file = s.payload(Stream::Ink, megabytes * MB)?;
        let (panes, servers) = ready_panes(contender, s, &file, panes)?;
        let (before, begin) = (cpu_ticks(&servers), now());
        let running: Vec<_> = panes.into_iter().map(ReadyCat::go).collect();
        let spans = running.into_iter().map(|wait| wait()).collect::<Result<Vec<Span>>>()?;
        let end = spans.iter().map(|span| span.end).max().context("there are panes")?;
        wall.sample(contender.kind(), seconds(end - begin));
        if !servers.is_empty() {
            cpu.sample(contender.kind(), cpu_seconds(cpu_ticks(&servers) - before));
        }
        Ok(())
    });
    report.add(wall);
    report.add(cpu);
}

pub(super) fn log_attached(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    const NAME: &str = "log-attached";
    let megabytes = s.amount(100, 4);
    let what = format!("{megabytes} MB log lines, attached");
    let mut wall = Row::new(NAME, &what, "s", Target::TimesTmux(0.6));
    let mut gap =
        Row::new(NAME, format!("{what}, longest gap"), "ms", Target::AtMost(33.0)).largest();
    s.interleave(NAME, (s.rounds(5), None), contenders, report, |contender| {
        let file = s.payload(Stream::Log, megabytes * MB)?;
        let (ready, last) = (fresh_marker("ready"), fresh_marker("last"));
        let file = file.to_str().context("a plain path")?;
        let argv = in_pane(&["show", file, "--ready", &ready, "--last", &last])?;
        let mut client = contender.open_attached(&argv)?;
        client.wait_for(ready.as_bytes())?;
        let begin = std::time::Instant::now();
        client.send(b"g")?;
        let seen = client.wait_for(last.as_bytes())?;
        wall.sample(contender.kind(), (seen.at - begin).as_secs_f64());
        gap.sample(contender.kind(), seen.longest_gap.as_secs_f64() * 1e3);
        Ok(())
    });
    report.add(wall);
    report.add(gap);
}

/// Opens panes that wait for the command to print `file`, and returns them with the servers.
fn ready_panes(
    contender: &mut dyn Contender,
    s: &Setup,
    file: &Path,
    count: usize,
) -> Result<(Vec<ReadyCat>, Vec<u32>)> {
    let mut opened = Vec::new();
    for _ in 0..count {
        let cat = Cat::new(s.dir(), file)?;
        contender.open(cat.argv())?;
        opened.push(cat);
    }
    let ready = opened.into_iter().map(Cat::wait_ready).collect::<Result<_>>()?;
    Ok((ready, contender.servers()?))
}

#[expect(clippy::cast_precision_loss, reason = "a measurement has fewer digits than that")]
fn cpu_seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
