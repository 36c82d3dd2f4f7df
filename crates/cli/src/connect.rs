//! The command line's connection to the daemon: [`client::DaemonClient`] for the state root of the
//! [`Context`], with errors in the vocabulary of the command line.

use std::time::Duration;

use client::{ConnectionError, DaemonClient, DaemonCommand, DaemonError, StartError};
use model::event::Event;
use protocol::control::{Request, Response};
use protocol::greeting::{Refusal, SUPPORTED};
use protocol::{ErrorBody, ErrorCode};

use crate::context::Context;

/// The hint for errors that a restart of the daemon with this release resolves.
const RESTART_DAEMON: &str =
    "restart the daemon with this release: `ccmux daemon stop`; panes keep running";

/// A connection to the daemon, made on first use and again after it is lost.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    context: &'a Context,
    client: DaemonClient,
}

impl<'a> Link<'a> {
    /// Creates a link that starts the daemon if none is running.
    pub(crate) fn new(context: &'a Context) -> Self {
        let link = Self::to_running(context);
        Self { client: link.client.autostart(daemon_command(context)), ..link }
    }

    /// Creates a link to a running daemon. It never starts one.
    pub(crate) fn to_running(context: &'a Context) -> Self {
        Self { context, client: DaemonClient::new(context.run_dir()) }
    }

    /// Connects to the daemon.
    ///
    /// # Errors
    ///
    /// Why no daemon can be reached.
    pub(crate) fn connect(&mut self) -> Result<(), ErrorBody> {
        self.client.connect().map(drop).map_err(|error| body(self.context, error))
    }

    /// Sends a request that must not be carried out twice. If the reply is lost, `doubt` completes
    /// the message "the daemon exited before it replied; …".
    ///
    /// # Errors
    ///
    /// The daemon's error, or why no daemon replied.
    pub(crate) fn request_once(
        &mut self,
        request: &Request,
        doubt: &str,
    ) -> Result<Response, ErrorBody> {
        self.client.request_once(request).map_err(|error| {
            if matches!(error, DaemonError::OutcomeUnknown(_)) {
                ErrorBody::new(ErrorCode::Unreachable, format!("{error}; {doubt}"))
                    .hint("check with `ccmux ls`; see run/daemon.log in the state directory")
            } else {
                body(self.context, error)
            }
        })
    }

    /// Sends a request that is safe to repeat, and repeats it if the daemon dies. `request` is
    /// called for each attempt, so that a timeout can be reduced to the time left.
    ///
    /// # Errors
    ///
    /// The daemon's error, or why no daemon replied.
    pub(crate) fn request_retry(
        &mut self,
        request: impl FnMut() -> Request,
    ) -> Result<Response, ErrorBody> {
        self.client.request_retry(request).map_err(|error| body(self.context, error))
    }

    /// Streams the events after the sequence number `after` (none: all recorded events), and new
    /// ones if `follow` is set. Survives restarts of the daemon.
    pub(crate) fn events(
        self,
        after: Option<u64>,
        follow: bool,
    ) -> impl Iterator<Item = Result<Event, ErrorBody>> {
        let context = self.context;
        self.client.events(after, follow).map(|next| next.map_err(|error| body(context, error)))
    }

    /// Waits until the daemon closes the connection.
    ///
    /// # Errors
    ///
    /// Why no daemon can be reached.
    pub(crate) fn wait_closed(&mut self) -> Result<(), ErrorBody> {
        self.client.wait_closed().map_err(|error| body(self.context, error))
    }

    /// Stops the daemon and waits until it has exited. Returns false if none is running.
    ///
    /// # Errors
    ///
    /// Why it is still running.
    pub(crate) fn stop_daemon(&mut self) -> Result<bool, ErrorBody> {
        self.client.stop_daemon().map_err(|error| body(self.context, error))
    }
}

/// Converts an error of a single connection.
pub(crate) fn connection_body(error: ConnectionError) -> ErrorBody {
    let is_mismatch = is_mismatch(&error);
    let body = error.into_body();
    if is_mismatch { body.hint(RESTART_DAEMON) } else { body }
}

/// Returns a duration in milliseconds, as used by the protocol.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the command that starts a daemon with this program.
fn daemon_command(context: &Context) -> DaemonCommand {
    DaemonCommand {
        // The link works even if the path of the program cannot be determined.
        program: context.exe().unwrap_or_else(|_| "/proc/self/exe".into()),
        args: ["daemon", "run", "--detached"].map(Into::into).into(),
        env: context
            .env
            .for_daemon(&context.home)
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect(),
    }
}

/// Converts an error of the daemon client and adds a hint.
fn body(context: &Context, error: DaemonError) -> ErrorBody {
    let plain = ErrorBody::new(ErrorCode::Unreachable, error.to_string());
    match error {
        DaemonError::Remote(body) => body,
        DaemonError::NotRunning { .. } => {
            let message = format!("no daemon is running for `{}`", context.home.display());
            ErrorBody::new(ErrorCode::Unreachable, message)
                .hint("start it with `ccmux daemon start`")
        }
        DaemonError::Connect { .. } => {
            plain.hint("check the state directory; --home or CCMUX_HOME selects another one")
        }
        DaemonError::Start(StartError::Reported(report)) => {
            ErrorBody { hint: report.hint, ..plain }
        }
        DaemonError::Start(_) => plain.hint("run `ccmux daemon run` to see its messages"),
        DaemonError::Refused(refusal) if !is_version_mismatch(&refusal) => plain,
        DaemonError::Refused(_) | DaemonError::Protocol(_) => plain.hint(RESTART_DAEMON),
        DaemonError::NotResponding => {
            plain.hint("if it hangs, kill it: panes keep running, and the next command restarts it")
        }
        DaemonError::OutcomeUnknown(_) | DaemonError::RepeatedDeath { .. } => {
            plain.hint("see run/daemon.log in the state directory; panes keep running")
        }
    }
}

fn is_mismatch(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::Refused(refusal) => is_version_mismatch(refusal),
        ConnectionError::Protocol(_) => true,
        ConnectionError::Connect(_)
        | ConnectionError::TimedOut
        | ConnectionError::Disconnected(_)
        | ConnectionError::Remote(_) => false,
    }
}

/// Returns whether a refusal is about versions; a daemon also refuses connections over its limit.
fn is_version_mismatch(refusal: &Refusal) -> bool {
    SUPPORTED.common(refusal.protocol).is_none()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use model::Timestamp;
    use protocol::control::SOCKET;
    use protocol::greeting::{Hello, Versions};
    use protocol::{Frame, Kind, frame};
    use tempfile::TempDir;

    use super::*;
    use crate::environment::ClientEnv;
    use crate::output::Output;

    fn context(home: &TempDir) -> Context {
        let env = ClientEnv::default();
        let out = Output::new(true, &env, Timestamp(0));
        Context { env, home: home.path().to_owned(), out }
    }

    #[test]
    fn missing_daemon_is_reported_with_start_hint() {
        let home = tempfile::tempdir().unwrap();
        let context = context(&home);
        let mut link = Link::to_running(&context);

        let error = link.request_retry(|| Request::DaemonStatus).unwrap_err();

        assert_eq!(error.code, ErrorCode::Unreachable);
        assert!(error.message.starts_with("no daemon is running for `"), "{}", error.message);
        assert_eq!(error.hint.as_deref(), Some("start it with `ccmux daemon start`"));
        assert_eq!(link.stop_daemon(), Ok(false));
    }

    #[test]
    fn lost_reply_of_unrepeatable_request_is_reported_with_doubt() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("run");
        fs::create_dir(&run).unwrap();
        let listener = UnixListener::bind(run.join(SOCKET)).unwrap();
        let daemon = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let hello: Hello = frame::read(&mut stream).unwrap().unwrap().parse().unwrap();
            let welcome = hello.answer(1, "daemon").unwrap();
            frame::write(&mut stream, &Frame::json(Kind::Welcome, &welcome)).unwrap();
            frame::read(&mut stream).unwrap().unwrap();
        });
        let new = Request::New(Box::default());

        let error = Link::to_running(&context(&home)).request_once(&new, "see `ls`").unwrap_err();

        daemon.join().unwrap();
        assert_eq!(error.code, ErrorCode::Unreachable);
        assert_eq!(error.message, "the daemon exited before it replied; see `ls`");
    }

    #[test]
    fn start_failure_keeps_the_hint_of_the_daemon() {
        let home = tempfile::tempdir().unwrap();
        let report = ErrorBody::new(ErrorCode::Failed, "why").hint("do");

        let reported =
            body(&context(&home), DaemonError::Start(StartError::Reported(report.clone())));
        let exited = body(&context(&home), DaemonError::Start(StartError::Exited));

        assert_eq!(reported.code, ErrorCode::Unreachable);
        assert_eq!(reported.message, "cannot start the daemon: why");
        assert_eq!(reported.hint, report.hint);
        assert!(exited.hint.is_some_and(|hint| hint.contains("ccmux daemon run")));
    }

    #[test]
    fn refusal_suggests_restart_only_for_version_mismatch() {
        let refusal = |protocol| Refusal {
            protocol,
            version: "9.0.0".to_owned(),
            message: "refused".to_owned(),
        };
        let newer = Versions { min: 90, max: 99 };

        let hint = |protocol| connection_body(ConnectionError::Refused(refusal(protocol))).hint;

        assert_eq!(hint(newer).as_deref(), Some(RESTART_DAEMON));
        assert_eq!(hint(SUPPORTED), None);
    }

    #[test]
    fn daemon_command_runs_this_program_detached() {
        let home = tempfile::tempdir().unwrap();
        let context = context(&home);

        let command = daemon_command(&context);

        assert_eq!(command.program, context.exe().unwrap_or_else(|_| PathBuf::new()));
        assert_eq!(command.args, ["daemon", "run", "--detached"]);
        assert!(command.env.iter().any(|(_, value)| value == home.path().as_os_str()));
    }
}
