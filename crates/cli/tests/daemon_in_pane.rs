//! The daemon and panes: a pane cannot start or stop it by command, and a daemon that a command in a
//! pane needs is started outside of the pane's limits and environment (B20).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Home, Pane, process, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for operations that take a second on an idle machine.
const LONG: Duration = Duration::from_secs(60);

/// Environments of a process in a pane: its own, without variables of ccmux, empty, and forged.
const DISGUISES: [&str; 4] = [
    "",
    "env -u CCMUX_PANE_ID -u CCMUX_SESSION_ID -u CCMUX -u CCMUX_SOCKET",
    "env -i",
    "env CCMUX_PANE_ID=00000000-0000-4000-8000-000000000000 CCMUX=",
];

/// A pane whose shell runs the lines that it is given, without using the daemon.
struct Shell<'a> {
    home: &'a Home,
    pane: Pane,
    lines: PathBuf,
    count: usize,
}

impl<'a> Shell<'a> {
    fn new(home: &'a Home, options: &[&str]) -> Self {
        let lines = home.work().join("lines");
        fs::create_dir(&lines).unwrap();
        let script = format!(
            "n=1; while :; do if [ -e {0}/$n ]; then (. {0}/$n) </dev/null >>{0}/$n.part 2>&1; \
             echo \"rc $?\" >>{0}/$n.part; mv {0}/$n.part {0}/$n.out; n=$((n+1)); fi; \
             sleep 0.05; done",
            lines.display()
        );
        let words = ["new", "-d", "--json", "-n", "shell", "--workspace", "shared"];
        let command = ["--", "sh", "-c", &script];
        let started = home.ccmux(&[&words[..], options, &command].concat()).json();
        let pane = Pane::from_json(&started["pane"]);
        Self { home, pane, lines, count: 0 }
    }

    /// Runs a line; returns its exit code and output.
    fn run(&mut self, line: &str) -> (i32, String) {
        self.count += 1;
        let (line_file, out) = (self.count.to_string(), format!("{}.out", self.count));
        testkit::put(&self.lines.join("next"), line);
        fs::rename(self.lines.join("next"), self.lines.join(line_file)).unwrap();
        let out = self.lines.join(out);
        wait_until("the line in the pane has ended", LONG, || out.exists());
        let text = fs::read_to_string(&out).unwrap();
        // A daemon that was started with this output reports there when it is ready.
        let (said, rest) = text.rsplit_once("rc ").unwrap();
        let code = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        (code.parse().unwrap(), said.to_owned())
    }

    /// A path that leads to the state root, but is not spelled like it.
    fn alias(&self) -> PathBuf {
        let alias = self.home.work().join("alias");
        if !alias.exists() {
            symlink(self.home.state_root().parent().unwrap(), &alias).unwrap();
        }
        alias.join(self.home.state_root().file_name().unwrap())
    }
}

fn is_daemon_running(home: &Home) -> bool {
    home.ccmux(&["daemon", "status"]).run().status.success()
}

#[test]
fn pane_cannot_start_the_daemon_by_command_whatever_its_environment_says() {
    let home = Home::new(CCMUX);
    let mut shell = Shell::new(&home, &[]);
    let alias = shell.alias();

    for running in [true, false] {
        if !running {
            home.kill_daemon();
        }
        for disguise in DISGUISES {
            for verb in ["start", "run"] {
                for root in [home.state_root(), &alias] {
                    let command =
                        format!("{disguise} {CCMUX} --home {} daemon {verb}", root.display());
                    let (code, said) = shell.run(&command);
                    assert_eq!(code, 4, "{command}: {said}");
                    assert!(said.contains("administer access denied"), "{command}: {said}");
                    assert!(said.contains("run this outside of panes"), "{command}: {said}");
                }
            }
        }
        assert_eq!(is_daemon_running(&home), running);
    }
}

/// What the kernel lets a process inherit from the one that started it.
fn inherited(pid: u32) -> BTreeMap<&'static str, String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let status = |name: &str| {
        read("status").lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
    };
    let link = |name: &str| format!("{:?}", fs::read_link(format!("/proc/{pid}/{name}")).ok());
    BTreeMap::from([
        ("control groups", read("cgroup")),
        ("limits", read("limits")),
        ("umask", status("Umask")),
        ("blocked signals", status("SigBlk")),
        ("privileges", status("NoNewPrivs")),
        ("processors", status("Cpus_allowed")),
        ("mounts", link("ns/mnt")),
        ("root", link("root")),
        ("kill order", read("oom_score_adj")),
    ])
}

#[test]
fn daemon_needed_in_a_pane_inherits_nothing_from_the_pane() {
    let home = Home::new(CCMUX);
    let limits = "files=64,memory=900M,processes=500,groups=off";
    let mut shell = Shell::new(&home, &["--limit", limits]);
    let root = home.state_root().to_owned();
    let alias = shell.alias();
    shell.run("true");
    let surroundings = "umask 0; ulimit -t 600; ulimit -c 0; cd /tmp; exec 7<$LINES/1.out; \
        export CCMUX_TEST_HOOKS=/tmp LD_LIBRARY_PATH=/tmp GIT_DIR=/tmp;";
    let lines = shell.lines.clone();
    let with = |prefix: &str, root: &Path, command: &str| {
        let surroundings = surroundings.replace("$LINES", lines.to_str().unwrap());
        format!("{surroundings} {prefix} {CCMUX} --home {} {command}", root.display())
    };
    let lines = [
        with("", &root, "ls"),
        with("env -i", &root, "ls"),
        with("", &alias, "ls"),
        // What `ls` does to start the daemon, with an environment of the pane's choice.
        with("", &root, "daemon run --detached"),
        with("env -i setsid", &alias, "daemon run --detached"),
    ];

    for line in lines {
        home.kill_daemon();
        let (code, said) = shell.run(&line);
        assert_eq!(code, 0, "{line}: {said}");
        wait_until("the daemon runs", LONG, || is_daemon_running(&home));

        let (daemon, keeper) = (home.daemon_pid(), shell.pane.keeper().pid);
        assert_eq!(inherited(daemon), inherited(keeper), "{line}");
        let environment = process::environment(daemon);
        assert_eq!(environment, process::environment(keeper), "{line}");
        assert_eq!(fs::read_link(format!("/proc/{daemon}/cwd")).unwrap(), Path::new("/"));
        let open = fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().flatten();
        let mut open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        assert!(open.all(|file| file != shell.lines.join("1.out")), "{line}");
    }
    let daemon = home.daemon();
    home.ccmux(&["close", "shell"]).ok();

    assert_eq!(home.daemon(), daemon, "the daemon ended with the pane");
    home.start_pane("next", &["sleep", "1000"]);
}
