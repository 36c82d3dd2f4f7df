//! `ccmux up`: create or update a team of panes from a file.

use std::path::Path;

use model::event::{Event, EventBody};
use model::team::presets::{PRESETS, Preset};
use model::team::{Action, Step, Team, schema};
use model::{Name, SessionId};
use protocol::ErrorBody;
use protocol::control::{Request, Response};
use protocol::run::{RunRequest, UpAnswer, UpRequest};
use serde_json::json;

use super::daemon::{status, team_file, team_text};
use super::new::absolute;
use crate::args::UpArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected, usage};
use crate::output::Style;
use crate::table::{Cell, Colour, Table};

pub(super) fn run(context: &Context, args: &UpArgs) -> Result<(), Failure> {
    if args.schema {
        return context.out.text(&schema());
    }
    let preset = args.preset.as_deref().map(preset).transpose()?;
    if let (Some(preset), true) = (preset, args.print) {
        return context.out.text(&preset.file(agent(args)?));
    }
    let request = request(context, args, preset)?;
    let mut link = Link::new(context);
    let planned = ask(&mut link, &UpRequest { dry_run: true, ..request.clone() })?;
    if args.dry_run {
        return context.out.answer(&planned, |answer, style| table(&answer.plan, style));
    }
    if !context.out.json {
        context.out.text(&table(&planned.plan, context.out.style))?;
    }
    report_progress(context, &mut link, &request, &planned)?;
    let answer = ask(&mut link, &request)?;
    for warning in &answer.warnings {
        context.out.warn(warning);
    }
    context.out.answer(&answer, |answer, _| summary(answer))
}

/// Sends the request, and repeats it if the daemon dies: the next daemon rolls back or completes
/// the interrupted work and does only the rest.
fn ask(link: &mut Link<'_>, request: &UpRequest) -> Result<UpAnswer, ErrorBody> {
    let response = link.request_retry(|| Request::Up(Box::new(request.clone())))?;
    let Response::Up(answer) = response else { return Err(unexpected(&response)) };
    Ok(*answer)
}

fn preset(name: &str) -> Result<&'static Preset, ErrorBody> {
    Preset::named(name).ok_or_else(|| {
        let known: Vec<String> =
            PRESETS.iter().map(|preset| format!("{} ({})", preset.name, preset.about)).collect();
        usage(format!("unknown preset {name:?}; available presets: {}", known.join(", ")))
            .hint("`ccmux up --preset seven --print` prints the team file of a preset")
    })
}

/// Returns the agent name if it is safe to insert into a team file.
fn agent(args: &UpArgs) -> Result<&str, ErrorBody> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !args.agent.is_empty() && args.agent.chars().all(plain) {
        return Ok(&args.agent);
    }
    Err(usage(format!("invalid agent name {:?}", args.agent)))
}

fn request(
    context: &Context,
    args: &UpArgs,
    preset: Option<&Preset>,
) -> Result<UpRequest, ErrorBody> {
    let (team, cwd) = match (preset, &args.file) {
        (Some(preset), _) => {
            let text = preset.file(agent(args)?);
            (team_text(&text, Path::new(preset.name))?, absolute(Path::new("."))?)
        }
        (None, Some(file)) => {
            let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
            (team_file(file)?, absolute(dir.unwrap_or(Path::new(".")))?)
        }
        (None, None) => return Err(usage("no team file")),
    };
    let name = args.name.clone().or_else(|| team.session.clone());
    let name = name.unwrap_or_else(|| name_of(&cwd));
    let source = json!({ "kind": "team", "request": team });
    let Team { template, mode, env, panes, .. } = team;
    let run = RunRequest {
        key: None,
        name: Some(name),
        mode,
        default_mode: context.env.session_mode()?,
        template,
        env,
        panes,
        cwd,
        client_env: context.env.for_pane(),
        source: Some(source),
    };
    Ok(UpRequest { run, replace: args.replace, prune: args.prune, dry_run: false })
}

/// Returns the default name of a team: the name of its directory.
pub(super) fn name_of(dir: &str) -> Name {
    Name::near(dir.rsplit('/').next().unwrap_or_default())
}

fn table(plan: &[Step], style: Style) -> String {
    let mut table = Table::new(&["", "PANE", "REASON"]);
    for step in plan {
        let colour = match step.action {
            Action::Create | Action::Restore => Colour::Green,
            Action::Keep => Colour::Dim,
            Action::Change => Colour::Yellow,
            Action::Remove => Colour::Red,
        };
        let mut row =
            vec![Cell::coloured(step.action.sign().to_string(), colour), step.pane.as_str().into()];
        if !step.why.is_empty() {
            row.push(step.why.join("; ").into());
        }
        table.push(row);
    }
    table.render(style.colour, style.width)
}

fn summary(answer: &UpAnswer) -> String {
    let name = answer.session.as_ref().map_or("the team", |session| session.name.as_str());
    let live = answer.panes.iter().filter(|pane| pane.state.is_live()).count();
    format!("{name} is up: {live} of {} panes running\n", answer.panes.len())
}

/// Starts a thread that prints each started pane on standard error, unless the output is JSON.
fn report_progress(
    context: &Context,
    link: &mut Link<'_>,
    request: &UpRequest,
    planned: &UpAnswer,
) -> Result<(), ErrorBody> {
    let starts = |step: &&Step| match step.action {
        Action::Create => true,
        Action::Change => request.replace,
        Action::Restore | Action::Keep | Action::Remove => false,
    };
    let names: Vec<Name> =
        planned.plan.iter().filter(starts).map(|step| step.pane.clone()).collect();
    if context.out.json || names.is_empty() {
        return Ok(());
    }
    let after = status(link)?.last_event;
    let session = planned.session.as_ref().map(|session| session.id);
    let (team, context) = (request.run.name.clone(), context.clone());
    // The thread only prints, so it need not be joined.
    std::thread::spawn(move || {
        print_started_panes(&context, after, session, team.as_ref(), &names);
    });
    Ok(())
}

fn print_started_panes(
    context: &Context,
    after: u64,
    mut session: Option<SessionId>,
    team: Option<&Name>,
    names: &[Name],
) {
    let mut started = 0;
    for event in Link::to_running(context).events(Some(after), true) {
        let Ok(Event { what, .. }) = event else { return };
        if let EventBody::SessionCreated { session: id, name } = &what
            && Some(name) == team
        {
            session = Some(*id);
        }
        if let EventBody::PaneCreated { session: id, name, .. } = &what
            && Some(*id) == session
            && names.contains(name)
        {
            started += 1;
            context.out.note(&format!("{started} of {}: {name} started", names.len()));
        }
    }
}
