//! Time to attach to a pane.

use std::time::Instant;

use super::Setup;
use crate::contender::{Contender, Kind};
use crate::report::{Report, Row, Target};
use crate::script::{fresh_marker, in_pane};

pub(super) fn attach(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let (name, attachments) = ("attach", s.amount(20, 5));
    let mut row = Row::new(name, "attach to first full frame", "ms", Target::TimesTmux(1.0));
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        if contender.kind() == Kind::Bare {
            return Ok(());
        }
        let marker = fresh_marker("bottom");
        let pane = contender.open(&in_pane(&["fill", "--marker", &marker])?)?;
        // The first attachment waits for the program itself and is not counted.
        contender.attach(&pane)?.wait_for(marker.as_bytes())?;
        for _ in 0..attachments {
            let begin = Instant::now();
            let mut client = contender.attach(&pane)?;
            let seen = client.wait_for(marker.as_bytes())?;
            row.sample(contender.kind(), (seen.at - begin).as_secs_f64() * 1e3);
        }
        Ok(())
    });
    report.add(row);
}
