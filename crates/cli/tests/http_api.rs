//! R29, R31: the HTTP API and its authorization.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::Http;
use testkit::tls::Certificate;
use testkit::{Home, put, wait_for, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// A pane that prints a greeting and echoes its input.
fn greeter() -> Value {
    json!({"name": "greeter", "command": ["sh", "-c", "echo hello; exec cat"]})
}

/// Writes a configuration with this text under `[http]`.
fn configure(home: &Home, text: &str) {
    // Creates the directories.
    home.ccmux(&["config", "--check"]).ok();
    put(&home.state_root().join("config/ccmux.toml"), format!("[http]\n{text}"));
}

/// Sends raw bytes and reads until the connection is closed.
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

/// R29, R31: every operation on a run, and the remains after it.
#[test]
fn run_is_created_used_and_removed_over_http() {
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
    wait_until("the input is echoed", LONG, || {
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
    assert_eq!(called, 12, "every change is recorded:\n{events}");
    assert!(!events.contains(http.token().unwrap()), "a token was recorded");
}

/// A token grants what its scope allows until it is replaced.
#[test]
fn token_is_required_and_its_scope_enforced() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let file = home.state_root().join("run/token");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let read = home.ccmux(&["token", "--scope", "read", "--json"]).json();
    let reader = http.with_token(read["token"].as_str());

    let refused = http.with_token(None).get("/v1/sessions");
    assert_eq!(refused.expect(401)["code"], "no_token");
    assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer"));
    assert_eq!(http.with_token(Some(&"0".repeat(64))).get("/v1/sessions").status, 401);
    assert_eq!(http.with_token(None).get("/v1/healthz").status, 200);
    assert_eq!(http.with_token(None).get("/v1/openapi.json").status, 200);
    assert_eq!(reader.get("/v1/sessions").status, 200);
    let refused = reader.post("/v1/runs", &json!({"agents": [greeter()]})).expect(403);
    assert_eq!(refused["code"], "scope");

    let new = home.ccmux(&["token", "--rotate"]).ok();
    assert_eq!(http.get("/v1/sessions").status, 401, "the old token is invalid");
    assert_eq!(http.with_token(Some(new.trim())).get("/v1/sessions").status, 200);
    assert_eq!(reader.get("/v1/sessions").status, 200);
}

/// DNS rebinding and cross-origin requests.
#[test]
fn unknown_hosts_and_origins_are_refused() {
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
        (format!("{ours}{ours}"), 400),
        (format!("{ours}Host: evil.example:{port}\r\n"), 400),
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
    assert!(shared.contains("access-control-expose-headers: *"), "{shared}");
    let preflight = |origin: &str, method: &str| {
        let headers = format!("{ours}Connection: close\r\nOrigin: {origin}\r\n{method}\r\n");
        raw(at, &format!("OPTIONS /v1/sessions HTTP/1.1\r\n{headers}"))
    };
    let post = "Access-Control-Request-Method: POST\r\n";
    let answered = preflight("https://board.example", post);
    assert_eq!(status(&answered), 200, "{answered}");
    for line in [
        "access-control-allow-origin: https://board.example",
        "access-control-allow-methods: GET,POST,DELETE",
        "access-control-max-age: 600",
    ] {
        assert!(answered.contains(line), "{answered}");
    }
    assert!(answered.contains("idempotency-key"), "{answered}");
    assert_eq!(status(&preflight("https://evil.example", post)), 403);
    assert_eq!(status(&preflight("https://board.example", "")), 405);
    let refused = raw(
        at,
        &format!(
            "GET /v1/sessions HTTP/1.1\r\n{ours}Connection: close\r\n\
             Origin: https://board.example\r\n\r\n"
        ),
    );
    assert_eq!(status(&refused), 401);
    assert!(refused.contains("access-control-allow-origin: https://board.example"), "{refused}");
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

/// Errors of ccmux and of the HTTP library.
#[test]
fn every_error_is_problem_json() {
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
    assert_eq!(http.get("/v1/sessions").expect(200)["sessions"], json!([]), "sessions are left");
}

/// R29: pages of sessions are stable until something changes.
#[test]
fn session_pages_list_each_session_once() {
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

/// A local stranger without a token cannot use up the connections of the owner.
#[test]
fn idle_connections_without_token_do_not_keep_the_owner_out() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let at = address(&http);

    // More than all limits together; some of them send part of a request.
    let mut idle: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(at).unwrap()).collect();
    for stream in idle.iter_mut().step_by(2) {
        // The oldest are closed already.
        let _closed = stream.write_all(b"GET /v1/sessions HTTP/1.1\r\nHost: ");
    }

    for _ in 0..20 {
        assert_eq!(http.get("/v1/sessions").status, 200);
    }
    drop(idle);
}

/// Connections with a token over the limit are refused, and closed ones make room.
#[test]
fn connections_with_token_over_the_limit_are_refused() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let at = address(&http);
    let token = http.token().unwrap();
    let request =
        format!("GET /v1/locks HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\r\n");
    let open = || {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (stream, status(&String::from_utf8_lossy(&head)))
    };

    let held: Vec<(TcpStream, u16)> = (0..256).map(|_| open()).collect();

    assert!(held.iter().all(|(_, status)| *status != 503), "{:?}", held.last());
    assert_eq!(open().1, 503);
    drop(held);
    wait_until("a connection is accepted again", LONG, || open().1 != 503);
}

/// A Unix socket is reachable for its owner only, so a client knows who listens.
#[test]
fn unix_socket_serves_its_owner() {
    let home = Home::new(CCMUX);
    let path = home.state_root().join("run/http.sock");
    let listen = format!("unix:{}", path.display());

    let served = home.ccmux(&["serve", "--listen", &listen, "--detach", "--json"]).json();

    assert_eq!((&served["url"], &served["address"]), (&json!(listen), &json!(listen)));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = home.ccmux(&["token"]).ok();
    let ask = |host: &str, token: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        let request = format!(
            "GET /v1/sessions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        status(&answer)
    };
    assert_eq!(ask("localhost", token.trim()), 200);
    assert_eq!(ask("localhost", "wrong"), 401);
    assert_eq!(ask("evil.example", token.trim()), 403);
    let regular = home.work().join("regular");
    put(&regular, "mine");
    home.ccmux(&["daemon", "stop"]).ok();
    wait_until("the socket is removed", LONG, || !path.exists());
    let listen = format!("unix:{}", regular.display());
    let refused = home.ccmux(&["serve", "--listen", &listen, "--detach"]).fails_with(1);
    assert!(refused.contains("not a socket"), "{refused}");
    assert_eq!(fs::read_to_string(&regular).unwrap(), "mine");
}

/// A read token, or a pane, does not make the daemon run the programs of agents.
#[test]
fn read_token_and_panes_do_not_cause_agents_to_be_run() {
    let home = Home::new(CCMUX);
    let bin = home.work().join("bin");
    fs::create_dir(&bin).unwrap();
    let (program, marker) = (bin.join("claude"), home.work().join("ran"));
    put(&program, format!("#!/bin/sh\necho ran >> {}\necho 1.0.0\n", marker.display()));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let words = ["serve", "--listen", "127.0.0.1:0", "--detach", "--json"];
    let served = home.program(CCMUX, &words).env("PATH", &path).run();
    let served: Value = serde_json::from_str(&served.stdout).unwrap();
    let token = |scope| home.ccmux(&["token", "--scope", scope]).ok().trim().to_owned();
    let http = Http::new(served["url"].as_str().unwrap(), Some(&token("read")));
    let done = home.work().join("done");
    let script = format!("PATH={path} {CCMUX} doctor; touch {}", done.display());

    assert_eq!(http.get("/v1/doctor").status, 200);
    home.ccmux(&["new", "-d", "--workspace", "shared", "--", "sh", "-c", &script]).ok();
    wait_until("the pane has run doctor", LONG, || done.exists());

    assert!(!marker.exists(), "the program ran");
    assert_eq!(http.with_token(Some(&token("control"))).get("/v1/doctor").status, 200);
    assert!(marker.exists(), "the user's own check runs it");
}

/// Other machines need TLS, with a key that only its owner can read.
#[test]
fn non_loopback_address_requires_tls() {
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
    assert!(refused.contains("other users can read"), "{refused}");
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

/// The address comes from the command or the configuration; the daemon runs even if it cannot be
/// bound.
#[test]
fn address_in_use_is_reported_and_daemon_keeps_running() {
    let home = Home::new(CCMUX);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    configure(&home, &format!("listen = \"{at}\"\n"));

    let daemon = home.start_daemon();
    let problems = wait_for("the problem is reported", LONG, || {
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
    wait_until("the next daemon serves it", LONG, || {
        let status = home.ccmux(&["daemon", "status", "--json"]).json();
        status["http"] == served["url"]
    });
}

/// `ccmux serve` in the foreground serves as long as it runs.
#[test]
fn foreground_serve_stops_with_its_process() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let url = || home.ccmux(&["daemon", "status", "--json"]).json()["http"].clone();
    assert_eq!(url(), Value::Null);

    let mut serving = home.ccmux(&["serve", "--listen", "127.0.0.1:0"]).spawn();
    wait_until("the API is served", LONG, || url().is_string());
    let http = Http::new(url().as_str().unwrap(), None);
    assert_eq!(http.get("/v1/healthz").expect(200)["status"], "ok");
    serving.kill().unwrap();
    serving.wait().unwrap();

    wait_until("the API is no longer served", LONG, || url() == Value::Null);
    assert!(http.try_ask("GET", "/v1/healthz", None).is_err());
}

/// Requests over the rate limit get a Retry-After.
#[test]
fn requests_over_the_rate_limit_get_retry_after() {
    let home = Home::new(CCMUX);
    configure(&home, "rate = 1\n");
    let http = home.serve();

    let refused = wait_for("a request is refused", LONG, || {
        let answer = http.get("/v1/sessions");
        (answer.status != 200).then_some(answer)
    });

    assert_eq!(refused.expect(429)["code"], "too_many_calls");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(http.with_token(None).get("/v1/healthz").status, 200);
}
