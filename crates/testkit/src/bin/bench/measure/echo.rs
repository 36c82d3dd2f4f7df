//! Time from a key to its echo.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Setup;
use crate::client::Client;
use crate::contender::{Contender, Kind};
use crate::report::{Report, Row, Target, percentile};
use crate::script::{fresh_marker, in_pane};

/// Keys that occur in no escape sequence.
const KEYS: &[u8] = b"xyzvqw#~";

/// Keys during a flood: many, so that an earlier occurrence has left the screen.
const FLOOD_KEYS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Number of keys that are not counted.
const WARM_UP: usize = 100;

/// Number of keys from which on a 99th percentile is meaningful.
const ENOUGH: usize = 100;

/// Time limit: tmux stops painting for 100 ms at a time when its client's terminal is full, so a
/// thousand keys during a flood can take minutes.
const LONG_ENOUGH: Duration = Duration::from_secs(15);

pub(super) fn quiet(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, samples) = ("echo", s.amount(2000, 200));
    let mut rows = rows(name, "keystroke echo");
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        let mut client = start(contender, "echo")?;
        let mut gaps = Gaps(1);
        let taken = take(samples, KEYS, |key| {
            client.drain(gaps.next(1500))?;
            round_trip(&mut client, key, &[key])
        })?;
        note(&mut rows, contender.kind(), &taken);
        Ok(())
    });
    rows.into_iter().for_each(|row| report.add(row));
}

pub(super) fn flooded(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, samples) = ("echo-flood", s.amount(1000, 100));
    let mut rows = rows(name, "keystroke echo while the pane floods");
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        let mut client = start(contender, "flood")?;
        client.send(b"0")?;
        client.wait_for(b"key=0")?;
        let mut gaps = Gaps(1);
        let taken = take(samples, FLOOD_KEYS, |key| {
            client.drain(gaps.next(4000))?;
            round_trip(&mut client, key, &[b'k', b'e', b'y', b'=', key])
        })?;
        note(&mut rows, contender.kind(), &taken);
        Ok(())
    });
    rows.into_iter().for_each(|row| report.add(row));
}

fn rows(name: &'static str, what: &str) -> [Row; 2] {
    [
        Row::new(name, format!("{what}, p50"), "µs", Target::TimesTmux(0.8)),
        Row::new(name, format!("{what}, p99"), "µs", Target::TimesTmux(1.0)),
    ]
}

fn note([p50, p99]: &mut [Row; 2], who: Kind, taken: &[f64]) {
    for (row, percent) in [(p50, 50), (p99, 99)] {
        percentile(taken, percent).into_iter().for_each(|value| row.sample(who, value));
    }
}

pub(super) fn start(contender: &mut dyn Contender, program: &str) -> Result<Client> {
    let ready = fresh_marker("ready");
    let mut client = contender.open_attached(&in_pane(&[program, "--ready", &ready])?)?;
    client.wait_for(ready.as_bytes())?;
    // Skips the first paint of a new client.
    client.drain(Duration::from_millis(100))?;
    Ok(client)
}

/// Takes samples after a warm-up; fewer if they would take too long.
fn take(
    samples: usize,
    keys: &[u8],
    mut sample: impl FnMut(u8) -> Result<Duration>,
) -> Result<Vec<f64>> {
    let began = Instant::now();
    let mut taken = Vec::with_capacity(samples);
    for (number, &key) in (0..samples + WARM_UP).zip(keys.iter().cycle()) {
        let time = sample(key)?;
        if number >= WARM_UP {
            taken.push(time.as_secs_f64() * 1e6);
        }
        if taken.len() >= ENOUGH && began.elapsed() > LONG_ENOUGH {
            break;
        }
    }
    Ok(taken)
}

pub(super) fn round_trip(client: &mut Client, key: u8, answer: &[u8]) -> Result<Duration> {
    let begin = Instant::now();
    client.send(&[key])?;
    Ok(client.wait_for(answer)?.at - begin)
}

/// Irregular pauses between keys, to avoid resonance with timers of a contender.
pub(super) struct Gaps(pub(super) u64);

impl Gaps {
    pub(super) fn next(&mut self, below_us: u64) -> Duration {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.0 >> 33) % below_us)
    }
}
