//! R29, B3: when the daemon is killed during a request, either the response was true or there was
//! none and nothing is half done; a retry with the same idempotency key has one effect.
//!
//! `CCMUX_SOAK_HTTP_KILLS` sets the number of kills; `make soak` uses two hundred per request.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::Answer;
use testkit::soak::repetitions;
use testkit::{DEADLINE, Dice, Home, Hooks, Http, Pane, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Requests during which the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Run,
    Pane,
    Stop,
    Restore,
    Connect,
    Purge,
    StopPane,
    RestorePane,
    ClosePane,
    Message,
    Input,
    Resize,
    Lock,
    Renew,
    Release,
    /// A request that changes nothing.
    Look(&'static str),
}

const CALLS: [Call; 27] = [
    Call::Run,
    Call::Pane,
    Call::Stop,
    Call::Restore,
    Call::Connect,
    Call::Purge,
    Call::StopPane,
    Call::RestorePane,
    Call::ClosePane,
    Call::Message,
    Call::Input,
    Call::Resize,
    Call::Lock,
    Call::Renew,
    Call::Release,
    Call::Look("/v1/sessions"),
    Call::Look("/v1/sessions/base"),
    Call::Look("/v1/sessions/base/agents"),
    Call::Look("/v1/panes/stays"),
    Call::Look("/v1/panes/stays/screen"),
    Call::Look("/v1/panes/stays/log"),
    Call::Look("/v1/messages?session=base"),
    Call::Look("/v1/locks"),
    Call::Look("/v1/events?after=0&follow=false"),
    Call::Look("/v1/doctor"),
    Call::Look("/v1/metrics"),
    Call::Look("/v1/openapi.json"),
];

/// Points at which it is killed, besides random ones.
const POINTS: [(Call, &str); 18] = [
    (Call::Run, "run.entered"),
    (Call::Run, "run.pane"),
    (Call::Run, "run.done"),
    (Call::Run, "session.made"),
    (Call::Pane, "new.entered"),
    (Call::Pane, "new.recorded"),
    (Call::Pane, "new.started"),
    (Call::Stop, "stop.asked"),
    (Call::StopPane, "stop.asked"),
    (Call::Restore, "restore.claimed"),
    (Call::Restore, "restore.started"),
    (Call::RestorePane, "restore.recorded"),
    (Call::Purge, "purge.stopped"),
    (Call::Purge, "purge.retired"),
    (Call::ClosePane, "close.stopped"),
    (Call::ClosePane, "close.checked"),
    (Call::ClosePane, "close.retired"),
    (Call::Message, "message.noted"),
];

/// One request with its idempotency key.
#[derive(Clone)]
struct Asked {
    method: &'static str,
    path: String,
    body: Option<Value>,
    key: String,
}

impl Asked {
    fn send(&self, http: &Http) -> Option<Answer> {
        let keyed = http.with_header("idempotency-key", &self.key);
        keyed.try_ask(self.method, &self.path, self.body.as_ref()).ok()
    }

    fn send_in_background(&self, http: &Http) -> JoinHandle<Option<Answer>> {
        let (asked, http) = (self.clone(), http.clone());
        thread::spawn(move || asked.send(&http))
    }
}

struct Game {
    home: Home,
    http: Http,
    /// The pane that must survive all of it.
    stays: Pane,
}

fn two_panes(name: &str) -> Value {
    let pane = |name: &str| json!({"name": name, "command": ["sleep", "1000"]});
    json!({"name": name, "agents": [pane("one"), pane("two")]})
}

impl Game {
    /// Creates what the request needs, and returns the request.
    fn prepare(&self, call: Call, round: usize) -> Asked {
        let at = |method, path: &str, verb: &str, body| Asked {
            method,
            path: format!("{path}{verb}"),
            body,
            key: format!("key-{round}"),
        };
        let post = |path: &str, verb: &str, body| at("POST", path, verb, Some(body));
        let no_grace = json!({"graceMs": 0});
        let stays = &self.stays.id;
        match call {
            Call::Run => post("/v1/runs", "", two_panes(&format!("run{round}"))),
            Call::Pane => {
                let body = json!({"name": format!("pane{round}"), "command": ["sleep", "1000"]});
                post("/v1/sessions/base", "/panes", body)
            }
            Call::Stop => post(self.victim("running"), "/stop", no_grace),
            Call::StopPane => post(self.first_victim("running"), "/stop", no_grace),
            Call::Restore => post(self.victim("exited"), "/restore", json!({})),
            Call::RestorePane => post(self.first_victim("exited"), "/restore", json!({})),
            Call::Purge => at("DELETE", self.victim("running"), "?graceMs=0&now=true", None),
            Call::ClosePane => at("DELETE", self.first_victim("running"), "?graceMs=0", None),
            Call::Connect => post("/v1/sessions/base", "/connect", json!({})),
            Call::Message => {
                let text = format!("message-{round}-");
                let body = json!({"to": stays, "session": "base", "text": text, "raw": true});
                post("/v1/message", "", body)
            }
            Call::Input => {
                let body = json!({"text": format!("input-{round}-"), "enter": true});
                post(&format!("/v1/panes/{stays}"), "/input", body)
            }
            Call::Resize => {
                let body = json!({"cols": 80 + round % 40, "rows": 24});
                post(&format!("/v1/panes/{stays}"), "/resize", body)
            }
            Call::Lock => self.lock(round),
            Call::Renew => at("POST", &self.held(round), "/renew", None),
            Call::Release => at("DELETE", &self.held(round), "", None),
            Call::Look(path) => at("GET", path, "", None),
        }
    }

    fn lock(&self, round: usize) -> Asked {
        let path = self.home.work().join(format!("file{round}"));
        let body = json!({"paths": [path], "mode": "write", "pane": self.stays.id});
        let (method, path) = ("POST", "/v1/locks".to_owned());
        Asked { method, path, body: Some(body), key: format!("lock-{round}") }
    }

    /// Returns the path of a held lock.
    fn held(&self, round: usize) -> String {
        let lock = self.lock(round).send(&self.http).unwrap().expect(201);
        format!("/v1/locks/{}", id(&lock["locks"][0]))
    }

    fn first_victim(&self, state: &str) -> &'static str {
        self.victim(state);
        "/v1/panes/victim%2Fone"
    }

    /// Returns a session of two panes, both in the given state.
    fn victim(&self, state: &str) -> &'static str {
        let http = &self.http;
        if http.get("/v1/panes/victim%2Fone").status == 404 {
            // One of its panes, or the session, was removed.
            let removed = http.delete("/v1/sessions/victim?graceMs=0").status;
            assert!([204, 404].contains(&removed), "{removed}");
            let run = http.post("/v1/runs", &two_panes("victim"));
            assert_eq!(run.status, 201, "{}", run.text());
        }
        if state == "running" && self.victims().contains("exited") {
            let restored = http.post("/v1/sessions/victim/restore", &json!({}));
            assert_eq!(restored.status, 200, "{}", restored.text());
        }
        if state == "exited" {
            let stopped = http.post("/v1/sessions/victim/stop", &json!({"graceMs": 0}));
            assert_eq!(stopped.status, 200, "{}", stopped.text());
        }
        assert_eq!(self.victims(), BTreeSet::from([state.to_owned()]));
        "/v1/sessions/victim"
    }

    fn victims(&self) -> BTreeSet<String> {
        states(&self.http.get("/v1/sessions/victim").expect(200))
    }

    /// Checks that the response was true, that no effect is partial, and that a retry has the
    /// requested effect exactly once.
    fn check(&self, call: Call, round: usize, asked: &Asked, answer: Option<&Answer>) {
        let good = answer.is_some_and(|answer| (200..300).contains(&answer.status));
        if let Some(answer) = answer {
            assert!(answer.status < 500, "{call:?}: {} {}", answer.status, answer.text());
        }
        match call {
            Call::Run => self.check_run(round, asked, good),
            Call::Pane => self.check_pane(round, asked, good),
            Call::Stop => self.check_states(asked, good, "exited"),
            Call::Restore => self.check_states(asked, good, "running"),
            Call::StopPane => self.check_state(asked, good, "exited"),
            Call::RestorePane => self.check_state(asked, good, "running"),
            Call::Purge => self.check_gone(asked, good, "/v1/sessions/victim"),
            Call::ClosePane => self.check_gone(asked, good, "/v1/panes/victim%2Fone"),
            Call::Message => self.check_message(round, asked, good),
            Call::Input => {
                let text = format!("input-{round}-");
                // Once as typed, once as `cat` prints it.
                let log = || String::from_utf8_lossy(&self.stays.log()).matches(&text).count();
                if good {
                    wait_until("the input arrives", DEADLINE, || log() >= 2);
                }
                assert!(log() <= 2, "the input was typed twice");
            }
            Call::Lock | Call::Renew | Call::Release => self.check_lock(call, asked, good),
            Call::Connect | Call::Resize | Call::Look(_) => {
                let again = asked.send(&self.http).unwrap();
                assert_eq!(again.status, 200, "{call:?}: {}", again.text());
            }
        }
    }

    fn check_states(&self, asked: &Asked, good: bool, wanted: &str) {
        let wanted = BTreeSet::from([wanted.to_owned()]);
        assert!(!good || self.victims() == wanted, "done, and they are {:?}", self.victims());
        let again = asked.send(&self.http).unwrap();
        assert!([200, 409].contains(&again.status), "{}", again.text());
        assert_eq!(self.victims(), wanted, "after {}", asked.path);
    }

    fn check_state(&self, asked: &Asked, good: bool, wanted: &str) {
        let now = || self.http.get("/v1/panes/victim%2Fone").expect(200)["pane"]["state"].take();
        assert!(!good || now() == wanted, "done, and it is {}", now());
        let again = asked.send(&self.http).unwrap();
        assert!([200, 409].contains(&again.status), "{}", again.text());
        assert_eq!(now(), wanted, "after {}", asked.path);
    }

    fn check_gone(&self, asked: &Asked, good: bool, path: &str) {
        let gone = || self.http.get(path).status == 404;
        assert!(!good || gone(), "reported as removed but still there");
        let again = asked.send(&self.http).unwrap();
        assert!([204, 404].contains(&again.status), "{}", again.text());
        assert!(gone());
    }

    fn check_message(&self, round: usize, asked: &Asked, good: bool) {
        let text = format!("message-{round}-");
        let said = || {
            let all = self.http.get("/v1/messages?session=base").expect(200);
            let all = all["messages"].as_array().unwrap().clone();
            all.iter().filter(|message| message["text"] == text.as_str()).count()
        };
        assert!(!good || said() == 1, "reported as accepted but not there");
        let again = asked.send(&self.http).unwrap();
        assert!((200..300).contains(&again.status), "{}", again.text());
        assert_eq!(said(), 1);
    }

    /// A granted lock is held, a released one is not, and none is held twice.
    fn check_lock(&self, call: Call, asked: &Asked, good: bool) {
        let held = || {
            let listed = self.http.get(&format!("/v1/locks?pane={}", self.stays.id)).expect(200);
            listed["locks"].as_array().unwrap().len()
        };
        let released = call == Call::Release;
        let wanted = usize::from(!released);
        assert!(!good || held() == wanted, "{call:?} was done, and {} are held", held());
        let repeated = asked.send(&self.http).unwrap();
        let taken = (200..300).contains(&repeated.status);
        let gone = released && repeated.status == 404;
        assert!(taken || gone, "{call:?}: {}", repeated.text());
        assert_eq!(held(), wanted, "{call:?}");
        let given = self.http.get(&format!("/v1/locks?pane={}", self.stays.id)).expect(200);
        for lock in given["locks"].as_array().unwrap() {
            let path = format!("/v1/locks/{}", id(lock));
            assert_eq!(self.http.delete(&path).status, 200);
        }
    }

    fn check_run(&self, round: usize, asked: &Asked, good: bool) {
        let path = format!("/v1/sessions/run{round}");
        let found = self.http.get(&path);
        assert!(!good || found.status == 200, "reported as created but not there");
        if found.status == 200 {
            let (found, running) = (found.json(), BTreeSet::from(["running".to_owned()]));
            let count = found["panes"].as_array().unwrap().len();
            assert!(count == 2 && states(&found) == running, "partial run: {found}");
        }

        let again = asked.send(&self.http).unwrap();
        assert_eq!(again.status, if found.status == 200 { 200 } else { 201 }, "{}", again.text());
        if found.status == 200 {
            assert_eq!(again.json()["sessionId"], found.json()["session"]["id"]);
        }
        assert_eq!(self.http.delete(&format!("{path}?graceMs=0")).status, 204);
    }

    fn check_pane(&self, round: usize, asked: &Asked, good: bool) {
        let path = format!("/v1/panes/pane{round}");
        let found = self.http.get(&path);
        assert!(!good || found.status == 200, "reported as created but not there");
        if found.status == 200 {
            assert_eq!(found.json()["pane"]["state"], "running");
        }

        let again = asked.send(&self.http).unwrap();
        assert_eq!(again.status, if found.status == 200 { 200 } else { 201 }, "{}", again.text());
        assert_eq!(self.http.delete(&format!("{path}?graceMs=0")).status, 204);
    }

    /// Every session directory belongs to a listed session.
    fn assert_no_unlisted_directories(&self) {
        let listed = self.home.ccmux(&["ls", "--json"]).json();
        let listed: BTreeSet<String> =
            listed["sessions"].as_array().unwrap().iter().map(id).collect();
        let entries = std::fs::read_dir(self.home.state_root().join("sessions")).unwrap();
        for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
            let name = entry.file_name().into_string().unwrap();
            assert!(
                listed.contains(&name),
                "{} belongs to no session or pane",
                entry.path().display()
            );
        }
    }
}

fn id(of: &Value) -> String {
    of["id"].as_str().unwrap().to_owned()
}

fn states(answer: &Value) -> BTreeSet<String> {
    let panes = answer["panes"].as_array().unwrap().iter();
    panes.map(|pane| pane["state"].as_str().unwrap().to_owned()).collect()
}

/// Kills the daemon at a point, and returns the response, if any.
fn kill_at(game: &Game, hooks: &Hooks, asked: &Asked, point: &str) -> Option<Answer> {
    let daemon = game.home.daemon();
    let seen = hooks.reached(point);
    hooks.pause(point);
    let asking = asked.send_in_background(&game.http);
    hooks.wait_reached(point, seen + 1);
    process::kill_and_wait(&daemon, DEADLINE);
    hooks.release(point);
    asking.join().unwrap()
}

/// Kills the daemon some time after the request.
fn kill_during(game: &Game, asked: &Asked, after: Duration) -> Option<Answer> {
    let daemon = game.home.daemon();
    let asking = asked.send_in_background(&game.http);
    thread::park_timeout(after);
    process::kill_and_wait(&daemon, DEADLINE);
    asking.join().unwrap()
}

#[test]
fn heavy_http_answers_are_true_when_the_daemon_is_killed() {
    let mut home = Home::new(CCMUX);
    let hooks = home.hooks();
    let http = home.serve();
    let words = ["new", "-d", "--json", "--session", "base", "-n", "stays", "--", "cat"];
    let made = home.ccmux(&words).json();
    let stays = Pane::from_json(&made["pane"]);
    let keeper = stays.keeper();
    let mut game = Game { home, http, stays };
    let mut dice = Dice::default();
    let mut answered = 0;

    let kills = repetitions("CCMUX_SOAK_HTTP_KILLS", 60);
    for round in 0..kills {
        let (call, answer, asked) = if round % 2 == 0 {
            let (call, point) = POINTS[(round / 2) % POINTS.len()];
            let asked = game.prepare(call, round);
            (call, kill_at(&game, &hooks, &asked, point), asked)
        } else {
            let call = CALLS[(round / 2) % CALLS.len()];
            let asked = game.prepare(call, round);
            let moment = Duration::from_micros(dice.roll(60_000));
            (call, kill_during(&game, &asked, moment), asked)
        };
        answered += usize::from(answer.is_some());

        game.http = game.home.serve();
        game.check(call, round, &asked, answer.as_ref());
        game.assert_no_unlisted_directories();
        assert!(process::is_alive(&game.stays.head), "round {round}, {call:?}");
        assert!(process::is_alive(&keeper), "round {round}, {call:?}");
    }

    println!("{kills} daemons killed, {answered} calls were answered before");
}
