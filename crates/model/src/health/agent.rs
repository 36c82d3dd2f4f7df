//! The agent's own state file: whether it is the one that was made for the pane (R12).

use std::collections::BTreeMap;

use super::place::{Expected, Found, Sighting, of_pane};
use super::{Finding, Kind, Severity, Subject};
use crate::agent::traces::Witness;
use crate::conversation::ConversationId;

/// What is known of a pane, by which its state file is recognised.
#[derive(Clone, Debug)]
pub struct Owner<'a> {
    /// Where the pane works, and what that belongs to.
    pub directories: &'a [String],
    /// The conversations that it has or had.
    pub conversations: &'a [ConversationId],
    /// The conversations of all panes, with what to call those panes.
    pub others: &'a BTreeMap<ConversationId, Vec<Subject>>,
    /// Us.
    pub us: u32,
}

/// What is wrong with a state file.
#[must_use]
pub fn state(
    pane: &Subject,
    sighting: &Sighting,
    said: &Result<Witness, String>,
    owner: &Owner<'_>,
) -> Option<Finding> {
    let path = &sighting.path;
    if let Err(why) = &sighting.found {
        let evidence = format!("`{path}`: {why}");
        let remedy = format!(
            "the agent asks its first questions again; put the file back, or make it again with {}",
            pane.again()
        );
        return Some(Finding::new(Severity::Warning, pane, Kind::StateMissing, evidence, remedy));
    }
    if let Some(wrong) = of_pane(pane, sighting, Expected::File, owner.us) {
        return Some(wrong);
    }
    let why = match said {
        Ok(witness) => (Kind::StateOfAnother, somebody_else(pane, witness, owner)?),
        Err(why) => (Kind::StateUnreadable, why.clone()),
    };
    let (kind, why) = why;
    let remedy = format!(
        "put the right file back; without it, remove `{path}` and make it again with {}",
        pane.again()
    );
    let evidence = format!("`{path}`: {why}");
    Some(Finding::new(Severity::Error, pane, kind, evidence, remedy))
}

/// By what it is seen that a state is of somebody else. What names the pane counts most; the agent
/// itself names conversations when it ends; where nothing is named, the directories remain.
fn somebody_else(pane: &Subject, said: &Witness, owner: &Owner<'_>) -> Option<String> {
    if let Some(named) = &said.pane {
        return (*named != pane.id.to_string()).then(|| format!("it was made for pane {named}"));
    }
    let strange = said.conversations.iter().find_map(|id| {
        let of = owner.others.get(id).filter(|_| !owner.conversations.contains(id))?;
        Some(format!("its last conversation {id} is that of {}", of.first()?))
    });
    if strange.is_some() {
        return strange;
    }
    let known = |path: &String| owner.directories.contains(path);
    (!said.directories.iter().any(known)).then(|| {
        let theirs = match said.directories.as_slice() {
            [] => "no directory at all".to_owned(),
            some => format!("`{}`", some.join("`, `")),
        };
        let ours = owner.directories.first().map_or("", String::as_str);
        format!("it knows {theirs}, and not `{ours}`, where this pane works")
    })
}

/// State files of different panes that are one file.
#[must_use]
pub fn one_file(states: &[(Subject, Sighting)]) -> Vec<Finding> {
    let mut seen: BTreeMap<(u64, u64), &(Subject, Sighting)> = BTreeMap::new();
    let mut findings = Vec::new();
    for state in states {
        let (pane, Sighting { path, found: Ok(Found { identity, .. }) }) = state else { continue };
        match seen.get(identity) {
            Some((other, Sighting { path: first, .. })) if other.id != pane.id => {
                let evidence = format!("`{path}` and `{first}` of {other} are one file");
                let remedy = format!(
                    "remove `{path}` and make it again with {}; who linked them?",
                    pane.again()
                );
                let (severity, kind) = (Severity::Error, Kind::StateShared);
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

    fn at(path: &str, inode: u64) -> Sighting {
        let found = Found { shape: Shape::File, owner: US, mode: 0o100_600, identity: (1, inode) };
        Sighting { path: path.to_owned(), found: Ok(found) }
    }

    fn witness(pane: Option<&str>, directories: &[&str], conversations: &[u8]) -> Witness {
        Witness {
            pane: pane.map(str::to_owned),
            directories: directories.iter().map(|&dir| dir.to_owned()).collect(),
            conversations: conversations.iter().map(|n| id(*n)).collect(),
        }
    }

    #[test]
    fn a_state_is_known_by_its_pane_then_by_its_conversations_then_by_its_directories() {
        let ours = pane(1, true);
        let mark = ours.id.to_string();
        let others = BTreeMap::from([(id(2), vec![pane(2, true)])]);
        let directories = ["/src".to_owned(), "/src/deep".to_owned()];
        let owner =
            Owner { directories: &directories, conversations: &[id(1)], others: &others, us: US };
        #[rustfmt::skip]
        let table = [
            (witness(Some(&mark), &[], &[]),           None),
            (witness(Some("p2"), &["/src"], &[1]),     Some("made for pane p2")),
            (witness(None, &["/src"], &[]),            None),
            (witness(None, &["/src"], &[1, 9]),        None),
            (witness(None, &["/src"], &[2]),           Some("that of pane p2")),
            (witness(None, &["/x", "/src/deep"], &[]), None),
            (witness(None, &["/x"], &[]),              Some("knows `/x`, and not `/src`")),
            (witness(None, &[], &[]),                  Some("no directory at all")),
        ];
        for (said, expected) in table {
            let found = state(&ours, &at("/s/state", 1), &Ok(said.clone()), &owner);
            match (&found, expected) {
                (None, None) => {}
                (Some(finding), Some(evidence)) => {
                    assert_eq!(finding.what, Kind::StateOfAnother.as_str());
                    assert!(finding.evidence.contains(evidence), "{finding:?}");
                }
                other => panic!("{said:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_state_that_is_missing_open_or_damaged_is_told_apart() {
        let (ours, others) = (pane(1, true), BTreeMap::new());
        let owner = Owner { directories: &[], conversations: &[], others: &others, us: US };
        let well = Ok(witness(Some(&ours.id.to_string()), &[], &[]));
        let missing =
            Sighting { path: "/s/state".to_owned(), found: Err("it is not there".to_owned()) };
        let mut open = at("/s/state", 1);
        open.found.as_mut().unwrap().mode = 0o100_644;

        let what = |sighting: &Sighting, said: &Result<Witness, String>| {
            let finding = state(&ours, sighting, said, &owner).unwrap();
            (finding.severity, finding.what)
        };

        let words = |kind: Kind| kind.as_str().to_owned();
        assert_eq!(what(&missing, &well), (Severity::Warning, words(Kind::StateMissing)));
        assert_eq!(what(&open, &well), (Severity::Error, words(Kind::Open)));
        let damaged = Err("EOF at line 1".to_owned());
        let unreadable = what(&at("/s/state", 1), &damaged);
        assert_eq!(unreadable, (Severity::Error, words(Kind::StateUnreadable)));
    }

    #[test]
    fn two_names_of_one_file_are_noticed() {
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
