//! Checks of conversations: each belongs to one pane and to its directory (R11, R12, B4).

use std::collections::BTreeMap;

use super::{Finding, FindingKind, Severity, Subject};
use crate::agent::Liveness;
use crate::conversation::ConversationId;

/// The process that a session file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// It has ended, or its process id was reused.
    Gone,
    /// It is alive and carries the id of this pane.
    Marked(String),
    /// It is alive and carries no pane id.
    Unmarked,
    /// It is alive, but the kernel does not show its environment.
    Hidden,
}

/// A session file in an agent's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// Its path.
    pub path: String,
    /// Its contents.
    pub said: Liveness,
    /// The process that it names.
    pub speaker: Speaker,
}

/// The recorded conversations of a pane.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The current conversation.
    pub current: Option<&'a ConversationId>,
    /// Present and earlier conversations.
    pub own: &'a [ConversationId],
    /// The conversations of all panes, with those panes.
    pub others: &'a BTreeMap<ConversationId, Vec<Subject>>,
    /// The first process of the pane.
    pub head: Option<u32>,
    /// Whether the directory is that of the pane's agent. In other agents' directories,
    /// conversations are not recorded.
    pub is_own_agent: bool,
}

/// Checks a session file in the directory of a pane.
#[must_use]
pub fn session(pane: &Subject, file: &SessionFile, known: &Known<'_>) -> Option<Finding> {
    let SessionFile { path, said, speaker } = file;
    let (id, pid) = (&said.conversation, said.pid);
    let is_own = known.own.contains(id);
    let foreign = |why: String| {
        let evidence = format!("`{path}`: {why}");
        let remedy = "stop the process that uses this directory, and remove the file; only the \
                      agent of this pane may use it";
        Some(Finding::new(Severity::Error, pane, FindingKind::ForeignSession, evidence, remedy))
    };
    let elsewhere = known.others.get(id).and_then(|panes| panes.iter().find(|p| p.id != pane.id));
    if let Some(other) = elsewhere.filter(|_| !is_own) {
        return foreign(format!("its conversation {id} belongs to {other}"));
    }
    match speaker {
        Speaker::Gone if is_own || !known.is_own_agent => {
            let evidence = format!("`{path}`: process {pid} has ended");
            let remedy = "no action is needed; the agent removes it";
            Some(Finding::new(Severity::Info, pane, FindingKind::StaleSession, evidence, remedy))
        }
        Speaker::Gone => foreign(format!(
            "process {pid} has ended, and its conversation {id} does not belong to this pane"
        )),
        Speaker::Marked(mark) if *mark != pane.id.to_string() => {
            foreign(format!("process {pid} belongs to pane {mark}"))
        }
        Speaker::Unmarked => foreign(format!("process {pid} runs outside the pane")),
        Speaker::Hidden => None,
        Speaker::Marked(_) if known.head == Some(pid) && known.is_own_agent => {
            other_conversation(pane, path, id, known.current)
        }
        // An agent that the first process of the pane started.
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
        "`ccmux show {}` updates the record; if that does not help, see the log of the daemon",
        pane.id.short()
    );
    Some(Finding::new(Severity::Error, pane, FindingKind::OtherConversation, evidence, remedy))
}

/// Reports a conversation that was used, but has no transcript.
#[must_use]
pub fn transcript_missing(pane: &Subject, id: &ConversationId, expected: &str) -> Finding {
    let evidence = format!("no file matches `{expected}`");
    let remedy = format!("restore it from a backup or the trash; otherwise {id} cannot be resumed");
    Finding::new(Severity::Error, pane, FindingKind::TranscriptMissing, evidence, remedy)
}

/// Finds conversations of several panes. If two of them are running, they overwrite each other's
/// transcript; otherwise it is only information.
#[must_use]
pub fn shared(all: &BTreeMap<ConversationId, Vec<Subject>>) -> Vec<Finding> {
    let several = all.iter().filter(|(_, panes)| panes.len() > 1);
    several
        .map(|(id, panes)| {
            let live = panes.iter().filter(|pane| pane.live).count();
            let severity = if live > 1 { Severity::Error } else { Severity::Info };
            let names: Vec<String> = panes.iter().map(ToString::to_string).collect();
            let evidence = format!("{id} belongs to {}", names.join(" and "));
            let last = panes.last().map(|pane| pane.id.short()).unwrap_or_default();
            let remedy = format!(
                "only one of them can use it at a time; `ccmux close {last}` closes the other"
            );
            let subject = format!("conversation {id}");
            Finding::new(severity, subject, FindingKind::SharedConversation, evidence, remedy)
        })
        .collect()
}

/// Reports a transcript of an isolated pane in a directory of the user.
#[must_use]
pub fn leaked_transcript(pane: &Subject, id: &ConversationId, path: &str) -> Finding {
    let evidence = format!("`{path}` is the transcript of {id}");
    let remedy = format!(
        "find out what started the agent without its variables (`ccmux doctor` lists such \
         processes), then remove the file; restart the pane with {}",
        pane.again()
    );
    Finding::new(Severity::Error, pane, FindingKind::LeakedConversation, evidence, remedy)
}

/// Reports a session file in a directory of the user whose process belongs to an isolated pane.
#[must_use]
pub fn leaked_session(pane: &Subject, pid: u32, path: &str) -> Finding {
    let evidence = format!("`{path}`: process {pid} belongs to this pane");
    let remedy = "stop that process: a program in the pane started it without the isolation \
                  variables";
    Finding::new(Severity::Error, pane, FindingKind::LeakedSession, evidence, remedy)
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
    fn session_file_belongs_to_the_pane_or_is_reported() {
        let (ours, other) = (pane(1, true), pane(2, true));
        let own = [id(1), id(2)];
        let others = BTreeMap::from([(id(1), vec![ours.clone()]), (id(3), vec![other.clone()])]);
        let marked = |pane: &Subject| Speaker::Marked(pane.id.to_string());
        let stale = Some(FindingKind::StaleSession);
        let foreign = Some(FindingKind::ForeignSession);
        #[rustfmt::skip]
        let table = [
            // pid  conversation  who               own agent  what follows
            (70,    1,            marked(&ours),     true,     None),
            (70,    2,            marked(&ours),     true,     Some(FindingKind::OtherConversation)),
            (70,    9,            marked(&ours),     true,     Some(FindingKind::OtherConversation)),
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
            assert_eq!(
                what,
                expected.map(FindingKind::as_str),
                "{file:?}, own agent: {is_own_agent}"
            );
            if let Some(finding) = found {
                let is_info = finding.severity == Severity::Info;
                assert_eq!(is_info, expected == stale, "{finding:?}");
                assert!(finding.evidence.contains(&file.path), "{finding:?}");
            }
        }
    }

    #[test]
    fn conversation_of_two_panes_is_an_error_only_if_both_run() {
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
