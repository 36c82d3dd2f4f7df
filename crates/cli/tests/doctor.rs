//! `ccmux doctor` (R12, B1): every kind of damage is found with its evidence, and a healthy home
//! has no findings. With the real binary and real processes; the scripted agent plays claude.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use model::health::FindingKind;
use rustix::process::Signal;
use serde_json::Value;
use testkit::{DEADLINE, Home, Pane, process, put, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Returns a home in which `claude` is the scripted agent and the user has an API key.
fn home() -> Home {
    let mut home = Home::new(CCMUX);
    home.install_fake_agent("claude");
    home.set_env("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef");
    home
}

/// Puts a script of this name into the `PATH`.
fn script(home: &mut Home, name: &str, text: &str) {
    let bin = home.dir().join("bin");
    put(&bin.join(name), format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
}

/// Starts a claude that writes its session file and a transcript.
fn claude(home: &Home, name: &str) -> Pane {
    let pane = home.start_pane(name, &["claude", "--keep-session", "--said", "--stay"]);
    home.ccmux(&["wait", name, "--for", "text=session kept", "--timeout", "20"]).ok();
    pane
}

/// Returns the agent's configuration directory of a pane.
fn config_dir(home: &Home, pane: &Pane) -> PathBuf {
    home.state_root().join(format!("claude-configs/pane-{}", pane.id))
}

fn conversation(home: &Home, pane: &Pane) -> String {
    home.show(&pane.id)["conversation"].as_str().unwrap().to_owned()
}

/// A report of doctor and its exit code.
struct Report {
    code: Option<i32>,
    health: Value,
}

fn doctor(home: &Home) -> Report {
    let finished = home.ccmux(&["doctor", "--json"]).run();
    let health = serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|error| panic!("{error}: {finished:#?}"));
    Report { code: finished.status.code(), health }
}

impl Report {
    fn findings(&self, severity: &str) -> Vec<&Value> {
        let all = self.health["findings"].as_array().unwrap();
        all.iter().filter(|finding| finding["severity"] == severity).collect()
    }

    #[track_caller]
    fn assert_healthy(&self) {
        assert_eq!((self.code, &self.health["ok"]), (Some(0), &Value::Bool(true)), "{self}");
        assert!(self.findings("error").is_empty() && self.findings("warning").is_empty(), "{self}");
    }

    /// Returns the finding of this kind whose evidence contains this text.
    #[track_caller]
    fn has(&self, severity: &str, kind: FindingKind, evidence: &str) -> &Value {
        let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
        let found = self.findings(severity).into_iter().find(|finding| {
            text(finding, "what") == kind.as_str() && text(finding, "evidence").contains(evidence)
        });
        let found =
            found.unwrap_or_else(|| panic!("no {severity} {kind:?} {evidence:?} in {self}"));
        if severity != "info" {
            assert_eq!((self.code, &self.health["ok"]), (Some(4), &Value::Bool(false)), "{self}");
            assert!(!text(found, "remedy").is_empty(), "{found}");
        }
        found
    }

    #[track_caller]
    fn has_error(&self, kind: FindingKind, evidence: &Path) -> &Value {
        self.has("error", kind, evidence.to_str().unwrap())
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:#}", self.code, self.health)
    }
}

#[test]
fn healthy_home_has_no_findings_and_lists_checks() {
    let home = home();
    doctor(&home).assert_healthy();
    home.start_pane("shell", &["sh"]);
    claude(&home, "dev1");
    claude(&home, "dev2");
    home.ccmux(&["new", "-d", "-n", "own", "--isolation", "home", "--", "sh"]).ok();
    home.ccmux(&["new", "-d", "-n", "none", "--isolation", "none", "--", "sh"]).ok();
    home.ccmux(&["stop", "dev2"]).ok();

    let visit = doctor(&home);

    visit.assert_healthy();
    assert_eq!(visit.health["checked"]["panes"], 5, "{visit}");
    assert_eq!(visit.health["checked"]["processes"], 4, "{visit}");
    assert_eq!(visit.health["checked"]["conversations"], 2, "{visit}");
    visit.has("info", FindingKind::Agent, "0.0.0");
    visit.has("info", FindingKind::Login, "ANTHROPIC_API_KEY");
    let text = home.ccmux(&["doctor"]).ok();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("no problems found; checked 5 panes, "), "{text}");
    home.kill_daemon();
    doctor(&home).assert_healthy();
}

#[test]
fn missing_open_and_replaced_directories_are_found() {
    let home = home();
    let [gone, open, linked, own] =
        ["gone", "open", "linked", "own"].map(|name| home.start_pane(name, &["sh"]));
    fs::remove_dir_all(config_dir(&home, &gone)).unwrap();
    fs::set_permissions(config_dir(&home, &open), fs::Permissions::from_mode(0o755)).unwrap();
    let elsewhere = home.dir().join("elsewhere");
    fs::rename(config_dir(&home, &linked), &elsewhere).unwrap();
    symlink(&elsewhere, config_dir(&home, &linked)).unwrap();
    fs::remove_dir(own.dir.join("output")).unwrap();

    let visit = doctor(&home);

    let missing = visit.has_error(FindingKind::Missing, &config_dir(&home, &gone));
    assert!(missing["subject"].as_str().unwrap().starts_with("pane gone ("), "{missing}");
    let wide = visit.has_error(FindingKind::Open, &config_dir(&home, &open));
    assert!(wide["evidence"].as_str().unwrap().contains("0755"), "{wide}");
    let link = visit.has_error(FindingKind::Link, &config_dir(&home, &linked));
    assert!(link["evidence"].as_str().unwrap().contains(elsewhere.to_str().unwrap()), "{link}");
    visit.has_error(FindingKind::Missing, &own.dir.join("output"));
    assert_eq!(visit.findings("error").len(), 4, "{visit}");
}

#[test]
fn state_root_permissions_are_checked() {
    let home = home();
    home.start_pane("shell", &["sh"]);
    let (root, tmp) = (home.state_root(), home.state_root().join("tmp"));
    fs::set_permissions(root, fs::Permissions::from_mode(0o750)).unwrap();
    fs::rename(&tmp, home.dir().join("tmp")).unwrap();
    symlink(home.dir().join("tmp"), &tmp).unwrap();
    fs::create_dir(root.join("codex-configs/pane-00000000-0000-4000-8000-000000000000")).unwrap();

    let visit = doctor(&home);

    visit.has("error", FindingKind::Open, "has mode 0750");
    visit.has_error(FindingKind::Link, &tmp);
    visit.has("info", FindingKind::Orphan, "pane-00000000-0000-4000-8000-000000000000");
    fs::set_permissions(root, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn swapped_state_files_are_found() {
    let home = home();
    let [one, two] = ["one", "two"].map(|name| claude(&home, name));
    let [first, second] = [&one, &two].map(|pane| config_dir(&home, pane).join(".claude.json"));
    doctor(&home).assert_healthy();
    let aside = home.dir().join("aside");
    fs::rename(&first, &aside).unwrap();
    fs::rename(&second, &first).unwrap();
    fs::rename(&aside, &second).unwrap();

    let visit = doctor(&home);

    let found = visit.has_error(FindingKind::StateOfAnother, &first);
    assert!(found["evidence"].as_str().unwrap().contains(&two.id), "{found}");
    let found = visit.has_error(FindingKind::StateOfAnother, &second);
    assert!(found["evidence"].as_str().unwrap().contains(&one.id), "{found}");
}

#[test]
fn damaged_open_linked_and_missing_state_files_are_found() {
    let home = home();
    let panes = ["damaged", "open", "linked", "gone"].map(|name| home.start_pane(name, &["sh"]));
    let [damaged, open, linked, gone] =
        panes.each_ref().map(|pane| config_dir(&home, pane).join(".claude.json"));
    put(&damaged, "{\"projects\":");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(&linked).unwrap();
    fs::hard_link(&open, &linked).unwrap();
    fs::remove_file(&gone).unwrap();

    let visit = doctor(&home);

    visit.has_error(FindingKind::StateUnreadable, &damaged);
    visit.has_error(FindingKind::Open, &open);
    visit.has_error(FindingKind::StateShared, &linked);
    visit.has("warning", FindingKind::StateMissing, gone.to_str().unwrap());
}

#[test]
fn foreign_agent_sessions_are_found_and_stale_ones_explained() {
    let home = home();
    let [one, two] = ["one", "two"].map(|name| claude(&home, name));
    let killed = claude(&home, "killed");
    process::kill_and_wait(&killed.head, DEADLINE);
    home.ccmux(&["wait", "killed", "--for", "exit", "--timeout", "20"]).ok();
    let file = |pane: &Pane, pid: u32| config_dir(&home, pane).join(format!("sessions/{pid}.json"));
    let visit = doctor(&home);
    visit.assert_healthy();
    visit.has("info", FindingKind::StaleSession, file(&killed, killed.head.pid).to_str().unwrap());
    let theirs = file(&two, one.head.pid);
    fs::copy(file(&one, one.head.pid), &theirs).unwrap();
    let us = process::identity(std::process::id()).unwrap();
    let outsider = file(&two, us.pid);
    let said = serde_json::json!({
        "pid": us.pid, "procStart": us.start.to_string(), "sessionId": conversation(&home, &two),
    });
    put(&outsider, said.to_string());

    let visit = doctor(&home);

    let found = visit.has_error(FindingKind::ForeignSession, &theirs);
    assert!(found["evidence"].as_str().unwrap().contains("pane one ("), "{found}");
    let found = visit.has_error(FindingKind::ForeignSession, &outsider);
    assert!(found["evidence"].as_str().unwrap().contains("outside the pane"), "{found}");
    assert_eq!(visit.findings("error").len(), 2, "{visit}");
}

#[test]
fn missing_transcript_is_found() {
    let home = home();
    let pane = claude(&home, "dev1");
    doctor(&home).assert_healthy();
    let project = config_dir(&home, &pane).join("projects/-fake");
    let transcript = project.join(format!("{}.jsonl", conversation(&home, &pane)));
    fs::remove_file(&transcript).unwrap();

    let visit = doctor(&home);

    let pattern = config_dir(&home, &pane).join("projects/*");
    visit.has_error(FindingKind::TranscriptMissing, &pattern);
}

#[test]
fn leak_into_user_directory_is_found() {
    let home = home();
    let pane = claude(&home, "dev1");
    let own = home.dir().join("home/.claude");
    let leaked = own.join(format!("projects/-src/{}.jsonl", conversation(&home, &pane)));
    put(&leaked, "{}\n");
    let shell = home.start_pane("shell", &["sh"]);
    let id = "550e8400-e29b-41d4-a716-446655440000";
    let typed =
        format!("CLAUDE_CONFIG_DIR=~/.claude claude --session-id {id} --keep-session --stay");
    home.ccmux(&["send", "shell", &typed, "--enter"]).ok();
    home.ccmux(&["wait", "shell", "--for", "text=session kept", "--timeout", "20"]).ok();

    let visit = doctor(&home);

    let found = visit.has_error(FindingKind::LeakedConversation, &leaked);
    assert!(found["subject"].as_str().unwrap().starts_with("pane dev1 ("), "{found}");
    let found = visit.has_error(FindingKind::LeakedSession, &own.join("sessions"));
    assert!(found["subject"].as_str().unwrap().contains(&shell.id[..8]), "{found}");
}

#[test]
fn conversation_from_before_ccmux_is_no_leak() {
    let home = home();
    let id = "550e8400-e29b-41d4-a716-446655440000";
    put(&home.dir().join(format!("home/.claude/projects/-src/{id}.jsonl")), "{}\n");
    home.start_pane("dev1", &["claude", "--resume", id, "--stay"]);

    let visit = doctor(&home);

    visit.assert_healthy();
    assert_eq!(visit.health["checked"]["conversations"], 1, "{visit}");
}

/// Changes a launch record, checksum included.
fn rewrite(pane: &Pane, change: impl FnOnce(&mut Value)) {
    let path = pane.dir.join("pane.json");
    let mut record = testkit::pane::read_record(&path);
    change(&mut record);
    let record = record.to_string();
    let checksum = blake3::hash(record.as_bytes()).to_hex();
    put(&path, format!(r#"{{"format":1,"checksum":"{checksum}","record":{record}}}"#));
}

#[test]
fn launch_record_with_foreign_paths_or_pane_is_found() {
    let home = home();
    let [away, other, lost] = ["away", "other", "lost"].map(|name| home.start_pane(name, &["sh"]));
    rewrite(&away, |record| record["isolation"]["dirs"][0]["path"] = "/home/me/.claude".into());
    rewrite(&other, |record| {
        record["pane"] = away.id.as_str().into();
        record["owner"] = 12345.into();
    });
    put(&lost.dir.join("pane.json"), "{}");

    let visit = doctor(&home);

    let found = visit.has_error(FindingKind::RecordElsewhere, &away.dir.join("pane.json"));
    assert!(found["evidence"].as_str().unwrap().contains("`/home/me/.claude`"), "{found}");
    visit.has("error", FindingKind::RecordOfAnother, &away.id);
    visit.has("error", FindingKind::RecordOwner, "user 12345");
    visit.has_error(FindingKind::RecordUnreadable, &lost.dir.join("pane.json"));
}

#[test]
fn process_without_isolation_variables_is_found() {
    let home = home();
    let pane = home.start_pane("bare", &["sh", "-c", "exec env -i sleep 1000"]);
    wait_until("it has no environment", DEADLINE, || {
        fs::read(format!("/proc/{}/environ", pane.head.pid)).is_ok_and(|found| found.is_empty())
    });

    let visit = doctor(&home);

    let found = visit.has("error", FindingKind::Unprotected, &pane.head.pid.to_string());
    for name in ["CCMUX_PANE_ID", "CCMUX_SESSION_ID", "CLAUDE_CONFIG_DIR", "CODEX_HOME"] {
        let missing = format!("{name} is not set");
        assert!(found["evidence"].as_str().unwrap().contains(&missing), "{name}: {found}");
    }
    // Nothing in its environment connects it to this home.
    process::kill_and_wait(&pane.head, DEADLINE);
}

#[test]
fn hanging_keeper_is_found() {
    let home = home();
    let pane = home.start_pane("frozen", &["sh"]);
    process::signal(&pane.keeper(), Signal::STOP);

    let visit = doctor(&home);

    process::signal(&pane.keeper(), Signal::CONT);
    visit.has("error", FindingKind::KeeperSilent, &format!("keeper {}", pane.keeper().pid));
    doctor(&home).assert_healthy();
}

#[test]
fn invalid_configuration_is_reported_with_line_and_column() {
    let home = home();
    home.start_pane("shell", &["sh"]);
    put(&home.state_root().join("config/ccmux.toml"), "resume_fallback = \"retry\"\n");

    let visit = doctor(&home);

    visit.has("error", FindingKind::ConfigInvalid, "ccmux.toml:1:19");
    assert_eq!(visit.health["checked"]["panes"], 1, "other checks still run: {visit}");
}

#[test]
fn damaged_registry_is_found_and_remedy_repairs_it() {
    let home = home();
    home.start_pane("shell", &["sh"]);
    // A stopped daemon leaves the whole database in one file.
    home.ccmux(&["daemon", "stop"]).ok();
    home.start_daemon();
    let path = home.state_root().join("ccmux.db");
    let length = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xaa; length - 4096]).unwrap();

    let visit = doctor(&home);

    visit.has("error", FindingKind::RegistryDamaged, "");
    home.ccmux(&["daemon", "stop"]).ok();
    let after = doctor(&home);
    assert_eq!(after.findings("error"), Vec::<&Value>::new(), "{after}");
    after.has("warning", FindingKind::Problem, "ccmux.db");
    assert_eq!(home.show("shell")["state"], "running");
}

/// A claude that ignores the shared login store and keeps running.
const IGNORES_STORE: &str = r#"case "$1" in
    --version) echo '1.0.0 (Test)' ;;
    auth) echo '{"loggedIn":false,"authMethod":"none"}'; exit 1 ;;
    *) exec sleep 1000 ;;
esac"#;

#[test]
fn login_method_and_support_by_agent_release_are_reported() {
    let mut home = Home::new(CCMUX);
    home.install_fake_agent("claude");
    home.start_pane("asks", &["claude", "--stay"]);
    let visit = doctor(&home);
    visit.has("warning", FindingKind::WillAsk, "/home/.claude");

    put(&home.dir().join("home/.claude/.credentials.json"), "{}");
    let visit = doctor(&home);
    visit.assert_healthy();
    visit.has("info", FindingKind::Login, "supported by claude 0.0.0");
    assert_eq!(home.show("asks")["login_note"], "supported by claude 0.0.0");

    fs::remove_file(home.dir().join("bin/claude")).unwrap();
    script(&mut home, "claude", IGNORES_STORE);
    home.start_pane("deaf", &["claude"]);
    let visit = doctor(&home);
    let found = visit.has("warning", FindingKind::LoginIgnored, "claude 1.0.0");
    assert!(found["remedy"].as_str().unwrap().contains("CLAUDE_CODE_OAUTH_TOKEN"), "{found}");
    let shown = home.ccmux(&["show", "deaf"]).ok();
    assert!(
        shown.contains("(not supported by claude 1.0.0: this pane will ask for a login)"),
        "{shown}"
    );
}

#[test]
fn agent_release_is_probed_once_in_background() {
    let mut home = Home::new(CCMUX);
    let calls = home.dir().join("calls");
    let noting = format!("[ \"$1\" = auth ] && echo \"$CCMUX_PANE_ID\" >>'{}'", calls.display());
    script(&mut home, "claude", &format!("{noting}\n{IGNORES_STORE}"));
    let hung = home.start_pane("one", &["claude"]);

    wait_until("the result is known", DEADLINE, || {
        home.show("one")["login_note"]
            == "not supported by claude 1.0.0: this pane will ask for a login"
    });
    home.start_pane("two", &["claude"]);
    home.kill_daemon();
    home.start_pane("three", &["claude"]);
    doctor(&home);

    assert!(process::is_alive(&hung.head));
    assert_eq!(
        fs::read_to_string(&calls).unwrap(),
        "\n",
        "the probe ran once, outside of every pane"
    );
    let run: Vec<_> = fs::read_dir(home.state_root().join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("probe-"))
        .collect();
    assert_eq!(run, Vec::<String>::new());
}

#[test]
fn every_finding_kind_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let text = fs::read_to_string(path).unwrap();
    for kind in FindingKind::ALL {
        assert!(text.contains(kind.as_str()), "docs/doctor.md does not mention {kind:?}");
    }
}
