use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use host::file::write_atomic;

use super::*;

/// A daemon without panes, and a place for programs.
struct Ward {
    dir: tempfile::TempDir,
    supervisor: Supervisor,
}

impl Ward {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let supervisor = Supervisor::without_panes(&dir.path().join("home"));
        Self { dir, supervisor }
    }

    /// A program that is a shell script, as the agent that has a store.
    fn candidate(&self, script: &str) -> Candidate {
        let path = self.dir.path().join("agent");
        let text = format!("#!/bin/sh\necho x >>'{}'\n{script}\n", self.calls().display());
        write_atomic(&path, text.as_bytes(), Survive::Kill).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let agent = agent_with_store();
        Candidate::find(agent, path.to_str().unwrap(), "/usr/bin:/bin", Path::new("/")).unwrap()
    }

    fn calls(&self) -> PathBuf {
        self.dir.path().join("calls")
    }

    /// How often some program was started.
    fn count(&self) -> usize {
        fs::read_to_string(self.calls()).unwrap_or_default().lines().count()
    }

    async fn ask(&self, script: &str) -> Option<Program> {
        self.supervisor.ask_program(&self.candidate(script)).await
    }

    fn rooms(&self) -> usize {
        let run = fs::read_dir(self.supervisor.root.run()).unwrap();
        run.filter(|entry| {
            entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("probe-")
        })
        .count()
    }
}

fn agent_with_store() -> Agent {
    Agent::built_in().into_iter().find(|agent| agent.logins.store.is_some()).unwrap()
}

/// Says its release, and that it is logged in if it finds a login where the variable says.
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
async fn a_release_that_finds_the_made_up_login_takes_the_shared_one() {
    let ward = Ward::new();
    let store = agent_with_store().logins.store.unwrap();

    let found = ward.ask(&honest(store.variable)).await.unwrap();

    assert_eq!(found.version.as_deref(), Some("1.2.3"));
    assert_eq!(found.verdict, Some(Verdict::Honoured));
    assert_eq!(ward.rooms(), 0, "nothing is left");
}

#[tokio::test]
async fn a_release_that_knows_another_variable_only_does_not() {
    let ward = Ward::new();

    let found = ward.ask(&honest("SOMETHING_ELSE")).await.unwrap();

    assert_eq!(found.verdict, Some(Verdict::Ignored));
}

#[tokio::test]
async fn what_says_nothing_of_use_is_unclear_and_asked_again_by_the_next_daemon() {
    let ward = Ward::new();
    let cases = ["echo nonsense", "exit 3", "kill -9 $$", "yes"];
    for script in cases {
        let found = ward.ask(script).await.unwrap();
        assert!(matches!(found.verdict, Some(Verdict::Unclear { .. })), "{script}: {found:?}");
        let calls = ward.count();
        ward.ask(script).await;
        assert!(ward.count() >= calls);
    }
    let remembered = read_remembered(&ward.supervisor.root.path().join(REMEMBERED));
    assert_eq!(remembered, []);
}

#[tokio::test]
async fn one_that_hangs_is_ended_with_everything_it_started() {
    let mut ward = Ward::new();
    ward.supervisor.probes.patience = Duration::from_millis(400);
    let pids = ward.dir.path().join("pids");
    let script = format!("sleep 1000 & echo $! $$ >>'{}'; wait", pids.display());

    let found = ward.ask(&script).await.unwrap();

    assert!(matches!(&found.verdict, Some(Verdict::Unclear { why }) if why.contains("400ms")));
    let pids = fs::read_to_string(pids).unwrap_or_default();
    for pid in pids.split_whitespace() {
        let left = host::process::stat(pid.parse().unwrap());
        assert!(left.is_none_or(|left| left.zombie), "{pid} is still there");
    }
    assert_eq!(ward.rooms(), 0);
}

#[tokio::test]
async fn a_release_is_asked_once_by_all_daemons_together_and_another_one_again() {
    let ward = Ward::new();
    let store = agent_with_store().logins.store.unwrap();
    let candidate = ward.candidate(&honest(store.variable));

    let (first, second) = tokio::join!(
        ward.supervisor.ask_program(&candidate),
        ward.supervisor.ask_program(&candidate)
    );
    let next = Supervisor::without_panes(&ward.dir.path().join("home"));
    let third = next.ask_program(&candidate).await;

    assert_eq!((&first, &first), (&second, &third));
    assert_eq!(ward.count(), 2, "for its release and for its login");
    assert_eq!(next.known_program(&candidate.identity).await, first);
    let other = ward.candidate(&format!("# another release\n{}", honest("SOMETHING_ELSE")));
    assert_eq!(next.known_program(&other.identity).await, None);
    let found = next.ask_program(&other).await.unwrap();
    assert_eq!(found.verdict, Some(Verdict::Ignored));
    let remembered = read_remembered(&next.root.path().join(REMEMBERED));
    assert_eq!(remembered, [found], "what was there before is forgotten");
}

#[tokio::test]
async fn a_daemon_that_stops_waits_for_nobody_and_leaves_nothing() {
    let ward = Ward::new();
    let candidate = ward.candidate("exec sleep 1000");
    let begun = Instant::now();

    let asked = async {
        let stop = async {
            while ward.count() == 0 {
                tokio::task::yield_now().await;
            }
            ward.supervisor.stopping.cancel();
        };
        tokio::join!(ward.supervisor.ask_program(&candidate), stop).0
    };

    assert_eq!(asked.await, None);
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(ward.rooms(), 0);
}

#[tokio::test]
async fn a_program_sees_nothing_of_the_users() {
    let ward = Ward::new();
    let seen = ward.dir.path().join("seen");
    let script = format!("/usr/bin/env >'{}'; pwd >>'{0}'", seen.display());

    ward.ask(&script).await;

    let run = ward.supervisor.root.run();
    let seen = fs::read_to_string(seen).unwrap();
    for line in seen.lines() {
        let (name, value) = line.split_once('=').unwrap_or(("", line));
        let is_path = value.starts_with('/') && name != "PATH" && name != "_";
        assert!(!is_path || Path::new(value).starts_with(&run), "{line}");
        assert!(!name.starts_with("CCMUX"), "{line}");
    }
    assert!(seen.contains("HOME="), "{seen}");
}
