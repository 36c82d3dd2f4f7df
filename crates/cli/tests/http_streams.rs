//! R29, B3: events and pane output over HTTP have no gaps or duplicates, however slowly clients
//! read.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::{EventSource, ServerEvent, Socket, SocketMessage};
use testkit::{Dice, Home, Http, Pane, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// A pane that prints that many numbered lines on request and stays until told to exit.
fn counting(home: &Home, name: &str, lines: usize) -> Pane {
    let script = format!("stty -echo; echo ready; read go; seq 1 {lines}; echo over; read go");
    let pane = home.start_pane(name, &["sh", "-c", &script]);
    wait_until("the pane is ready", LONG, || pane.log().windows(5).any(|text| text == b"ready"));
    pane
}

fn attach_path(pane: &Pane, query: &str) -> String {
    format!("/v1/panes/{}/attach{query}", pane.id)
}

/// Reads the initial snapshot of an attachment and returns its offset and bytes.
#[track_caller]
fn snapshot(socket: &mut Socket) -> (u64, Vec<u8>) {
    let SocketMessage::Text(text) = socket.next_message() else { panic!("no text first") };
    assert_eq!(text["type"], "snapshot", "{text}");
    let SocketMessage::Bytes(offset, bytes) = socket.next_message() else { panic!("no snapshot") };
    assert_eq!(text["offset"], offset, "{text}");
    (offset, bytes)
}

/// Reads output until `end`; asserts that every message starts where the previous one ended.
#[track_caller]
fn read_until(socket: &mut Socket, at: &mut u64, bytes: &mut Vec<u8>, end: &[u8]) {
    // Only new bytes are searched: there are thousands of messages.
    let mut looked = 0;
    while !bytes[looked..].windows(end.len()).any(|text| text == end) {
        looked = bytes.len().saturating_sub(end.len());
        match socket.next_message() {
            SocketMessage::Bytes(offset, more) => {
                assert_eq!(offset, *at, "a gap or a duplicate");
                *at += more.len() as u64;
                bytes.extend(more);
            }
            SocketMessage::Text(text) => {
                assert_ne!(text["type"], "snapshot", "the stream skipped output");
            }
            SocketMessage::Closed(why) => panic!("closed before the end: {why:?}"),
        }
    }
}

/// R29: the stream of events is the event log from any number on.
#[test]
fn event_stream_starts_after_given_number() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let mut live = http.events("/v1/events");
    let (one, two) = (counting(&home, "one", 1), counting(&home, "two", 1));
    home.ccmux(&["rename", &one.id, "uno"]).ok();
    home.ccmux(&["close", &two.id]).ok();

    let all = recorded(&http, "/v1/events?after=0&follow=false");

    let numbers: Vec<u64> = all.iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    for event in &all {
        assert_eq!(event.data["seq"], event.id);
        assert_eq!(event.data["event"].as_str(), event.event.as_deref());
    }
    // Half of them again, by each way to give a number; the header wins over the query.
    let half = numbers.len() as u64 / 2;
    let rest = all[all.len() / 2..].to_vec();
    assert_eq!(recorded(&http, &format!("/v1/events?after={half}&follow=false")), rest);
    let resuming = http.with_header("last-event-id", &half.to_string());
    assert_eq!(recorded(&resuming, "/v1/events?after=0&follow=false"), rest);
    // A client connected from the beginning has every event since then once.
    let first = next(&mut live);
    let since: Vec<ServerEvent> = all.into_iter().filter(|event| event.id > first.id).collect();
    for expected in &since {
        assert_eq!(next(&mut live), *expected);
    }
}

/// R29: only events of one pane or session, also events that do not name the session.
#[test]
fn event_stream_filters_by_pane_or_session() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let (one, two) = (counting(&home, "one", 1), counting(&home, "two", 1));
    home.ccmux(&["rename", &one.id, "uno"]).ok();
    let session = home.ccmux(&["show", "--json", &one.id]).json()["session"]["id"].take();
    let session = session.as_str().unwrap();

    let of_pane = recorded(&http, &format!("/v1/events?after=0&follow=false&pane={}", one.id));
    let of_session = recorded(&http, &format!("/v1/events?after=0&follow=false&session={session}"));

    let kinds = |events: &[ServerEvent]| -> Vec<String> {
        events.iter().filter_map(|event| event.event.clone()).collect()
    };
    assert!(kinds(&of_pane).contains(&"pane_created".to_owned()), "{of_pane:?}");
    assert!(kinds(&of_session).contains(&"pane_renamed".to_owned()), "{of_session:?}");
    assert!(of_pane.iter().all(|event| event.data["pane"] == one.id.as_str()), "{of_pane:?}");
    assert!(!of_session.iter().any(|event| event.data["pane"] == two.id.as_str()));
    assert_eq!(http.get("/v1/events?pane=nobody").status, 404);
    assert_eq!(http.with_header("last-event-id", "soon").get("/v1/events").status, 400);
}

fn recorded(http: &Http, path: &str) -> Vec<ServerEvent> {
    let mut source = http.events(path);
    std::iter::from_fn(|| source.next_event()).collect()
}

#[track_caller]
fn next(source: &mut EventSource) -> ServerEvent {
    source.next_event().expect("the stream continues")
}

/// R29: a connection that breaks repeatedly loses and repeats nothing.
#[test]
fn interrupted_attachment_resumes_without_gap_or_duplicate() {
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
        let SocketMessage::Text(resumed) = resumed else {
            panic!("{resumed:?} instead of a word first")
        };
        assert_eq!((&resumed["type"], &resumed["offset"]), (&json!("resumed"), &json!(at)));
        for _ in 0..=dice.roll(4) {
            let SocketMessage::Bytes(offset, more) = socket.next_message() else { break };
            assert_eq!(offset, at);
            // A message may be cut: only a part of it arrives.
            let keep = if dice.roll(2) == 0 { more.len() } else { 1 + more.len() / 2 };
            bytes.extend(&more[..keep.min(more.len())]);
            at += keep.min(more.len()) as u64;
            if keep < more.len() || bytes.ends_with(b"over\r\n") {
                break;
            }
        }
        cuts += 1;
    }

    assert!(cuts > 2, "only {cuts} interruptions");
    assert!(uncut.join().unwrap() == bytes, "the resumed stream differs");
    let log = pane.log();
    assert!(
        log[usize::try_from(from).unwrap()..].starts_with(&bytes),
        "the stream differs from the log"
    );
}

/// B3: a pane is not blocked by clients, even if they do not read.
#[test]
fn heavy_clients_that_never_read_do_not_block_a_pane() {
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
        assert!(bytes.ends_with(&expected), "a reader missed lines");
    }
    assert!(pane.log().ends_with(&expected), "the log misses lines");
    drop(deaf);
}

/// R29: input and resizing over a WebSocket need the right scope.
#[test]
fn websocket_input_and_resize_require_scope() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = home.start_pane("shell", &["sh"]);
    let mut socket = http.websocket(&attach_path(&pane, "?cols=101&rows=33"));
    let (mut at, _) = snapshot(&mut socket);
    let mut bytes = Vec::new();

    socket.send_text(&json!({"type": "input", "text": "echo sum-$((40+2))", "enter": true}));
    read_until(&mut socket, &mut at, &mut bytes, b"sum-42");
    socket.type_bytes(b"stty size; echo first-$((1+1))\n");
    read_until(&mut socket, &mut at, &mut bytes, b"33 101");
    read_until(&mut socket, &mut at, &mut bytes, b"first-2");
    socket.send_text(&json!({"type": "resize", "cols": 77, "rows": 22}));
    wait_until("the pane has the size", LONG, || {
        let size = &home.show(&pane.id)["live"]["size"];
        size["cols"] == 77 && size["rows"] == 22
    });
    socket.send_text(&json!({"type": "dance"}));
    assert_eq!(closed(&mut socket).unwrap().0, 1007);

    // A read-only client sees the same screen and is disconnected when it types.
    let read = home.ccmux(&["token", "--scope", "read"]).ok();
    let looking = http.with_token(Some(read.trim()));
    let mut watcher = looking.websocket(&attach_path(&pane, ""));
    let (_, screen) = snapshot(&mut watcher);
    assert!(String::from_utf8_lossy(&screen).contains("sum-42"));
    watcher.type_bytes(b"exit\n");
    let (code, reason) = closed(&mut watcher).unwrap();
    assert_eq!(code, 1008, "{reason}");
    assert_eq!(home.show(&pane.id)["state"], "running");
    // Without a token or an upgrade the request is refused.
    http.with_token(None).try_websocket(&attach_path(&pane, "")).unwrap_err();
    assert_eq!(http.get(&attach_path(&pane, "")).status, 426);
    // Input is recorded with its source.
    let called = recorded(&http, "/v1/events?after=0&follow=false");
    let called = called.iter().find(|event| {
        event.data["event"] == "api_called"
            && event.data["path"].as_str().is_some_and(|path| path.ends_with("/attach"))
    });
    assert!(called.is_some_and(|event| event.data["who"].as_str().unwrap().contains("control")));
}

#[track_caller]
fn closed(socket: &mut Socket) -> Option<(u16, String)> {
    loop {
        if let SocketMessage::Closed(why) = socket.next_message() {
            return why;
        }
    }
}

/// R29: an ended pane still shows its output and how it ended.
#[test]
fn pane_exit_is_sent_to_current_and_later_clients() {
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

/// Reads up to the message about the end.
#[track_caller]
fn until_ended(socket: &mut Socket, at: &mut u64, bytes: &mut Vec<u8>) -> Value {
    loop {
        match socket.next_message() {
            SocketMessage::Bytes(offset, more) => {
                assert_eq!(offset, *at);
                *at += more.len() as u64;
                bytes.extend(more);
            }
            SocketMessage::Text(text) if text["type"] == "ended" => return text,
            SocketMessage::Text(_) => {}
            SocketMessage::Closed(why) => panic!("closed without a word: {why:?}"),
        }
    }
}

/// R29: an attachment is resumed at its offset with the next daemon.
#[test]
fn attachment_resumes_after_daemon_kill() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = counting(&home, "stays", 1000);
    let mut socket = http.websocket(&attach_path(&pane, ""));
    let (from, _) = snapshot(&mut socket);

    home.kill_daemon();
    assert!(matches!(socket.next_message(), SocketMessage::Closed(_)));
    home.ccmux(&["send", &pane.id, "--enter", "go"]).ok();
    let again = home.serve();
    let mut socket = again.websocket(&attach_path(&pane, &format!("?from={from}")));
    let (mut at, mut bytes) = (from, Vec::new());
    read_until(&mut socket, &mut at, &mut bytes, b"over\r\n");

    let expected: String = (1..=1000).map(|n| format!("{n}\r\n")).collect();
    assert!(bytes.ends_with(format!("{expected}over\r\n").as_bytes()));
}

/// Streams end with their token, whichever process replaces or removes it; those of the other scope
/// go on.
#[test]
fn streams_end_when_their_token_is_replaced_or_removed() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = counting(&home, "one", 1);
    let reader = home.ccmux(&["token", "--scope", "read"]).ok();
    let reader = http.with_token(Some(reader.trim()));
    let token_file = home.state_root().join("run/token");
    let rotate = || home.ccmux(&["token", "--rotate"]).ok();
    let replace_file = || {
        let other = token_file.with_extension("other");
        std::fs::copy(&token_file, &other).unwrap();
        put(&other, "0123456789abcdef".repeat(4));
        std::fs::rename(&other, &token_file).unwrap();
        String::new()
    };
    let remove_file = || std::fs::remove_file(&token_file).map(|()| String::new()).unwrap();
    let ways: [(&str, &dyn Fn() -> String); 3] =
        [("rotated", &rotate), ("file replaced", &replace_file), ("file removed", &remove_file)];
    let mut spared = reader.websocket(&attach_path(&pane, ""));
    snapshot(&mut spared);

    for (way, revoke) in ways {
        let current = http.with_token(Some(home.ccmux(&["token"]).ok().trim()));
        let mut socket = current.websocket(&attach_path(&pane, ""));
        snapshot(&mut socket);
        let mut events = current.events("/v1/events?after=0");
        assert!(events.next_event().is_some(), "{way}");

        revoke();

        // The stream ends; a live stream would wait for more events.
        while events.next_event().is_some() {}
        let closed = loop {
            match socket.next_message() {
                SocketMessage::Closed(why) => break why,
                SocketMessage::Text(_) | SocketMessage::Bytes(..) => {}
            }
        };
        assert_eq!(closed, Some((1008, "the token is no longer valid".to_owned())), "{way}");
        assert_eq!(current.get("/v1/sessions").status, 401, "{way}");
    }

    home.ccmux(&["send", &pane.id, "x", "--enter"]).ok();
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|text| text == b"over") {
        match spared.next_message() {
            SocketMessage::Bytes(_, more) => bytes.extend(more),
            SocketMessage::Text(_) => {}
            SocketMessage::Closed(why) => panic!("the other token ended as well: {why:?}"),
        }
    }
}

/// R29: Prometheus metrics, and a page that loads nothing from other hosts.
#[test]
fn metrics_and_page_are_served() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = counting(&home, "one", 1);
    let mut socket = http.websocket(&attach_path(&pane, ""));
    snapshot(&mut socket);
    assert_eq!(http.get("/v1/panes/nobody").status, 404);

    let figures = http.get("/v1/metrics");

    assert_eq!(figures.status, 200);
    let content_type = figures.header("content-type").unwrap();
    assert!(content_type.starts_with("application/openmetrics-text; version=1.0.0"));
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
    assert!(text.ends_with("# EOF\n"), "{text}");
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
        assert!(!page.text().contains("https://"), "the page loads from another host");
    }
}
