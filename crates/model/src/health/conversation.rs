//! Conversations: each with its pane, and nowhere else (R11, R12, B4).

use std::collections::BTreeMap;

use super::{Finding, Kind, Severity, Subject};
use crate::agent::Liveness;
use crate::conversation::ConversationId;

/// What is known of the process that a session file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// There is none any more, or another one has its number.
    Gone,
    /// It lives, and carries the id of this pane.
    Marked(String),
    /// It lives, and carries no id of a pane.
    Unmarked,
    /// It lives, and the system does not show its environment.
    Hidden,
}

/// A session file in an agent's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// The file.
    pub path: String,
    /// What it says.
    pub said: Liveness,
    /// Who says it.
    pub speaker: Speaker,
}

/// What is known of the conversations of one pane in one agent's directory.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The one on record.
    pub current: Option<&'a ConversationId>,
    /// Those that it has or had.
    pub own: &'a [ConversationId],
    /// The conversations of all panes, with what to call those panes.
    pub others: &'a BTreeMap<ConversationId, Vec<Subject>>,
    /// The process at the head of the pane.
    pub head: Option<u32>,
    /// The directory is that of the pane's own agent. In others, and in a shell's, conversations
    /// come and go without a record.
    pub is_own_agent: bool,
}

/// What is wrong with a session file in the directory of a pane.
#[must_use]
pub fn session(pane: &Subject, file: &SessionFile, known: &Known<'_>) -> Option<Finding> {
    let SessionFile { path, said, speaker } = file;
    let (id, pid) = (&said.conversation, said.pid);
    let is_own = known.own.contains(id);
    let foreign = |why: String| {
        let evidence = format!("`{path}`: {why}");
        let remedy = "stop whoever uses this directory, and remove the file; nobody but the agent \
                      of this pane may work in it";
        Some(Finding::new(Severity::Error, pane, Kind::ForeignSession, evidence, remedy))
    };
    let elsewhere = known.others.get(id).and_then(|panes| panes.iter().find(|p| p.id != pane.id));
    if let Some(other) = elsewhere.filter(|_| !is_own) {
        return foreign(format!("its conversation {id} is that of {other}"));
    }
    match speaker {
        Speaker::Gone if is_own || !known.is_own_agent => {
            let evidence = format!("`{path}`: process {pid} is gone");
            let remedy = "none is needed; the agent clears it away";
            Some(Finding::new(Severity::Info, pane, Kind::StaleSession, evidence, remedy))
        }
        Speaker::Gone => foreign(format!(
            "process {pid} is gone, and its conversation {id} is none of this pane"
        )),
        Speaker::Marked(mark) if *mark != pane.id.to_string() => {
            foreign(format!("process {pid} belongs to pane {mark}"))
        }
        Speaker::Unmarked => foreign(format!("process {pid} runs outside of the pane")),
        Speaker::Hidden => None,
        Speaker::Marked(_) if known.head == Some(pid) && known.is_own_agent => {
            other_conversation(pane, path, id, known.current)
        }
        // An agent that was started in the pane by the one at its head.
        Speaker::Marked(_) => None,
    }
}

fn other_conversation(
    pane: &Subject,
    path: &str,
    id: &ConversationId,
    current: Option<&ConversationId>,
) -> Option<Finding> {
    if current == Some(id) {
        return None;
    }
    let on_record = current.map_or("none", ConversationId::as_str);
    let evidence = format!("`{path}` says {id}, the record says {on_record}");
    let remedy = format!(
        "`ccmux show {}` writes down what the agent says; if that does not help, see the daemon's \
         log",
        pane.id.short()
    );
    Some(Finding::new(Severity::Error, pane, Kind::OtherConversation, evidence, remedy))
}

/// What was said in a conversation, and is no longer there.
#[must_use]
pub fn transcript_missing(pane: &Subject, id: &ConversationId, expected: &str) -> Finding {
    let evidence = format!("nothing matches `{expected}`");
    let remedy =
        format!("put it back from a backup or from the trash; without it {id} cannot be resumed");
    Finding::new(Severity::Error, pane, Kind::TranscriptMissing, evidence, remedy)
}

/// Conversations that several panes have. Two live ones would write over each other; one that was
/// resumed by hand in another pane is only something to know.
#[must_use]
pub fn shared(all: &BTreeMap<ConversationId, Vec<Subject>>) -> Vec<Finding> {
    let several = all.iter().filter(|(_, panes)| panes.len() > 1);
    several
        .map(|(id, panes)| {
            let live = panes.iter().filter(|pane| pane.live).count();
            let severity = if live > 1 { Severity::Error } else { Severity::Info };
            let names: Vec<String> = panes.iter().map(ToString::to_string).collect();
            let evidence = format!("{id} is that of {}", names.join(" and "));
            let last = panes.last().map(|pane| pane.id.short()).unwrap_or_default();
            let remedy = format!(
                "it can be open in one of them at a time; `ccmux close {last}` removes the other"
            );
            let subject = format!("conversation {id}");
            Finding::new(severity, subject, Kind::SharedConversation, evidence, remedy)
        })
        .collect()
}

/// A transcript of an isolated pane in a directory of the user's own.
#[must_use]
pub fn leaked_transcript(pane: &Subject, id: &ConversationId, path: &str) -> Finding {
    let evidence = format!("`{path}` is of {id}");
    let remedy = format!(
        "find out what started the agent without its variables (`ccmux doctor` names such \
         processes), then remove the file; start the pane again with {}",
        pane.again()
    );
    Finding::new(Severity::Error, pane, Kind::LeakedConversation, evidence, remedy)
}

/// A session file in a directory of the user's own, whose process belongs to an isolated pane.
#[must_use]
pub fn leaked_session(pane: &Subject, pid: u32, path: &str) -> Finding {
    let evidence = format!("`{path}`: process {pid} belongs to this pane");
    let remedy = "end that process: something in the pane started it without the variables that \
                  keep it apart";
    Finding::new(Severity::Error, pane, Kind::LeakedSession, evidence, remedy)
}

#[cfg(test)]
mod tests {
    use super::super::testing::pane;
    use super::*;

    fn id(n: u8) -> ConversationId {
        ConversationId::from_random([n; 16])
    }

    fn file(pid: u32, conversation: u8, speaker: Speaker) -> SessionFile {
        let conversation = id(conversation);
        let said = Liveness {
            pid,
            started: Some(1),
            conversation,
            cwd: None,
            version: None,
            idle_since: None,
        };
        SessionFile { path: format!("/s/sessions/{pid}.json"), said, speaker }
    }

    #[test]
    fn a_session_file_is_of_this_pane_or_explained() {
        let (ours, other) = (pane(1, true), pane(2, true));
        let own = [id(1), id(2)];
        let others = BTreeMap::from([(id(1), vec![ours.clone()]), (id(3), vec![other.clone()])]);
        let marked = |pane: &Subject| Speaker::Marked(pane.id.to_string());
        let stale = Some(Kind::StaleSession);
        let foreign = Some(Kind::ForeignSession);
        #[rustfmt::skip]
        let table = [
            // pid  conversation  who               own agent  what follows
            (70,    1,            marked(&ours),     true,     None),
            (70,    2,            marked(&ours),     true,     Some(Kind::OtherConversation)),
            (70,    9,            marked(&ours),     true,     Some(Kind::OtherConversation)),
            (71,    9,            marked(&ours),     true,     None),
            (70,    9,            marked(&ours),     false,    None),
            (71,    1,            Speaker::Gone,     true,     stale),
            (71,    2,            Speaker::Gone,     true,     stale),
            (71,    9,            Speaker::Gone,     true,     foreign),
            (71,    9,            Speaker::Gone,     false,    stale),
            (71,    3,            Speaker::Gone,     false,    foreign),
            (71,    3,            marked(&ours),     true,     foreign),
            (71,    1,            marked(&other),    true,     foreign),
            (71,    1,            Speaker::Unmarked, true,     foreign),
            (71,    1,            Speaker::Hidden,   true,     None),
        ];
        for (pid, conversation, speaker, is_own_agent, expected) in table {
            let file = file(pid, conversation, speaker);
            let (current, head) = (&id(1), Some(70));
            let known =
                Known { current: Some(current), own: &own, others: &others, head, is_own_agent };
            let found = session(&ours, &file, &known);
            let what = found.as_ref().map(|finding| finding.what.as_str());
            assert_eq!(what, expected.map(Kind::as_str), "{file:?}, own agent: {is_own_agent}");
            if let Some(finding) = found {
                let is_info = finding.severity == Severity::Info;
                assert_eq!(is_info, expected == stale, "{finding:?}");
                assert!(finding.evidence.contains(&file.path), "{finding:?}");
            }
        }
    }

    #[test]
    fn a_conversation_of_two_panes_is_worst_while_both_live() {
        let shared_by = |live: [bool; 2]| {
            let panes = vec![pane(1, live[0]), pane(2, live[1])];
            shared(&BTreeMap::from([(id(1), panes), (id(2), vec![pane(3, true)])]))
        };

        let both = shared_by([true, true]);

        assert_eq!(both.len(), 1);
        assert_eq!(both[0].severity, Severity::Error);
        assert!(both[0].evidence.contains("pane p1") && both[0].evidence.contains("pane p2"));
        assert_eq!(shared_by([true, false])[0].severity, Severity::Info);
    }
}
