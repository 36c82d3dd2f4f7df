//! Time of HTTP requests, compared with a tool that runs `tmux` for each.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ::client::Connection;
use anyhow::{Context as _, Result, bail, ensure};
use protocol::pane::{Attach, KeyOptions, SOCKET, View};
use protocol::{Frame, Kind as FrameKind};
use testkit::Http;
use testkit::http::{Socket, SocketMessage};

use super::Setup;
use super::echo::Gaps;
use crate::contender::Contender;
use crate::driver::Served;
use crate::payload::Stream;
use crate::report::{Report, Row, Target, percentile};
use crate::script::{Cat, fresh_marker, in_pane};

/// Number of concurrent clients.
const CROWD: usize = 8;

/// Number of keys that are not counted.
const WARM_UP: usize = 50;

pub(super) fn http(s: &Setup, contenders: &mut [Box<dyn Contender>], report: &mut Report) {
    let name = "http";
    let row = |what: &str, unit, target| Row::new(name, what, unit, target);
    let mut mix =
        row("HTTP, one call of a mix (type, read, list), 8 at once", "ms", Target::TimesTmux(0.2));
    let mut create = row("HTTP, create a session with a pane", "ms", Target::Information);
    let sessions = s.amount(1000, 30);
    let what = format!("HTTP, list with {sessions} sessions, p99");
    let mut list = row(&what, "ms", Target::AtMost(50.0));
    let mut far = row("HTTP, key to echo over WebSocket, p50", "µs", Target::Information);
    let mut near = row("key to echo over the local socket, p50", "µs", Target::Information);
    let what = format!("{} MB log lines", s.amount(40, 2));
    let mut alone = row(&format!("{what}, no watchers"), "s", Target::Information);
    let mut watched =
        row(&format!("{what}, 20 WebSockets of which 15 never read"), "s", Target::Information);
    let mut followed = row(&format!("{what}, 20 WebSockets that read"), "s", Target::Information);
    s.interleave(name, (s.rounds(3), None), contenders, report, |contender| {
        let Some(served) = contender.serve()? else { return Ok(()) };
        let kind = contender.kind();
        let cwd = s.dir().to_string_lossy().into_owned();
        mix.sample(kind, calls(&served, &cwd, s.amount(400, 10))?);
        create.sample(kind, creations(&served, &cwd, s.amount(50, 3))?);
        if let Served::Ccmux { http, root } = &served {
            let samples = s.amount(1000, 50);
            far.sample(kind, over_websocket(contender, http, samples)?);
            near.sample(kind, over_socket(contender, root, samples)?);
            alone.sample(kind, flood(s, contender, http, (0, 0))?);
            watched.sample(kind, flood(s, contender, http, (5, 15))?);
            followed.sample(kind, flood(s, contender, http, (20, 0))?);
            list.sample(kind, lists(&served, &cwd, sessions, s.amount(500, 30))?);
        }
        Ok(())
    });
    let rows = [mix, create, list, far, near, alone, watched, followed];
    rows.into_iter().for_each(|row| report.add(row));
}

/// Returns the milliseconds per request with several concurrent clients.
fn calls(served: &Served, cwd: &str, times: usize) -> Result<f64> {
    let panes: Vec<String> = (0..CROWD).map(|_| served.create(cwd)).collect::<Result<_>>()?;
    let begin = Instant::now();
    thread::scope(|scope| {
        let clients: Vec<_> = panes
            .iter()
            .map(|pane| {
                let served = served.clone();
                scope.spawn(move || {
                    (0..times).try_for_each(|_| {
                        served.input(pane)?;
                        served.screen(pane)?;
                        served.list()
                    })
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| match client.join() {
            Ok(called) => called,
            Err(_) => bail!("a client panicked"),
        })
    })?;
    Ok(millis(begin.elapsed()) / count(3 * times * CROWD))
}

fn creations(served: &Served, cwd: &str, times: usize) -> Result<f64> {
    let begin = Instant::now();
    (0..times).try_for_each(|_| served.create(cwd).map(drop))?;
    Ok(millis(begin.elapsed()) / count(times))
}

/// Returns the slowest of a hundred list requests, in milliseconds, with that many sessions.
fn lists(served: &Served, cwd: &str, sessions: usize, times: usize) -> Result<f64> {
    (0..sessions).try_for_each(|_| served.create(cwd).map(drop))?;
    let once = |_| {
        let begin = Instant::now();
        served.list()?;
        Ok(millis(begin.elapsed()))
    };
    let samples: Vec<f64> = (0..times).map(once).collect::<Result<_>>()?;
    percentile(&samples, 99).context("no samples")
}

/// Returns the microseconds from a key to its echo over a WebSocket.
fn over_websocket(contender: &mut dyn Contender, http: &Http, samples: usize) -> Result<f64> {
    let ready = fresh_marker("ready");
    let pane = contender.open(&in_pane(&["echo", "--ready", &ready])?)?;
    let mut socket = http.websocket(&format!("/v1/panes/{pane}/attach?from=0"));
    while !next_output(&mut socket)?.windows(ready.len()).any(|part| part == ready.as_bytes()) {}
    median(samples, |key| {
        socket.type_bytes(&[key]);
        while !next_output(&mut socket)?.contains(&key) {}
        Ok(())
    })
}

fn next_output(socket: &mut Socket) -> Result<Vec<u8>> {
    loop {
        match socket.next_message() {
            SocketMessage::Bytes(_, bytes) => return Ok(bytes),
            SocketMessage::Text(_) => {}
            SocketMessage::Closed(why) => bail!("the WebSocket was closed: {why:?}"),
        }
    }
}

/// Returns the seconds that a pane prints a file while some clients read it over WebSockets and
/// some do not read.
fn flood(
    s: &Setup,
    contender: &mut dyn Contender,
    http: &Http,
    (reading, deaf): (usize, usize),
) -> Result<f64> {
    let cat = Cat::new(s.dir(), &s.payload(Stream::Log, s.amount(40, 2) * 1_000_000)?)?;
    let pane = contender.open(cat.argv())?;
    let ready = cat.wait_ready()?;
    let attach = || http.websocket(&format!("/v1/panes/{pane}/attach"));
    let unread: Vec<Socket> = (0..deaf).map(|_| attach()).collect();
    for mut socket in (0..reading).map(|_| attach()) {
        // Until the server is stopped.
        thread::spawn(move || while !matches!(socket.next_message(), SocketMessage::Closed(_)) {});
    }
    let span = ready.go()()?;
    drop(unread);
    Ok(span.seconds())
}

/// Returns the microseconds from a key to its echo with a client of the keeper.
fn over_socket(contender: &mut dyn Contender, root: &Path, samples: usize) -> Result<f64> {
    let ready = fresh_marker("ready");
    let pane = contender.open(&in_pane(&["echo", "--ready", &ready])?)?;
    let dir = pane_dir(root, &pane)?;
    let mut keeper = Connection::open(&dir, SOCKET)?;
    let attach = Attach {
        view: View::Follow { from: Some(0) },
        size: None,
        read_only: false,
        keys: KeyOptions::default(),
    };
    keeper.send(&Frame::json(FrameKind::Attach, &attach))?;
    let mut output = move |send: Option<u8>, wanted: &[u8]| -> Result<()> {
        if let Some(key) = send {
            keeper.send(&Frame::new(FrameKind::Input, vec![key]))?;
        }
        loop {
            let frame = keeper.receive()?;
            ensure!(frame.kind != FrameKind::Ended, "the pane has ended");
            // The output follows an offset.
            let output = frame.body.get(8..).unwrap_or_default();
            if output.windows(wanted.len()).any(|part| part == wanted) {
                return Ok(());
            }
        }
    };
    output(None, ready.as_bytes())?;
    median(samples, |key| output(Some(key), &[key]))
}

fn median(samples: usize, mut press: impl FnMut(u8) -> Result<()>) -> Result<f64> {
    let mut gaps = Gaps(1);
    let mut taken = Vec::with_capacity(samples);
    for (number, key) in (0..samples + WARM_UP).zip(b"xyzvqw#~".iter().cycle()) {
        thread::sleep(gaps.next(1500));
        let begin = Instant::now();
        press(*key)?;
        if number >= WARM_UP {
            taken.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    percentile(&taken, 50).context("no samples")
}

/// Returns the directory of a pane in any session.
fn pane_dir(root: &Path, pane: &str) -> Result<PathBuf> {
    let sessions = std::fs::read_dir(root.join("sessions"))?.flatten();
    let mut dirs = sessions.map(|session| session.path().join("panes").join(pane));
    dirs.find(|dir| dir.is_dir()).with_context(|| format!("no directory of {pane}"))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "fewer calls than a float has digits")]
fn count(number: usize) -> f64 {
    number as f64
}
