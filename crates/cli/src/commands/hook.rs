//! `ccmux hook`: an agent says what it is about to do, and hears whether it may.
//!
//! It is run before every edit, so it does one thing: connect, ask, answer. It starts no daemon and
//! reads no configuration; the policy is in its arguments. Whatever goes wrong, the agent is not
//! kept waiting: a daemon that is gone or frozen is one that is away.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use model::agent::hooks::{HookEvent, Told};
use model::config::locks::WhenAway;
use protocol::ErrorCode;
use protocol::client::{CONTROL_SOCKET, Connection, connect_in};
use protocol::control::{Request, Response};
use protocol::hooks::{HookAnswer, HookRequest};

use crate::args::HookArgs;
use crate::context::Context;
use crate::failure::{Failure, unexpected, usage};

/// How long a daemon may be silent before it is looked at whether it is frozen.
const FROZEN_AFTER: Duration = Duration::from_secs(1);

/// How long one that is not may take all the same: a busy machine is no reason to edit what another
/// one holds.
const PATIENCE: Duration = Duration::from_secs(9);

/// The most that an agent may say. After an edit it says the whole file, twice.
const LONGEST: u64 = 16 << 20;

/// As much of a prompt as is passed on: more than a message can have.
const LONGEST_PROMPT: usize = 2 * model::message::LONGEST;

/// What the one who asks reports to the one who waits.
enum Report {
    /// Connected to the daemon with this process number.
    Asked(Option<u32>),
    /// The end of it.
    Answered(Result<HookAnswer, String>),
}

pub(super) fn run(context: &Context, args: &HookArgs) -> Result<(), Failure> {
    let pane = match (args.pane, context.env.pane()) {
        (Some(pane), _) => pane,
        (None, Some(own)) => own.parse().map_err(|_| usage("CCMUX_PANE_ID is not a pane's id"))?,
        (None, None) => {
            return Err(usage("which pane? none is named, and this is not in one")
                .hint("name it with --pane")
                .into());
        }
    };
    let request = HookRequest {
        pane,
        event: args.event,
        path: None,
        prompt: None,
        wait_ms: u64::try_from(args.wait.as_millis()).unwrap_or(u64::MAX),
        together: args.together,
    };
    match ask(context.run_dir(), request, args.wait) {
        Ok(HookAnswer { refused: None }) => Ok(()),
        Ok(HookAnswer { refused: Some(why) }) => refuse(context, &why),
        Err(why) if args.event != HookEvent::PreEdit => {
            context.out.warn(&why);
            Ok(())
        }
        Err(why) if args.when_away == WhenAway::Allow => {
            context.out.warn(&format!("{why}; the edit goes ahead without a lock"));
            Ok(())
        }
        Err(why) => refuse(
            context,
            &format!(
                "This edit was refused: {why}, so nobody knows whether another agent is editing \
                 the file. Go on with something else and try again later."
            ),
        ),
    }
}

/// Agents take this exit code for a no, and what is on standard error for the reason.
fn refuse(context: &Context, why: &str) -> Result<(), Failure> {
    context.out.say_to_agent(why);
    Err(Failure::Told(ErrorCode::Usage))
}

/// Asks the daemon, in a thread of its own: neither an agent that goes on talking nor a daemon that
/// does not answer keeps us.
fn ask(run_dir: PathBuf, request: HookRequest, wait: Duration) -> Result<HookAnswer, String> {
    let (reports, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let answer = exchange(&run_dir, request, |pid| {
            // Whoever waits may have given up.
            let _unheard = reports.send(Report::Asked(pid));
        });
        let _unheard = reports.send(Report::Answered(answer));
    });
    let mut daemon = None;
    let mut patience = FROZEN_AFTER + wait;
    loop {
        match heard.recv_timeout(patience) {
            Ok(Report::Asked(pid)) => daemon = pid,
            Ok(Report::Answered(answer)) => return answer,
            Err(RecvTimeoutError::Timeout) if patience != PATIENCE && !is_stopped(daemon) => {
                patience = PATIENCE;
            }
            Err(_) => return Err("the daemon of ccmux does not answer".to_owned()),
        }
    }
}

fn exchange(
    run_dir: &Path,
    mut request: HookRequest,
    asked: impl FnOnce(Option<u32>),
) -> Result<HookAnswer, String> {
    match request.event {
        HookEvent::PreEdit | HookEvent::PostEdit => {
            request.path = told()?.path;
            if request.path.is_none() {
                return Err("the agent does not say which file it edits".to_owned());
            }
        }
        HookEvent::Prompt => request.prompt = told()?.prompt.map(shortened),
        HookEvent::TurnEnd | HookEvent::SessionEnd => {}
    }
    let stream = connect_in(run_dir, CONTROL_SOCKET)
        .map_err(|error| format!("the daemon of ccmux is away ({error})"))?;
    asked(peer(&stream));
    let refused = |error: protocol::client::ClientError| {
        format!("the daemon of ccmux cannot tell ({})", error.into_body().message)
    };
    let mut connection = Connection::greet(stream).map_err(refused)?;
    let response = connection.ask(&Request::Hook(request)).map_err(refused)?;
    let Response::Hook(answer) = response else { return Err(unexpected(&response).message) };
    Ok(answer)
}

/// As much of a prompt as is needed to know a message again.
fn shortened(mut prompt: String) -> String {
    if prompt.len() > LONGEST_PROMPT {
        let ends = |at: &usize| prompt.is_char_boundary(*at);
        let end = (0..LONGEST_PROMPT).rev().find(ends).unwrap_or(0);
        prompt.truncate(end);
    }
    prompt
}

/// What the agent says on standard input.
fn told() -> Result<Told, String> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(Told::default());
    }
    let mut said = Vec::new();
    let read = stdin.lock().take(LONGEST + 1).read_to_end(&mut said);
    read.map_err(|error| format!("what the agent says cannot be read ({error})"))?;
    if said.len() as u64 > LONGEST {
        return Err("the agent says more than a hook can take".to_owned());
    }
    Ok(Told::read(&said))
}

/// The process that listens at the other end.
fn peer(stream: &std::os::unix::net::UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// Whether a process was stopped by a signal. One that nobody knows is taken for one.
fn is_stopped(pid: Option<u32>) -> bool {
    let Some(pid) = pid else { return true };
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.iter().rposition(|&byte| byte == b')').map_or(0, |at| at + 2);
    matches!(stat.get(after_name), None | Some(b'T' | b't' | b'Z' | b'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_not_taken_for_a_stopped_one() {
        assert!(!is_stopped(Some(std::process::id())));
        assert!(is_stopped(None) && is_stopped(Some(u32::MAX)));
    }
}
