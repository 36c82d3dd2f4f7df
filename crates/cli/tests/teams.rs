//! R29, R33, B7: several panes are created, changed and closed as one, completely or not at all.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use client::Connection;
use model::team::TeamPane;
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::control::{Request, Response};
use protocol::run::{RunAnswer, RunRequest};
use protocol::{ErrorBody, ErrorCode};
use serde_json::Value;
use testkit::{Home, Invocation, process, put, wait_for, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for anything that is waited for; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// A sleeping pane.
const IDLE: &str = "workspace = \"empty\"\ncommand = [\"sleep\", \"1000\"]\n";

/// A home with a team file.
struct Office {
    home: Home,
}

impl Office {
    fn new() -> Self {
        Self { home: Home::new(CCMUX) }
    }

    /// Writes a team file with sleeping panes, each with additional lines.
    fn describe(&self, panes: &[(&str, &str)]) -> PathBuf {
        let pane =
            |(name, more): &(&str, &str)| format!("[[pane]]\nname = \"{name}\"\n{IDLE}{more}\n");
        let panes: String = panes.iter().map(pane).collect();
        let text = format!("session = \"web\"\n{panes}");
        self.write(&text)
    }

    fn write(&self, text: &str) -> PathBuf {
        let path = self.home.work().join("team.toml");
        put(&path, text);
        path
    }

    fn ccmux(&self, words: &[&str]) -> Invocation {
        self.home.ccmux(words).timeout(LONG)
    }

    fn up(&self, options: &[&str]) -> Invocation {
        let words: Vec<&str> =
            ["up", "team.toml", "--json"].iter().chain(options).copied().collect();
        self.ccmux(&words)
    }

    fn sessions(&self) -> Vec<Value> {
        let listed = self.ccmux(&["ls", "--json"]).json();
        listed["sessions"].as_array().unwrap().clone()
    }

    /// Returns the panes of the only session by name.
    #[track_caller]
    fn panes(&self) -> BTreeMap<String, Value> {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        by_name(&sessions[0]["panes"])
    }

    /// Asserts that no session is left and only the daemon runs.
    #[track_caller]
    fn assert_empty(&self) {
        assert_eq!(self.sessions(), [] as [Value; 0]);
        let dirs = fs::read_dir(self.home.state_root().join("sessions")).unwrap().flatten();
        let left: Vec<PathBuf> =
            dirs.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        assert!(left.is_empty(), "{left:?}");
        let daemon = self.home.daemon_pid();
        wait_until("only the daemon is left", LONG, || self.home.processes() == [daemon]);
    }

    /// Sends a request directly to the daemon.
    fn ask(&self, request: &Request) -> Result<Response, ErrorBody> {
        let run = self.home.state_root().join("run");
        let mut connection = Connection::open(&run, CONTROL_SOCKET).unwrap();
        connection.set_timeout(Some(LONG)).unwrap();
        connection.ask(request).map_err(client::ConnectionError::into_body)
    }

    fn run(&self, request: &RunRequest) -> Result<RunAnswer, ErrorBody> {
        let answer = self.ask(&Request::Run(Box::new(request.clone())))?;
        let Response::Run(answer) = answer else { panic!("another answer: {answer:?}") };
        Ok(*answer)
    }

    /// Returns a request for a run of two panes.
    fn request(&self, key: Option<&str>) -> RunRequest {
        let pane = |name: &str| TeamPane {
            name: Some(name.parse().unwrap()),
            workspace: Some(model::WorkspaceKind::Empty),
            command: vec!["sleep".to_owned(), "1000".to_owned()],
            ..TeamPane::default()
        };
        RunRequest {
            key: key.map(|key| key.parse().unwrap()),
            panes: vec![pane("a"), pane("b")],
            cwd: self.home.work().to_string_lossy().into_owned(),
            client_env: [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into(),
            ..RunRequest::default()
        }
    }
}

fn by_name(panes: &Value) -> BTreeMap<String, Value> {
    let panes = panes.as_array().unwrap();
    panes.iter().map(|pane| (pane["name"].as_str().unwrap().to_owned(), pane.clone())).collect()
}

/// Returns the signs of a plan in order.
fn signs(answer: &Value) -> Vec<String> {
    let steps = answer["plan"].as_array().unwrap().iter();
    steps
        .map(|step| {
            format!("{} {}", step["action"].as_str().unwrap(), step["pane"].as_str().unwrap())
        })
        .collect()
}

fn names(panes: &BTreeMap<String, Value>) -> Vec<&str> {
    panes.keys().map(String::as_str).collect()
}

/// R29: a team is created once; later runs change only the differences, and only permitted ones.
#[test]
fn team_up_creates_once_and_then_applies_differences() {
    let office = Office::new();
    office.describe(&[("a", ""), ("b", ""), ("c", "role = \"qa\"\nunit = \"core\"\n")]);

    let dry = office.up(&["--dry-run"]).json();
    assert_eq!(signs(&dry), ["create a", "create b", "create c"]);
    assert!(office.sessions().is_empty());
    let made = office.up(&[]).json();
    assert_eq!(made["session"]["name"], "web");
    let first = office.panes();
    assert_eq!(names(&first), ["a", "b", "c"]);
    assert_eq!((&first["c"]["role"], &first["c"]["unit"]), (&"qa".into(), &"core".into()));
    let session = Path::new(made["session"]["dir"].as_str().unwrap());
    assert!(session.join(".session").is_file());

    let again = office.up(&[]).json();

    assert_eq!(signs(&again), ["keep a", "keep b", "keep c"]);
    assert_eq!(office.panes(), first);
    // One pane is new, one changed, one removed.
    office.describe(&[("a", "role = \"dev\"\n"), ("b", ""), ("d", "")]);
    let refused = office.up(&[]).fails_with(4);
    assert!(refused.contains("role: none → dev") && refused.contains("--replace"), "{refused}");
    assert_eq!(office.panes(), first);
    let dry = office.up(&["--dry-run"]).json();
    assert_eq!(signs(&dry), ["change a", "keep b", "create d", "remove c"]);
    office.up(&["--replace"]).json();
    let second = office.panes();
    assert_eq!(names(&second), ["a", "b", "c", "d"]);
    assert_eq!(second["b"], first["b"]);
    assert_ne!(second["a"]["id"], first["a"]["id"]);
    assert_eq!(second["c"]["state"], "exited");
    office.up(&["--prune"]).json();
    assert_eq!(names(&office.panes()), ["a", "b", "d"]);

    office.ccmux(&["down", "team.toml", "--grace", "0"]).ok();

    assert!(office.panes().values().all(|pane| pane["state"] == "exited"));
    let back = office.up(&[]).json();
    assert_eq!(signs(&back), ["restore a", "restore b", "restore d"]);
    let third = office.panes();
    assert!(third.values().all(|pane| pane["state"] == "running"), "{third:?}");
    assert_eq!(third["b"]["id"], first["b"]["id"]);
    office.ccmux(&["down", "web", "--grace", "0", "--purge", "--yes"]).ok();
    office.assert_empty();
}

/// R29: a pane starts only when its dependencies are ready.
#[test]
fn panes_start_after_their_dependencies_are_ready() {
    let office = Office::new();
    let go = office.home.dir().join("go");
    let script =
        format!("while ! [ -e {} ]; do sleep 0.1; done; echo READY; exec sleep 1000", go.display());
    let text = format!(
        "session = \"web\"\n\
         [[pane]]\nname = \"db\"\nworkspace = \"empty\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n\
         ready = {{ text = \"^READY\", timeout = 300 }}\n\
         [[pane]]\nname = \"api\"\nafter = [\"db\"]\n{IDLE}ready = {{ port = true, timeout = 300 }}\n\
         [[pane]]\nname = \"quiet\"\n{IDLE}ready = {{ idle = true, timeout = 300 }}\n\
         [[pane]]\nname = \"web\"\nafter = [\"api\", \"quiet\"]\n{IDLE}"
    );
    office.write(&text);
    office.home.start_daemon();

    thread::scope(|scope| {
        let up = scope.spawn(|| office.up(&[]).timeout(LONG * 2).json());
        let there = |name: &str| {
            let sessions = office.sessions();
            let panes = sessions.first().map(|session| by_name(&session["panes"]))?;
            panes.get(name).filter(|pane| pane["state"] == "running").cloned()
        };
        wait_until("db and quiet run", LONG, || there("db").is_some() && there("quiet").is_some());
        assert!(there("api").is_none() && there("web").is_none(), "db is not ready");
        put(&go, "");
        let api = wait_for("api runs", LONG, || there("api"));
        assert!(there("web").is_none(), "api does not listen yet");
        let port = u16::try_from(api["ports"]["base"].as_u64().unwrap()).unwrap();
        let _listening = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let made = up.join().unwrap();
        assert_eq!(made["panes"].as_array().unwrap().len(), 4, "{made}");
    });

    assert!(office.panes().values().all(|pane| pane["state"] == "running"));
}

/// R26, R33: if one pane fails, nothing is left: no process, directory or branch.
#[test]
fn team_with_failing_pane_leaves_nothing() {
    let office = Office::new();
    let repo = office.home.work();
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        let words: Vec<&str> = who.iter().chain(words).copied().collect();
        office.home.program("git", &words).dir(&repo).timeout(LONG).ok()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    put(&repo.join("README"), "read me\n");
    git(&["add", "README"]);
    git(&["commit", "--quiet", "-m", "first"]);
    let good = "[[pane]]\nname = \"good\"\ncommand = [\"sleep\", \"1000\"]\n";
    let cases = [
        ("command = [\"/nowhere/program\"]\n", 1),
        ("command = [\"sleep\", \"1000\"]\nready = { text = \"NEVER\", timeout = 1 }\n", 5),
        ("command = [\"true\"]\nready = { idle = true }\n", 1),
        ("command = [\"sleep\", \"1000\"]\ncwd = \"nowhere\"\n", 2),
        ("role = \"boss\"\n", 2),
    ];
    office.home.start_daemon();
    for (bad, code) in cases {
        office.write(&format!(
            "session = \"web\"\n{good}[[pane]]\nname = \"bad\"\nafter = [\"good\"]\n{bad}"
        ));

        let refused = office.up(&[]).fails_with(code);

        assert!(refused.contains("pane bad"), "{refused}");
        office.assert_empty();
        assert_eq!(git(&["branch", "--format=%(refname:short)"]).trim(), "main");
        assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
    }
}

/// Points at which the daemon is killed, the number of passes before, and the number of panes
/// afterwards.
const POINTS: [(&str, u64, usize); 3] =
    [("run.entered", 1, 0), ("run.pane", 2, 0), ("run.done", 1, 2)];

/// B3, R33: after a kill at any point a run is complete or absent.
#[test]
fn run_interrupted_by_daemon_kill_is_complete_or_absent() {
    for (point, times, left) in POINTS {
        let mut home = Home::new(CCMUX);
        let hooks = home.hooks();
        let office = Office { home };
        let daemon = office.home.start_daemon();
        let request = office.request(Some("once"));
        hooks.pause(point);

        thread::scope(|scope| {
            let asked = scope.spawn(|| office.run(&request));
            hooks.wait_reached(point, times);
            process::kill_and_wait(&daemon, LONG);
            assert!(asked.join().unwrap().is_err(), "{point}: a response was sent");
        });
        hooks.release(point);

        let sessions = office.sessions();
        assert_eq!(sessions.len(), usize::from(left > 0), "{point}: {sessions:?}");
        if left == 0 {
            office.assert_empty();
        }
        // The client retries with the same key, and one run exists.
        let answer = office.run(&request).unwrap();
        assert_eq!(answer.repeated, left > 0, "{point}");
        assert_eq!(names(&office.panes()), ["a", "b"]);
        assert!(office.panes().values().all(|pane| pane["state"] == "running"));
    }
}

/// B7: a request with an idempotency key has one effect.
#[test]
fn repeated_request_returns_first_result() {
    let office = Office::new();
    office.home.start_daemon();
    let request = office.request(Some("run 7"));

    let answers: Vec<RunAnswer> = thread::scope(|scope| {
        let asked: Vec<_> = (0..6).map(|_| scope.spawn(|| office.run(&request).unwrap())).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });

    assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1);
    assert!(answers.iter().all(|answer| answer.session.id == answers[0].session.id));
    assert_eq!(office.sessions().len(), 1);
    // Another body with the same key is another request.
    let mut other = request.clone();
    other.panes.pop();
    let refused = office.run(&other).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.message.contains("run 7"), "{}", refused.message);
    assert_eq!(refused.details.unwrap()["made"]["id"], answers[0].session.id.to_string());
    // The key survives the daemon, and is removed with the session.
    office.home.kill_daemon();
    office.home.start_daemon();
    assert!(office.run(&request).unwrap().repeated);
    let name = answers[0].session.name.as_str();
    office.ccmux(&["purge", name, "--yes", "--grace", "0"]).ok();
    let anew = office.run(&request).unwrap();
    assert!(!anew.repeated && anew.session.id != answers[0].session.id);
}

/// B7: the same for one pane.
#[test]
fn pane_is_created_once_per_key() {
    let office = Office::new();
    office.home.start_daemon();
    let new = |key: &str, more: &[&str]| {
        let words = ["new", "-d", "--json", "--workspace", "empty", "--key", key];
        let words: Vec<&str> =
            words.iter().chain(more).chain(&["--", "sleep", "1000"]).copied().collect();
        office.ccmux(&words)
    };

    let panes: Vec<Value> = thread::scope(|scope| {
        let started: Vec<_> = (0..4).map(|_| scope.spawn(|| new("k", &[]).json())).collect();
        started.into_iter().map(|started| started.join().unwrap()).collect()
    });

    assert!(panes.iter().all(|pane| pane["pane"]["id"] == panes[0]["pane"]["id"]), "{panes:?}");
    assert_eq!(panes.iter().filter(|pane| pane["repeated"] == true).count(), 3);
    let refused = new("k", &["-n", "other"]).fails_with(4);
    assert!(refused.contains("another request"), "{refused}");
    for bad in ["", "a\u{7}b", &"x".repeat(129)] {
        new(bad, &[]).fails_with(2);
    }
    office.ccmux(&["close", panes[0]["pane"]["id"].as_str().unwrap(), "--grace", "0"]).ok();
    let anew = new("k", &[]).json();
    assert_ne!(anew["pane"]["id"], panes[0]["pane"]["id"]);
    assert_eq!(anew["repeated"], Value::Null);
}

/// R29: errors in a team file are reported with their line, and nothing is created.
#[test]
fn invalid_team_file_creates_nothing() {
    let office = Office::new();
    office.home.start_daemon();
    let cases = [
        ("session = \"../x\"\n[[pane]]\n", "team.toml:1:11"),
        (
            "[[pane]]\nname = \"a\"\n[[pane]]\nname = \"a\"\n",
            "team.toml:3:1: duplicate pane name `a`",
        ),
        (
            "[[pane]]\nname = \"a\"\nafter = [\"b\"]\n[[pane]]\nname = \"b\"\nafter = [\"a\"]\n",
            "a → b → a",
        ),
        ("[[pane]]\ncount = 65\n", "1 to 64"),
        ("[[pane]]\nworkspace = \"tree\"\n", "team.toml:2:"),
        ("[[pane]]\nnmae = \"x\"\n", "team.toml:2:1: unknown field `nmae`"),
        ("[[pane]]\ncommand = [\"a\\u0000b\"]\n", "NUL"),
        ("[[pane]]\ncommand = [\"true\"]\nenv = { \"A=B\" = \"x\" }\n", "A=B"),
        ("[[pane]]\nready = { text = \"(\" }\ncommand = [\"true\"]\n", "regular expression"),
        ("[[pane]]\nunit = \"\\u001b[2J\"\n", "team.toml:2:"),
    ];
    for (text, expected) in cases {
        office.write(text);

        let refused = office.up(&[]).fails_with(2);

        assert!(refused.contains(expected), "{text:?}: {refused}");
    }
    office.ccmux(&["up", "nowhere.toml"]).fails_with(2);
    office.ccmux(&["up", "--preset", "eight"]).fails_with(2);
    office.ccmux(&["down", "nobody"]).fails_with(3);
    office.assert_empty();
}

/// R29: the example team of seven starts, and its file can be changed.
#[test]
fn example_team_of_seven_starts() {
    let office = Office::new();
    let printed = office.ccmux(&["up", "--preset", "seven", "--agent", "shell", "--print"]).ok();
    assert!(printed.starts_with("#:schema "), "{printed}");
    put(&office.home.work().join("team.toml"), &printed);

    let shown = office.ccmux(&["up", "--preset", "seven", "--agent", "shell"]).ok();

    assert!(shown.contains("7 of 7 panes running"), "{shown}");
    let panes = office.panes();
    assert_eq!(names(&panes), ["dev1", "dev2", "dev3", "pm", "qa1", "qa2", "ux"]);
    for (name, pane) in &panes {
        let role = name.trim_end_matches(|c: char| c.is_ascii_digit());
        assert_eq!((&pane["role"], &pane["state"]), (&role.into(), &"running".into()));
    }
    let again = office.up(&["--dry-run"]).json();
    assert!(signs(&again).iter().all(|sign| sign.starts_with("keep ")), "{again}");
    assert!(office.ccmux(&["up", "--preset", "units", "--print"]).ok().contains("manager"));
    let schema: Value = serde_json::from_str(&office.ccmux(&["up", "--schema"]).ok()).unwrap();
    assert_eq!(schema["title"], "ccmux team");
}

/// R28, R30: a manager and units start from the template; in legacy mode they share the project's
/// directory.
#[test]
fn manager_and_units_start_from_template() {
    let office = Office::new();

    let up = ["up", "--preset", "units", "--agent", "shell", "--json"];
    let made = office.ccmux(&up).json();

    let panes = by_name(&made["panes"]);
    assert_eq!(panes["manager"]["role"], "manager");
    for (name, unit) in [("core-1", "core"), ("core-lead", "core"), ("surface-2", "surface")] {
        assert_eq!(panes[name]["unit"], unit, "{made}");
    }
    assert_eq!(made["panes"][0]["name"], "manager", "panes are in the order of the file");
    let session = &made["session"];
    assert_eq!((&session["template"], &session["status"]), (&"default".into(), &"running".into()));
    let dir = Path::new(session["dir"].as_str().unwrap());
    assert!(fs::read_dir(dir.join("unit")).unwrap().count() > 0);
    let origin: Value =
        serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap();
    assert_eq!(origin["kind"], "team");

    // The environment applies where the file sets nothing.
    office.write("session = \"old\"\n[[pane]]\nname = \"a\"\ncommand = [\"sleep\", \"1000\"]\n");
    let legacy = office.up(&[]).env("CCMUX_SESSION_MODE", "legacy").json();
    assert_eq!(legacy["session"]["mode"], "legacy");
    let work = office.home.work();
    assert_eq!(legacy["panes"][0]["cwd"].as_str().map(Path::new), Some(work.as_path()));
    assert_eq!(signs(&office.up(&[]).json()), ["keep a"]);
    office.write("session = \"old\"\nmode = \"isolated\"\n[[pane]]\nname = \"a\"\n");
    assert!(office.up(&[]).fails_with(4).contains("legacy, not isolated"));
}

/// B7, R30: a pane's initial prompt is delivered as a message.
#[test]
fn initial_prompt_is_delivered_once() {
    let office = Office::new();
    office.write(
        "session = \"web\"\n[[pane]]\nname = \"echo\"\nworkspace = \"empty\"\n\
         command = [\"cat\"]\nprompt = \"begin with the tests\"\n",
    );

    office.up(&[]).json();

    let wait = ["wait", "echo", "--for", "text=begin with the tests", "--timeout", "110"];
    office.ccmux(&wait).ok();
    // Another `up` does not repeat it.
    office.up(&[]).json();
    let listed = office.ccmux(&["message", "ls", "--session", "web", "--json"]).json();
    assert_eq!(listed["messages"].as_array().unwrap().len(), 1, "{listed}");
}
