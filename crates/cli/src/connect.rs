//! The way to the daemon: find it, start it if need be, ask, and ask again when it died.
//!
//! Panes do not notice the death of a daemon, and users should not either. So a question whose
//! repetition changes nothing ([`Link::ask_again`]) goes to the next daemon when the one that was
//! asked dies. What creates or types is asked once ([`Link::ask_once`]): if the answer is lost,
//! nobody knows whether it was done, and the user is told so.

use std::io;
use std::time::{Duration, Instant};

use protocol::client::{CONTROL_SOCKET, ClientError, Connection, connect_in};
use protocol::control::{Request, Response};
use protocol::{ErrorBody, ErrorCode, Frame};

use crate::context::Context;
use crate::start::{Started, start};

/// How long it may take until some daemon answers: a start with recovery takes well under one
/// second, a crowded machine some.
const REACHABLE_WITHIN: Duration = Duration::from_secs(10);

/// The first pause before looking again for a daemon that another client is starting. Each one is
/// twice as long, up to [`LONGEST_PAUSE`]: twenty clients that wait should not keep the daemon
/// they wait for from starting.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long an answer may take beyond what the question itself allows for.
const SLACK: Duration = Duration::from_secs(60);

/// A daemon that dies this quickly after a question may well die of it.
const QUICK: Duration = Duration::from_secs(1);

/// How many daemons in a row may die of one question.
const DEATHS: u32 = 5;

/// How to treat a daemon that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Start one.
    Start,
    /// Say so.
    Report,
}

/// The connection to the daemon, made when first needed and again when lost.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    context: &'a Context,
    absent: Absent,
    connection: Option<Connection>,
}

/// Why there is no answer.
#[derive(Debug)]
enum Trouble {
    /// The daemon went away in the middle.
    Gone(io::Error),
    /// Everything else, which asking again does not mend.
    Final(ErrorBody),
}

impl<'a> Link<'a> {
    /// A link that starts the daemon if there is none.
    pub(crate) fn new(context: &'a Context) -> Self {
        Self { context, absent: Absent::Start, connection: None }
    }

    /// A link to a daemon that must already be there.
    pub(crate) fn to_running(context: &'a Context) -> Self {
        Self { context, absent: Absent::Report, connection: None }
    }

    /// Makes sure that a daemon answers.
    ///
    /// # Errors
    ///
    /// Why none does.
    pub(crate) fn connect(&mut self) -> Result<&mut Connection, ErrorBody> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(connect(self.context, self.absent)?)),
        }
    }

    /// Ends the daemon and waits until it is gone; false if none runs. Never starts one.
    ///
    /// # Errors
    ///
    /// Why it still runs.
    pub(crate) fn end_daemon(&mut self) -> Result<bool, ErrorBody> {
        let mut connection = match open(self.context) {
            Ok(connection) => connection,
            Err(ClientError::Unreachable(why)) if nobody_listens(&why) => return Ok(false),
            Err(error) => return Err(error.into_body()),
        };
        // Its last word may be lost with it: that it went away is the answer.
        let mut last = connection.ask(&Request::DaemonStop).map(|_| ());
        while last.is_ok() {
            last = connection.receive().map(|_| ());
        }
        match last {
            Err(ClientError::Lost(why)) if is_timeout(&why) => Err(silent()),
            Ok(()) | Err(ClientError::Lost(_)) => Ok(true),
            Err(error) => Err(error.into_body()),
        }
    }

    /// Asks for something that must not be done twice. `doubt` completes "the daemon went away
    /// before it answered; …".
    ///
    /// # Errors
    ///
    /// The daemon's answer, or that it has none.
    pub(crate) fn ask_once(
        &mut self,
        request: &Request,
        doubt: &str,
    ) -> Result<Response, ErrorBody> {
        self.ask(request).map_err(|trouble| match trouble {
            Trouble::Final(body) => body,
            Trouble::Gone(_) => ErrorBody::new(
                ErrorCode::Unreachable,
                format!("the daemon went away before it answered; {doubt}"),
            )
            .hint("look with `ccmux ls`; the daemon's log is in its home directory"),
        })
    }

    /// Asks for something that may be asked any number of times. `request` is called again for
    /// each, so that what is left of a timeout can be asked for.
    ///
    /// # Errors
    ///
    /// The daemon's answer, or that none can be had.
    pub(crate) fn ask_again(
        &mut self,
        mut request: impl FnMut() -> Request,
    ) -> Result<Response, ErrorBody> {
        let mut deaths = Deaths::default();
        loop {
            match self.ask(&request()) {
                Ok(response) => return Ok(response),
                Err(Trouble::Final(body)) => return Err(body),
                Err(Trouble::Gone(why)) => deaths.count(&why)?,
            }
        }
    }

    /// Waits for the next frame of a stream that was asked for.
    ///
    /// # Errors
    ///
    /// None inside if the daemon went away, and the stream should be asked for again.
    pub(crate) fn next_frame(&mut self) -> Result<Result<Frame, io::Error>, ErrorBody> {
        match self.connect()?.receive() {
            Ok(frame) => Ok(Ok(frame)),
            Err(ClientError::Lost(why)) if is_timeout(&why) => Err(silent()),
            Err(ClientError::Lost(why)) => {
                self.connection = None;
                Ok(Err(why))
            }
            Err(error) => Err(error.into_body()),
        }
    }

    /// Waits for what comes next for as long as it takes.
    ///
    /// # Errors
    ///
    /// If there is no daemon.
    pub(crate) fn wait_for_ever(&mut self) -> Result<(), ErrorBody> {
        let waits = self.connect()?.set_patience(None);
        waits.map_err(|why| ClientError::Lost(why).into_body())
    }

    fn ask(&mut self, request: &Request) -> Result<Response, Trouble> {
        let patience = patience(request);
        let connection = self.connect().map_err(Trouble::Final)?;
        let answer = connection
            .set_patience(patience)
            .map_err(ClientError::Lost)
            .and_then(|()| connection.ask(request));
        match answer {
            Ok(response) => Ok(response),
            Err(ClientError::Lost(why)) => {
                self.connection = None;
                Err(if is_timeout(&why) { Trouble::Final(silent()) } else { Trouble::Gone(why) })
            }
            Err(error) => Err(Trouble::Final(error.into_body())),
        }
    }
}

/// Counts daemons that died while they were asked the same thing.
#[derive(Debug)]
pub(crate) struct Deaths {
    in_a_row: u32,
    last: Instant,
}

impl Default for Deaths {
    fn default() -> Self {
        Self { in_a_row: 0, last: Instant::now() }
    }
}

impl Deaths {
    /// Takes note of one more.
    ///
    /// # Errors
    ///
    /// When it looks as if the question kills them.
    pub(crate) fn count(&mut self, why: &io::Error) -> Result<(), ErrorBody> {
        let was_quick = self.last.elapsed() < QUICK;
        self.in_a_row = if was_quick { self.in_a_row + 1 } else { 1 };
        self.last = Instant::now();
        if self.in_a_row <= DEATHS {
            return Ok(());
        }
        let message = format!("the daemon went away {DEATHS} times before it answered: {why}");
        Err(ErrorBody::new(ErrorCode::Unreachable, message)
            .hint("the daemon's log is in its home directory; panes run on"))
    }
}

fn connect(context: &Context, absent: Absent) -> Result<Connection, ErrorBody> {
    let deadline = Instant::now() + REACHABLE_WITHIN;
    let mut pause = PAUSE;
    // What to say if the deadline passes.
    let mut verdict = silent();
    loop {
        let error = match open(context) {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        match error {
            ClientError::Unreachable(why) if nobody_listens(&why) => {
                if absent == Absent::Report {
                    return Err(not_running(context));
                }
                match start(context, deadline)? {
                    Started::Ready => continue,
                    Started::AlreadyRunning(body) => verdict = body,
                }
            }
            // It died while it greeted us.
            ClientError::Lost(why) if !is_timeout(&why) => {}
            ClientError::Lost(_) => return Err(silent()),
            ClientError::Unreachable(why) => {
                let socket = context.run_dir().join(CONTROL_SOCKET);
                let message = format!("cannot connect to `{}`: {why}", socket.display());
                return Err(ErrorBody::new(ErrorCode::Unreachable, message)
                    .hint("is this your state root? choose another with --home or CCMUX_HOME"));
            }
            other @ (ClientError::Refused(_) | ClientError::Answer(_)) => {
                return Err(other.into_body());
            }
        }
        if Instant::now() + pause >= deadline {
            return Err(verdict);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn open(context: &Context) -> Result<Connection, ClientError> {
    let stream =
        connect_in(&context.run_dir(), CONTROL_SOCKET).map_err(ClientError::Unreachable)?;
    stream.set_read_timeout(Some(REACHABLE_WITHIN)).map_err(ClientError::Lost)?;
    Connection::greet(stream)
}

/// No state root yet, no socket in it, or one that was left behind.
fn nobody_listens(why: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    // What is no directory cannot be used, and the daemon is the one who says why.
    matches!(why.kind(), NotFound | NotADirectory | ConnectionRefused)
}

fn is_timeout(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// How long to wait for the answer; none waits for ever.
fn patience(request: &Request) -> Option<Duration> {
    let allowed = match request {
        Request::Stop { grace_ms, .. } => *grace_ms,
        // A tree of any size is looked through for what would be lost.
        Request::Close { grace_ms, .. } | Request::Purge { grace_ms, .. } => {
            grace_ms.saturating_add(600_000)
        }
        // So is one that is copied or checked out.
        Request::New(_) => 900_000,
        // So is every pane of a team, and each may have to be ready before the next.
        Request::Run(_) | Request::Up(_) | Request::Migrate(_) => return None,
        Request::Send { timeout_ms, .. } => *timeout_ms,
        Request::Lock(request) => request.allowed_ms(),
        Request::Wait { timeout_ms, .. } => (*timeout_ms)?,
        Request::Message(request) => request.allowed_ms()?,
        // Every pane of a session, which may be a hundred.
        Request::Restore { .. } => 120_000,
        // Every agent that is installed may be asked something, and may not answer.
        Request::Doctor { .. } => 120_000,
        // As long as it takes to walk through and delete trees of any size.
        Request::Events { follow: true, .. } | Request::Gc { .. } => return None,
        Request::List
        | Request::Show { .. }
        | Request::Locate { .. }
        | Request::Limit { .. }
        | Request::Thaw { .. }
        | Request::LimitNews { .. }
        | Request::Rename { .. }
        | Request::Read { .. }
        | Request::Env { .. }
        | Request::Events { follow: false, .. }
        | Request::Trust(_)
        | Request::Share(_)
        | Request::Resize { .. }
        | Request::Serve(_)
        | Request::Token(_)
        | Request::Template(_)
        | Request::DaemonStatus
        | Request::Hook(_)
        | Request::DaemonStop => 0,
    };
    Some(Duration::from_millis(allowed).saturating_add(SLACK))
}

fn silent() -> ErrorBody {
    ErrorBody::new(ErrorCode::Unreachable, "the daemon does not answer")
        .hint("if it hangs, kill it: panes run on, and the next command starts another one")
}

fn not_running(context: &Context) -> ErrorBody {
    let message = format!("no daemon is running for `{}`", context.home.display());
    ErrorBody::new(ErrorCode::Unreachable, message).hint("start it with `ccmux daemon start`")
}

/// Milliseconds, as the protocol counts them.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread::JoinHandle;

    use model::Timestamp;
    use protocol::control::Reply;
    use protocol::greeting::Hello;
    use protocol::{Kind, frame};
    use tempfile::TempDir;

    use super::*;
    use crate::environment::ClientEnv;
    use crate::output::Output;

    fn context(home: &TempDir) -> Context {
        let env = ClientEnv::default();
        let out = Output::new(true, &env, Timestamp(0));
        Context { env, home: home.path().to_owned(), out }
    }

    /// A daemon that answers `Done`, but dies of each question before the one numbered `lives`.
    /// Gives the number of questions it was asked in the end.
    fn daemon(home: &TempDir, lives: usize, clients: usize) -> JoinHandle<usize> {
        let run = home.path().join("run");
        fs::create_dir_all(&run).unwrap();
        let listener = UnixListener::bind(run.join(CONTROL_SOCKET)).unwrap();
        std::thread::spawn(move || {
            for asked in 1..=clients {
                let (mut stream, _) = listener.accept().unwrap();
                greet(&mut stream);
                frame::read(&mut stream).unwrap().unwrap();
                if asked >= lives {
                    let done = Frame::json(Kind::Reply, &Reply::Ok(Response::Done));
                    frame::write(&mut stream, &done).unwrap();
                    return asked;
                }
            }
            clients
        })
    }

    fn greet(stream: &mut UnixStream) {
        let hello: Hello = frame::read(stream).unwrap().unwrap().parse().unwrap();
        let welcome = hello.answer(1, "daemon").unwrap();
        frame::write(stream, &Frame::json(Kind::Welcome, &welcome)).unwrap();
    }

    #[test]
    fn a_question_goes_to_the_next_daemon_when_the_first_one_dies_of_it() {
        let home = tempfile::tempdir().unwrap();
        let daemon = daemon(&home, 3, 3);

        let answer = Link::to_running(&context(&home)).ask_again(|| Request::List);

        assert_eq!(answer, Ok(Response::Done));
        assert_eq!(daemon.join().unwrap(), 3);
    }

    #[test]
    fn a_question_that_kills_every_daemon_is_given_up() {
        let home = tempfile::tempdir().unwrap();
        let deaths = usize::try_from(DEATHS).unwrap() + 1;
        let daemon = daemon(&home, usize::MAX, deaths);

        let given_up = Link::to_running(&context(&home)).ask_again(|| Request::List).unwrap_err();

        assert_eq!(given_up.code, ErrorCode::Unreachable);
        assert_eq!(daemon.join().unwrap(), deaths);
    }

    #[test]
    fn what_must_not_be_done_twice_is_asked_once() {
        let home = tempfile::tempdir().unwrap();
        let daemon = daemon(&home, usize::MAX, 1);
        let new = Request::New(Box::default());

        let unknown = Link::to_running(&context(&home)).ask_once(&new, "who knows").unwrap_err();

        assert_eq!(unknown.code, ErrorCode::Unreachable);
        assert_eq!(unknown.message, "the daemon went away before it answered; who knows");
        assert_eq!(daemon.join().unwrap(), 1);
    }

    #[test]
    fn a_daemon_that_is_not_there_is_reported_where_it_should_not_be_started() {
        let home = tempfile::tempdir().unwrap();
        let context = context(&home);
        let mut link = Link::to_running(&context);
        assert_eq!(link.ask_again(|| Request::DaemonStatus), Err(not_running(&context)));

        // A socket that nobody listens on any more is the same.
        fs::create_dir(context.run_dir()).unwrap();
        drop(UnixListener::bind(context.run_dir().join(CONTROL_SOCKET)).unwrap());
        assert_eq!(link.ask_again(|| Request::DaemonStatus), Err(not_running(&context)));
        assert_eq!(link.end_daemon(), Ok(false));
    }

    #[test]
    fn a_stopped_daemon_is_gone_when_the_stream_ends() {
        let home = tempfile::tempdir().unwrap();
        let daemon = daemon(&home, 1, 1);

        assert_eq!(Link::to_running(&context(&home)).end_daemon(), Ok(true));

        assert_eq!(daemon.join().unwrap(), 1);
    }
}
