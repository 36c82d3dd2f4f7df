//! Checks the user's own directories for conversations and processes of isolated panes.

use std::collections::BTreeSet;
use std::path::Path;

use host::transcript;
use model::agent::Agent;
use model::health::conversation::{Speaker, leaked_session, leaked_transcript};
use model::launch::isolation::users_place;
use model::{ConversationId, LaunchRecord};

use super::pane::speaker;
use super::{Context, ExaminedPane, Report, brought_conversation, conversations};

/// Reports conversations and processes of isolated panes that appear in the user's own directories.
/// Blocks.
pub(crate) fn examine(panes: &[ExaminedPane], context: &Context) -> Report {
    let mut report = Report::default();
    for agent in Agent::built_in() {
        let Some((dir, outside)) = agent.outside() else { continue };
        let root = context.root_text();
        let clients = panes
            .iter()
            .filter_map(ExaminedPane::isolated_launch)
            .map(|own| own.env.clone().into());
        let clients = clients.chain([context.client.clone()]);
        let places: BTreeSet<String> =
            clients.map(|client| users_place(&dir, &client, &root)).collect();
        for place in places {
            report.checked.own_places += 1;
            check_dir(Path::new(&place), &outside, panes, &mut report);
        }
    }
    report
}

fn check_dir(place: &Path, agent: &Agent, panes: &[ExaminedPane], report: &mut Report) {
    for pane in panes {
        let Some(launch) = pane.isolated_launch().filter(|own| own.agent == agent.name) else {
            continue;
        };
        for id in own_conversations(launch, agent) {
            if let Some(found) = transcript::find(agent, place, id) {
                let path = found.to_string_lossy();
                report.add([leaked_transcript(&pane.subject, id, &path)]);
            }
        }
    }
    for (path, said) in transcript::live_files(agent, place) {
        let path = path.to_string_lossy();
        let speaker = speaker(&said);
        for pane in panes {
            let Some(launch) = pane.isolated_launch() else { continue };
            let mark = Speaker::Marked(pane.subject.id.to_string());
            if speaker == mark {
                report.add([leaked_session(&pane.subject, said.pid, &path)]);
            } else if launch.agent == agent.name
                && own_conversations(launch, agent).any(|id| *id == said.conversation)
            {
                let id = &said.conversation;
                report.add([leaked_transcript(&pane.subject, id, &path)]);
            }
        }
    }
}

/// Returns the conversations that began in the pane, without the one that it was started to resume.
fn own_conversations<'a>(
    launch: &'a LaunchRecord,
    agent: &Agent,
) -> impl Iterator<Item = &'a ConversationId> + use<'a> {
    let brought = brought_conversation(launch, agent);
    conversations(launch).filter(move |id| brought.as_ref() != Some(*id))
}
