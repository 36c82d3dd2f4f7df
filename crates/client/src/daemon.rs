//! Requests to the daemon: connects, starts it if needed, and retries when it dies.
//!
//! Panes survive the death of a daemon, so clients should too. A request that is safe to repeat
//! ([`DaemonClient::request_retry`]) goes to the next daemon if the current one dies before it
//! replies. Any other request is sent once ([`DaemonClient::request_once`]): if its reply is lost,
//! the outcome is unknown, and the caller must report that.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::control::{Request, Response, SOCKET};
use protocol::greeting::{Refusal, Welcome};
use protocol::{ErrorBody, Frame};

use crate::connection::{Connection, ConnectionError};
use crate::start::{DaemonCommand, StartError, Started, start};
use crate::timeout::reply_timeout;

/// How long to try to reach a daemon. A start with recovery takes well under one second; a busy
/// machine needs more.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The first pause before connecting again to a daemon that another client is starting. It doubles
/// up to [`MAX_BACKOFF`], so that many waiting clients do not slow down the start.
const MIN_BACKOFF: Duration = Duration::from_millis(10);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// A daemon that dies within this time of the previous one may have been killed by the request.
const QUICK_DEATH: Duration = Duration::from_secs(1);

/// How many daemons in a row may die quickly before a request is given up.
const MAX_QUICK_DEATHS: u32 = 5;

/// Why the daemon could not be reached or did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No daemon is running, and the client may not start one.
    #[error("no daemon is running in `{}`", run_dir.display())]
    NotRunning {
        /// The directory of the control socket.
        run_dir: PathBuf,
    },
    /// The control socket exists, but connecting failed.
    #[error("cannot connect to `{}`: {error}", socket.display())]
    Connect {
        /// The control socket.
        socket: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The daemon could not be started.
    #[error("cannot start the daemon: {0}")]
    Start(StartError),
    /// The daemon refused the connection, usually because no common protocol version exists.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The daemon did not reply in time.
    #[error("the daemon does not respond")]
    NotResponding,
    /// The connection was lost before the reply, so the outcome of the request is unknown.
    #[error("the daemon exited before it replied")]
    OutcomeUnknown(io::Error),
    /// Several daemons in a row died before they replied.
    #[error("the daemon exited {deaths} times before it replied: {error}")]
    RepeatedDeath {
        /// The number of daemons that died.
        deaths: u32,
        /// The last error.
        error: io::Error,
    },
    /// The daemon sent something that violates the protocol.
    #[error("invalid reply from the daemon: {0}")]
    Protocol(String),
    /// The daemon replied with an error.
    #[error(transparent)]
    Remote(ErrorBody),
}

/// A client of the daemon. It connects on first use and again after the connection is lost.
#[derive(Debug)]
pub struct DaemonClient {
    run_dir: PathBuf,
    command: Option<DaemonCommand>,
    connection: Option<Connection>,
}

impl DaemonClient {
    /// Creates a client of the daemon whose control socket is in `run_dir`. It does not start a
    /// daemon.
    #[must_use]
    pub fn new(run_dir: impl Into<PathBuf>) -> Self {
        Self { run_dir: run_dir.into(), command: None, connection: None }
    }

    /// Starts the daemon with `command` whenever none is running.
    #[must_use]
    pub fn autostart(mut self, command: DaemonCommand) -> Self {
        self.command = Some(command);
        self
    }

    /// Connects to the daemon, unless connected already, and returns its greeting.
    ///
    /// # Errors
    ///
    /// [`DaemonError`].
    pub fn connect(&mut self) -> Result<&Welcome, DaemonError> {
        Ok(&self.connection()?.welcome)
    }

    /// Sends a request that must not be carried out twice.
    ///
    /// # Errors
    ///
    /// [`DaemonError`]; [`DaemonError::OutcomeUnknown`] if the connection is lost before the reply.
    pub fn request_once(&mut self, request: &Request) -> Result<Response, DaemonError> {
        self.try_request(request)?.map_err(DaemonError::OutcomeUnknown)
    }

    /// Sends a request that is safe to repeat, and repeats it if the daemon dies. `request` is
    /// called for each attempt, so that a timeout can be reduced to the time left.
    ///
    /// # Errors
    ///
    /// [`DaemonError`].
    pub fn request_retry(
        &mut self,
        mut request: impl FnMut() -> Request,
    ) -> Result<Response, DaemonError> {
        let mut retries = RetryBudget::default();
        loop {
            match self.try_request(&request())? {
                Ok(response) => return Ok(response),
                Err(error) => retries.spend(error)?,
            }
        }
    }

    /// Stops the daemon and waits until it has exited. Returns false if none is running. Never
    /// starts a daemon.
    ///
    /// # Errors
    ///
    /// [`DaemonError`].
    pub fn stop_daemon(&mut self) -> Result<bool, DaemonError> {
        self.connection = None;
        let mut connection = match open(&self.run_dir) {
            Ok(connection) => connection,
            Err(ConnectionError::Connect(error)) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(self.fatal(error)),
        };
        // The reply may be lost when the daemon exits; the end of the stream is the confirmation.
        let mut last = set_reply_timeout(&connection, &Request::DaemonStop)
            .and_then(|()| connection.ask(&Request::DaemonStop))
            .map(drop);
        while last.is_ok() {
            last = connection.receive().map(drop);
        }
        match last {
            Ok(()) | Err(ConnectionError::Disconnected(_)) => Ok(true),
            Err(error) => Err(self.fatal(error)),
        }
    }

    /// Waits until the daemon closes the current connection. Frames it sends are discarded.
    ///
    /// # Errors
    ///
    /// [`DaemonError`] if there is no connection to wait on.
    pub fn wait_closed(&mut self) -> Result<(), DaemonError> {
        let connection = self.connection()?;
        let mut last = connection.set_timeout(None).map_err(ConnectionError::Disconnected);
        while last.is_ok() {
            last = connection.receive().map(drop);
        }
        self.connection = None;
        Ok(())
    }

    /// Waits for the next frame of a stream that a request has opened.
    ///
    /// # Errors
    ///
    /// [`DaemonError`]. The inner error means that the connection is lost and the stream should be
    /// requested again.
    pub(crate) fn next_frame(&mut self) -> Result<Result<Frame, io::Error>, DaemonError> {
        let received = self.connection()?.receive();
        self.retryable(received)
    }

    /// Sends a request. The inner error means that the connection was lost before the reply.
    fn try_request(
        &mut self,
        request: &Request,
    ) -> Result<Result<Response, io::Error>, DaemonError> {
        let connection = self.connection()?;
        let reply = set_reply_timeout(connection, request).and_then(|()| connection.ask(request));
        self.retryable(reply)
    }

    /// Separates the loss of the connection, after which the caller may retry, from errors that a
    /// retry does not mend.
    fn retryable<T>(
        &mut self,
        result: Result<T, ConnectionError>,
    ) -> Result<Result<T, io::Error>, DaemonError> {
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(ConnectionError::Remote(body)) => Err(DaemonError::Remote(body)),
            Err(ConnectionError::Disconnected(error)) => {
                self.connection = None;
                Ok(Err(error))
            }
            Err(error) => {
                self.connection = None;
                Err(self.fatal(error))
            }
        }
    }

    fn connection(&mut self) -> Result<&mut Connection, DaemonError> {
        if self.connection.is_none() {
            self.connection = Some(self.reach()?);
        }
        Ok(self.connection.as_mut().expect("it was set above"))
    }

    /// Connects, starting a daemon if allowed, until [`CONNECT_TIMEOUT`] has passed.
    fn reach(&self) -> Result<Connection, DaemonError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let mut backoff = MIN_BACKOFF;
        let mut at_deadline = DaemonError::NotResponding;
        loop {
            match open(&self.run_dir) {
                Ok(connection) => return Ok(connection),
                Err(ConnectionError::Connect(error)) if is_absent(&error) => {
                    let Some(command) = &self.command else {
                        return Err(DaemonError::NotRunning { run_dir: self.run_dir.clone() });
                    };
                    match start(command, deadline).map_err(DaemonError::Start)? {
                        Started::Ready => continue,
                        Started::AlreadyRunning(report) => {
                            at_deadline = DaemonError::Start(report);
                        }
                    }
                }
                // The daemon died during the handshake.
                Err(ConnectionError::Disconnected(_)) => {}
                Err(error) => return Err(self.fatal(error)),
            }
            if Instant::now() + backoff >= deadline {
                return Err(at_deadline);
            }
            std::thread::sleep(backoff);
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Converts an error that a retry does not mend.
    fn fatal(&self, error: ConnectionError) -> DaemonError {
        match error {
            ConnectionError::Connect(error) => {
                DaemonError::Connect { socket: self.run_dir.join(SOCKET), error }
            }
            ConnectionError::Refused(refusal) => DaemonError::Refused(refusal),
            ConnectionError::TimedOut => DaemonError::NotResponding,
            ConnectionError::Disconnected(error) => DaemonError::OutcomeUnknown(error),
            ConnectionError::Protocol(message) => DaemonError::Protocol(message),
            ConnectionError::Remote(body) => DaemonError::Remote(body),
        }
    }
}

/// Limits how often a request is repeated that may be the cause of the daemons' deaths.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    quick_deaths: u32,
    last: Instant,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { quick_deaths: 0, last: Instant::now() }
    }
}

impl RetryBudget {
    /// Records the death of a daemon.
    ///
    /// # Errors
    ///
    /// [`DaemonError::RepeatedDeath`] if too many daemons died in quick succession.
    pub(crate) fn spend(&mut self, error: io::Error) -> Result<(), DaemonError> {
        let was_quick = self.last.elapsed() < QUICK_DEATH;
        self.quick_deaths = if was_quick { self.quick_deaths + 1 } else { 1 };
        self.last = Instant::now();
        if self.quick_deaths <= MAX_QUICK_DEATHS {
            return Ok(());
        }
        Err(DaemonError::RepeatedDeath { deaths: self.quick_deaths, error })
    }
}

fn open(run_dir: &Path) -> Result<Connection, ConnectionError> {
    Connection::open_timeout(run_dir, SOCKET, CONNECT_TIMEOUT)
}

fn set_reply_timeout(connection: &Connection, request: &Request) -> Result<(), ConnectionError> {
    connection.set_timeout(reply_timeout(request)).map_err(ConnectionError::Disconnected)
}

/// Returns whether the error means that no daemon is running: the state root or the socket does not
/// exist, or the socket is stale. A state root that is not a directory counts as well: starting the
/// daemon reports that problem.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_budget_is_exhausted_by_quick_deaths_only() {
        let error = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let mut budget = RetryBudget::default();

        for _ in 0..MAX_QUICK_DEATHS {
            budget.spend(error()).unwrap();
        }
        let mut rested = RetryBudget { quick_deaths: MAX_QUICK_DEATHS, ..RetryBudget::default() };
        rested.last -= QUICK_DEATH;

        assert!(matches!(budget.spend(error()), Err(DaemonError::RepeatedDeath { .. })));
        assert!(rested.spend(error()).is_ok());
    }
}
