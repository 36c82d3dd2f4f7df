//! Conversion of failures to control errors: error codes, which determine exit codes, and hints that
//! name commands.

use std::fmt::Write as _;

use model::Name;
use model::resolve::Candidate;
use protocol::{ErrorBody, ErrorCode};

use crate::fault::{Advice, Description, Fault, FaultKind};
use crate::layers::details::details;

/// Converts a failure to an error for the command line.
pub(crate) fn error_body(fault: &dyn Fault) -> ErrorBody {
    let Description { kind, advice, details: about } = fault.describe();
    ErrorBody {
        code: code(kind),
        message: fault.to_string(),
        hint: advice.as_ref().map(hint),
        details: about.as_ref().map(details),
    }
}

fn code(kind: FaultKind) -> ErrorCode {
    match kind {
        FaultKind::Invalid => ErrorCode::Usage,
        FaultKind::NotFound => ErrorCode::NotFound,
        FaultKind::Conflict | FaultKind::Denied | FaultKind::KeyReused => ErrorCode::Conflict,
        FaultKind::TimedOut => ErrorCode::TimedOut,
        FaultKind::Unavailable => ErrorCode::Unreachable,
        FaultKind::NotStarted | FaultKind::Failed => ErrorCode::Failed,
    }
}

fn hint(advice: &Advice) -> String {
    match advice {
        Advice::Text(text) => text.clone().into_owned(),
        Advice::ListSessions => "list sessions and panes with `ccmux ls`".to_owned(),
        Advice::ListTemplates => "list templates with `ccmux template ls`".to_owned(),
        Advice::ListMessages => "list messages with `ccmux message ls`".to_owned(),
        Advice::ListQueuedMessages => "list them with `ccmux message ls --state queued`".to_owned(),
        Advice::ListShared => "list shared files with `ccmux share --list`".to_owned(),
        Advice::NameOneOf(candidates) => name_one_of(candidates),
        Advice::StartPane { session } => format!("start one with `ccmux new --session {session}`"),
        Advice::StartAnyPane => "start one with `ccmux new`".to_owned(),
        Advice::Attach { pane } => format!("attach to it with `ccmux attach {pane}`"),
        Advice::AttachOrStop { pane } => {
            format!("attach to it with `ccmux attach {pane}`, or stop that pane first")
        }
        Advice::StopPane => "end it with `ccmux stop`".to_owned(),
        Advice::StopSessionThenMigrate { session } => {
            format!("stop it with `ccmux stop {session}`, then migrate again")
        }
        Advice::ThawPane { pane } => format!(
            "free resources or raise the limit with `ccmux limit {pane}`, then `ccmux thaw {pane}`"
        ),
        Advice::ClosePane { pane } => format!("close it with `ccmux close {pane}`"),
        Advice::MigrateSession { session } => format!("try `ccmux migrate {session}`"),
        Advice::PurgeSession { session } => {
            format!("remove it from the list with `ccmux purge {session} --yes`")
        }
        Advice::ReadOutput { pane } => {
            format!("its output is kept: `ccmux read {pane} --lines 50`")
        }
        Advice::AnswerOrForce { pane } => {
            format!("answer it with `ccmux attach {pane}`, or type into it with --force")
        }
        Advice::ReadScreen => {
            "part of it may have arrived; check with `ccmux read --screen`".to_owned()
        }
        Advice::ChooseDirectory => "choose another directory with --cwd".to_owned(),
        Advice::ChooseWorkspace => "choose with --workspace: shared uses the directory itself, \
             empty an empty one, worktree or clone a branch of a git repository, copy a copy; or \
             name a project with --cwd"
            .to_owned(),
        Advice::ChooseWorkspaceForMigration => {
            "choose --workspace auto, worktree, clone, copy or empty".to_owned()
        }
        Advice::OmitMode => "omit --mode, or choose another session".to_owned(),
        Advice::OmitTemplate => "omit --template, or choose another session".to_owned(),
        Advice::OmitTemplateOrMode => "omit --template, or use --mode isolated".to_owned(),
        Advice::NameSession => {
            "name it with --session or as SESSION/PANE, or run this in one of its panes; a full \
             pane ID needs neither"
                .to_owned()
        }
        Advice::NameTeam => "set `session = \"NAME\"` in the file, or pass --name NAME".to_owned(),
        Advice::WaitForLock => {
            "wait for it with --wait SECONDS, or list all locks with `ccmux lock ls`".to_owned()
        }
        Advice::ReplacePanes => "replace them with --replace; nothing was changed".to_owned(),
        Advice::RunDoctor => "run `ccmux doctor` for the cause and the remedy".to_owned(),
        Advice::CheckConfig => {
            "correct the file, then check it with `ccmux config --check`".to_owned()
        }
        Advice::DiscardPane { pane, cwd, token, running } => format!(
            "save it from `{cwd}`, or discard exactly this work with \
             `ccmux close {pane} --discard {token}`{}",
            stop_before(pane, *running)
        ),
        Advice::DiscardSession { session, tokens, running } => {
            let options: String =
                tokens.iter().map(|token| format!(" --discard {token}")).collect();
            format!(
                "save it from the workspaces, or discard exactly this work with \
                 `ccmux purge {session} --yes{options}`{}",
                stop_before(session, *running)
            )
        }
    }
}

/// Running programs may change their work, so that a token for it is soon invalid.
fn stop_before(target: &str, running: bool) -> String {
    if !running {
        return String::new();
    }
    format!("; if the work keeps changing, stop it before with `ccmux stop {target}`")
}

fn name_one_of(candidates: &[Candidate]) -> String {
    let mut hint = "use one of these IDs:".to_owned();
    for candidate in candidates {
        let session = candidate.session.as_ref().map(Name::as_str);
        let slash = if session.is_some() { "/" } else { "" };
        write!(
            hint,
            "\n  {}  {}{slash}{}",
            candidate.id,
            session.unwrap_or_default(),
            candidate.name
        )
        .expect("writing to a string does not fail");
    }
    hint
}
