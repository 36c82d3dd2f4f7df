//! A stub of the agents' model services: one server on loopback for all vendors.
//!
//! An [`ApiStub`] implements the four APIs that the agents use, records every request, and answers
//! with a text that is recognisable on a screen: `stub answer 3: <last text>`. [`ApiStub::script`]
//! sets other answers, tool calls included; [`ApiStub::play`] plays a different model per
//! conversation; [`ApiStub::hold`] delays the answers.
//!
//! It is also a proxy. Agents with [`environment`](crate::agents::environment) reach only loopback:
//! the stub plays the hosts at which claude renews a login, with certificates of its own authority,
//! and refuses all others and lists them in [`ApiStub::refused`].

mod answer;
mod authority;
mod dialect;
mod login;
mod reply;
mod request;
mod schema;
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
pub use request::{RecordedRequest, ToolResult};
use state::State;

/// Delay before Enter is pressed again if no prompt arrived. An agent may take an Enter directly
/// after the text for a part of it; on an empty line an Enter has no effect.
const ENTER_AGAIN: Duration = Duration::from_millis(500);

/// A server for the agents of one test, stopped when dropped.
#[derive(Debug)]
pub struct ApiStub {
    address: SocketAddr,
    state: Arc<State>,
    dir: TempDir,
    // The server stops when this is dropped.
    _alive: oneshot::Sender<()>,
}

/// Delays answers until it is dropped.
#[derive(Debug)]
#[must_use = "the answers flow again as soon as this is dropped"]
pub struct Held(Arc<State>, u64);

impl ApiStub {
    /// Starts a server on a free port.
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

    /// Returns its address, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the certificate of the authority that signs for the played hosts.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        certificate_in(self.dir.path())
    }

    /// Returns all requests so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.requests()
    }

    /// Returns the requests that are turns of a conversation, without auxiliary ones (titles, model
    /// routing, logins).
    #[must_use]
    pub fn turns(&self) -> Vec<RecordedRequest> {
        let mut requests = self.requests();
        requests.retain(RecordedRequest::is_turn);
        requests
    }

    /// Returns the other hosts that agents tried to reach, in order.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.state.refused()
    }

    /// Sets the answers to the next turns, one each; later turns are echoed.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state.script(answers);
    }

    /// Keeps the bodies of only the last `most` requests: agents send the whole conversation each
    /// time, which would fill the memory in a long test.
    pub fn remember(&self, most: usize) {
        self.state.remember(most);
    }

    /// Delays the answers to all turns until the returned value is dropped. Turns are recorded
    /// meanwhile.
    pub fn hold(&self) -> Held {
        self.hold_when(|_| true)
    }

    /// Delays the answers to the turns that are `wanted` until the returned value is dropped.
    pub fn hold_when(
        &self,
        wanted: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static,
    ) -> Held {
        let id = self.state.hold(Arc::new(wanted));
        Held(Arc::clone(&self.state), id)
    }

    /// Lets `plays` answer every turn of conversations whose user texts contain `word`. The answer
    /// may depend on tool results ([`RecordedRequest::tool_results`]). It is called in the order of
    /// the turns, and must not block.
    pub fn play(
        &self,
        word: impl Into<String>,
        plays: impl FnMut(&RecordedRequest) -> Answer + Send + 'static,
    ) {
        self.state.play(word.into(), Box::new(plays));
    }

    /// Waits for a request that satisfies `wanted`; earlier requests count.
    ///
    /// # Panics
    ///
    /// When none arrives within [`DEADLINE`]; the message lists the requests.
    #[track_caller]
    pub fn wait_for(
        &self,
        what: &str,
        wanted: impl Fn(&RecordedRequest) -> bool,
    ) -> RecordedRequest {
        match self.state.wait_for(0, DEADLINE, wanted) {
            Ok(found) => found,
            Err(seen) => {
                panic!("timed out after {DEADLINE:?} waiting until {what}; requests: {seen:#?}")
            }
        }
    }

    /// Types a prompt into an agent that is ready, and returns the resulting turn.
    ///
    /// # Panics
    ///
    /// When the agent does not send it within [`DEADLINE`].
    #[track_caller]
    pub fn prompt(&self, screen: &Screen, text: &str) -> RecordedRequest {
        let before = self.state.count();
        screen.send(text);
        screen.wait_for(text);
        let is_sent = |seen: &RecordedRequest| {
            seen.is_turn() && seen.user_texts().last().is_some_and(|last| last.trim() == text)
        };
        wait_for(&format!("{text:?} is sent"), DEADLINE, || {
            screen.send("\r");
            self.state.wait_for(before, ENTER_AGAIN, is_sent).ok()
        })
    }

    /// Returns a login of claude in the format of `.credentials.json`, valid until `expires_at`
    /// (milliseconds since 1970).
    ///
    /// Its refresh token is the one that the stub accepts now. It is valid for one renewal; then
    /// only the new token is, as with the real service.
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
