//! `ccmux daemon`: manage the daemon. The only file that depends on the daemon crate.

mod unit;

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::daemon::own_pane::{self, OwnPane};
use client::Connection;
use model::authority::Denied;
use model::team::Team;
use protocol::control::{DaemonStatus, Request, Response};
use protocol::pane::{Request as KeeperRequest, SOCKET as KEEPER_SOCKET};
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use crate::args::{DaemonCommand, DaemonRunArgs};
use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected};

pub(super) use ::daemon::config::{Loaded, Origin};

/// How long a daemon without a socket may take to end.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a keeper may take for each step of starting the daemon.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(5);

/// Output of `daemon stop --json`.
#[derive(Serialize)]
struct Stopped {
    /// Whether a daemon was running.
    stopped: bool,
}

pub(super) fn run(context: &Context, command: &DaemonCommand) -> Result<(), Failure> {
    match command {
        DaemonCommand::Run(args) => serve(context, args),
        DaemonCommand::Start => {
            refuse_in_pane(context)?;
            report(context, &mut Link::new(context))
        }
        DaemonCommand::Stop => stop(context),
        DaemonCommand::Status => report(context, &mut Link::to_running(context)),
        DaemonCommand::Install(args) => unit::install(context, args),
        DaemonCommand::Uninstall => unit::uninstall(context),
    }
}

/// Loads the configuration in the same way as a daemon does at start.
///
/// # Errors
///
/// If the state root is unusable, or with a usage error if the file is invalid.
pub(super) fn configuration(context: &Context) -> Result<Loaded, ErrorBody> {
    let root = ::daemon::StateRoot::open(&context.home)
        .map_err(|error| ErrorBody::new(ErrorCode::Failed, error.to_string()).hint(error.hint()))?;
    ::daemon::config::load(&root, &model::agent::BUILT_IN).map_err(|error| {
        let code = if error.is_in_file() { ErrorCode::Usage } else { ErrorCode::Failed };
        ErrorBody::new(code, error.to_string()).hint(error.hint())
    })
}

/// Loads a team file.
///
/// # Errors
///
/// If the file is invalid, with line and column.
pub(super) fn team_file(path: &Path) -> Result<Team, ErrorBody> {
    ::daemon::team::load(path).map_err(|error| invalid_team(&error))
}

/// Parses the text of a team file.
///
/// # Errors
///
/// If the text is invalid, with line and column.
pub(super) fn team_text(text: &str, path: &Path) -> Result<Team, ErrorBody> {
    ::daemon::team::parse(text, path).map_err(|error| invalid_team(&error))
}

fn invalid_team(error: &::daemon::team::TeamError) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, error.to_string())
        .hint("`ccmux up --preset seven --print` prints an example")
}

/// Returns the status of the daemon.
///
/// # Errors
///
/// If no daemon answers.
pub(super) fn status(link: &mut Link<'_>) -> Result<DaemonStatus, ErrorBody> {
    let response = link.request_retry(|| Request::DaemonStatus)?;
    let Response::Status(status) = response else { return Err(unexpected(&response)) };
    Ok(status)
}

fn report(context: &Context, link: &mut Link<'_>) -> Result<(), Failure> {
    let status = status(link)?;
    context.out.answer(&status, describe::status)?;
    for problem in &status.problems {
        context.out.warn(problem);
    }
    Ok(())
}

/// Stops the daemon. Succeeds if none is running.
fn stop(context: &Context) -> Result<(), Failure> {
    let progress = context.out.progress("stopping the daemon…");
    let running = ::daemon::RunningDaemon::find(&context.home);
    if let Some(pid) = running.as_ref().filter(|daemon| daemon.is_stopped()).map(|d| d.pid()) {
        let message = format!("the daemon (pid {pid}) is stopped by a signal and cannot answer");
        let hint = format!("`kill -CONT {pid}` continues it");
        return Err(ErrorBody::new(ErrorCode::Failed, message).hint(hint).into());
    }
    // Without its socket, a daemon is found by its lock.
    let stopped = Link::to_running(context).stop_daemon()?
        || running.is_some_and(|daemon| daemon.terminate(TERMINATE_TIMEOUT));
    drop(progress);
    context.out.answer(&Stopped { stopped }, |answer, _| match answer.stopped {
        true => "stopped the daemon; panes keep running\n".to_owned(),
        false => format!("no daemon is running for {}\n", context.home.display()),
    })
}

/// Refuses to start the daemon from inside a pane, by the rule that the daemon applies to requests.
fn refuse_in_pane(context: &Context) -> Result<(), ErrorBody> {
    let why = match own_pane::of_this_process(&context.home) {
        OwnPane::Outside => return Ok(()),
        OwnPane::Inside { pane, .. } => Denied::Administration { pane }.to_string(),
        OwnPane::Unknown(why) => format!("cannot determine the origin of the command: {why}"),
    };
    Err(ErrorBody::new(ErrorCode::Conflict, why).hint("run this outside of panes"))
}

/// Runs as the daemon until it is stopped.
fn serve(context: &Context, args: &DaemonRunArgs) -> Result<(), Failure> {
    let exe = context.exe()?;
    if !args.detached {
        refuse_in_pane(context)?;
        return Ok(start(context, exe, None)?);
    }
    if is_started_by_keeper(context) {
        return Ok(());
    }
    let ready =
        detach_from_client().map_err(|error| Failure::io("detach from the client", &error))?;
    Ok(start(context, exe, Some(ready))?)
}

/// Has the keeper start the daemon in place of this process, if this process runs in a pane: the
/// limits and the environment of a pane must not apply to the daemon. Returns whether it did. A
/// keeper of another release does not; then the daemon runs in this process.
fn is_started_by_keeper(context: &Context) -> bool {
    let pane = own_pane::of_this_process(&context.home);
    let OwnPane::Inside { keeper: Some(keeper), .. } = pane else { return false };
    if own_pane::is_started_by(keeper.pid) {
        return false;
    }
    let request = KeeperRequest::StartDaemon { version: env!("CARGO_PKG_VERSION").to_owned() };
    let connection = Connection::open_timeout(&keeper.dir, KEEPER_SOCKET, KEEPER_TIMEOUT);
    let asked =
        connection.and_then(|mut keeper| keeper.ask_keeper_with(&request, io::stdout().as_fd()));
    asked.is_ok()
}

/// Detaches from the client that started this process, and returns the pipe to report readiness
/// on. Standard input and output are redirected to `/dev/null`.
fn detach_from_client() -> io::Result<File> {
    ::daemon::close_inherited()?;
    // Fails only for a process group leader, which a child of the client is not.
    let _leader = rustix::process::setsid();
    let ready = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(ready)
}

/// Runs the daemon in this process.
fn start(context: &Context, exe: PathBuf, ready: Option<File>) -> Result<(), ErrorBody> {
    if let Some(dir) = context.env.test_hooks() {
        ::daemon::hooks::enable(dir);
    }
    ::daemon::run(::daemon::Setup { home: context.home.clone(), exe, ready }).map_err(Into::into)
}
