//! Looking at the user's own directories for what should be in a pane's.

use std::collections::BTreeSet;
use std::path::Path;

use host::transcript;
use model::agent::Agent;
use model::health::conversation::{Speaker, leaked_session, leaked_transcript};
use model::isolation::users_place;
use model::{ConversationId, LaunchRecord};

use super::pane::speaker;
use super::{Patient, Report, Ward, brought, conversations};

/// Looks for conversations and processes of isolated panes in the user's own directories. Blocks.
pub(crate) fn examine(patients: &[Patient], ward: &Ward) -> Report {
    let mut report = Report::default();
    for agent in Agent::built_in() {
        let Some((dir, outside)) = agent.outside() else { continue };
        let root = ward.root_text();
        let clients =
            patients.iter().filter_map(Patient::isolated).map(|own| own.env.clone().into());
        let clients = clients.chain([ward.client.clone()]);
        let places: BTreeSet<String> =
            clients.map(|client| users_place(&dir, &client, &root)).collect();
        for place in places {
            report.checked.own_places += 1;
            look_in(Path::new(&place), &outside, patients, &mut report);
        }
    }
    report
}

fn look_in(place: &Path, agent: &Agent, patients: &[Patient], report: &mut Report) {
    for patient in patients {
        let Some(launch) = patient.isolated().filter(|own| own.agent == agent.name) else {
            continue;
        };
        for id in own_conversations(launch, agent) {
            if let Some(found) = transcript::of(agent, place, id) {
                let path = found.to_string_lossy();
                report.add([leaked_transcript(&patient.subject, id, &path)]);
            }
        }
    }
    for (path, said) in transcript::live_files(agent, place) {
        let path = path.to_string_lossy();
        let speaker = speaker(&said);
        for patient in patients {
            let Some(launch) = patient.isolated() else { continue };
            let mark = Speaker::Marked(patient.subject.id.to_string());
            if speaker == mark {
                report.add([leaked_session(&patient.subject, said.pid, &path)]);
            } else if launch.agent == agent.name
                && own_conversations(launch, agent).any(|id| *id == said.conversation)
            {
                let id = &said.conversation;
                report.add([leaked_transcript(&patient.subject, id, &path)]);
            }
        }
    }
}

/// The conversations that began in the pane: one that the user brought into it was his before.
fn own_conversations<'a>(
    launch: &'a LaunchRecord,
    agent: &Agent,
) -> impl Iterator<Item = &'a ConversationId> + use<'a> {
    let brought = brought(launch, agent);
    conversations(launch).filter(move |id| brought.as_ref() != Some(*id))
}
