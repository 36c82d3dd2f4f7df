//! The files of a pane's conversations, for agents that store conversations by working directory.

use std::fs;
use std::io;
use std::path::Path;

use host::{file, transcript};
use model::LaunchRecord;
use model::agent::Agent;

/// Moves the conversation files of a pane to the place that belongs to its new working directory.
/// Blocks.
///
/// # Errors
///
/// Any error of the operating system; a part of the files may have been moved.
pub(crate) fn refile(launch: &LaunchRecord) -> io::Result<()> {
    let Ok(agent) = Agent::named(&launch.agent, &std::collections::BTreeMap::new()) else {
        return Ok(());
    };
    let subdir = agent.conversations.filed.and_then(|filed| filed(&launch.cwd));
    let dir = launch.isolation.dir_of(&agent.name).map(Path::new);
    let (Some(subdir), Some(dir)) = (subdir, dir) else { return Ok(()) };
    let place = dir.join(subdir);
    for id in launch.conversation.iter().chain(&launch.earlier) {
        let Some(found) = transcript::find(&agent, dir, id) else { continue };
        let Some(name) = found.file_name().filter(|_| found.parent() != Some(&place)) else {
            continue;
        };
        for parent in [place.parent().unwrap_or(dir), &place] {
            file::make_dir(parent).map_err(io::Error::other)?;
        }
        // The directory next to the transcript first: a transcript in its new place means that the
        // move is complete.
        let beside = found.with_extension("");
        if beside.is_dir() {
            fs::rename(&beside, place.join(id.as_str()))?;
        }
        fs::rename(&found, place.join(name))?;
    }
    Ok(())
}
