//! `ccmux new`: start a command in a new pane.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::limits::LimitOverrides;
use model::{LaunchRequest, WorkspaceKind};
use protocol::control::{PaneAnswer, Request, Response, UncommittedFiles};
use protocol::{ErrorBody, ErrorCode};

use super::attach::attach_to;
use crate::args::{NewArgs, Variable};
use crate::attach::{Target, Terminal};
use crate::connect::Link;
use crate::context::Context;
use crate::describe::changes::tilde;
use crate::failure::{Failure, unexpected, usage};

pub(super) fn run(context: &Context, args: &NewArgs) -> Result<(), Failure> {
    let detach = args.detach || context.out.json;
    let terminal = Terminal::of_this_process().filter(|terminal| !detach && !terminal.is_busy());
    let request = request(context, args, terminal.as_ref())?;
    let progress = context.out.progress("starting a pane…");

    let doubt = "the pane may or may not have been created";
    let is_idempotent = request.key.is_some();
    let request = Request::New(Box::new(request));
    let mut link = Link::new(context);
    let response = if is_idempotent {
        link.request_retry(|| request.clone())?
    } else {
        link.request_once(&request, doubt)?
    };

    drop(progress);
    let Response::Pane(answer) = response else { return Err(unexpected(&response).into()) };
    for warning in &answer.warnings {
        context.out.warn(warning);
    }
    for line in workspace_lines(&answer, context.env.get("HOME")) {
        context.out.note(&line);
    }
    match terminal {
        Some(terminal) => {
            let (pane, dir) = (&answer.pane, Path::new(&answer.pane.dir));
            let target = Target { pane: pane.id, name: &pane.name, dir };
            attach_to(context, &terminal, &target, false)
        }
        None => context.out.answer(&*answer, |answer, _| started(answer)),
    }
}

/// Returns lines that say where an agent works and what its workspace does not contain. Other
/// programs run where the user is unless requested otherwise, which needs no explanation.
fn workspace_lines(answer: &PaneAnswer, home: Option<&str>) -> Vec<String> {
    let pane = &answer.pane;
    let place = tilde(&pane.workspace, home);
    let is_agent = pane.agent != model::agent::SHELL;
    let mut lines = Vec::new();
    match (&pane.branch, pane.workspace_kind) {
        (Some(branch), _) => lines.push(format!(
            "{} works on branch {branch} in {place}; your files are untouched",
            pane.name
        )),
        (None, Some(WorkspaceKind::Shared)) if is_agent => lines.push(format!(
            "{} works directly in {place}, without a branch; agents lock the files that they edit",
            pane.name
        )),
        _ => {}
    }
    if let Some(UncommittedFiles { dir, count }) = &answer.uncommitted {
        let (files, stay) = if *count == 1 { ("file", "stays") } else { ("files", "stay") };
        let them = if *count == 1 { "it" } else { "them" };
        lines.push(format!(
            "{count} uncommitted {files} {stay} in {dir}; --carry brings {them} along"
        ));
    }
    if !answer.absent.is_empty() {
        lines.push(format!(
            "not in the worktree, because git ignores it: {}; copy it with .worktreeinclude, or create \
             it with `setup` in .ccmux.toml",
            answer.absent.join(", ")
        ));
    }
    lines
}

fn started(answer: &PaneAnswer) -> String {
    let PaneAnswer { session, pane, .. } = answer;
    let word = if answer.repeated { "already started" } else { "started" };
    format!("{word} {} ({}) in session {}\n", pane.name, pane.id.short(), session.name)
}

fn request(
    context: &Context,
    args: &NewArgs,
    terminal: Option<&Terminal>,
) -> Result<LaunchRequest, ErrorBody> {
    let mut request = LaunchRequest {
        name: args.name.clone(),
        session: args.session.clone(),
        mode: args.mode,
        default_mode: context.env.session_mode()?,
        template: args.template.clone(),
        agent: args.agent.clone(),
        isolation: args.isolation,
        workspace: args.workspace,
        carry: args.carry,
        role: args.pane_env.role.clone(),
        command: args.command.clone(),
        cwd: absolute(args.cwd.as_deref().unwrap_or(Path::new(".")))?,
        size: args.size.or_else(|| terminal.and_then(Terminal::size)),
        client_env: context.env.for_pane(),
        limits: LimitOverrides(args.limit.iter().flat_map(|wishes| wishes.0.clone()).collect()),
        unit: args.unit.clone(),
        prompt: args.prompt.clone(),
        key: args.key.clone(),
        ..LaunchRequest::default()
    };
    request.env = variables(context, "--env", &args.env)?;
    request.session_env = variables(context, "--session-env", &args.pane_env.session_env)?;
    Ok(request)
}

/// Returns the variables given by `option`, with values copied from the environment if omitted.
fn variables(
    context: &Context,
    option: &str,
    given: &[Variable],
) -> Result<BTreeMap<String, String>, ErrorBody> {
    let with_value = |variable: &Variable| {
        let name = &variable.name;
        let value = variable.value.as_deref().or_else(|| context.env.named(name));
        let value = value.ok_or_else(|| {
            usage(format!("the variable {name} is not set, or not valid UTF-8"))
                .hint(format!("give it a value: {option} {name}=VALUE"))
        })?;
        Ok((name.clone(), value.to_owned()))
    };
    given.iter().map(with_value).collect()
}

/// Returns the absolute path, since the daemon has another current directory.
pub(super) fn absolute(dir: &Path) -> Result<String, ErrorBody> {
    let failed = |why: &dyn std::fmt::Display| {
        let message = format!("cannot use directory `{}`: {why}", dir.display());
        ErrorBody::new(ErrorCode::Failed, message).hint("choose another directory with --cwd")
    };
    let path = std::path::absolute(dir).map_err(|error| failed(&error))?;
    let path: PathBuf = path.components().collect();
    path.into_os_string().into_string().map_err(|_| failed(&"the path is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use model::{Size, Timestamp};

    use super::*;
    use crate::environment::ClientEnv;
    use crate::output::Output;

    fn context(pairs: &[(&str, &str)]) -> Context {
        let env = ClientEnv::new(pairs.iter().map(|(name, value)| (name.into(), value.into())));
        let out = Output::new(false, &env, Timestamp(0));
        Context { env, home: "/state".into(), out }
    }

    #[test]
    fn request_contains_arguments_and_inheritable_variables() {
        let context = context(&[("SHELL", "/bin/zsh"), ("DEBUG", "7"), ("SECRET", "hunter2")]);
        let args = NewArgs {
            env: vec!["PORT=80".parse().unwrap(), "DEBUG".parse().unwrap()],
            cwd: Some("/src/".into()),
            size: Some(Size::DEFAULT),
            ..NewArgs::default()
        };

        let request = request(&context, &args, None).unwrap();

        let env: Vec<_> = request.env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(env, [("DEBUG", "7"), ("PORT", "80")]);
        assert_eq!(request.client_env.into_keys().collect::<Vec<_>>(), ["SHELL"]);
        assert_eq!(request.cwd, "/src");
        assert_eq!(request.size, Some(Size::DEFAULT));
    }

    #[test]
    fn request_fails_for_an_unset_variable_without_value() {
        let args = NewArgs { env: vec!["NOWHERE".parse().unwrap()], ..NewArgs::default() };

        let refused = request(&context(&[]), &args, None).unwrap_err();

        assert_eq!(refused.code, ErrorCode::Usage);
        assert_eq!(refused.hint.as_deref(), Some("give it a value: --env NOWHERE=VALUE"));
    }

    #[test]
    fn request_defaults_to_the_current_directory() {
        let request = request(&context(&[]), &NewArgs::default(), None).unwrap();

        let here = std::env::current_dir().unwrap();
        assert_eq!(Path::new(&request.cwd), here);
    }
}
