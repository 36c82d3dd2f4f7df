use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use host::file::write_atomic;

use super::*;

/// The service without panes, and a directory for programs.
struct Fixture {
    dir: tempfile::TempDir,
    probes: Probes,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, _) = crate::runtime::testing::empty(&dir.path().join("home"));
        Self { dir, probes: Probes::new(runtime) }
    }

    /// Installs a shell script as the program of the agent that has a login store.
    fn install(&self, script: &str) -> AgentProgram {
        let path = self.dir.path().join("agent");
        let text = format!("#!/bin/sh\necho x >>'{}'\n{script}\n", self.calls().display());
        write_atomic(&path, text.as_bytes(), Durability::ProcessCrash).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let agent = agent_with_store();
        AgentProgram::find(agent, path.to_str().unwrap(), "/usr/bin:/bin", Path::new("/")).unwrap()
    }

    fn calls(&self) -> PathBuf {
        self.dir.path().join("calls")
    }

    /// Returns the number of times that programs were started.
    fn call_count(&self) -> usize {
        fs::read_to_string(self.calls()).unwrap_or_default().lines().count()
    }

    async fn probe(&self, script: &str) -> Option<Program> {
        self.probes.probe(&self.install(script)).await
    }

    /// Returns the number of scratch directories.
    fn scratch_dirs(&self) -> usize {
        let run = fs::read_dir(self.probes.runtime.root.run()).unwrap();
        run.filter(|entry| {
            entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("probe-")
        })
        .count()
    }
}

/// Returns the built-in agent that has a login store.
fn agent_with_store() -> Agent {
    Agent::built_in().into_iter().find(|agent| agent.logins.store.is_some()).unwrap()
}

/// Prints a version, and that it is logged in if the directory in `variable` has credentials.
fn honest(variable: &str) -> String {
    format!(
        r#"[ "$1" = --version ] && {{ echo "1.2.3 (Test)"; exit; }}
        if [ -f "${variable}/.credentials.json" ]; then
            echo '{{"loggedIn":true,"authMethod":"claude.ai"}}'
        else
            echo '{{"loggedIn":false,"authMethod":"none"}}'; exit 1
        fi"#
    )
}

#[tokio::test]
async fn program_that_finds_invented_login_honours_the_store() {
    let fixture = Fixture::new();
    let store = agent_with_store().logins.store.unwrap();

    let found = fixture.probe(&honest(store.variable)).await.unwrap();

    assert_eq!(found.version.as_deref(), Some("1.2.3"));
    assert_eq!(found.verdict, Some(Verdict::Honoured));
    assert_eq!(fixture.scratch_dirs(), 0, "the scratch directory is removed");
}

#[tokio::test]
async fn program_that_reads_another_variable_ignores_the_store() {
    let fixture = Fixture::new();

    let found = fixture.probe(&honest("SOMETHING_ELSE")).await.unwrap();

    assert_eq!(found.verdict, Some(Verdict::Ignored));
}

#[tokio::test]
async fn useless_output_is_unclear_and_not_saved() {
    let fixture = Fixture::new();
    let cases = ["echo nonsense", "exit 3", "kill -9 $$", "yes"];
    for script in cases {
        let found = fixture.probe(script).await.unwrap();
        assert!(matches!(found.verdict, Some(Verdict::Unclear { .. })), "{script}: {found:?}");
        let calls = fixture.call_count();
        fixture.probe(script).await;
        assert!(fixture.call_count() >= calls);
    }
    let saved = read_saved(&fixture.probes.runtime.root.path().join(PROBES_FILE));
    assert_eq!(saved, []);
}

#[tokio::test]
async fn hanging_program_is_killed_with_its_process_group() {
    let mut fixture = Fixture::new();
    fixture.probes.timeout = Duration::from_millis(400);
    let pids = fixture.dir.path().join("pids");
    let script = format!("sleep 1000 & echo $! $$ >>'{}'; wait", pids.display());

    let found = fixture.probe(&script).await.unwrap();

    assert!(matches!(&found.verdict, Some(Verdict::Unclear { why }) if why.contains("400ms")));
    let pids = fs::read_to_string(pids).unwrap_or_default();
    for pid in pids.split_whitespace() {
        let left = host::process::stat(pid.parse().unwrap());
        assert!(left.is_none_or(|left| left.zombie), "process {pid} is still alive");
    }
    assert_eq!(fixture.scratch_dirs(), 0);
}

#[tokio::test]
async fn program_is_probed_once_across_daemons_and_again_after_update() {
    let fixture = Fixture::new();
    let store = agent_with_store().logins.store.unwrap();
    let program = fixture.install(&honest(store.variable));

    let (first, second) =
        tokio::join!(fixture.probes.probe(&program), fixture.probes.probe(&program));
    let (runtime, _) = crate::runtime::testing::empty(&fixture.dir.path().join("home"));
    let next = Probes::new(runtime);
    let third = next.probe(&program).await;

    assert_eq!((&first, &first), (&second, &third));
    assert_eq!(fixture.call_count(), 2, "one call for the version and one for the login");
    assert_eq!(next.known_program(&program.identity).await, first);
    let other = fixture.install(&format!("# another version\n{}", honest("SOMETHING_ELSE")));
    assert_eq!(next.known_program(&other.identity).await, None);
    let found = next.probe(&other).await.unwrap();
    assert_eq!(found.verdict, Some(Verdict::Ignored));
    let saved = read_saved(&next.runtime.root.path().join(PROBES_FILE));
    assert_eq!(saved, [found], "the result of the replaced program is dropped");
}

#[tokio::test]
async fn probe_is_aborted_when_daemon_stops() {
    let fixture = Fixture::new();
    let program = fixture.install("exec sleep 1000");
    let begun = Instant::now();

    let probed = async {
        let stop = async {
            while fixture.call_count() == 0 {
                tokio::task::yield_now().await;
            }
            fixture.probes.runtime.stopping.cancel();
        };
        tokio::join!(fixture.probes.probe(&program), stop).0
    };

    assert_eq!(probed.await, None);
    assert!(begun.elapsed() < CALL_TIMEOUT);
    assert_eq!(fixture.scratch_dirs(), 0);
}

#[tokio::test]
async fn probed_program_sees_no_path_of_the_user() {
    let fixture = Fixture::new();
    let seen = fixture.dir.path().join("seen");
    let script = format!("/usr/bin/env >'{}'; pwd >>'{0}'", seen.display());

    fixture.probe(&script).await;

    let run = fixture.probes.runtime.root.run();
    let seen = fs::read_to_string(seen).unwrap();
    for line in seen.lines() {
        let (name, value) = line.split_once('=').unwrap_or(("", line));
        let is_path = value.starts_with('/') && name != "PATH" && name != "_";
        assert!(!is_path || Path::new(value).starts_with(&run), "{line}");
        assert!(!name.starts_with("CCMUX"), "{line}");
    }
    assert!(seen.contains("HOME="), "{seen}");
}
