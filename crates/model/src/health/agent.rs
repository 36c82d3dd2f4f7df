//! Checks of the agent's state file: whether it was created for the pane (R12).

use std::collections::BTreeMap;

use super::place::{Expected, FileInfo, FileObservation, of_pane};
use super::{Finding, FindingKind, Severity, Subject};
use crate::agent::traces::WriteTracker;
use crate::conversation::ConversationId;

/// The pane's properties by which its state file is recognised.
#[derive(Clone, Debug)]
pub struct StateOwner<'a> {
    /// The working directory of the pane, and its repository.
    pub directories: &'a [String],
    /// Present and earlier conversations of the pane.
    pub conversations: &'a [ConversationId],
    /// The conversations of all panes, with those panes.
    pub others: &'a BTreeMap<ConversationId, Vec<Subject>>,
    /// The user id of the daemon.
    pub us: u32,
}

/// Checks a state file.
#[must_use]
pub fn state(
    pane: &Subject,
    observed: &FileObservation,
    said: &Result<WriteTracker, String>,
    owner: &StateOwner<'_>,
) -> Option<Finding> {
    let path = &observed.path;
    if let Err(why) = &observed.found {
        let evidence = format!("`{path}`: {why}");
        let remedy = format!(
            "the agent will ask its initial questions again; restore the file, or recreate it with {}",
            pane.again()
        );
        return Some(Finding::new(
            Severity::Warning,
            pane,
            FindingKind::StateMissing,
            evidence,
            remedy,
        ));
    }
    if let Some(wrong) = of_pane(pane, observed, Expected::File, owner.us) {
        return Some(wrong);
    }
    let why = match said {
        Ok(witness) => (FindingKind::StateOfAnother, other_owner(pane, witness, owner)?),
        Err(why) => (FindingKind::StateUnreadable, why.clone()),
    };
    let (kind, why) = why;
    let remedy = format!(
        "restore the correct file; otherwise remove `{path}` and recreate it with {}",
        pane.again()
    );
    let evidence = format!("`{path}`: {why}");
    Some(Finding::new(Severity::Error, pane, kind, evidence, remedy))
}

/// Returns the evidence that a state belongs to another pane. The pane named in it is decisive;
/// then the conversations that the agent writes on exit; then the directories.
fn other_owner(pane: &Subject, said: &WriteTracker, owner: &StateOwner<'_>) -> Option<String> {
    if let Some(named) = &said.pane {
        return (*named != pane.id.to_string()).then(|| format!("it was created for pane {named}"));
    }
    let foreign = said.conversations.iter().find_map(|id| {
        let of = owner.others.get(id).filter(|_| !owner.conversations.contains(id))?;
        Some(format!("its last conversation {id} belongs to {}", of.first()?))
    });
    if foreign.is_some() {
        return foreign;
    }
    let known = |path: &String| owner.directories.contains(path);
    (!said.directories.iter().any(known)).then(|| {
        let theirs = match said.directories.as_slice() {
            [] => "no directory".to_owned(),
            some => format!("`{}`", some.join("`, `")),
        };
        let ours = owner.directories.first().map_or("", String::as_str);
        format!("it contains {theirs}, but not `{ours}`, the working directory of this pane")
    })
}

/// Finds state files of different panes that are the same file.
#[must_use]
pub fn one_file(states: &[(Subject, FileObservation)]) -> Vec<Finding> {
    let mut seen: BTreeMap<(u64, u64), &(Subject, FileObservation)> = BTreeMap::new();
    let mut findings = Vec::new();
    for state in states {
        let (pane, FileObservation { path, found: Ok(FileInfo { identity, .. }) }) = state else {
            continue;
        };
        match seen.get(identity) {
            Some((other, FileObservation { path: first, .. })) if other.id != pane.id => {
                let evidence = format!("`{path}` and `{first}` of {other} are the same file");
                let remedy = format!(
                    "remove `{path}` and recreate it with {}; find out what linked them",
                    pane.again()
                );
                let (severity, kind) = (Severity::Error, FindingKind::StateShared);
                findings.push(Finding::new(severity, pane, kind, evidence, remedy));
            }
            Some(_) => {}
            None => drop(seen.insert(*identity, state)),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::place::Shape;
    use super::super::testing::pane;
    use super::*;

    const US: u32 = 1000;

    fn id(n: u8) -> ConversationId {
        ConversationId::from_random([n; 16])
    }

    fn at(path: &str, inode: u64) -> FileObservation {
        let found =
            FileInfo { shape: Shape::File, owner: US, mode: 0o100_600, identity: (1, inode) };
        FileObservation { path: path.to_owned(), found: Ok(found) }
    }

    fn witness(pane: Option<&str>, directories: &[&str], conversations: &[u8]) -> WriteTracker {
        WriteTracker {
            pane: pane.map(str::to_owned),
            directories: directories.iter().map(|&dir| dir.to_owned()).collect(),
            conversations: conversations.iter().map(|n| id(*n)).collect(),
        }
    }

    #[test]
    fn state_owner_is_determined_by_pane_then_conversation_then_directory() {
        let ours = pane(1, true);
        let mark = ours.id.to_string();
        let others = BTreeMap::from([(id(2), vec![pane(2, true)])]);
        let directories = ["/src".to_owned(), "/src/deep".to_owned()];
        let owner = StateOwner {
            directories: &directories,
            conversations: &[id(1)],
            others: &others,
            us: US,
        };
        #[rustfmt::skip]
        let table = [
            (witness(Some(&mark), &[], &[]),           None),
            (witness(Some("p2"), &["/src"], &[1]),     Some("created for pane p2")),
            (witness(None, &["/src"], &[]),            None),
            (witness(None, &["/src"], &[1, 9]),        None),
            (witness(None, &["/src"], &[2]),           Some("belongs to pane p2")),
            (witness(None, &["/x", "/src/deep"], &[]), None),
            (witness(None, &["/x"], &[]),              Some("contains `/x`, but not `/src`")),
            (witness(None, &[], &[]),                  Some("no directory")),
        ];
        for (said, expected) in table {
            let found = state(&ours, &at("/s/state", 1), &Ok(said.clone()), &owner);
            match (&found, expected) {
                (None, None) => {}
                (Some(finding), Some(evidence)) => {
                    assert_eq!(finding.what, FindingKind::StateOfAnother.as_str());
                    assert!(finding.evidence.contains(evidence), "{finding:?}");
                }
                other => panic!("{said:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn missing_open_and_damaged_state_are_distinguished() {
        let (ours, others) = (pane(1, true), BTreeMap::new());
        let owner = StateOwner { directories: &[], conversations: &[], others: &others, us: US };
        let well = Ok(witness(Some(&ours.id.to_string()), &[], &[]));
        let missing = FileObservation {
            path: "/s/state".to_owned(),
            found: Err("it is not there".to_owned()),
        };
        let mut open = at("/s/state", 1);
        open.found.as_mut().unwrap().mode = 0o100_644;

        let what = |observed: &FileObservation, said: &Result<WriteTracker, String>| {
            let finding = state(&ours, observed, said, &owner).unwrap();
            (finding.severity, finding.what)
        };

        let words = |kind: FindingKind| kind.as_str().to_owned();
        assert_eq!(what(&missing, &well), (Severity::Warning, words(FindingKind::StateMissing)));
        assert_eq!(what(&open, &well), (Severity::Error, words(FindingKind::Open)));
        let damaged = Err("EOF at line 1".to_owned());
        let unreadable = what(&at("/s/state", 1), &damaged);
        assert_eq!(unreadable, (Severity::Error, words(FindingKind::StateUnreadable)));
    }

    #[test]
    fn hard_linked_state_files_are_reported() {
        let states = [
            (pane(1, true), at("/s/1", 7)),
            (pane(2, true), at("/s/2", 8)),
            (pane(3, true), at("/s/3", 7)),
        ];

        let findings = one_file(&states);

        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].subject.contains("p3") && findings[0].evidence.contains("pane p1"));
        assert_eq!(one_file(&states[..2]), []);
    }
}
