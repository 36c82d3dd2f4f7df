//! Completion in a real bash, and what `make install` installs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use testkit::{Home, put};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns a home with `ccmux` on its PATH.
fn home() -> Home {
    let mut home = Home::new(CCMUX);
    let bin = home.dir().join("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(CCMUX, bin.join("ccmux")).unwrap();
    home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    home
}

/// Returns what bash offers after `line`.
fn complete(home: &Home, line: &str) -> Vec<String> {
    let script = format!(
        "source <(ccmux completions bash)
         COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9
         read -ra COMP_WORDS <<<\"$COMP_LINE\"
         case $COMP_LINE in *' ') COMP_WORDS+=('') ;; esac
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
         _clap_complete_ccmux ccmux \"${{COMP_WORDS[COMP_CWORD]}}\" x 2>/dev/null
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let printed = home.program("bash", &["-c", &script]).ok();
    printed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_names_of_panes_sessions_agents_presets_templates_and_workspaces() {
    let home = home();
    home.ccmux(&["new", "-d", "--session", "web", "-n", "dev1", "--", "cat"]).ok();
    home.ccmux(&["new", "-d", "--session", "api", "-n", "qa", "--", "cat"]).ok();

    #[rustfmt::skip]
    let table: [(&str, &[&str]); 12] = [
        ("ccmux att",                     &["attach"]),
        ("ccmux cla",                     &["claude"]),
        ("ccmux attach d",                &["dev1"]),
        ("ccmux attach web/",             &["web/dev1"]),
        ("ccmux show w",                  &["web"]),
        ("ccmux close dev1 q",            &["qa"]),
        ("ccmux purge ",                  &["api", "web"]),
        ("ccmux new --session a",         &["api"]),
        ("ccmux new --agent co",          &["codex"]),
        ("ccmux up --preset se",          &["seven"]),
        ("ccmux new --workspace w",       &["worktree"]),
        ("ccmux template show def",       &["default"]),
    ];
    for (line, expected) in table {
        let mut found = complete(&home, line);
        found.retain(|word| !word.starts_with('-'));
        found.sort();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn completing_starts_no_daemon_and_creates_no_state_root() {
    let home = home();

    assert_eq!(complete(&home, "ccmux attach d"), [] as [&str; 0]);
    assert_eq!(complete(&home, "ccmux new --workspace cl"), ["clone"]);

    assert!(!home.state_root().exists());
    assert!(home.processes().is_empty());
}

/// Runs `make` with the binary of this build in a prefix below the home.
fn make(home: &Home, target: &str) {
    let prefix = home.dir().join("home/.local");
    let words = [
        "-s".to_owned(),
        "-C".to_owned(),
        REPOSITORY.to_owned(),
        target.to_owned(),
        format!("BIN={CCMUX}"),
        "CARGO=true".to_owned(),
        format!("PREFIX={}", prefix.display()),
    ];
    home.program("make", &words).ok();
}

fn is_installed(program: &str) -> bool {
    ["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|dir| Path::new(dir).join(program).exists())
}

#[test]
fn make_install_provides_the_manual_and_make_uninstall_removes_everything() {
    let home = home();
    let prefix = home.dir().join("home/.local");

    make(&home, "install");

    let page = prefix.join("share/man/man1/ccmux.1");
    assert!(fs::read_to_string(&page).unwrap().contains("Run AI coding agents"));
    assert!(prefix.join("share/bash-completion/completions/ccmux").exists());
    let installed = home.program(prefix.join("bin/ccmux"), &["--version"]).ok();
    assert!(installed.starts_with("ccmux "), "{installed}");
    if is_installed("man") {
        let path = format!("{}:/usr/bin:/bin", prefix.join("bin").display());
        let found = home.program("man", &["-w", "ccmux"]).env("PATH", path).ok();
        assert_eq!(Path::new(found.trim()), page);
    }

    make(&home, "uninstall");

    let mut left = Vec::new();
    let mut dirs = vec![prefix];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => dirs.push(entry.path()),
                false => left.push(entry.path()),
            }
        }
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn daemon_install_writes_and_enables_a_user_unit_and_uninstall_removes_it() {
    let home = home();
    let log = home.dir().join("systemctl.log");
    let fake = home.dir().join("bin/systemctl");
    put(&fake, format!("#!/bin/sh\necho \"$@\" >>{}\n", log.display()));
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let unit = home.dir().join("home/.config/systemd/user/ccmux.service");

    let printed = home.ccmux(&["daemon", "install", "--print"]).ok();
    assert!(!unit.exists());
    home.ccmux(&["daemon", "install"]).ok();

    assert_eq!(fs::read_to_string(&unit).unwrap(), printed);
    assert!(printed.contains("daemon run --home"), "{printed}");
    home.ccmux(&["daemon", "uninstall"]).ok();
    home.ccmux(&["daemon", "uninstall"]).ok();
    assert!(!unit.exists());
    let calls = fs::read_to_string(&log).unwrap();
    assert!(calls.contains("--user enable ccmux.service"), "{calls}");
    assert!(calls.contains("--user disable ccmux.service"), "{calls}");
}

#[test]
fn daemon_install_without_systemd_says_so_and_writes_nothing() {
    let mut home = home();
    home.set_env("PATH", home.dir().join("bin"));

    let error = home.ccmux(&["daemon", "install"]).fails_with(1);

    assert!(error.contains("systemd is not installed"), "{error}");
    assert!(error.contains("--print"), "{error}");
    assert!(!home.dir().join("home/.config").exists());
}
