//! The configuration file, with the real binary in a hermetic home.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use testkit::Home;

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Returns a home with this configuration file.
fn configured(text: &str) -> (Home, PathBuf) {
    let home = Home::new(CCMUX);
    // Creates the directories.
    home.ccmux(&["config", "--check"]).ok();
    let path = home.state_root().join("config/ccmux.toml");
    write(&path, text);
    (home, path)
}

fn write(path: &PathBuf, text: &str) {
    let mut file = File::create(path).unwrap();
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Returns the entry of one key.
fn value<'a>(shown: &'a Value, key: &str) -> &'a Value {
    let values = shown["values"].as_array().unwrap();
    values.iter().find(|value| value["key"] == key).unwrap_or_else(|| panic!("no {key}: {shown}"))
}

#[test]
fn config_without_file_shows_defaults() {
    let home = Home::new(CCMUX);

    let shown = home.ccmux(&["config", "--json"]).json();
    let checked = home.ccmux(&["config", "--check"]).ok();

    let path = home.state_root().join("config/ccmux.toml");
    assert_eq!(shown["path"], path.to_str().unwrap());
    assert_eq!(shown["exists"], false);
    assert_eq!(value(&shown, "claude.isolation.method")["value"], "config_dir");
    assert_eq!(value(&shown, "cleanup.retention")["value"], "7d");
    for value in shown["values"].as_array().unwrap() {
        assert_eq!(value["origin"], "default", "{value}");
    }
    assert!(checked.contains("does not exist"), "{checked}");
    assert_eq!(home.processes(), [0_u32; 0], "a daemon was started");
}

#[test]
fn config_shows_values_with_file_and_line() {
    let (home, path) = configured(
        r#"# mine
resume_fallback = "fresh"
[claude.isolation]
method = "home"
home_symlinks = [".ssh", ".config/git"]
[agents.mine]
command = ["mine", "--quiet"]
config_variables = { MINE_HOME = "" }
"#,
    );

    let shown = home.ccmux(&["config", "--json"]).json();
    let text = home.ccmux(&["config"]).ok();

    let line = |n: u32| format!("{}:{n}", path.display());
    assert_eq!(shown["exists"], true);
    assert_eq!(value(&shown, "resume_fallback")["origin"], line(2));
    assert_eq!(value(&shown, "claude.isolation.method")["value"], "home");
    assert_eq!(value(&shown, "claude.isolation.method")["origin"], line(4));
    let linked = value(&shown, "claude.isolation.home_symlinks");
    assert_eq!(linked["value"], serde_json::json!([".ssh", ".config/git"]));
    let variables = value(&shown, "agents.mine.config_variables");
    assert_eq!(variables["value"], serde_json::json!({ "MINE_HOME": "" }));
    assert_eq!(variables["origin"], line(8));
    assert_eq!(value(&shown, "agents.mine.transcript")["value"], Value::Null);
    assert_eq!(value(&shown, "cleanup.every")["origin"], "default");
    assert!(text.contains("claude.isolation.method = \"home\""), "{text}");
    assert!(text.contains("# ccmux.toml:4\n"), "{text}");
    let checked = home.ccmux(&["config", "--check", "--json"]).json();
    assert_eq!(checked["valid"], true);
}

#[test]
fn config_output_is_a_valid_file() {
    let (home, path) = configured("[agents.mine]\ncommand = [\"a\\\"b\", \"\\u001b[2J\", \"é\"]");
    let values = |shown: &Value| -> Vec<(String, Value)> {
        let values = shown["values"].as_array().unwrap();
        values.iter().map(|v| (v["key"].to_string(), v["value"].clone())).collect()
    };
    let before = values(&home.ccmux(&["config", "--json"]).json());

    write(&path, &home.ccmux(&["config"]).ok());
    let printed = values(&home.ccmux(&["config", "--json"]).json());
    write(&path, &home.ccmux(&["config", "--defaults"]).ok());
    let defaults = values(&home.ccmux(&["config", "--json"]).json());

    assert_eq!(printed, before);
    assert_eq!(defaults, values(&home.ccmux(&["config", "--defaults", "--json"]).json()));
}

#[test]
fn config_defaults_need_no_state_root() {
    let home = Home::new(CCMUX);

    let printed = home.ccmux(&["config", "--defaults"]).env("HOME", "").env("CCMUX_HOME", "").ok();

    assert!(printed.contains("\n[claude.isolation]\n"), "{printed}");
    assert!(!home.state_root().exists(), "the state root was created");
}

#[test]
fn misspelt_key_error_names_line_and_suggestion() {
    let (home, path) = configured("[claude.isolation]\n\ncleanup_on_clos = false\n");

    for verb in [&["config"][..], &["config", "--check"]] {
        let complaint = home.ccmux(verb).fails_with(2);

        let expected = format!(
            "error: {}:3:1: unknown key `claude.isolation.cleanup_on_clos`; did you mean \
             `cleanup_on_close`?\nhint: `ccmux config --defaults` explains every key, \
             `ccmux config --check` checks the file\n",
            path.display()
        );
        assert_eq!(complaint, expected);
    }
}

#[test]
fn invalid_config_reports_all_errors_at_once() {
    let (home, path) = configured(
        r#"restore_on_start = "yes"
resume_fallback = shell
[claude.isolation]
method = "hom"
cleanup_on_close = 1
share = "skills"
[cleanup]
every = "0s"
retention = 7
[agents.mine]
scrub = ["A"]
[agents.Mine]
command = [7]
"#,
    );

    let complaint = home.ccmux(&["config", "--check"]).fails_with(2);

    insta::assert_snapshot!(complaint.replace(path.to_str().unwrap(), "/ccmux.toml"));
    let error: Value =
        serde_json::from_str(&home.ccmux(&["config", "--json"]).fails_with(2)).unwrap();
    assert_eq!(error["error"]["code"], "usage");
    let message = error["error"]["message"].as_str().unwrap();
    for line in complaint.lines().skip(1).filter(|line| !line.starts_with("hint: ")) {
        assert!(message.contains(line.trim()), "{line} is not in {message}");
    }
}

#[test]
fn home_links_reject_unsafe_paths() {
    let (home, path) = configured(
        r#"[claude.isolation]
home_symlinks = [
  "",
  ".",
  "..",
  "../.ssh",
  ".config/../../etc",
  "/etc/passwd",
  "~/.ssh",
  ".ssh/",
  ".claude",
  ".claude/projects",
  ".claude.json",
  ".config/*",
  "\u0000",
  "\u001b[2J",
]
"#,
    );

    let complaint = home.ccmux(&["config", "--check"]).fails_with(2);

    insta::assert_snapshot!(complaint.replace(path.to_str().unwrap(), "/ccmux.toml"));
    assert!(!complaint.contains('\u{1b}'), "{complaint:?}");
}

#[test]
fn config_writable_by_others_is_refused_with_hint() {
    let (home, path) = configured("");
    fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();

    let complaint = home.ccmux(&["config"]).fails_with(2);

    let path = path.display();
    let expected = format!(
        "error: `{path}` is writable by other users (mode 0664)\nhint: run `chmod go-w {path}`\n"
    );
    assert_eq!(complaint, expected);
}

#[test]
fn config_that_is_not_a_text_file_is_refused() {
    let (home, path) = configured("");

    File::create(&path).unwrap().write_all(b"a = \"\xff\"").unwrap();
    let complaint = home.ccmux(&["config"]).fails_with(2);
    assert!(complaint.contains("ccmux.toml:1:6: not UTF-8"), "{complaint}");

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let complaint = home.ccmux(&["config"]).fails_with(2);
    assert!(complaint.contains("is not a file"), "{complaint}");
}
