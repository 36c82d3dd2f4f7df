//! `ccmux migrate`: convert a legacy session to an isolated session.

use std::fmt::Write as _;

use protocol::control::{Request, Response};
use protocol::session::{MigrateRequest, Migration};

use crate::args::MigrateArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::printable;

pub(super) fn run(context: &Context, args: &MigrateArgs) -> Result<(), Failure> {
    let request = MigrateRequest {
        target: args.id.clone(),
        workspace: args.workspace,
        dry_run: args.dry_run,
    };
    let progress = context.out.progress("migrating…");
    // A repeated request continues an interrupted migration.
    let answer = Link::new(context).request_retry(|| Request::Migrate(request.clone()))?;
    drop(progress);
    let Response::Migration(migration) = answer else { return Err(unexpected(&answer).into()) };
    for warning in &migration.warnings {
        context.out.warn(warning);
    }
    context.out.answer(&*migration, |migration, _| describe(migration))
}

fn describe(migration: &Migration) -> String {
    let Migration { session, dry_run, panes, copied, .. } = migration;
    let mut text = match (dry_run, panes.is_empty() && copied.is_empty()) {
        (false, _) => format!("session {} is {}\n", session.name, session.mode),
        (true, true) => format!("session {} is {}: nothing to do\n", session.name, session.mode),
        (true, false) => format!("session {} would become isolated:\n", session.name),
    };
    for pane in panes {
        let how = if pane.already { "unchanged, " } else { "" };
        let branch = pane.branch.as_ref().map(|branch| format!(" on branch {branch}"));
        let _infallible = writeln!(
            text,
            "  {}: {} -> {} ({how}{}{})",
            pane.name,
            printable(&pane.from),
            printable(&pane.to),
            pane.workspace_kind,
            branch.unwrap_or_default()
        );
    }
    for dir in copied {
        let _infallible = writeln!(text, "  copy of {}", printable(dir));
    }
    text
}
