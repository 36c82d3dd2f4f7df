//! Callers: a process in a pane acts as that pane, whatever its environment says (B20).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test writes its files in place")]

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Home, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for operations that take a second on an idle machine.
const LONG: Duration = Duration::from_secs(60);

/// Environments under which a process in a pane must not gain anything.
const DISGUISES: [&str; 3] = [
    "",
    "env -u CCMUX_PANE_ID -u CCMUX_SESSION_ID -u CCMUX -u CCMUX_SOCKET",
    "env CCMUX_PANE_ID=$VICTIM CCMUX_SESSION_ID=$VICTIM_SESSION",
];

/// Two sessions: `own` with the pane that the commands run in, and `other` with its victim.
struct Sessions {
    home: Home,
    victim: Value,
}

impl Sessions {
    fn new() -> Self {
        let home = Home::new(CCMUX);
        let start = |session: &str, name: &str| {
            let words = ["new", "-d", "--json", "--session", session, "-n", name, "--workspace"];
            home.ccmux(&[&words[..], &["shared", "--", "sleep", "1000"]].concat()).json()
        };
        start("own", "sibling");
        let victim = start("other", "victim");
        Self { home, victim }
    }

    /// Runs a command line in a new pane of the session `own`; returns its exit code and output.
    fn in_pane(&self, command: &str) -> (i32, String) {
        let out = self.home.work().join("out");
        let _none_yet = fs::remove_file(&out);
        let script = format!(
            "{command} >{out}.part 2>&1; echo \"rc $?\" >>{out}.part; mv {out}.part {out}",
            out = out.display()
        );
        let victim = format!("VICTIM={}", self.victim["pane"]["id"].as_str().unwrap());
        let session = format!("VICTIM_SESSION={}", self.victim["session"]["id"].as_str().unwrap());
        let words = [
            "new",
            "-d",
            "--session",
            "own",
            "--workspace",
            "shared",
            "--env",
            &victim,
            "--env",
            &session,
        ];
        self.home.ccmux(&[&words[..], &["--", "sh", "-c", &script]].concat()).ok();
        wait_until("the command in the pane has ended", LONG, || out.exists());
        let text = fs::read_to_string(&out).unwrap();
        let (said, code) = text.trim_end().rsplit_once("rc ").unwrap();
        (code.parse().unwrap(), said.to_owned())
    }

    fn is_victim_running(&self) -> bool {
        self.home.show("victim")["state"] == "running"
    }

    /// Returns the events of denied requests.
    fn denials(&self) -> Vec<Value> {
        let events = self.home.ccmux(&["events", "--json"]).ok();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == "access_denied").collect()
    }
}

#[test]
fn pane_cannot_act_on_another_session_whatever_its_environment_says() {
    let sessions = Sessions::new();
    let lock = sessions.home.work().join("locked.txt");
    fs::write(&lock, "x").unwrap();
    let words = ["lock", "acquire", "--json", "--pane", "victim", lock.to_str().unwrap()];
    let held = sessions.home.ccmux(&words).json()["lock"]["id"].as_str().unwrap().to_owned();
    let commands = [
        "purge other --yes".to_owned(),
        "close victim".to_owned(),
        "send victim hello".to_owned(),
        "stop victim".to_owned(),
        "read victim --screen".to_owned(),
        "show victim".to_owned(),
        "rename victim mine".to_owned(),
        "message --session other --to victim hello".to_owned(),
        "restore victim".to_owned(),
        "thaw victim".to_owned(),
        "limit victim processes=10".to_owned(),
        "env victim".to_owned(),
        "wait victim --for exit --timeout 1".to_owned(),
        "migrate other".to_owned(),
        format!("lock release {held}"),
    ];

    for disguise in DISGUISES {
        for command in &commands {
            let (code, said) = sessions.in_pane(&format!("{disguise} {CCMUX} {command}"));
            assert_eq!(code, 4, "{disguise} {command}: {said}");
            assert!(said.contains("denied"), "{disguise} {command}: {said}");
        }
    }

    assert!(sessions.is_victim_running());
    let held = sessions.home.ccmux(&["lock", "ls", "--json"]).json();
    assert_eq!(held["locks"].as_array().unwrap().len(), 1, "{held}");
    let denials = sessions.denials();
    assert_eq!(denials.len(), DISGUISES.len() * commands.len());
    assert!(denials.iter().all(|event| event["caller"]["kind"] == "pane"), "{denials:?}");
}

/// The changes to the daemon that the command line offers. `config` changes nothing.
const ADMINISTRATION: [&str; 9] = [
    "trust .",
    "trust --revoke .",
    "token",
    "token --rotate",
    "serve --detach --listen 127.0.0.1:0",
    "gc",
    "share /etc/hostname",
    "template add .",
    "daemon stop",
];

#[test]
fn pane_cannot_administer_the_daemon_whatever_its_environment_says() {
    let sessions = Sessions::new();

    for disguise in DISGUISES {
        for command in ADMINISTRATION {
            let (code, said) = sessions.in_pane(&format!("{disguise} {CCMUX} {command}"));
            assert_eq!(code, 4, "{disguise} {command}: {said}");
            assert!(said.contains("administer access denied"), "{disguise} {command}: {said}");
        }
    }

    let denials = sessions.denials();
    assert_eq!(denials.len(), DISGUISES.len() * ADMINISTRATION.len());
    assert!(denials.iter().all(|event| event["caller"]["kind"] == "pane"), "{denials:?}");
    assert!(!sessions.home.state_root().join("run/token").exists());
}

#[test]
fn every_change_leaves_an_event_with_its_caller() {
    let sessions = Sessions::new();
    let home = &sessions.home;
    let file = home.work().join("locked.txt");
    fs::write(&file, "x").unwrap();
    let lock = format!("lock acquire --pane sibling {}", file.display());
    let by_panes = [
        ("send sibling x", "send"),
        ("limit sibling processes=200", "limit"),
        (&lock, "lock"),
        ("message --session own --to sibling x", "message_queued"),
        ("rename sibling brother", "pane_renamed"),
        ("stop brother", "pane_exited"),
        ("restore brother", "pane_restored"),
        ("close brother", "pane_closed"),
    ];
    let by_user = [
        ("token", "token"),
        ("token --rotate", "token_rotate"),
        ("serve --detach --listen 127.0.0.1:0", "serve"),
        ("gc", "gc"),
        ("share /etc/hostname", "share"),
        ("share --remove hostname", "share_remove"),
        ("rename victim other-name", "pane_renamed"),
        ("stop other-name", "pane_exited"),
        ("purge other --yes", "session_closed"),
        ("daemon stop", "daemon_stop"),
    ];
    let events_after = |seq: u64| -> Vec<Value> {
        let events = home.ccmux(&["events", "--json"]).ok();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["seq"].as_u64() > Some(seq)).collect()
    };
    let check = |command: &str, expected: &str, caller: &str, seq: u64| {
        // Frequent requests do not wait for their events, and the panes that run the commands exit.
        let is_it = |event: &Value| {
            (event["event"] == expected || event["request"] == expected)
                && event["caller"]["kind"] == caller
        };
        let what = format!("{expected} by {caller} of {command} is recorded");
        wait_until(&what, LONG, || events_after(seq).iter().any(is_it));
    };
    let last = || events_after(0).last().and_then(|event| event["seq"].as_u64()).unwrap();

    for (command, expected) in by_panes {
        let seq = last();
        let (code, said) = sessions.in_pane(&format!("{CCMUX} {command}"));
        assert_eq!(code, 0, "{command}: {said}");
        check(command, expected, "pane", seq);
    }
    for (command, expected) in by_user {
        let seq = last();
        home.ccmux(&command.split(' ').collect::<Vec<_>>()).ok();
        check(command, expected, "local_user", seq);
    }
}

#[test]
fn pane_reports_hooks_only_for_itself() {
    let sessions = Sessions::new();
    let sibling = sessions.home.show("sibling")["id"].as_str().unwrap().to_owned();
    let input = |file: &str| format!("echo '{{\"tool_input\":{{\"file_path\":\"{file}\"}}}}'");

    for (number, disguise) in DISGUISES.into_iter().enumerate() {
        // The lock of the previous pane may still be held.
        let file = sessions.home.work().join(format!("edited{number}.txt"));
        let input = input(file.to_str().unwrap());
        let (code, said) = sessions.in_pane(&format!(
            "({input} | {disguise} {CCMUX} hook pre-edit --pane {sibling} --when-away deny && \
             {CCMUX} lock ls --json)"
        ));

        assert_eq!(code, 0, "{said}");
        let locks: Value = serde_json::from_str(&said).unwrap();
        let locks = locks["locks"].as_array().unwrap();
        let lock = locks.iter().find(|lock| lock["path"] == file.to_str().unwrap()).unwrap();
        assert!(lock["pane"].is_string() && lock["pane"] != sibling.as_str(), "{lock}");
    }
}

#[test]
fn pane_may_list_everything_and_act_on_its_own_session() {
    let sessions = Sessions::new();

    let (code, listed) = sessions.in_pane(&format!("{CCMUX} ls --json"));
    assert_eq!(code, 0, "{listed}");
    assert!(listed.contains("victim") && listed.contains("sibling"), "{listed}");
    for command in
        ["send sibling x", "message --session own --to sibling x", "stop sibling", "close sibling"]
    {
        let (code, said) = sessions.in_pane(&format!("{CCMUX} {command}"));
        assert_eq!(code, 0, "{command}: {said}");
    }

    assert_eq!(sessions.denials(), Vec::<Value>::new());
    let events = sessions.home.ccmux(&["events", "--json"]).ok();
    let closed = events.lines().find(|line| line.contains("pane_closed")).unwrap();
    let closed: Value = serde_json::from_str(closed).unwrap();
    assert_eq!(closed["caller"]["kind"], "pane", "{closed}");
}

#[test]
fn pane_may_act_on_other_sessions_where_the_configuration_allows_it() {
    let sessions = Sessions::new();
    let config = sessions.home.state_root().join("config/ccmux.toml");
    fs::write(config, "[authority]\npanes = \"all\"\n").unwrap();

    let (code, said) = sessions.in_pane(&format!("{CCMUX} stop victim"));

    assert_eq!(code, 0, "{said}");
    assert!(!sessions.is_victim_running());
    let (code, said) = sessions.in_pane(&format!("{CCMUX} token"));
    assert_eq!(code, 4, "administration stays with the user: {said}");
}

#[test]
fn double_forked_process_in_a_pane_is_still_recognised() {
    let sessions = Sessions::new();
    let out = sessions.home.work().join("forked");
    // The subshell exits at once, which leaves the process without its parent, its terminal session
    // and its environment. The pane lives until the process has tried.
    let command = format!(
        "(env -i PATH=$PATH HOME=$HOME setsid sh -c '{CCMUX} stop victim >{0}.part 2>&1; \
         mv {0}.part {0}' &); until [ -e {0} ]; do :; done",
        out.display()
    );

    sessions.in_pane(&command);

    let said = fs::read_to_string(&out).unwrap();
    assert!(said.contains("denied"), "{said}");
    assert!(sessions.is_victim_running(), "{said}");
    let denials = sessions.denials();
    assert_eq!(denials.len(), 1, "{denials:?}");
    assert_eq!(denials[0]["caller"]["kind"], "pane", "{denials:?}");
}

#[test]
fn read_token_changes_nothing() {
    let sessions = Sessions::new();
    let http = sessions.home.serve();
    let token = sessions.home.ccmux(&["token", "--scope", "read"]).ok();
    let reader = http.with_token(Some(token.trim()));
    let id = sessions.victim["pane"]["id"].as_str().unwrap();

    for (method, path) in [
        ("POST", format!("/v1/panes/{id}/stop")),
        ("POST", format!("/v1/panes/{id}/input")),
        ("DELETE", format!("/v1/panes/{id}")),
        ("POST", "/v1/messages".to_owned()),
    ] {
        let answer = reader.ask(method, &path, Some(&json!({ "text": "x", "to": "victim" })));
        assert_eq!(answer.expect(403)["status"], 403, "{method} {path}");
    }

    assert_eq!(reader.get(&format!("/v1/panes/{id}")).expect(200)["pane"]["state"], "running");
}
