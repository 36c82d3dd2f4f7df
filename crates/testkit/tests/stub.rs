//! The real agents with the stub, without ccmux.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;

use model::Size;
use serde_json::{Value, json};
use testkit::stub::{Answer, RecordedRequest};
use testkit::{Agent, ApiStub, Home, Invocation, agents};

/// Times far in the past and in the future, in milliseconds since 1970.
const LONG_EXPIRED: u64 = 1_000_000_000_000;
const NEVER_EXPIRES: u64 = 4_102_444_800_000;

/// Hosts that agents contact in spite of all settings; the stub refuses them.
const UNAVOIDABLE: [&str; 2] = ["raw.githubusercontent.com", "registry.npmjs.org"];

/// A user of one agent, with a project that the user trusts.
struct User {
    agent: Agent,
    stub: ApiStub,
    home: Home,
    project: PathBuf,
}

impl User {
    fn of(agent: Agent) -> Self {
        let stub = ApiStub::start();
        // A home without ccmux: these tests run only agents.
        let home = Home::new(env!("CARGO_BIN_EXE_fake-agent"));
        let own = home.dir().join("home");
        let project = own.join("project");
        fs::create_dir(&project).unwrap();
        agents::user_files(agent, &own, &stub);
        agents::trust(agent, &own, &project);
        Self { agent, stub, home, project }
    }

    fn runs<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Invocation {
        let start = self.home.program(agents::installed(self.agent), args).dir(&self.project);
        let environment = agents::environment(self.agent, &self.stub);
        environment.into_iter().fold(start, |start, (name, value)| start.env(name, value))
    }

    fn prints(&self, prompt: &str) -> Invocation {
        self.runs(&self.agent.print_args(prompt))
    }

    fn assert_only_loopback_used(&self) {
        let refused = self.stub.refused();
        let surprising = refused.iter().find(|host| !UNAVOIDABLE.contains(&host.as_str()));
        assert_eq!(surprising, None, "{} wanted to go there", self.agent.name());
    }
}

fn assert_prompt_is_answered_in_print_mode(agent: Agent) -> RecordedRequest {
    let user = User::of(agent);

    let printed = user.prints("hello").ok();

    assert!(printed.contains("stub answer 1: hello"), "{printed}");
    let turns = user.stub.turns();
    assert_eq!(
        turns.len(),
        1,
        "{:#?}",
        turns.iter().map(RecordedRequest::to_string).collect::<Vec<_>>()
    );
    assert_eq!(turns[0].user_texts(), ["hello"]);
    assert!(turns[0].authorization().unwrap().ends_with(agents::API_KEY));
    user.assert_only_loopback_used();
    turns[0].clone()
}

#[test]
fn heavy_claude_in_print_mode_is_answered() {
    let turn = assert_prompt_is_answered_in_print_mode(Agent::Claude);
    assert!(turn.conversation().is_some());
}

#[test]
fn heavy_codex_in_print_mode_is_answered() {
    let turn = assert_prompt_is_answered_in_print_mode(Agent::Codex);
    assert!(turn.conversation().is_some());
}

#[test]
fn heavy_gemini_in_print_mode_is_answered() {
    let turn = assert_prompt_is_answered_in_print_mode(Agent::Gemini);
    assert_eq!(turn.conversation(), None, "gemini names its conversation now");
}

#[test]
fn heavy_opencode_in_print_mode_is_answered() {
    let turn = assert_prompt_is_answered_in_print_mode(Agent::Opencode);
    assert!(turn.conversation().is_some_and(|id| id.starts_with("ses_")));
}

fn assert_conversation_continues_on_screen(agent: Agent) {
    let user = User::of(agent);
    let screen = user.runs::<&str>(&[]).screen(Size::clamped(100, 40));
    screen.wait_for(agent.ready_text());

    let first = user.stub.prompt(&screen, "apples");
    screen.wait_for("stub answer 1: apples");
    let second = user.stub.prompt(&screen, "pears");
    screen.wait_for("stub answer 2: pears");

    let texts: Vec<_> = second.user_texts().into_iter().map(str::trim).collect();
    assert_eq!(texts, ["apples", "pears"]);
    assert_eq!(first.conversation(), second.conversation());
    user.assert_only_loopback_used();
}

#[test]
fn heavy_claude_converses_without_dialogs() {
    assert_conversation_continues_on_screen(Agent::Claude);
}

#[test]
fn heavy_codex_converses_without_dialogs() {
    assert_conversation_continues_on_screen(Agent::Codex);
}

#[test]
fn heavy_gemini_converses_without_dialogs() {
    assert_conversation_continues_on_screen(Agent::Gemini);
}

#[test]
fn heavy_opencode_converses_without_dialogs() {
    assert_conversation_continues_on_screen(Agent::Opencode);
}

#[test]
fn heavy_scripted_tool_call_is_executed() {
    let user = User::of(Agent::Claude);
    let command = json!({"command": "printf made > made.txt", "description": "Make a file"});
    user.stub.script([Answer::tool("Bash", command), Answer::text("all done")]);

    let printed = user.runs(&["-p", "make it", "--allowedTools", "Bash"]).ok();

    assert_eq!(printed.trim(), "all done");
    assert_eq!(fs::read_to_string(user.project.join("made.txt")).unwrap(), "made");
    assert_eq!(user.stub.turns().len(), 2);
}

#[test]
fn heavy_held_answer_is_sent_when_released() {
    let user = User::of(Agent::Claude);
    let held = user.stub.hold();
    let mut claude = user.prints("hello").spawn();
    drop(claude.stdin.take());

    user.stub.wait_for("the turn arrives", RecordedRequest::is_turn);
    let waiting = claude.try_wait().unwrap();
    drop(held);
    let finished = claude.wait_with_output().unwrap();

    assert_eq!(waiting, None);
    assert_eq!(String::from_utf8(finished.stdout).unwrap().trim(), "stub answer 1: hello");
}

/// Claude with a login instead of a key.
fn logged_in(user: &User, config: &str) -> Invocation {
    let config = user.home.dir().join(config);
    fs::create_dir(&config).unwrap();
    fs::copy(user.home.dir().join("home/.claude.json"), config.join(".claude.json")).unwrap();
    user.prints("hello")
        .without_env("ANTHROPIC_API_KEY")
        .env("CLAUDE_CONFIG_DIR", config)
        .env("CLAUDE_SECURESTORAGE_CONFIG_DIR", store(user))
}

fn store(user: &User) -> PathBuf {
    user.home.dir().join("store")
}

fn log_in(user: &User, login: &Value) {
    fs::create_dir(store(user)).unwrap();
    let mut file = File::create(store(user).join(".credentials.json")).unwrap();
    file.write_all(login.to_string().as_bytes()).unwrap();
}

fn renewals(stub: &ApiStub) -> usize {
    stub.requests().iter().filter(|seen| seen.path == "/v1/oauth/token").count()
}

#[test]
fn heavy_claude_uses_stored_login() {
    let user = User::of(Agent::Claude);
    log_in(&user, &user.stub.login(NEVER_EXPIRES));

    logged_in(&user, "config").ok();

    assert_eq!(user.stub.turns()[0].authorization(), Some("Bearer sk-ant-oat01-stub-0"));
    assert_eq!(renewals(&user.stub), 0);
}

#[test]
fn heavy_expired_login_is_renewed_once_by_many_claudes() {
    const CLAUDES: usize = 8;
    let user = User::of(Agent::Claude);
    log_in(&user, &user.stub.login(LONG_EXPIRED));

    let claudes = (0..CLAUDES).map(|i| logged_in(&user, &format!("config-{i}")));
    let started: Vec<_> = claudes.map(|claude| thread::spawn(move || claude.ok())).collect();
    for claude in started {
        claude.join().unwrap();
    }

    assert_eq!(renewals(&user.stub), 1);
    let turns = user.stub.turns();
    assert_eq!(turns.len(), CLAUDES);
    let renewed = Some("Bearer sk-ant-oat01-stub-1");
    assert!(turns.iter().all(|turn| turn.authorization() == renewed), "{turns:#?}");
    let stored = fs::read(store(&user).join(".credentials.json")).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(stored["claudeAiOauth"]["refreshToken"], "sk-ant-ort01-stub-1");
}

#[test]
fn concurrent_requests_are_all_answered() {
    const VISITORS: usize = 50;
    let stub = ApiStub::start();
    let address = stub.url().replace("http://", "");
    let body =
        json!({"tools": [1], "messages": [{"role": "user", "content": "hello"}]}).to_string();
    let length = body.len();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: stub\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    );

    let mut connections: Vec<_> =
        (0..VISITORS).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for connection in &mut connections {
        connection.write_all(request.as_bytes()).unwrap();
    }

    for mut connection in connections {
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("stub answer"), "{answer}");
    }
    assert_eq!(stub.turns().len(), VISITORS);
}

#[test]
fn proxy_refuses_other_hosts() {
    let stub = ApiStub::start();
    let mut connection = TcpStream::connect(stub.url().replace("http://", "")).unwrap();

    connection.write_all(b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com\r\n\r\n").unwrap();

    let mut answer = [0; 12];
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403");
    assert_eq!(stub.refused(), ["example.com"]);
}
