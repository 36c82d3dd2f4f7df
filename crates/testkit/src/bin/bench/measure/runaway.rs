//! Effect of a runaway pane on six others (B6): p99 of key echoes with and without it. Six bare
//! terminals beside the same runaway show the kernel's share, which no multiplexer can avoid.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Setup;
use super::echo::{Gaps, round_trip, start};
use crate::client::Client;
use crate::contender::{Bare, Contender, Kind};
use crate::report::{Report, Row, Target, percentile};

/// Number of panes that are typed into.
const PANES: usize = 6;

/// Keys that occur in no escape sequence.
const KEYS: &[u8] = b"xyzvqw#~";

/// Limits of the runaway: enough to disturb others.
const LIMITS: &str = "memory=256M,processes=64,cpu=10,disk=256M,policy=stop";

/// Time that it runs before the measure.
const HEAD_START: Duration = Duration::from_millis(500);

/// Each is bounded even without a limit: by count, amount, or the end of the pane.
const RUNAWAYS: [(&str, &str); 4] = [
    ("forks", "while :; do i=0; while [ $i -lt 60 ]; do i=$((i+1)); (:) & done; wait; done"),
    ("takes 8 GB", "while :; do dd if=/dev/zero of=/dev/null bs=8G count=1 2>/dev/null; done"),
    ("writes", "while :; do head -c 200000000 /dev/zero > \"$TMPDIR/much\"; done"),
    ("floods", "exec yes a log line that is printed faster than anyone can read it"),
];

pub(super) fn runaway(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, samples) = ("runaway", s.amount(1200, 60));
    let what = format!("keystroke echo in {PANES} panes, p99");
    let mut calm = Row::new(name, &what, "µs", Target::Information);
    let mut disturbed = RUNAWAYS.map(|(kind, _)| {
        Row::new(name, format!("the same while a seventh {kind}"), "µs", Target::Information)
    });
    let mut ratios = RUNAWAYS.map(|(kind, _)| {
        Row::new(name, format!("it {kind}: times as slow"), "×", Target::AtMost(2.0))
    });
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        for (at, (_, script)) in RUNAWAYS.into_iter().enumerate() {
            if !contender.has_limits() {
                return Ok(());
            }
            let mut bare = Bare::new(&s.home);
            let mut clients = [six(contender)?, six(&mut bare)?];
            let before = p99s(&mut clients, samples)?;
            let argv = ["sh", "-c", script].map(str::to_owned);
            let pane = contender.open_limited(LIMITS, &argv)?;
            std::thread::sleep(HEAD_START);
            let during = p99s(&mut clients, samples)?;
            contender.close(&pane)?;
            let kinds = [contender.kind(), Kind::Bare];
            for ((kind, before), during) in kinds.into_iter().zip(before).zip(during) {
                calm.sample(kind, before);
                disturbed[at].sample(kind, during);
                ratios[at].sample(kind, during / before);
            }
        }
        Ok(())
    });
    report.add(calm);
    disturbed.into_iter().chain(ratios).for_each(|row| report.add(row));
}

fn six(contender: &mut dyn Contender) -> Result<Vec<Client>> {
    (0..PANES).map(|_| start(contender, "echo")).collect()
}

/// Returns the p99 of key echoes over the clients of each kind, which take turns.
fn p99s(kinds: &mut [Vec<Client>; 2], samples: usize) -> Result<[f64; 2]> {
    let mut gaps = Gaps(1);
    let mut taken = [const { Vec::new() }; 2];
    for (number, &key) in (0..samples).zip(KEYS.iter().cycle()) {
        for (clients, taken) in kinds.iter_mut().zip(&mut taken) {
            let client = &mut clients[number % PANES];
            client.drain(gaps.next(1500))?;
            let begin = Instant::now();
            round_trip(client, key, &[key])?;
            taken.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(taken.map(|taken| percentile(&taken, 99).unwrap_or_default()))
}
