//! R17, B6, R23: resource limits of panes, and their effect on the pane and its neighbours.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Size;
use serde_json::Value;
use testkit::{Home, Pane, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Writes as many megabytes as each line of its input says, and reports the total.
const WRITER: &str = r#"echo ready; n=0; while read -r many; do
    while [ "$many" -gt 0 ]; do
        n=$((n+1)); many=$((many-1))
        dd if=/dev/zero of="$TMPDIR/part$n" bs=1048576 count=1 2>/dev/null
    done
    echo "wrote-$n"
done"#;

/// Prints its file limit, then runs every line of its input.
const READER: [&str; 3] =
    ["sh", "-c", "ulimit -n; echo ready; while read -r line; do eval \"$line\"; done"];

fn start(home: &Home, name: &str, limits: &str, command: &[&str]) -> Pane {
    Pane::from_json(&begin(home, name, limits, command))
}

/// Creates a pane that may exit at once.
fn begin(home: &Home, name: &str, limits: &str, command: &[&str]) -> Value {
    let options = ["new", "-d", "--json", "-n", name, "--limit", limits, "--"];
    let words: Vec<&str> = options.into_iter().chain(command.iter().copied()).collect();
    home.ccmux(&words).json()["pane"].take()
}

fn wait_for(home: &Home, pane: &str, text: &str) {
    let what = format!("text={text}");
    home.ccmux(&["wait", pane, "--for", &what, "--timeout", "90"]).timeout(PATIENCE * 2).ok();
}

fn send(home: &Home, pane: &str, text: &str) {
    home.ccmux(&["send", pane, text, "--enter"]).ok();
}

fn events(home: &Home, kind: &str) -> Vec<Value> {
    let events = home.ccmux(&["events", "--json"]).ok();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == kind).collect()
}

fn wait_state(home: &Home, pane: &str, state: &str) {
    wait_until(&format!("{pane} is {state}"), PATIENCE, || home.show(pane)["state"] == state);
}

/// Returns the entry of one resource in `limit --json`.
fn limit(home: &Home, pane: &str, resource: &str) -> Value {
    let view = home.ccmux(&["limit", pane, "--json"]).json();
    let mut limits = view["limits"].as_array().unwrap().iter();
    limits.find(|limit| limit["resource"] == resource).unwrap().clone()
}

fn is_group(limit: &Value) -> bool {
    limit["means"].as_str().unwrap().starts_with("group")
}

/// Returns the control groups of a pane that exist: they are recorded before they are created.
fn groups(pane: &Pane) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(pane.dir.join("groups.json")) else { return Vec::new() };
    let record: Value = serde_json::from_str(&text).unwrap();
    let paths = record["record"].as_array().unwrap().iter();
    let paths = paths.map(|path| PathBuf::from(path.as_str().unwrap()));
    paths.filter(|path| path.is_dir()).collect()
}

#[test]
fn pane_over_disk_limit_is_warned_frozen_and_can_be_thawed() {
    let home = Home::new(CCMUX);
    let pane = start(&home, "writer", "disk=10M,policy=freeze", &["sh", "-c", WRITER]);
    start(&home, "other", "disk=10M,policy=freeze", &["sh", "-c", WRITER]);
    wait_for(&home, "writer", "ready");

    send(&home, "writer", "9");
    wait_for(&home, "writer", "wrote-9");
    wait_until("the event is recorded", PATIENCE, || events(&home, "limit_near").len() == 1);
    assert_eq!(home.show("writer")["state"], "running");

    send(&home, "writer", "3");
    wait_state(&home, "writer", "frozen");
    let shown = home.show("writer");
    let why = shown["frozen"]["why"].as_str().unwrap();
    assert!(why.contains("the limit is 10M"), "{why}");
    assert!(home.ccmux(&["show", "writer"]).ok().contains("ccmux thaw"));
    let refused = home.ccmux(&["send", "writer", "1", "--enter"]).fails_with(4);
    assert!(refused.contains("is frozen: disk usage is"), "{refused}");
    assert!(refused.contains("ccmux thaw writer"), "{refused}");
    assert!(home.ccmux(&["ls"]).ok().contains("frozen"));
    wait_until("the event is recorded", PATIENCE, || events(&home, "limit_exceeded").len() == 1);
    let recorded = &events(&home, "limit_exceeded")[0];
    assert_eq!(
        (&recorded["pane"], &recorded["policy"]),
        (&pane.id.clone().into(), &"freeze".into())
    );
    let stat = fs::read_to_string(format!("/proc/{}/stat", pane.head.pid)).unwrap();
    assert!(stat.contains(") T "), "not stopped: {stat}");

    send(&home, "other", "1");
    wait_for(&home, "other", "wrote-1");
    assert_eq!(home.show("other")["state"], "running");
    home.ccmux(&["thaw", "other"]).fails_with(4);

    for file in fs::read_dir(shown["temp"].as_str().unwrap()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    home.ccmux(&["thaw", "writer"]).ok();
    assert_eq!(home.show("writer")["state"], "running");
    wait_for(&home, "writer", "wrote-12");
    wait_until("the event is recorded", PATIENCE, || events(&home, "pane_thawed").len() == 1);

    home.ccmux(&["limit", "writer", "disk=40M"]).ok();
    send(&home, "writer", "15");
    wait_for(&home, "writer", "wrote-27");
    assert_eq!(limit(&home, "writer", "disk")["limit"], 40 << 20);
}

#[test]
fn frozen_pane_is_recovered_by_next_daemon_and_can_be_stopped() {
    let home = Home::new(CCMUX);
    let pane = start(&home, "writer", "disk=2M,policy=freeze", &["sh", "-c", WRITER]);
    wait_for(&home, "writer", "ready");
    home.kill_daemon();
    // Sent directly to the keeper: a command would start a daemon.
    let typed =
        protocol::pane_io::Typing { text: "4".to_owned(), enter: true, ..Default::default() };
    let mut keeper = client::Connection::open(&pane.dir, protocol::pane::SOCKET).unwrap();
    keeper.ask_keeper(&protocol::pane::Request::Type(typed)).unwrap();
    wait_until("it is frozen", PATIENCE, || pane.dir.join("frozen.json").exists());

    assert_eq!(home.show("writer")["state"], "frozen");
    wait_until("the event is recorded", PATIENCE, || events(&home, "limit_exceeded").len() == 1);
    home.ccmux(&["stop", "writer"]).ok();

    assert_eq!(home.show("writer")["state"], "exited");
    assert!(!process::is_alive(&pane.head));
    home.kill_daemon();
    assert_eq!(events(&home, "limit_exceeded").len(), 1, "the event was recorded twice");
}

#[test]
fn limit_policy_stop_or_warn_is_applied() {
    let home = Home::new(CCMUX);
    start(&home, "stops", "disk=2M,policy=stop", &["sh", "-c", WRITER]);
    start(&home, "warns", "disk=2M", &["sh", "-c", WRITER]);
    for name in ["stops", "warns"] {
        wait_for(&home, name, "ready");
        send(&home, name, "4");
    }

    wait_state(&home, "stops", "exited");
    wait_until("both events are recorded", PATIENCE, || events(&home, "limit_exceeded").len() == 2);

    let ending = &home.show("stops")["ending"];
    assert_eq!(ending["reason"], "stopped");
    assert!(ending["detail"].as_str().unwrap().contains("the limit is 2M"), "{ending}");
    assert!(home.ccmux(&["show", "stops"]).ok().contains("the limit is 2M"));
    wait_for(&home, "warns", "wrote-4");
    assert_eq!(home.show("warns")["state"], "running");
}

/// By default a pane over its disk limit runs on, and everything that lists it says so.
#[test]
fn pane_over_its_limit_is_marked_until_it_shrinks() {
    let home = Home::new(CCMUX);
    start(&home, "writer", "disk=2M", &["sh", "-c", WRITER]);
    wait_for(&home, "writer", "ready");
    let is_over = || home.show("writer")["over_limit"].is_object();
    assert!(!is_over());

    send(&home, "writer", "4");
    wait_until("the pane is over its limit", PATIENCE, is_over);

    let shown = home.show("writer");
    assert_eq!(shown["state"], "running");
    assert_eq!(shown["over_limit"]["why"], "over its disk limit of 2M");
    for words in [vec!["ls"], vec!["show", "writer"], vec!["doctor"]] {
        // `doctor` fails if it finds a problem.
        let text = home.ccmux(&words).run().stdout;
        assert!(text.contains("over limit") || text.contains("over its disk limit"), "{text}");
    }
    let screen = home.ccmux(&["attach", "writer"]).screen(Size::new(80, 24).unwrap());
    // The pane is shown right after it, on the alternate screen.
    screen.wait_until("the warning is printed", |view| {
        String::from_utf8_lossy(view.raw()).contains("writer is over its disk limit of 2M")
    });
    screen.wait_for("wrote-4");
    screen.send(b"\x02d");
    assert_eq!(screen.wait_exit(), 0);

    for file in fs::read_dir(shown["temp"].as_str().unwrap()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    wait_until("the pane is no longer over its limit", PATIENCE, || !is_over());
    assert!(!home.ccmux(&["ls"]).ok().contains("over limit"));
}

/// `node_modules` of a worktree does not count unless it is asked for.
#[test]
fn directories_ignored_by_git_count_only_on_request() {
    let home = Home::new(CCMUX);
    let repository = home.dir().join("project");
    fs::create_dir_all(&repository).unwrap();
    let git = |words: &[&str]| home.program("git", words).dir(&repository).ok();
    git(&["init", "-q"]);
    let rules = fs::File::create(repository.join(".gitignore"));
    std::io::Write::write_all(&mut rules.unwrap(), b"node_modules/\n").unwrap();
    git(&["add", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
    let command = "mkdir node_modules; head -c 8388608 /dev/zero > node_modules/large; \
                   echo installed; exec cat";
    let options =
        ["new", "-d", "--workspace", "worktree", "-n", "app", "--limit", "disk=4M", "--cwd"];
    let cwd = repository.to_str().unwrap();
    let words: Vec<&str> = options.into_iter().chain([cwd, "--", "sh", "-c", command]).collect();
    home.ccmux(&words).ok();
    wait_for(&home, "app", "installed");
    let used = || limit(&home, "app", "disk")["used"].as_u64();
    wait_until("the disk usage is measured", PATIENCE, || used().is_some());
    assert!(used().unwrap() < 4 << 20, "{:?}", used());

    home.ccmux(&["limit", "app", "count_ignored=on"]).ok();

    wait_until("the directory is counted", PATIENCE, || used().is_some_and(|used| used > 8 << 20));
    wait_until("the pane is over its limit", PATIENCE, || {
        home.show("app")["over_limit"].is_object()
    });
}

/// A shell must not learn that its job was stopped, or it takes the terminal back.
#[test]
fn foreground_job_stays_in_the_foreground_after_thaw() {
    let home = Home::new(CCMUX);
    let words = ["env", "PS1=prompt> ", "bash", "--norc", "--noprofile", "-i"];
    start(&home, "shell", "disk=1G,policy=freeze", &words);
    wait_for(&home, "shell", "prompt>");
    let job = "dd if=/dev/zero of=$TMPDIR/x bs=1M count=4 2>/dev/null; \
               sh -c 'while read -r line; do (echo \"got-$line\"); done'";
    send(&home, "shell", job);
    send(&home, "shell", "start");
    wait_for(&home, "shell", "got-start");

    for round in 0..8 {
        home.ccmux(&["limit", "shell", "disk=2M"]).ok();
        wait_state(&home, "shell", "frozen");
        home.ccmux(&["limit", "shell", "disk=1G"]).ok();
        home.ccmux(&["thaw", "shell"]).ok();
        send(&home, "shell", &format!("round{round}"));
        wait_for(&home, "shell", &format!("got-round{round}"));
    }

    let log = home.ccmux(&["read", "shell", "--log"]).ok();
    assert!(!log.contains("Stopped"), "{log}");
}

#[test]
fn memory_and_open_files_stay_within_their_limits() {
    let home = Home::new(CCMUX);
    let pane = start(&home, "limited", "memory=128M,processes=24,files=123,cpu=50", &READER);
    wait_for(&home, "limited", "ready");
    assert!(home.ccmux(&["read", "limited"]).ok().contains("123"));

    // Eight gigabytes: refused at once, or killed during allocation.
    send(&home, "limited", "dd if=/dev/zero of=/dev/null bs=8G count=1; echo alloc-$?");
    wait_for(&home, "limited", "alloc-[1-9]");

    let text = home.ccmux(&["show", "limited"]).ok();
    assert!(text.contains("file limit") && text.contains("by rlimit"), "{text}");
    let created = groups(&pane);
    home.ccmux(&["close", "limited", "--grace", "0.2"]).ok();
    assert!(!created.iter().any(|group| group.exists()), "{created:?}");
}

#[test]
fn control_groups_limit_memory_and_processes() {
    testkit::require!(Cgroups);
    let home = Home::new(CCMUX);
    let pane = start(&home, "limited", "memory=128M,processes=24", &READER);
    wait_for(&home, "limited", "ready");
    assert!(is_group(&limit(&home, "limited", "memory")));
    assert!(is_group(&limit(&home, "limited", "processes")));
    assert!(!groups(&pane).is_empty());

    send(&home, "limited", "dd if=/dev/zero of=/dev/null bs=8G count=1; echo alloc-$?");
    wait_for(&home, "limited", "alloc-[1-9]");
    wait_until("the refusal is an event", PATIENCE, || !events(&home, "limit_kept").is_empty());
    // In a child: a shell exits if it cannot fork.
    let forks =
        "sh -c 'i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 300 & done'; echo forks-over";
    send(&home, "limited", forks);
    wait_for(&home, "limited", "forks-over");

    let members = process::descendants(pane.keeper().pid).len();
    assert!(members <= 24, "{members}");
    assert!(limit(&home, "limited", "processes")["refused"].as_u64().unwrap() > 0);
    home.ccmux(&["close", "limited", "--grace", "0.2"]).ok();
}

/// B6: a pane with a small CPU share runs with batch scheduling, and so do its children.
#[test]
fn pane_with_small_cpu_share_has_batch_scheduling() {
    let home = Home::new(CCMUX);
    let policy = |limits: &str| {
        let words = ["new", "-d", "--json", "--limit", limits, "--", "sh", "-c", "sleep 1000; :"];
        let head = Pane::from_json(&home.ccmux(&words).json()["pane"]).head.pid;
        let child = testkit::wait::wait_for("its child runs", PATIENCE, || {
            process::descendants(head).pop()
        });
        [head, child].map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            // Field 41; the second field is a name and may contain any character.
            let fields = stat.rsplit_once(')').unwrap().1;
            fields.split_whitespace().nth(38).unwrap().to_owned()
        })
    };

    let (normal, batch) = ("0", "3");
    assert_eq!(policy("cpu=10"), [batch, batch]);
    assert_eq!(policy("cpu=100"), [normal, normal]);
}

#[test]
fn process_limit_without_groups_freezes_the_pane() {
    let home = Home::new(CCMUX);
    let script = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); sleep 300 & done; echo over; wait";
    start(&home, "bomb", "processes=16,groups=off,policy=freeze", &["sh", "-c", script]);

    wait_state(&home, "bomb", "frozen");

    let view = limit(&home, "bomb", "processes");
    assert_eq!((&view["means"], &view["limit"]), (&"measured".into(), &16.into()));
    assert!(home.show("bomb")["frozen"]["why"].as_str().unwrap().contains("processes"));
    home.ccmux(&["close", "bomb", "--grace", "0.2"]).ok();
}

#[test]
fn limits_of_running_pane_can_be_changed_and_survive_restore() {
    let home = Home::new(CCMUX);
    let config = home.state_root().join("config");
    fs::create_dir_all(&config).unwrap();
    let text = "[limits]\ndisk = \"3G\"\nfiles = \"200\"\n";
    fs::File::create(config.join("ccmux.toml"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .unwrap();
    let shell = "echo ready; while read -r line; do eval \"$line\"; done";
    let pane = start(&home, "live", "files=300", &["sh", "-c", shell]);
    wait_for(&home, "live", "ready");
    assert_eq!(limit(&home, "live", "disk")["limit"], 3_u64 << 30);
    assert_eq!(limit(&home, "live", "files")["limit"], 300);

    home.ccmux(&["limit", "live", "files=77", "memory=512M,processes=50"]).ok();

    send(&home, "live", "echo now-$(ulimit -n)");
    wait_for(&home, "live", "now-77");
    let memory = limit(&home, "live", "memory");
    assert_eq!(memory["limit"], 512 << 20);
    let before = groups(&pane);
    assert_eq!(is_group(&memory), !before.is_empty());
    home.ccmux(&["stop", "live"]).ok();
    assert!(!before.iter().any(|group| group.exists()), "{before:?}");
    home.ccmux(&["limit", "live", "processes=none"]).ok();
    home.ccmux(&["restore", "live"]).ok();
    send(&home, "live", "echo again-$(ulimit -n)");
    wait_for(&home, "live", "again-77");
    assert_eq!(limit(&home, "live", "memory")["limit"], 512 << 20);
    assert_eq!(limit(&home, "live", "processes")["limit"], Value::Null);
    home.ccmux(&["limit", "live", "ram=1G"]).fails_with(2);
    home.ccmux(&["new", "-d", "--limit", "disk=1"]).fails_with(2);
}

#[test]
fn groups_are_removed_when_keeper_is_killed() {
    testkit::require!(Cgroups);
    let home = Home::new(CCMUX);
    let pane =
        start(&home, "lost", "memory=256M,processes=50", &["sh", "-c", "sleep 300 & sleep 300"]);
    let made = groups(&pane);
    assert!(!made.is_empty());

    process::kill_and_wait(&pane.keeper(), PATIENCE);

    wait_state(&home, "lost", "lost");
    wait_until("the groups are removed", PATIENCE, || !made.iter().any(|group| group.exists()));
}

/// Six panes that print a numbered line every few milliseconds until they are stopped.
struct Neighbours<'a> {
    home: &'a Home,
    names: Vec<String>,
    stop: PathBuf,
}

impl<'a> Neighbours<'a> {
    fn new(home: &'a Home) -> Self {
        let stop = home.dir().join("enough");
        let script = format!(
            "n=0; while [ ! -e '{}' ]; do n=$((n+1)); echo \"line $n\"; sleep 0.02; done; echo \"last $n\"",
            stop.display()
        );
        let names: Vec<String> = (1..=6).map(|n| format!("calm{n}")).collect();
        for name in &names {
            home.start_pane(name, &["sh", "-c", &script]);
        }
        names.iter().for_each(|name| wait_for(home, name, "line 5"));
        Self { home, names, stop }
    }

    /// Asserts that all of them still print.
    fn assert_printing(&self) {
        for name in &self.names {
            let end = || self.home.show(name)["live"]["log_end"].as_u64().unwrap();
            let before = end();
            wait_until(&format!("{name} prints"), PATIENCE, || end() > before);
        }
    }

    /// Stops them and asserts that no line is missing.
    fn assert_complete(self) {
        fs::File::create(&self.stop).unwrap();
        for name in &self.names {
            wait_for_exit(self.home, name);
            let log = self.home.ccmux(&["read", name, "--log"]).ok();
            let last = log.lines().find_map(|line| line.trim().strip_prefix("last ")).unwrap();
            let last: u64 = last.parse().unwrap();
            let lines: BTreeSet<u64> = log
                .lines()
                .filter_map(|line| line.trim().strip_prefix("line ")?.parse().ok())
                .collect();
            assert_eq!(lines, (1..=last).collect(), "{name} lost lines");
        }
    }
}

fn wait_for_exit(home: &Home, name: &str) {
    home.ccmux(&["wait", name, "--for", "exit", "--timeout", "90"]).timeout(PATIENCE * 2).ok();
}

#[test]
fn heavy_runaway_pane_does_not_affect_neighbours() {
    let home = Home::new(CCMUX);
    let calm = Neighbours::new(&home);
    let limits = "memory=128M,processes=40,disk=8M,policy=stop";

    // A shell exits when it cannot fork.
    let forks = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); sh -c 'sleep 300' & done; wait";
    begin(&home, "forks", limits, &["sh", "-c", forks]);
    calm.assert_printing();
    home.ccmux(&["close", "forks", "--grace", "0.2"]).ok();

    let memory = "dd if=/dev/zero of=/dev/null bs=8G count=1; echo over-$?; sleep 300";
    begin(&home, "memory", limits, &["sh", "-c", memory]);
    calm.assert_printing();
    wait_until("the allocation is refused or the pane stopped", PATIENCE, || {
        home.show("memory")["state"] == "exited"
            || home.ccmux(&["read", "memory"]).ok().contains("over-")
    });
    home.ccmux(&["close", "memory", "--grace", "0.2"]).ok();

    // At most 64 megabytes, even if it is not stopped.
    let disk = "i=0; while [ $i -lt 64 ]; do i=$((i+1)); \
                head -c 1048576 /dev/zero > \"$TMPDIR/$i\"; sleep 0.05; done; sleep 300";
    begin(&home, "disk", limits, &["sh", "-c", disk]);
    calm.assert_printing();
    wait_state(&home, "disk", "exited");

    begin(&home, "output", limits, &["sh", "-c", "yes runaway | head -c 200000000; sleep 300"]);
    calm.assert_printing();
    home.ccmux(&["close", "output", "--grace", "0.2"]).ok();
    calm.assert_complete();
}

#[test]
fn heavy_crashing_pane_does_not_affect_neighbours() {
    let home = Home::new(CCMUX);
    let calm = Neighbours::new(&home);

    let ways: [(&str, &str); 3] = [
        ("segfault", "kill -SEGV $$"),
        ("killed", "kill -9 $$"),
        ("closed", "exec 0<&- 1>&- 2>&-; setsid sleep 0.1; exit 3"),
    ];
    for (name, script) in ways {
        home.ccmux(&["new", "-d", "-n", name, "--", "sh", "-c", script]).ok();
        wait_for_exit(&home, name);
    }
    assert_eq!(home.show("segfault")["ending"]["signal"], 11);
    assert_eq!(home.show("killed")["ending"]["signal"], 9);
    assert_eq!(home.show("closed")["ending"]["code"], 3);

    let memory = "exec dd if=/dev/zero of=/dev/null bs=8G count=1";
    home.ccmux(&["new", "-d", "-n", "memory", "--limit", "memory=64M", "--", "sh", "-c", memory])
        .ok();
    wait_for_exit(&home, "memory");

    let orphan = home.start_pane("orphan", &["sh", "-c", "sleep 300 & sleep 300"]);
    process::kill_and_wait(&orphan.keeper(), PATIENCE);
    wait_state(&home, "orphan", "lost");

    calm.assert_printing();
    calm.assert_complete();
    assert!(Path::new(&home.state_root()).is_dir());
}

#[test]
fn frozen_pane_can_save_its_work_when_stopped() {
    let home = Home::new(CCMUX);
    let script = "trap 'sleep 2; echo saved; exit 7' HUP; head -c 4194304 /dev/zero > $TMPDIR/much; \
                  echo ready; while :; do sleep 0.05; done";
    start(&home, "over", "disk=2M,policy=freeze", &["sh", "-c", script]);
    wait_state(&home, "over", "frozen");

    home.ccmux(&["stop", "over", "--grace", "60"]).timeout(PATIENCE).ok();

    assert_eq!(home.show("over")["ending"]["code"], 7);
    assert!(home.ccmux(&["read", "over"]).ok().contains("saved"));
}
