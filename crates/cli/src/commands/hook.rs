//! `ccmux hook`: handle a hook event of an agent, which may refuse an edit.
//!
//! The command runs before every edit, so it must be fast: it does not start a daemon and does not
//! read the configuration; the policy is in its arguments. It never blocks the agent: a daemon that
//! is stopped or frozen counts as away.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use client::{Connection, connect_in};
use model::agent::hooks::{HookEvent, HookInput};
use model::config::locks::WhenAway;
use protocol::ErrorCode;
use protocol::control::SOCKET as CONTROL_SOCKET;
use protocol::control::{Request, Response};
use protocol::hooks::{HookAnswer, HookRequest};

use crate::args::HookArgs;
use crate::context::Context;
use crate::failure::{Failure, unexpected, usage};

/// Time without an answer after which the daemon is checked for being frozen.
const FROZEN_CHECK_AFTER: Duration = Duration::from_secs(1);

/// Additional time for a daemon that is not frozen, since a busy machine must not lead to an edit of
/// a locked file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(9);

/// Maximum size of the hook input. After an edit, it contains the whole file twice.
const MAX_INPUT: u64 = 16 << 20;

/// Maximum length of a prompt passed to the daemon: more than the length of any message.
const MAX_PROMPT: usize = 2 * model::message::LONGEST;

/// Progress of the thread that talks to the daemon.
enum Progress {
    /// Connected to the daemon with this PID.
    Connected(Option<u32>),
    /// The answer, or the reason why there is none.
    Finished(Result<HookAnswer, String>),
}

pub(super) fn run(context: &Context, args: &HookArgs) -> Result<(), Failure> {
    let pane = match (args.pane, context.env.pane()) {
        (Some(pane), _) => pane,
        (None, Some(own)) => {
            own.parse().map_err(|_| usage("CCMUX_PANE_ID is not a valid pane ID"))?
        }
        (None, None) => {
            return Err(usage("no pane: this process does not run in a pane")
                .hint("set the pane with --pane")
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
            context.out.warn(&format!("{why}; the edit is allowed without a lock"));
            Ok(())
        }
        Err(why) => refuse(
            context,
            &format!(
                "This edit was refused: {why}, so it is unknown whether another agent is editing \
                 the file. Continue with other work and try again later."
            ),
        ),
    }
}

/// Refuses the edit: agents read the reason from standard error if the exit code is 2.
fn refuse(context: &Context, why: &str) -> Result<(), Failure> {
    context.out.tell_agent(why);
    Err(Failure::Reported(ErrorCode::Usage))
}

/// Asks the daemon, in a separate thread, so that neither an agent that keeps standard input open
/// nor an unresponsive daemon can block this process.
fn ask(run_dir: PathBuf, request: HookRequest, wait: Duration) -> Result<HookAnswer, String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let answer = exchange(&run_dir, request, |pid| {
            // The receiver may have timed out.
            let _timed_out = sender.send(Progress::Connected(pid));
        });
        let _timed_out = sender.send(Progress::Finished(answer));
    });
    let mut daemon = None;
    let mut timeout = FROZEN_CHECK_AFTER + wait;
    loop {
        match receiver.recv_timeout(timeout) {
            Ok(Progress::Connected(pid)) => daemon = pid,
            Ok(Progress::Finished(answer)) => return answer,
            Err(RecvTimeoutError::Timeout) if timeout != BUSY_TIMEOUT && !is_stopped(daemon) => {
                timeout = BUSY_TIMEOUT;
            }
            Err(_) => return Err("the ccmux daemon does not answer".to_owned()),
        }
    }
}

fn exchange(
    run_dir: &Path,
    mut request: HookRequest,
    on_connected: impl FnOnce(Option<u32>),
) -> Result<HookAnswer, String> {
    match request.event {
        HookEvent::PreEdit | HookEvent::PostEdit => {
            request.path = read_input()?.path;
            if request.path.is_none() {
                return Err("the hook input does not name a file".to_owned());
            }
        }
        HookEvent::Prompt => request.prompt = read_input()?.prompt.map(truncated),
        HookEvent::TurnEnd | HookEvent::SessionEnd => {}
    }
    let stream = connect_in(run_dir, CONTROL_SOCKET)
        .map_err(|error| format!("the ccmux daemon is not running ({error})"))?;
    on_connected(peer_pid(&stream));
    let failed = |error: client::ConnectionError| {
        format!("the ccmux daemon returned an error ({})", error.into_body().message)
    };
    let mut connection = Connection::handshake(stream).map_err(failed)?;
    let response = connection.ask(&Request::Hook(request)).map_err(failed)?;
    let Response::Hook(answer) = response else { return Err(unexpected(&response).message) };
    Ok(answer)
}

/// Truncates a prompt to the part that is needed to recognise a message.
fn truncated(mut prompt: String) -> String {
    if prompt.len() > MAX_PROMPT {
        let is_boundary = |at: &usize| prompt.is_char_boundary(*at);
        let end = (0..=MAX_PROMPT).rev().find(is_boundary).unwrap_or(0);
        prompt.truncate(end);
    }
    prompt
}

/// Reads the hook input from standard input.
fn read_input() -> Result<HookInput, String> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(HookInput::default());
    }
    let mut input = Vec::new();
    let read = stdin.lock().take(MAX_INPUT + 1).read_to_end(&mut input);
    read.map_err(|error| format!("cannot read the hook input ({error})"))?;
    if input.len() as u64 > MAX_INPUT {
        return Err(format!("the hook input is larger than {MAX_INPUT} bytes"));
    }
    Ok(HookInput::read(&input))
}

/// Returns the PID of the process at the other end of the socket.
fn peer_pid(stream: &std::os::unix::net::UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// Returns whether a process is stopped by a signal, dead or unknown.
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
    fn is_stopped_is_false_only_for_a_running_process() {
        assert!(!is_stopped(Some(std::process::id())));
        assert!(is_stopped(None) && is_stopped(Some(u32::MAX)));
    }
}
