//! `ccmux down`: stop all panes of a team.

use std::path::Path;

use protocol::control::Request;
use protocol::{ErrorBody, ErrorCode};

use super::daemon::team_file;
use super::new::absolute;
use super::show::Shown;
use super::up::name_of;
use super::{purge, stop};
use crate::args::{DownArgs, PurgeArgs, StopArgs};
use crate::connect::Link;
use crate::context::Context;
use crate::failure::Failure;

pub(super) fn run(context: &Context, args: &DownArgs) -> Result<(), Failure> {
    let target = target(&args.team)?;
    let shown = Link::new(context).request_retry(|| Request::Show { target: target.clone() })?;
    let id = match Shown::from_response(shown)? {
        Shown::Session(answer) => answer.session.id.to_string(),
        Shown::Pane(answer) => {
            let message = format!("{target:?} is a pane, not a team");
            return Err(ErrorBody::new(ErrorCode::Conflict, message)
                .hint(format!("stop the pane with `ccmux stop {}`", answer.pane.id.short()))
                .into());
        }
    };
    let (ids, grace) = (vec![id], args.grace);
    if args.purge {
        let discard = args.discard.clone();
        return purge::run(context, &PurgeArgs { ids, grace, discard, now: false, yes: args.yes });
    }
    stop::run(context, &StopArgs { ids, grace })
}

/// Returns the name or ID of the session; for a team file, the name of its session.
fn target(team: &str) -> Result<String, ErrorBody> {
    let path = Path::new(team);
    // Session names contain no slash. A missing file is recognised by its form.
    let is_file = path.is_file() || team.contains('/') || team.ends_with(".toml");
    if !is_file {
        return Ok(team.to_owned());
    }
    let described = team_file(path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let cwd = absolute(dir.unwrap_or(Path::new(".")))?;
    Ok(described.session.unwrap_or_else(|| name_of(&cwd)).to_string())
}
