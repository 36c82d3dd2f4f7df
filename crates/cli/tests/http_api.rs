//! R29, R31: the HTTP API, and who may call it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::Http;
use testkit::tls::Certificate;
use testkit::{Home, put, wait_for, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Whatever is waited for takes a moment; a machine that is busy with other things takes longer.
const LONG: Duration = Duration::from_secs(120);

/// A pane that says hello and waits for what is typed.
fn greeter() -> Value {
    json!({"name": "greeter", "command": ["sh", "-c", "echo hello; exec cat"]})
}

/// Makes a home whose configuration says this under `[http]`.
fn configure(home: &Home, text: &str) {
    // Makes the directories.
    home.ccmux(&["config", "--check"]).ok();
    put(&home.state_root().join("config/ccmux.toml"), &format!("[http]\n{text}"));
}

/// Sends bytes as they are, and reads until the other end hangs up.
fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn address(http: &Http) -> SocketAddr {
    http.url.trim_start_matches("http://").parse().unwrap()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {answer}")).parse().unwrap()
}

/// R29, R31: everything that can be done with a run, and what is left of it in the end.
#[test]
fn a_run_lives_its_whole_life_over_http() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let run = json!({"name": "web", "agents": [greeter(), {"command": ["cat"], "role": "qa"}]});
    let keyed = http.with_header("idempotency-key", "run-1");

    let made = keyed.post("/v1/runs", &run).expect(201);
    let again = keyed.post("/v1/runs", &run);

    assert_eq!(again.expect(200)["sessionId"], made["sessionId"]);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!((&made["sessionMode"], &made["status"]), (&json!("isolated"), &json!("running")));
    for dir in ["workingDir", "unitDir", "workflowsDir"] {
        assert!(fs::metadata(made[dir].as_str().unwrap()).unwrap().is_dir(), "{dir}");
    }
    let session = format!("/v1/sessions/{}", made["sessionId"].as_str().unwrap());
    let agents = http.get(&format!("{session}/agents")).expect(200)["agents"].clone();
    assert_eq!(agents.as_array().unwrap().len(), 2, "{agents}");
    let mut greeters = agents.as_array().unwrap().iter().filter(|pane| pane["name"] == "greeter");
    let pane = format!("/v1/panes/{}", greeters.next().unwrap()["id"].as_str().unwrap());

    let typed = json!({"text": "good morning", "enter": true});
    assert_eq!(http.post(&format!("{pane}/input"), &typed).status, 204);
    wait_until("it echoes", LONG, || {
        let screen = http.get(&format!("{pane}/screen")).expect(200);
        screen["text"].as_str().unwrap().matches("good morning").count() == 2
    });
    let log = http.get(&format!("{pane}/log?from=0&limit=5"));
    assert_eq!((log.status, log.text().as_str()), (200, "hello"));
    assert_eq!((log.header("ccmux-next"), log.header("ccmux-more")), (Some("5"), Some("true")));
    let size = json!({"cols": 100, "rows": 30});
    assert_eq!(http.post(&format!("{pane}/resize"), &size).expect(200), size);
    let shown = http.get(&pane).expect(200);
    assert_eq!(shown["pane"]["live"]["size"], json!({"cols": 100, "rows": 30}), "{shown}");

    let (panes, third) = (format!("{session}/panes"), json!({"command": ["cat"]}));
    let keyed = http.with_header("idempotency-key", "pane-1");
    let more = keyed.post(&panes, &third).expect(201);
    assert_eq!(keyed.post(&panes, &third).expect(200)["pane"]["id"], more["pane"]["id"]);
    assert_eq!(more["session"]["name"], "web");
    let ways = http.post(&format!("{session}/connect"), &json!({})).expect(200);
    assert_eq!(ways["panes"].as_array().unwrap().len(), 3, "{ways}");
    let stopped = http.post(&format!("{session}/stop"), &json!({"graceMs": 1000})).expect(200);
    assert!(stopped["panes"].as_array().unwrap().iter().all(|pane| pane["state"] == "exited"));
    assert_eq!(
        http.post(&format!("{session}/connect"), &json!({})).expect(409)["code"],
        "conflict"
    );
    let restored = http.post(&format!("{session}/restore"), &json!({})).expect(200);
    assert!(restored["panes"].as_array().unwrap().iter().all(|pane| pane["state"] == "running"));
    let third = format!("/v1/panes/{}?graceMs=100", more["pane"]["id"].as_str().unwrap());
    assert_eq!(http.delete(&third).status, 204);
    assert_eq!(http.delete(&format!("{session}?graceMs=100")).status, 204);
    assert_eq!(http.get(&session).status, 404);

    let events = home.ccmux(&["events", "--json"]).ok();
    let called = events.lines().filter(|line| line.contains("\"api_called\"")).count();
    assert_eq!(called, 12, "every change is on record:\n{events}");
    assert!(!events.contains(http.token().unwrap()), "and no token is");
}

/// A token opens what its scope allows, until it is replaced.
#[test]
fn only_who_has_a_token_may_call_and_only_what_it_allows() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let file = home.state_root().join("run/token");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let read = home.ccmux(&["token", "--scope", "read", "--json"]).json();
    let reader = http.with_token(read["token"].as_str());

    let nobody = http.with_token(None).get("/v1/sessions");
    assert_eq!(nobody.expect(401)["code"], "no_token");
    assert!(nobody.header("www-authenticate").unwrap().starts_with("Bearer"));
    assert_eq!(http.with_token(Some(&"0".repeat(64))).get("/v1/sessions").status, 401);
    assert_eq!(http.with_token(None).get("/v1/healthz").status, 200);
    assert_eq!(http.with_token(None).get("/v1/openapi.json").status, 200);
    assert_eq!(reader.get("/v1/sessions").status, 200);
    let refused = reader.post("/v1/runs", &json!({"agents": [greeter()]})).expect(403);
    assert_eq!(refused["code"], "scope");

    let new = home.ccmux(&["token", "--rotate"]).ok();
    assert_eq!(http.get("/v1/sessions").status, 401, "the old one is worth nothing");
    assert_eq!(http.with_token(Some(new.trim())).get("/v1/sessions").status, 200);
    assert_eq!(reader.get("/v1/sessions").status, 200);
}

/// DNS rebinding and pages of strangers.
#[test]
fn strange_names_and_strange_pages_are_refused() {
    let home = Home::new(CCMUX);
    configure(
        &home,
        "allowed_hosts = [\"box.example\"]\nallowed_origins = [\"https://board.example\"]\n",
    );
    let http = home.serve();
    let (at, port) = (address(&http), address(&http).port());
    let ask = |headers: &str| {
        let token = http.token().unwrap();
        raw(
            at,
            &format!(
                "GET /v1/sessions HTTP/1.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{headers}\r\n"
            ),
        )
    };
    let ours = format!("Host: 127.0.0.1:{port}\r\n");
    let cases = [
        (ours.clone(), 200),
        (format!("Host: localhost:{port}\r\n"), 200),
        ("Host: box.example\r\n".to_owned(), 200),
        (format!("Host: evil.example:{port}\r\n"), 403),
        (String::new(), 403),
        (format!("{ours}Origin: http://127.0.0.1:{port}\r\n"), 200),
        (format!("{ours}Origin: https://board.example\r\nSec-Fetch-Site: cross-site\r\n"), 200),
        (format!("{ours}Origin: http://evil.example\r\n"), 403),
        (format!("{ours}Origin: null\r\n"), 403),
        (format!("{ours}Sec-Fetch-Site: cross-site\r\n"), 403),
        (format!("{ours}Sec-Fetch-Site: same-origin\r\n"), 200),
    ];
    for (headers, expected) in cases {
        assert_eq!(status(&ask(&headers)), expected, "{headers}");
    }
    let shared = ask(&format!("{ours}Origin: https://board.example\r\n"));
    assert!(shared.contains("access-control-allow-origin: https://board.example"), "{shared}");
    let evil = format!(
        "GET /v1/panes/x/attach HTTP/1.1\r\n{ours}Origin: http://evil.example\r\nUpgrade: websocket\r\n\
         Connection: upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\
         Sec-WebSocket-Protocol: ccmux.token.{}\r\n\r\n",
        http.token().unwrap()
    );
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(evil.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 403");
}

/// Ours and those of the libraries.
#[test]
fn every_error_is_a_problem() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let (at, token) = (address(&http), http.token().unwrap());
    let json = "Content-Type: application/json\r\n";
    let cases = [
        ("GET", "/v1/nowhere", "", "", 404, "no_such_path"),
        ("PATCH", "/v1/sessions", "", "", 405, "method_not_allowed"),
        ("GET", "/v1/sessions?limit=0", "", "", 400, "bad_request"),
        ("GET", "/v1/sessions?limit=many", "", "", 400, "bad_request"),
        ("GET", "/v1/sessions?cursor=x", "", "", 422, "usage"),
        ("GET", "/v1/sessions/nobody", "", "", 404, "not_found"),
        ("GET", "/v1/panes/%00%ff", "", "", 400, "bad_request"),
        ("DELETE", "/v1/locks/nobody", "", "", 404, "not_found"),
        ("POST", "/v1/runs", json, "{\"agents\":", 400, "bad_request"),
        ("POST", "/v1/runs", json, "{\"agent\":[]}", 422, "usage"),
        ("POST", "/v1/runs", "Content-Type: text/plain\r\n", "{}", 415, "not_json"),
        ("POST", "/v1/panes/nobody/input", json, "{\"keys\":[]}", 404, "not_found"),
    ];
    for (method, path, headers, body, expected, code) in cases {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = raw(at, &request);
        assert_eq!(status(&answer), expected, "{method} {path}: {answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{answer}");
        let problem: Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(expected)));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
    }
    let not_allowed = http.ask("PATCH", "/v1/sessions", None);
    assert!(not_allowed.header("allow").unwrap().contains("GET"), "{not_allowed:?}");
    let huge = json!({"name": "x".repeat(2 << 20)});
    assert_eq!(http.post("/v1/runs", &huge).expect(413)["code"], "too_large");
    let nothing = json!({"agents": [{"command": ["/no/such/program"]}]});
    assert_eq!(http.post("/v1/runs", &nothing).expect(422)["code"], "not_started");
    assert_eq!(http.get("/v1/sessions").expect(200)["sessions"], json!([]), "nothing is left");
}

/// R29: pages of sessions, each of which is the same until something changes.
#[test]
fn sessions_are_listed_in_pages_and_none_of_them_twice() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    for name in ["a", "b", "c", "d", "e"] {
        let words = ["new", "-d", "--session", name, "--workspace", "empty", "--", "cat"];
        home.ccmux(&words).ok();
    }

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = http.get(&format!("/v1/sessions?limit=2{cursor}")).expect(200);
        let names = page["sessions"].as_array().unwrap().iter();
        seen.extend(names.map(|session| session["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);

    let first = http.get("/v1/sessions/a");
    let known = http.with_header("if-none-match", first.header("etag").unwrap());
    assert_eq!(known.get("/v1/sessions/a").status, 304);
    home.ccmux(&["rename", "a", "other"]).ok();
    assert_eq!(known.get("/v1/sessions/other").status, 200);
    home.ccmux(&["stop", "b"]).ok();
    let stopped = http.get("/v1/sessions?status=stopped").expect(200);
    assert_eq!(stopped["sessions"].as_array().unwrap().len(), 1, "{stopped}");
    let legacy = http.get("/v1/sessions?mode=legacy").expect(200);
    assert_eq!(legacy["sessions"], json!([]));
}

/// More than there may be are turned away, and those that leave make room.
#[test]
fn connections_are_bounded() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let at = address(&http);
    let request = format!("GET /v1/healthz HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");

    let idle: Vec<TcpStream> = (0..256).map(|_| TcpStream::connect(at).unwrap()).collect();
    let refused = wait_for("one is turned away", LONG, || {
        let mut stream = TcpStream::connect(at).unwrap();
        let mut answer = String::new();
        // Who is turned away may be cut off while he still talks.
        let _cut = stream.write_all(request.as_bytes());
        let _cut = stream.read_to_string(&mut answer);
        (!answer.is_empty()).then_some(answer).filter(|answer| status(answer) == 503)
    });
    assert!(refused.contains("too_many_connections"), "{refused}");
    drop(idle);

    wait_until("there is room again", LONG, || {
        let mut stream = TcpStream::connect(at).unwrap();
        let mut answer = String::new();
        let _cut = stream.write_all(request.as_bytes());
        let _cut = stream.read_to_string(&mut answer);
        !answer.is_empty() && status(&answer) == 200
    });
}

/// Beyond this machine only with TLS, and with a key that nobody else can read.
#[test]
fn other_machines_are_served_only_over_tls() {
    let home = Home::new(CCMUX);
    let everywhere = ["serve", "--detach", "--json", "--listen", "0.0.0.0:0"];
    let refused = home.ccmux(&everywhere).fails_with(4);
    assert!(refused.contains("TLS"), "{refused}");
    let certificate = Certificate::new(home.dir());
    let config = format!(
        "tls_cert = \"{}\"\ntls_key = \"{}\"\n",
        certificate.cert.display(),
        certificate.key.display()
    );
    configure(&home, &config);
    fs::set_permissions(&certificate.key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = home.ccmux(&everywhere).fails_with(2);
    assert!(refused.contains("others can read"), "{refused}");
    fs::set_permissions(&certificate.key, fs::Permissions::from_mode(0o600)).unwrap();

    let serving = home.ccmux(&everywhere).json();

    assert!(serving["url"].as_str().unwrap().starts_with("https://"), "{serving}");
    let port = serving["address"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let at: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    let request =
        format!("GET /v1/healthz HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    let answer = certificate.ask(at, &request).unwrap();
    assert_eq!(status(&answer), 200, "{answer}");
}

/// Where to listen is told by the command or by the configuration, and is no matter of life or
/// death to the daemon.
#[test]
fn an_address_that_is_taken_is_told_and_the_daemon_lives_on() {
    let home = Home::new(CCMUX);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    configure(&home, &format!("listen = \"{at}\"\n"));

    let daemon = home.start_daemon();
    let problems = wait_for("the daemon says so", LONG, || {
        let status = home.ccmux(&["daemon", "status", "--json"]).json();
        status["problems"].as_array().cloned().filter(|problems| !problems.is_empty())
    });
    assert!(problems[0].as_str().unwrap().contains(&at), "{problems:?}");
    let refused = home.ccmux(&["serve", "--detach"]).fails_with(4);
    assert!(refused.contains(&at), "{refused}");
    assert_eq!(home.daemon(), daemon);

    drop(taken);
    let served = home.ccmux(&["serve", "--detach", "--json"]).json();
    assert_eq!(served["address"], at.as_str());
    home.kill_daemon();
    home.start_daemon();
    wait_until("the next daemon serves it by itself", LONG, || {
        let status = home.ccmux(&["daemon", "status", "--json"]).json();
        status["http"] == served["url"]
    });
}

/// `ccmux serve` serves for as long as it runs.
#[test]
fn what_is_served_in_the_foreground_ends_with_it() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let url = || home.ccmux(&["daemon", "status", "--json"]).json()["http"].clone();
    assert_eq!(url(), Value::Null);

    let mut serving = home.ccmux(&["serve", "--listen", "127.0.0.1:0"]).spawn();
    wait_until("it is served", LONG, || url().is_string());
    let http = Http::new(url().as_str().unwrap(), None);
    assert_eq!(http.get("/v1/healthz").expect(200)["status"], "ok");
    serving.kill().unwrap();
    serving.wait().unwrap();

    wait_until("it is no longer served", LONG, || url() == Value::Null);
    assert!(http.try_ask("GET", "/v1/healthz", None).is_err());
}

/// Calls that come too often are told when to come back.
#[test]
fn calls_are_bounded_by_a_rate() {
    let home = Home::new(CCMUX);
    configure(&home, "rate = 1\n");
    let http = home.serve();

    let refused = wait_for("one too many", LONG, || {
        let answer = http.get("/v1/sessions");
        (answer.status != 200).then_some(answer)
    });

    assert_eq!(refused.expect(429)["code"], "too_many_calls");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(http.with_token(None).get("/v1/healthz").status, 200);
}
