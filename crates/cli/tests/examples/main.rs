//! Every example in the help and in README.md works: from the home directory, in a repository and in
//! a directory with many files.
//!
//! The examples are read from the generated reference of the help and from README.md. They run as a
//! user types them; [`preparation`] puts the names that they use into place.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use model::Size;
use testkit::{DEADLINE, Home, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Number of files of the directory with many files.
const MANY_FILES: usize = 20_000;

/// Programs that the examples run, and what stands in for them.
const PROGRAMS: [(&str, &str); 9] = [
    ("claude", "echo ready; exec cat"),
    ("codex", "echo ready; exec cat"),
    ("make", "echo made; exec cat"),
    ("npm", "echo started; exec cat"),
    ("cargo", "echo test result: ok"),
    ("serve", "echo serving; exec cat"),
    ("migrate", "echo migrated"),
    ("systemctl", "exit 0"),
    ("less", "exec cat"),
];

/// How an example ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// By itself, with one of these codes.
    With(&'static [i32]),
    /// When the user detaches.
    Detached,
    /// When the user presses ctrl-c, after it has printed something.
    Interrupted,
    /// When the user has answered a question with yes.
    Confirmed,
}

/// Returns the examples in the reference of the command line.
fn examples_of_help() -> Vec<String> {
    let text = fs::read_to_string(Path::new(REPOSITORY).join("docs/reference/cli.md")).unwrap();
    let mut examples = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "Examples:" => inside = true,
            line if inside && line.starts_with("  ") => examples.push(command(line)),
            _ => inside = false,
        }
    }
    examples
}

/// Returns the commands in README.md, except those that build ccmux.
fn examples_of_readme() -> Vec<String> {
    let text = fs::read_to_string(Path::new(REPOSITORY).join("README.md")).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
    let lines = lines.filter(|line| !line.starts_with("make ") && !line.starts_with("git clone"));
    lines.map(command).collect()
}

/// Returns the command of a line: the part before a comment, which two spaces separate.
fn command(line: &str) -> String {
    let line = line.trim();
    let end = line.find("  ").unwrap_or(line.len());
    line[..end].trim().to_owned()
}

/// Returns the preparation of an example in the shell, and the example with the values that only
/// exist now.
fn preparation(example: &str) -> (&'static str, String) {
    let is = |start: &str| example.starts_with(start);
    let has = |part: &str| example.contains(part);
    let with = |from: &str, to: &str| example.replace(from, to);
    let same = example.to_owned();
    match example {
        "ccmux" | "ccmux attach" => ("fixture", same),
        _ if has("review-squad") && is("ccmux new") => {
            ("purge_all; ccmux template add ~/templates/review-squad >/dev/null || true", same)
        }
        _ if is("ccmux template rm") => {
            ("ccmux template add ~/templates/review-squad >/dev/null 2>&1 || true", same)
        }
        _ if is("ccmux template add ~") => {
            ("ccmux template rm review-squad >/dev/null 2>&1 || true", same)
        }
        _ if is("ccmux template add .") => ("cd ~/templates/review-squad", same),
        _ if has("ccmux stop web &&") => ("legacy", same),
        _ if has("ccmux thaw") => ("frozen", same),
        _ if has("--to managers") => ("units", same),
        _ if is("ccmux purge web api") => {
            ("fixture; ccmux new -d --session api -n one -- cat >/dev/null", same)
        }
        _ if has("ccmux migrate web") => ("legacy; ccmux stop web >/dev/null", same),
        _ if has("seven") && !is("ccmux up") => {
            ("purge_all; ccmux up --preset seven --agent shell >/dev/null 2>&1", same)
        }
        _ if is("ccmux down team.toml") => ("purge_all; ccmux up team.toml >/dev/null 2>&1", same),
        _ if is("ccmux down") => ("team", same),
        _ if has("--discard") => ("unsaved_work", with("2117b4f3a1aa", "$TOKEN")),
        _ if is("ccmux restore web") => ("fixture; ccmux stop web >/dev/null", same),
        _ if is("ccmux restore") => ("fixture; ccmux stop dev1 >/dev/null", same),
        _ if has("-0000-4000-") => (
            "ccmux lock acquire f --json >lock.json; LOCK=$(jq -r .lock.id lock.json)",
            with("1a2b3c4d-0000-4000-8000-000000000000", "$LOCK"),
        ),
        _ if is("ccmux lock check") => (
            "ccmux lock acquire db.sqlite --json >lock.json; TOKEN=$(jq -r .lock.token lock.json)",
            with("--token 42", "--token $TOKEN"),
        ),
        _ if is("ccmux message show") => (
            "fixture; ID=$(ccmux message --to qa --session web hello --json | jq -r .messages[0].id)",
            with("1a2b3c4d", "$ID"),
        ),
        _ if is("ccmux show 1a2b3c4d") => (
            "fixture; ID=$(ccmux show dev1 --json | jq -r .pane.id)",
            with("1a2b3c4d", "${ID:0:8}"),
        ),
        _ if is("git diff") => ("fixture; cd ~/my-project; echo change >>file", same),
        _ if is("ccmux share --remove") => ("ccmux share docs/style.md >/dev/null", same),
        _ if is("ccmux trust --revoke") => ("ccmux trust ~/src/web >/dev/null", same),
        _ if is("curl") => (
            "ADDRESS=$(ccmux serve --detach --listen 127.0.0.1:0 --json | jq -r .address)",
            with("http://127.0.0.1:8765", "http://$ADDRESS").replace("curl ", "curl -sSf "),
        ),
        // Defined by compinit in zsh.
        _ if has("completions zsh") => ("compdef() { :; }", same),
        "ccmux serve" | "ccmux serve --detach" => (":", format!("{example} --listen 127.0.0.1:0")),
        _ if is("ccmux daemon run") => (":", with("/srv/ccmux", "~/srv")),
        _ if is("ccmux events --after") => ("fixture", with("--after 120", "--after 0")),
        _ if has("ccmux hook") => {
            ("fixture; export CCMUX_PANE_ID=$(ccmux show dev1 --json | jq -r .pane.id)", same)
        }
        _ if is("ccmux new") || is("ccmux up") || is("ccmux claude") => ("purge_all", same),
        _ => ("fixture", same),
    }
}

/// Returns how an example ends.
fn ends(example: &str) -> Ends {
    let words: Vec<&str> = example.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    match words.get(1).copied() {
        None if example == "ccmux" => Ends::Detached,
        Some("new") if !has("-d") && !has("--json") => Ends::Detached,
        Some("attach" | "claude") if words[0] == "ccmux" => Ends::Detached,
        _ if has("--follow") => Ends::Interrupted,
        Some("daemon") if has("run") => Ends::Interrupted,
        Some("serve") if words[0] == "ccmux" && !has("--detach") => Ends::Interrupted,
        Some("purge") if !has("--yes") => Ends::Confirmed,
        // Findings: the tools of the user who runs the test.
        Some("doctor") => Ends::With(&[0, 4]),
        _ => Ends::With(&[0]),
    }
}

/// Writes a program.
fn write_program(path: &Path, body: &str) {
    put(path, format!("#!/bin/sh\n{body}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A home with the programs and files that the examples name.
fn home() -> Home {
    let mut home = Home::new(CCMUX);
    let bin = home.dir().join("bin");
    for (name, body) in PROGRAMS {
        let version = "[ \"$1\" != --version ] || { echo 1.0.0; exit; }";
        write_program(&bin.join(name), &format!("{version}\n{body}"));
    }
    std::os::unix::fs::symlink(CCMUX, bin.join("ccmux")).unwrap();
    home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    home.set_env("DEBUG", "1");
    home.set_env("STAGE", "test");
    let dir = home.dir().join("home");
    for sub in
        ["my-project", "src/web", "templates/review-squad/unit/core", ".config/fish/completions"]
    {
        fs::create_dir_all(dir.join(sub)).unwrap();
    }
    put(&dir.join("templates/review-squad/unit/core/manager.md"), "# Manager\n");
    let config = "[workspace]\nsetup = [[\"true\"]]\n";
    put(&dir.join("src/web/.ccmux.toml"), config);
    repository(&home, &dir.join("my-project"));
    home
}

/// Makes `dir` a repository with one commit.
fn repository(home: &Home, dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let script = "git init -q && echo text >file && git add -A && \
                  git -c user.name=me -c user.email=me@localhost commit -qm first";
    home.program("sh", &["-c", script]).dir(dir).ok();
}

/// Puts the files that the examples name into `dir`.
fn write_files(home: &Home, dir: &Path) {
    for file in
        ["docs/style.md", "api.yaml", "review.md", "prompt.txt", "src/main.rs", "Cargo.toml"]
    {
        let path = dir.join(file);
        put(&path, "text\n");
    }
    put(&dir.join(".ccmux.toml"), "[workspace]\nsetup = [[\"true\"]]\n");
    for program in ["serve", "migrate"] {
        write_program(&dir.join(program), "echo done; exec sleep 0");
    }
    let team = home.ccmux(&["up", "--preset", "seven", "--agent", "shell", "--print"]).ok();
    put(&dir.join("team.toml"), &team);
}

/// Runs one example in `dir`. Returns why it failed.
fn run(home: &Home, dir: &Path, example: &str) -> Result<(), String> {
    let (prepare, line) = preparation(example);
    let prelude = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples/prelude.sh");
    let script = format!(
        "set -e; . {}; here=$PWD; {prepare}; set +e; set -o pipefail\n{line}",
        prelude.display()
    );
    let invocation = home.program("bash", &["-c", &script]).dir(dir);
    let fail = |code: i32, text: &str| Err(format!("`{example}` ended with {code}: {text}"));
    let ends = ends(example);
    if let Ends::With(codes) = ends {
        let done = invocation.try_run()?;
        let code = done.status.code().unwrap_or(-1);
        let text = format!("{}{}", done.stdout, done.stderr);
        return if codes.contains(&code) { Ok(()) } else { fail(code, &text) };
    }
    if example.starts_with("ccmux daemon run") {
        home.ccmux(&["daemon", "stop"]).ok();
    }
    let screen = invocation.screen(Size::new(100, 30).unwrap());
    let raw = |part: &str| {
        let raw = screen.raw();
        String::from_utf8_lossy(&raw).contains(part) || screen.exit().is_some()
    };
    match ends {
        Ends::Detached => {
            wait_until("attached", DEADLINE, || raw("\x1b[?1049h"));
            if screen.exit().is_none() {
                screen.send("\x02d");
            }
        }
        Ends::Confirmed => {
            wait_until("asked", DEADLINE, || raw("[y/N]"));
            if screen.exit().is_none() {
                screen.send("y\r");
            }
        }
        Ends::Interrupted if example.starts_with("ccmux daemon run") => {
            let root = if example.contains("--home") { "home/srv" } else { "home/.ccmux" };
            let root = home.dir().join(root);
            let status = home.ccmux(&["daemon", "status", "--home"]).arg(root);
            wait_until("the daemon runs", DEADLINE, || status.run().status.success());
            screen.send("\x03");
            screen.wait_exit();
            return Ok(());
        }
        Ends::Interrupted | Ends::With(_) => {
            wait_until("printed", DEADLINE, || !screen.text().trim().is_empty() || raw("error:"));
            if screen.text().contains("error:") {
                return fail(screen.exit().unwrap_or(-1), &screen.text());
            }
            screen.send("\x03");
            screen.wait_exit();
            return Ok(());
        }
    }
    match screen.wait_exit() {
        0 => Ok(()),
        code => fail(code, &screen.text()),
    }
}

/// Runs all examples in `dir` and fails with a list of those that failed.
fn run_all(home: &Home, dir: &Path) {
    write_files(home, dir);
    let mut examples = examples_of_help();
    assert!(examples.len() > 100, "only {} examples were found", examples.len());
    examples.extend(examples_of_readme());

    let failed: Vec<String> = examples
        .iter()
        .filter(|example| !example.starts_with("cd "))
        .filter_map(|example| run(home, dir, example).err())
        .collect();

    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

fn home_dir(home: &Home) -> PathBuf {
    home.dir().join("home")
}

#[test]
fn examples_work_in_the_home_directory() {
    let home = home();

    run_all(&home, &home_dir(&home));
}

#[test]
fn examples_work_in_a_repository() {
    let home = home();
    let dir = home_dir(&home).join("app");
    repository(&home, &dir);

    run_all(&home, &dir);
}

#[test]
fn examples_work_in_a_directory_with_many_files() {
    let home = home();
    let dir = home_dir(&home).join("large");
    for number in 0..MANY_FILES {
        let sub = dir.join(format!("{}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir_all(&sub).unwrap();
        }
        put(&sub.join(format!("{number}")), "text");
    }

    run_all(&home, &dir);
}
