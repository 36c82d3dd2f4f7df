//! The environment of panes (R19, B2): the source of each variable, isolation between panes, and
//! secrets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use client::Connection;
use model::LaunchRequest;
use protocol::control::Request;
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::{ErrorBody, ErrorCode};
use serde_json::Value;
use testkit::{Home, Pane, process, put, tree};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// A value that may occur only in the records that need it.
const SECRET: &str = "hunter2-in-the-open";

fn configure(home: &Home, text: &str) {
    put(&home.state_root().join("config/ccmux.toml"), text);
    for dir in [home.state_root().to_owned(), home.state_root().join("config")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

fn environment(pane: &Pane) -> BTreeMap<String, String> {
    process::environment(pane.head.pid)
}

fn value<'e>(env: &'e BTreeMap<String, String>, name: &str) -> Option<&'e str> {
    env.get(name).map(String::as_str)
}

fn shown(home: &Home, name: &str) -> Pane {
    Pane::from_json(&home.show(name))
}

/// Starts a sleeping pane with these options.
fn new(home: &Home, options: &[&str]) -> Pane {
    let words: Vec<&str> = ["new", "-d", "--json", "--isolation", "none"]
        .iter()
        .chain(options)
        .chain(&["--", "sleep", "1000"])
        .copied()
        .collect();
    Pane::from_json(&home.ccmux(&words).json()["pane"])
}

/// Returns the source of every variable, as `env --json` names it.
fn sources(view: &Value) -> BTreeMap<String, String> {
    let all = view["variables"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|one| (text(&one["name"]), text(&one["source"]))).collect()
}

/// R19, B2: a pane gets no variables from other clients, the shell that started the daemon, or
/// other panes.
#[test]
fn environment_changes_do_not_leak_into_other_panes() {
    let home = Home::new(CCMUX);
    home.ccmux(&["daemon", "start"]).env("EDITOR", "born").env("LC_BIRTH", "born").ok();
    let ask = |name: &str, option: &str| {
        let words = ["new", "-d", "--json", "-n", name, "--env", option, "--", "sleep", "1000"];
        home.ccmux(&words)
    };

    let one = ask("one", "MARK=one").env("EDITOR", "first").json();
    let two = ask("two", "OTHER=two").env("EDITOR", "second").env("LC_TWO", "second").json();
    let three = ask("three", "X=3").json();
    let [one, two, three] = [one, two, three].map(|shown| Pane::from_json(&shown["pane"]));
    let before = [&one, &two, &three].map(environment);
    home.kill_daemon();
    home.ccmux(&["daemon", "start"]).env("EDITOR", "reborn").env("LC_BIRTH", "reborn").ok();
    for name in ["one", "two", "three"] {
        home.ccmux(&["stop", name, "--grace", "0"]).ok();
        home.ccmux(&["restore", name]).env("EDITOR", "restorer").env("LC_R", "r").ok();
    }
    let after = ["one", "two", "three"].map(|name| environment(&shown(&home, name)));

    assert_eq!(value(&before[0], "EDITOR"), Some("first"));
    assert_eq!(value(&before[1], "EDITOR"), Some("second"));
    assert_eq!(value(&before[2], "EDITOR"), None);
    assert_eq!(value(&before[0], "MARK"), Some("one"));
    for (at, env) in before.iter().enumerate() {
        assert_eq!(
            value(env, "LC_BIRTH"),
            None,
            "a variable of the daemon's shell is in pane {at}"
        );
        assert_eq!(env.contains_key("MARK"), at == 0);
        assert_eq!(env.contains_key("LC_TWO"), at == 1);
    }
    assert_eq!(before, after, "the environment changed on restore");
}

/// R19: the order of the layers, role presets, and the source of each variable.
#[test]
fn later_layers_win_and_each_variable_names_its_source() {
    let home = Home::new(CCMUX);
    configure(
        &home,
        "[env]\nEDITOR = \"shared\"\nA = \"shared\"\nB = \"shared\"\nC = \"shared\"\nD = \"shared\"\n\
         [roles.qa]\nenv = { B = \"role\", C = \"role\", D = \"role\", CLAUDE_ROLE = \"x\" }\n",
    );
    let options = ["-n", "q", "--session", "team", "--role", "qa"];
    let more = ["--session-env", "C=session", "--session-env", "D=session", "--env", "D=pane"];
    let options: Vec<&str> = options.iter().chain(&more).copied().collect();

    let pane = new(&home, &options);
    let env = environment(&pane);
    let view = home.ccmux(&["env", "q", "--why", "--json"]).json();
    let text = home.ccmux(&["env", "q", "--why"]).ok();
    let plain = new(&home, &["-n", "d", "--role", "dev"]);
    let unknown = home.ccmux(&["new", "-d", "--role", "boss"]).fails_with(2);

    let values = ["EDITOR", "A", "B", "C", "D", "CLAUDE_ROLE"].map(|name| env[name].as_str());
    assert_eq!(values, ["shared", "shared", "role", "session", "pane", "qa"]);
    let sources = sources(&view);
    for (name, source) in [
        ("PATH", "inherited"),
        ("A", "shared"),
        ("B", "role"),
        ("C", "session"),
        ("D", "pane"),
        ("PORT", "ports"),
        ("CLAUDE_ROLE", "ccmux"),
        ("CCMUX_PANE_ID", "ccmux"),
    ] {
        assert_eq!(sources[name], source, "{name}");
    }
    assert_eq!(sources.len(), env.len(), "a variable has no source: {view}");
    assert!(text.contains("D from session: overridden by pane"), "{text}");
    assert!(text.contains("CLAUDE_ROLE from role: overridden by ccmux"), "{text}");
    assert!(!home.ccmux(&["env", "q"]).ok().contains("overridden by"));
    assert_eq!(home.show("q")["role"], "qa");
    assert_eq!(
        value(&environment(&plain), "CLAUDE_ROLE"),
        Some("dev"),
        "a role without a preset is passed on"
    );
    assert!(unknown.contains("dev, qa, ux, pm"), "{unknown}");
}

/// R19: variables of a session are set in its later panes, survive restarts, and are set in no
/// other session.
#[test]
fn session_variables_apply_to_later_panes_and_survive_restarts() {
    let home = Home::new(CCMUX);
    new(&home, &["-n", "one", "--session", "team", "--session-env", "STAGE=test"]);
    let program = ["--", "/no/such/program"];
    let failing = ["new", "-d", "--session", "team", "--session-env", "BAD=1"];
    let failing: Vec<&str> = failing.iter().chain(&program).copied().collect();

    home.ccmux(&failing).fails_with(1);
    let two = new(&home, &["-n", "two", "--session", "team", "--session-env", "MORE=1"]);
    let other = new(&home, &["-n", "other"]);
    home.kill_daemon();
    for name in ["ccmux.db", "ccmux.db-wal", "ccmux.db-shm"] {
        // The last two may have been lost with the daemon.
        let _gone = fs::remove_file(home.state_root().join(name));
    }
    let three = new(&home, &["-n", "three", "--session", "team"]);

    let (two, other, three) = (environment(&two), environment(&other), environment(&three));
    assert_eq!((value(&two, "STAGE"), value(&two, "MORE")), (Some("test"), Some("1")));
    assert_eq!((value(&three, "STAGE"), value(&three, "MORE")), (Some("test"), Some("1")));
    assert_eq!((value(&other, "STAGE"), value(&other, "MORE")), (None, None));
    assert!(
        !two.contains_key("BAD") && !three.contains_key("BAD"),
        "the refused variable was kept"
    );
}

/// R19: secrets are only in the records that need them, which only the user can read.
#[test]
fn secrets_are_never_shown() {
    let home = Home::new(CCMUX);
    configure(&home, &format!("[env]\nSHARED_TOKEN = \"{SECRET}\"\n"));
    let proxy = format!("HTTP_PROXY=http://me:{SECRET}@proxy:3128");
    let password = format!("DB_PASSWORD={SECRET}");
    let options = ["-n", "dev", "--env", &proxy, "--session", "s", "--session-env", &password];
    let pane = new(&home, &options);

    home.ccmux(&["stop", "dev", "--grace", "0"]).ok();
    home.ccmux(&["restore", "dev"]).ok();
    let outputs = [
        home.ccmux(&["env", "dev", "--why"]).ok(),
        home.ccmux(&["env", "dev", "--json"]).ok(),
        home.ccmux(&["show", "dev", "--json"]).ok(),
        home.ccmux(&["show", "s", "--json"]).ok(),
        home.ccmux(&["ls", "--json"]).ok(),
        home.ccmux(&["events", "--json"]).ok(),
        home.ccmux(&["config"]).ok(),
        home.ccmux(&["config", "--json"]).ok(),
    ];
    // The background writes are done by then.
    home.ccmux(&["daemon", "stop"]).ok();

    assert_eq!(environment(&shown(&home, "dev"))["SHARED_TOKEN"], SECRET);
    for output in outputs {
        assert!(!output.contains(SECRET), "{output}");
    }
    let needs_it = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let kept = ["pane.json", ".session", "ccmux.toml"].contains(&name);
        kept || name.starts_with("ccmux.db")
    };
    for (path, entry) in tree(home.state_root()) {
        let testkit::tree::Entry::File(mode, _, bytes) = entry else { continue };
        let text = String::from_utf8_lossy(&bytes);
        assert!(needs_it(&path) || !text.contains(SECRET), "{}", path.display());
        let private = mode & 0o077 == 0 || path.ends_with("ccmux.toml");
        assert!(private || !text.contains(SECRET), "{}", path.display());
    }
    assert!(pane.dir.join("pane.json").exists());
}

/// Sends a request directly to the daemon, as no command line could, and returns the error.
fn refusal(home: &Home, request: LaunchRequest) -> ErrorBody {
    let mut connection = Connection::open(&home.state_root().join("run"), CONTROL_SOCKET).unwrap();
    let answer = connection.ask(&Request::New(Box::new(request)));
    answer.expect_err("it was taken").into_body()
}

/// R19: a name or value that no process can have is refused by name, and nothing is created.
#[test]
fn invalid_variable_names_are_refused_and_nothing_is_created() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let variables = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let base = LaunchRequest {
        command: vec!["sleep".to_owned(), "1000".to_owned()],
        cwd: home.dir().to_str().unwrap().to_owned(),
        ..LaunchRequest::default()
    };

    for (name, value) in [("A=B", "x"), ("", "x"), ("A\0B", "x"), ("A", "x\0y")] {
        for session in [false, true] {
            let mut request = base.clone();
            let env = if session { &mut request.session_env } else { &mut request.env };
            *env = variables(name, value);
            let error = refusal(&home, request);
            assert_eq!(error.code, ErrorCode::Usage);
            assert!(error.message.contains("environment variable"), "{}", error.message);
        }
    }
    home.ccmux(&["new", "-d", "--env", "=x"]).fails_with(2);
    home.ccmux(&["new", "-d", "--session-env", "=x"]).fails_with(2);
    configure(&home, "[env]\n\"A=B\" = \"x\"\n\"\" = \"y\"\n");
    let refused = home.ccmux(&["new", "-d"]).fails_with(2);

    assert!(refused.contains("A=B") && refused.contains("ccmux.toml:2"), "{refused}");
    let listed = home.ccmux(&["ls", "--json"]).json();
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(0), "{listed}");
}

/// Panes created at once with equal names: one is created, the others fail with a clear error.
#[test]
fn concurrent_panes_with_equal_names_create_one() {
    let home = Home::new(CCMUX);
    home.start_daemon();
    let words = ["new", "-d", "--json", "--session", "team", "-n", "dev", "--isolation", "none"];
    let words: Vec<&str> = words.iter().chain(&["--", "sleep", "1000"]).copied().collect();

    let runs: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..6).map(|_| scope.spawn(|| home.ccmux(&words).run())).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });

    let (made, refused): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.status.success());
    assert_eq!(made.len(), 1, "{runs:#?}");
    for run in refused {
        assert_eq!(run.status.code(), Some(4), "{run:#?}");
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("dev") && said.contains("choose another name"), "{said}");
    }
    let listed = home.ccmux(&["ls", "--json"]).json();
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["sessions"][0]["panes"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(home.show("dev")["state"], "running");
}
