//! The other end of every agent: one server on loopback that answers for all their vendors.
//!
//! An [`ApiStub`] speaks the four dialects in which the agents talk to their models, records what
//! it was asked and answers in a way that can be seen on a screen: `stub answer 3: <last text>`.
//! With [`ApiStub::script`] it gives other answers, tool calls among them; with [`ApiStub::play`] it
//! is a different model in every conversation; with [`ApiStub::hold`] it keeps the agents waiting.
//!
//! It is a proxy, too. Agents that are told so by [`environment`](crate::agents::environment)
//! reach nothing but loopback: the hosts at which claude renews a login are played by the stub
//! itself, behind certificates that its own authority signed, and all others are refused and
//! listed in [`ApiStub::refused`].

mod answer;
mod authority;
mod dialect;
mod login;
mod reply;
mod schema;
mod seen;
mod server;
mod state;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::screen::Screen;
use crate::wait::{DEADLINE, wait_for};

pub use answer::Answer;
pub use seen::{Seen, ToolResult};
use state::State;

/// How long a prompt may take from the return key to the stub before the key is pressed again.
/// Agents take a return that follows the text too closely for a part of it, and none on an empty
/// line for anything.
const ENTER_AGAIN: Duration = Duration::from_millis(500);

/// A server for the agents of one test. Dropping it ends the server.
#[derive(Debug)]
pub struct ApiStub {
    address: SocketAddr,
    state: Arc<State>,
    dir: TempDir,
    // The server ends when this is dropped.
    _alive: oneshot::Sender<()>,
}

/// Keeps agents waiting for their answers until it is dropped.
#[derive(Debug)]
#[must_use = "the answers flow again as soon as this is dropped"]
pub struct Held(Arc<State>, u64);

impl ApiStub {
    /// Starts a server on a port of its own.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start() -> Self {
        let dir = TempDir::with_prefix("cx-stub-").expect("a directory for the certificate");
        let authority = authority::Authority::new();
        authority.write_certificate(&certificate_in(dir.path()));
        let state = Arc::new(State::default());
        let (alive, ended) = oneshot::channel();
        let (listener, address) = server::listen();
        let acceptor = authority.acceptor();
        let served = Arc::clone(&state);
        thread::Builder::new()
            .name("api-stub".to_owned())
            .spawn(move || server::run(listener, acceptor, &served, ended))
            .expect("a thread for the stub");
        Self { address, state, dir, _alive: alive }
    }

    /// Where it listens, as `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The certificate of the authority that vouches for the hosts which the stub plays.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        certificate_in(self.dir.path())
    }

    /// Everything it was asked so far, in the order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        self.state.requests()
    }

    /// The turns of conversations among the requests: what a person's prompts led to, without the
    /// errands that agents run on the side (titles, model routing, logins).
    #[must_use]
    pub fn turns(&self) -> Vec<Seen> {
        let mut requests = self.requests();
        requests.retain(Seen::is_turn);
        requests
    }

    /// The hosts outside that agents asked for and did not get, in the order of asking.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.state.refused()
    }

    /// Gives these answers to the next turns, one each, before it goes back to echoing.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state.script(answers);
    }

    /// Remembers the bodies of this many requests from now on, and only that there were others: agents
    /// send everything along each time, and a long test would fill the memory with it.
    pub fn remember(&self, most: usize) {
        self.state.remember(most);
    }

    /// Answers no turn until the returned value is dropped. They are recorded all the same.
    pub fn hold(&self) -> Held {
        self.hold_when(|_| true)
    }

    /// Answers no turn that is `wanted` until the returned value is dropped.
    pub fn hold_when(&self, wanted: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Held {
        let id = self.state.hold(Arc::new(wanted));
        Held(Arc::clone(&self.state), id)
    }

    /// Lets `plays` answer every turn of conversations in which the person said `word`: what comes
    /// next may depend on what the tools gave ([`Seen::tool_results`]). It is called in the order
    /// of the turns, and must not block.
    pub fn play(
        &self,
        word: impl Into<String>,
        plays: impl FnMut(&Seen) -> Answer + Send + 'static,
    ) {
        self.state.play(word.into(), Box::new(plays));
    }

    /// Waits for a request that satisfies `wanted`, also among those that came already.
    ///
    /// # Panics
    ///
    /// When none comes within [`DEADLINE`]; the message says what was waited for and what came.
    #[track_caller]
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        match self.state.wait_for(0, DEADLINE, wanted) {
            Ok(found) => found,
            Err(seen) => panic!("waited {DEADLINE:?} in vain until {what}; came: {seen:#?}"),
        }
    }

    /// Types a prompt into an agent that is ready for one, and returns the turn it leads to.
    ///
    /// # Panics
    ///
    /// When the agent does not send it within [`DEADLINE`].
    #[track_caller]
    pub fn prompt(&self, screen: &Screen, text: &str) -> Seen {
        let before = self.state.count();
        screen.send(text);
        screen.wait_for(text);
        let is_sent = |seen: &Seen| {
            seen.is_turn() && seen.user_texts().last().is_some_and(|last| last.trim() == text)
        };
        wait_for(&format!("{text:?} is sent"), DEADLINE, || {
            screen.send("\r");
            self.state.wait_for(before, ENTER_AGAIN, is_sent).ok()
        })
    }

    /// A login of claude as it stands in `.credentials.json`, valid until `expires_at`
    /// (milliseconds since 1970).
    ///
    /// Its refresh token is the one that the stub accepts now. It is good for one renewal, after
    /// which only the token handed out then is: whoever keeps a copy is logged out, as with the
    /// real service.
    #[must_use]
    pub fn login(&self, expires_at: u64) -> Value {
        self.state.login(expires_at)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release(self.1);
    }
}

fn certificate_in(dir: &Path) -> PathBuf {
    dir.join("authority.pem")
}
