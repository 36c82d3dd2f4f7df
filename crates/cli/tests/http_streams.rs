//! R29, B3: what happens and what panes write, over HTTP, without gap or duplicate, whoever reads
//! how slowly.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::{Brought, EventSource, Socket, Told};
use testkit::{Dice, Home, Http, Pane, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Whatever is waited for takes a moment; a machine that is busy with other things takes longer.
const LONG: Duration = Duration::from_secs(120);

/// Prints that many numbered lines when it is told to, and stays until it is told to go.
fn counting(home: &Home, name: &str, lines: usize) -> Pane {
    let script = format!("stty -echo; echo ready; read go; seq 1 {lines}; echo over; read go");
    let pane = home.start_pane(name, &["sh", "-c", &script]);
    wait_until("it is ready", LONG, || pane.log().windows(5).any(|text| text == b"ready"));
    pane
}

fn attach_path(pane: &Pane, query: &str) -> String {
    format!("/v1/panes/{}/attach{query}", pane.id)
}

/// Reads the snapshot that an attachment begins with: its offset and its bytes.
#[track_caller]
fn snapshot(socket: &mut Socket) -> (u64, Vec<u8>) {
    let Brought::Text(text) = socket.next_message() else { panic!("no text first") };
    assert_eq!(text["type"], "snapshot", "{text}");
    let Brought::Bytes(offset, bytes) = socket.next_message() else { panic!("no snapshot") };
    assert_eq!(text["offset"], offset, "{text}");
    (offset, bytes)
}

/// Reads output until `end` has come, and every message beginning where the one before it ended.
#[track_caller]
fn read_until(socket: &mut Socket, at: &mut u64, bytes: &mut Vec<u8>, end: &[u8]) {
    // Only what is new is looked at: there are thousands of messages.
    let mut looked = 0;
    while !bytes[looked..].windows(end.len()).any(|text| text == end) {
        looked = bytes.len().saturating_sub(end.len());
        match socket.next_message() {
            Brought::Bytes(offset, more) => {
                assert_eq!(offset, *at, "a gap, or something twice");
                *at += more.len() as u64;
                bytes.extend(more);
            }
            Brought::Text(text) => assert_ne!(text["type"], "snapshot", "it was skipped ahead"),
            Brought::Closed(why) => panic!("closed before the end: {why:?}"),
        }
    }
}

/// R29: the stream of events is the log of events, from any place in it.
#[test]
fn events_over_http_follow_exactly_the_number_that_was_named() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let mut live = http.events("/v1/events");
    let (one, two) = (counting(&home, "one", 1), counting(&home, "two", 1));
    home.ccmux(&["rename", &one.id, "uno"]).ok();
    home.ccmux(&["close", &two.id]).ok();

    let all = recorded(&http, "/v1/events?after=0&follow=false");

    let numbers: Vec<u64> = all.iter().map(|told| told.id).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    for told in &all {
        assert_eq!(told.data["seq"], told.id);
        assert_eq!(told.data["event"].as_str(), told.event.as_deref());
    }
    // Half of them again, by each of the ways to name a number, the header before the query.
    let half = numbers.len() as u64 / 2;
    let rest = all[all.len() / 2..].to_vec();
    assert_eq!(recorded(&http, &format!("/v1/events?after={half}&follow=false")), rest);
    let resuming = http.with_header("last-event-id", &half.to_string());
    assert_eq!(recorded(&resuming, "/v1/events?after=0&follow=false"), rest);
    // Whoever was there from the beginning has seen everything since then, once.
    let first = next(&mut live);
    let since: Vec<Told> = all.into_iter().filter(|told| told.id > first.id).collect();
    for expected in &since {
        assert_eq!(next(&mut live), *expected);
    }
}

/// R29: only what concerns one pane or session, also where an event does not name the session.
#[test]
fn events_over_http_can_be_those_of_one_pane_or_session() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let (one, two) = (counting(&home, "one", 1), counting(&home, "two", 1));
    home.ccmux(&["rename", &one.id, "uno"]).ok();
    let session = home.ccmux(&["show", "--json", &one.id]).json()["session"]["id"].take();
    let session = session.as_str().unwrap();

    let of_pane = recorded(&http, &format!("/v1/events?after=0&follow=false&pane={}", one.id));
    let of_session = recorded(&http, &format!("/v1/events?after=0&follow=false&session={session}"));

    let kinds = |told: &[Told]| -> Vec<String> {
        told.iter().filter_map(|told| told.event.clone()).collect()
    };
    assert!(kinds(&of_pane).contains(&"pane_created".to_owned()), "{of_pane:?}");
    assert!(kinds(&of_session).contains(&"pane_renamed".to_owned()), "{of_session:?}");
    assert!(of_pane.iter().all(|told| told.data["pane"] == one.id.as_str()), "{of_pane:?}");
    assert!(!of_session.iter().any(|told| told.data["pane"] == two.id.as_str()));
    assert_eq!(http.get("/v1/events?pane=nobody").status, 404);
    assert_eq!(http.with_header("last-event-id", "soon").get("/v1/events").status, 400);
}

fn recorded(http: &Http, path: &str) -> Vec<Told> {
    let mut source = http.events(path);
    std::iter::from_fn(|| source.next_event()).collect()
}

#[track_caller]
fn next(source: &mut EventSource) -> Told {
    source.next_event().expect("the stream goes on")
}

/// R29: a connection that breaks again and again loses nothing and repeats nothing.
#[test]
fn an_attachment_that_is_cut_and_resumed_gives_the_same_bytes() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = counting(&home, "count", 120_000);
    let mut whole = http.websocket(&attach_path(&pane, ""));
    let (from, screen) = snapshot(&mut whole);
    assert!(String::from_utf8_lossy(&screen).contains("ready"));

    whole.type_bytes(b"\n");
    let uncut = thread::spawn(move || {
        let (mut at, mut bytes) = (from, Vec::new());
        read_until(&mut whole, &mut at, &mut bytes, b"over\r\n");
        bytes
    });
    let (mut dice, mut at, mut bytes) = (Dice::default(), from, Vec::new());
    let mut cuts = 0;
    while !bytes.ends_with(b"over\r\n") {
        let mut socket = http.websocket(&attach_path(&pane, &format!("?from={at}")));
        let resumed = socket.next_message();
        let Brought::Text(resumed) = resumed else { panic!("{resumed:?} instead of a word first") };
        assert_eq!((&resumed["type"], &resumed["offset"]), (&json!("resumed"), &json!(at)));
        for _ in 0..=dice.roll(4) {
            let Brought::Bytes(offset, more) = socket.next_message() else { break };
            assert_eq!(offset, at);
            // A message may be cut in the middle: only a part of it arrives.
            let keep = if dice.roll(2) == 0 { more.len() } else { 1 + more.len() / 2 };
            bytes.extend(&more[..keep.min(more.len())]);
            at += keep.min(more.len()) as u64;
            if keep < more.len() || bytes.ends_with(b"over\r\n") {
                break;
            }
        }
        cuts += 1;
    }

    assert!(cuts > 2, "it was cut only {cuts} times");
    assert!(uncut.join().unwrap() == bytes, "the pieces are not the whole");
    let log = pane.log();
    assert!(log[usize::try_from(from).unwrap()..].starts_with(&bytes), "nor what the pane wrote");
}

/// B3: whoever watches, and whoever does not read what he is sent, the pane writes on.
#[test]
fn heavy_twenty_clients_of_which_most_never_read_do_not_hold_up_a_pane() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let lines = 500_000;
    let pane = counting(&home, "flood", lines);
    let deaf: Vec<Socket> =
        (0..15).map(|_| http.websocket(&attach_path(&pane, "?read_only=true"))).collect();
    let mut eager: Vec<Socket> =
        (0..5).map(|_| http.websocket(&attach_path(&pane, "?lag=1099511627776"))).collect();
    let offsets: Vec<u64> = eager.iter_mut().map(|socket| snapshot(socket).0).collect();

    eager[0].type_bytes(b"\n");

    let readers = eager.into_iter().zip(offsets).map(|(mut socket, mut at)| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            read_until(&mut socket, &mut at, &mut bytes, b"over\r\n");
            bytes
        })
    });
    let readers: Vec<_> = readers.collect();
    let read: Vec<Vec<u8>> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    let expected: Vec<u8> =
        (1..=lines).flat_map(|n| format!("{n}\r\n").into_bytes()).chain(*b"over\r\n").collect();
    for bytes in &read {
        assert!(bytes.ends_with(&expected), "a reader did not get every line");
    }
    assert!(pane.log().ends_with(&expected), "the log has not every line");
    drop(deaf);
}

/// R29: what is typed and resized over a WebSocket arrives, and only who may can do it.
#[test]
fn a_pane_is_typed_at_and_resized_by_those_who_may() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = home.start_pane("shell", &["sh"]);
    let mut socket = http.websocket(&attach_path(&pane, "?cols=101&rows=33"));
    let (mut at, _) = snapshot(&mut socket);
    let mut bytes = Vec::new();

    socket.tell(&json!({"type": "input", "text": "echo sum-$((40+2))", "enter": true}));
    read_until(&mut socket, &mut at, &mut bytes, b"sum-42");
    socket.type_bytes(b"stty size; echo first-$((1+1))\n");
    read_until(&mut socket, &mut at, &mut bytes, b"33 101");
    read_until(&mut socket, &mut at, &mut bytes, b"first-2");
    socket.tell(&json!({"type": "resize", "cols": 77, "rows": 22}));
    wait_until("the pane has the size", LONG, || {
        let size = &home.show(&pane.id)["live"]["size"];
        size["cols"] == 77 && size["rows"] == 22
    });
    socket.tell(&json!({"type": "dance"}));
    assert_eq!(closed(&mut socket).unwrap().0, 1007);

    // One who may only look sees the same and is shown the door when he types.
    let read = home.ccmux(&["token", "--scope", "read"]).ok();
    let looking = http.with_token(Some(read.trim()));
    let mut watcher = looking.websocket(&attach_path(&pane, ""));
    let (_, screen) = snapshot(&mut watcher);
    assert!(String::from_utf8_lossy(&screen).contains("sum-42"));
    watcher.type_bytes(b"exit\n");
    let (code, reason) = closed(&mut watcher).unwrap();
    assert_eq!(code, 1008, "{reason}");
    assert_eq!(home.show(&pane.id)["state"], "running");
    // Without a token, and without a WebSocket, there is nothing.
    http.with_token(None).try_websocket(&attach_path(&pane, "")).unwrap_err();
    assert_eq!(http.get(&attach_path(&pane, "")).status, 426);
    // That somebody typed is on record, with who.
    let called = recorded(&http, "/v1/events?after=0&follow=false");
    let called = called.iter().find(|told| {
        told.data["event"] == "api_called"
            && told.data["path"].as_str().is_some_and(|path| path.ends_with("/attach"))
    });
    assert!(called.is_some_and(|told| told.data["who"].as_str().unwrap().contains("control")));
}

#[track_caller]
fn closed(socket: &mut Socket) -> Option<(u16, String)> {
    loop {
        if let Brought::Closed(why) = socket.next_message() {
            return why;
        }
    }
}

/// R29: a pane that has ended still shows what it wrote, and says how it ended.
#[test]
fn the_end_of_a_pane_is_told_to_those_who_watch_and_to_those_who_come_later() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = home.start_pane("short", &["sh", "-c", "echo begin; read go; echo end; exit 7"]);
    let mut socket = http.websocket(&attach_path(&pane, ""));
    let (mut at, _) = snapshot(&mut socket);

    socket.type_bytes(b"\n");

    let mut bytes = Vec::new();
    let ended = until_ended(&mut socket, &mut at, &mut bytes);
    assert_eq!(ended["ending"]["code"], 7, "{ended}");
    assert_eq!(ended["offset"], at);
    assert!(String::from_utf8_lossy(&bytes).contains("end"));
    assert_eq!(closed(&mut socket).unwrap().0, 1000);

    let log = pane.log();
    let mut later = http.websocket(&attach_path(&pane, "?from=0"));
    let (mut at, mut bytes) = (0, Vec::new());
    let ended = until_ended(&mut later, &mut at, &mut bytes);
    assert_eq!(ended["ending"]["code"], 7, "{ended}");
    assert!(bytes == log, "{bytes:?} is not {log:?}");

    let mut screen = http.websocket(&attach_path(&pane, ""));
    let (offset, shown) = snapshot(&mut screen);
    assert_eq!(offset, log.len() as u64);
    assert!(String::from_utf8_lossy(&shown).contains("begin"));
}

/// Reads to the word about the end.
#[track_caller]
fn until_ended(socket: &mut Socket, at: &mut u64, bytes: &mut Vec<u8>) -> Value {
    loop {
        match socket.next_message() {
            Brought::Bytes(offset, more) => {
                assert_eq!(offset, *at);
                *at += more.len() as u64;
                bytes.extend(more);
            }
            Brought::Text(text) if text["type"] == "ended" => return text,
            Brought::Text(_) => {}
            Brought::Closed(why) => panic!("closed without a word: {why:?}"),
        }
    }
}

/// R29: an attachment outlives the daemon in what it has: the next one goes on at its offset.
#[test]
fn an_attachment_goes_on_after_the_daemon_was_killed() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = counting(&home, "stays", 1000);
    let mut socket = http.websocket(&attach_path(&pane, ""));
    let (from, _) = snapshot(&mut socket);

    home.kill_daemon();
    assert!(matches!(socket.next_message(), Brought::Closed(_)));
    home.ccmux(&["send", &pane.id, "--enter", "go"]).ok();
    let again = home.serve();
    let mut socket = again.websocket(&attach_path(&pane, &format!("?from={from}")));
    let (mut at, mut bytes) = (from, Vec::new());
    read_until(&mut socket, &mut at, &mut bytes, b"over\r\n");

    let expected: String = (1..=1000).map(|n| format!("{n}\r\n")).collect();
    assert!(bytes.ends_with(format!("{expected}over\r\n").as_bytes()));
}

/// R29: figures for Prometheus, and a page for people that loads nothing from elsewhere.
#[test]
fn figures_and_a_page_are_served() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = counting(&home, "one", 1);
    let mut socket = http.websocket(&attach_path(&pane, ""));
    snapshot(&mut socket);
    assert_eq!(http.get("/v1/panes/nobody").status, 404);

    let figures = http.get("/v1/metrics");

    assert_eq!(figures.status, 200);
    assert!(figures.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = figures.text();
    for line in [
        r#"ccmux_panes{agent="shell",state="running"} 1"#,
        r#"ccmux_sessions{status="running",mode="isolated"} 1"#,
        "ccmux_attach_clients 1",
        "ccmux_locks_held 0",
        "ccmux_messages_queued 0",
        r#"ccmux_http_requests_total{method="GET",route="/v1/panes/{id}",status="404"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    for (number, line) in text.lines().enumerate() {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(line.starts_with('#') || value.parse::<f64>().is_ok(), "{number}: {name} {value}");
    }
    assert_eq!(http.with_token(None).get("/metrics").status, 401);
    assert_eq!(http.get("/metrics").status, 200);

    for path in ["/healthz", "/openapi.json"] {
        let versioned = http.with_token(None).get(&format!("/v1{path}")).expect(200);
        assert_eq!(http.with_token(None).get(path).expect(200), versioned);
    }
    for path in ["/", "/v1/docs"] {
        let page = http.with_token(None).get(path);
        assert_eq!(page.status, 200);
        let policy = page.header("content-security-policy").unwrap();
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(page.text().matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert!(!page.text().contains("https://"), "something from elsewhere");
    }
}
