//! `ccmux daemon`: control the daemon. The only file that knows the daemon's crate.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use model::team::Team;
use protocol::control::{DaemonStatus, Request, Response};
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use crate::args::{DaemonCommand, DaemonRunArgs};
use crate::connect::Link;
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected};

pub(super) use ::daemon::config::{Loaded, Origin};

/// What `daemon stop --json` prints.
#[derive(Serialize)]
struct Stopped {
    /// Whether there was one to stop.
    stopped: bool,
}

pub(super) fn run(context: &Context, command: &DaemonCommand) -> Result<(), Failure> {
    match command {
        DaemonCommand::Run(args) => serve(context, args),
        DaemonCommand::Start => report(context, &mut Link::new(context)),
        DaemonCommand::Stop => stop(context),
        DaemonCommand::Status => report(context, &mut Link::to_running(context)),
    }
}

/// The configuration, as a daemon that is started now would read it.
///
/// # Errors
///
/// If there is anything wrong with the state root, or with the file; a usage error for the latter.
pub(super) fn configuration(context: &Context) -> Result<Loaded, ErrorBody> {
    let root = ::daemon::StateRoot::open(&context.home)
        .map_err(|error| ErrorBody::new(ErrorCode::Failed, error.to_string()).hint(error.hint()))?;
    ::daemon::config::load(&root, &model::agent::BUILT_IN).map_err(|error| {
        let code = if error.is_of_the_file() { ErrorCode::Usage } else { ErrorCode::Failed };
        ErrorBody::new(code, error.to_string()).hint(error.hint())
    })
}

/// The team that a file describes.
///
/// # Errors
///
/// What is wrong with it, with line and column.
pub(super) fn team_file(path: &Path) -> Result<Team, ErrorBody> {
    ::daemon::team::load(path).map_err(|error| not_a_team(&error))
}

/// The team that a text describes.
///
/// # Errors
///
/// What is wrong with it, with line and column.
pub(super) fn team_text(text: &str, path: &Path) -> Result<Team, ErrorBody> {
    ::daemon::team::parse(text, path).map_err(|error| not_a_team(&error))
}

fn not_a_team(error: &::daemon::team::TeamError) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, error.to_string())
        .hint("`ccmux up --preset seven --print` writes a file to begin with")
}

/// What the daemon says of itself.
///
/// # Errors
///
/// If none answers.
pub(super) fn status(link: &mut Link<'_>) -> Result<DaemonStatus, ErrorBody> {
    let response = link.ask_again(|| Request::DaemonStatus)?;
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

/// Ends the daemon. That none runs is what was wanted, too.
fn stop(context: &Context) -> Result<(), Failure> {
    let progress = context.out.progress("stopping the daemon…");
    let stopped = Link::to_running(context).end_daemon()?;
    drop(progress);
    context.out.answer(&Stopped { stopped }, |answer, _| match answer.stopped {
        true => "stopped the daemon; panes run on\n".to_owned(),
        false => format!("no daemon is running for {}\n", context.home.display()),
    })
}

/// Is the daemon, until it is stopped.
fn serve(context: &Context, args: &DaemonRunArgs) -> Result<(), Failure> {
    let exe = context.exe()?;
    if !args.detached {
        return Ok(start(context, exe, None)?);
    }
    let ready = leave_client().map_err(|error| Failure::io("leave the client", &error))?;
    Ok(start(context, exe, Some(ready))?)
}

/// Leaves the session of the client that started us, and gives the pipe on which to tell it how
/// that went. Nothing of ours writes to its standard output from now on.
fn leave_client() -> io::Result<File> {
    ::daemon::close_inherited()?;
    // Fails only for the leader of a group, which nobody who starts us in this way makes us.
    let _leader = rustix::process::setsid();
    let ready = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(ready)
}

/// Runs the daemon in this process.
fn start(context: &Context, exe: PathBuf, ready: Option<File>) -> Result<(), ErrorBody> {
    if let Some(dir) = context.env.test_hooks() {
        ::daemon::hooks::enable(dir);
    }
    ::daemon::run(::daemon::Setup { home: context.home.clone(), exe, ready }).map_err(Into::into)
}
