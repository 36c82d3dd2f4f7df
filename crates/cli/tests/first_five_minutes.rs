//! docs/first-five-minutes.md, as a new user types it: no command fails, none asks a question.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod reboot;

use std::fs;
use std::path::{Path, PathBuf};

use model::Size;
use testkit::{DEADLINE, Home, Invocation, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");
const PAGE: &str = include_str!("../../../docs/first-five-minutes.md");

/// The scripted agent, which answers every line and leaves a conversation, as claude does.
const AGENT: &str = "#!/bin/sh
case $1 in --version | auth) exec AGENT \"$@\" ;; esac
exec AGENT --prompt '> ' --keep-session --said --stay \"$@\"
";

/// Returns the commands of the page.
fn commands() -> Vec<&'static str> {
    PAGE.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// Returns a home with a repository, scripted agents, and `ccmux` on the PATH.
fn home() -> Home {
    let mut home = Home::new(CCMUX);
    let bin = home.dir().join("bin");
    put(&bin.join("claude"), AGENT.replace("AGENT", home.fake_agent().to_str().unwrap()));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bin.join("claude"), mode).unwrap();
    std::os::unix::fs::symlink(CCMUX, bin.join("ccmux")).unwrap();
    home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    let app = home.dir().join("home/app");
    fs::create_dir_all(&app).unwrap();
    let script = "git init -q && echo text >file && git add -A && \
                  git -c user.name=me -c user.email=me@localhost commit -qm first";
    home.program("sh", &["-c", script]).dir(&app).ok();
    home
}

/// Runs a command that attaches, and detaches when the agent is on the screen.
fn attach_and_detach(invocation: &Invocation, command: &str) {
    let screen = invocation.screen(Size::new(100, 30).unwrap());
    wait_until("attached", DEADLINE, || screen.raw_mode(1049) || screen.exit().is_some());
    screen.send("\x02d");
    assert_eq!(screen.wait_exit(), 0, "`{command}`: {screen:?}");
    screen.wait_for("[detached from ");
}

/// Runs a command as a line of one shell session: it starts where the last one ended. Returns where
/// it ended.
fn run(home: &Home, dir: &Path, command: &str) -> PathBuf {
    let file = home.dir().join("directory");
    let script = format!("{command}\ncode=$?; pwd >{}; exit $code", file.display());
    let invocation = home.program("bash", &["-c", &script]).dir(dir);
    if command == "ccmux claude" {
        attach_and_detach(&invocation, command);
    } else {
        let done = invocation.run();
        assert!(done.status.success(), "`{command}`: {done:#?}");
        let said = format!("{}{}", done.stdout, done.stderr);
        for refused in ["error:", "hint:", "[y/N]", "[Y/n]"] {
            assert!(!said.contains(refused), "`{command}` says {refused:?}: {said}");
        }
    }
    fs::read_to_string(file).unwrap().trim().into()
}

#[test]
fn first_five_minutes_work_without_a_refusal_or_question() {
    let home = home();
    let mut dir = home.dir().join("home");
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");

    for command in commands {
        match command {
            "sudo reboot" => reboot::reboot(&home),
            command => dir = run(&home, &dir, command),
        }
    }

    let app = home.dir().join("home/app");
    assert_eq!(fs::read_to_string(app.join("file")).unwrap(), "text\n");
}
