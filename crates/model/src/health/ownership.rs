//! The launch record: whether it is of its pane, and keeps it where it belongs (R5).

use std::collections::BTreeMap;

use super::{Finding, Kind, Severity, Subject};
use crate::config::AgentConfig;
use crate::ids::SessionId;
use crate::isolation::Method;
use crate::launch::LaunchRecord;

/// Where a record was found, and what it has to agree with.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub path: &'a str,
    /// The session that it lies in.
    pub session: SessionId,
    /// The state root.
    pub root: &'a str,
    /// Us.
    pub us: u32,
    /// The agents that the user has defined.
    pub agents: &'a BTreeMap<String, AgentConfig>,
}

/// A record that is not there, or not what was written.
#[must_use]
pub fn unreadable(pane: &Subject, why: &str) -> Finding {
    let id = pane.id.short();
    let remedy = if pane.live {
        "it runs on; put the record back from a backup, or it cannot be restored".to_owned()
    } else {
        format!(
            "it cannot be restored; `ccmux read {id} --log` has its output, `ccmux close {id}` \
             removes it"
        )
    };
    Finding::new(Severity::Error, pane, Kind::RecordUnreadable, why, remedy)
}

/// What is wrong with a record.
#[must_use]
pub fn judge(pane: &Subject, record: &LaunchRecord, place: &Place<'_>) -> Vec<Finding> {
    let path = place.path;
    let mut findings = Vec::new();
    let mut error = |kind, evidence: String| {
        let remedy = format!(
            "find out who wrote `{path}`; close the pane with `ccmux close {}` and start a new one",
            pane.id.short()
        );
        findings.push(Finding::new(Severity::Error, pane, kind, evidence, remedy));
    };
    if record.pane != pane.id {
        error(Kind::RecordOfAnother, format!("`{path}` names pane {}", record.pane));
    }
    if record.session != place.session {
        error(Kind::RecordOfAnother, format!("`{path}` names session {}", record.session));
    }
    if let Some(owner) = record.owner.filter(|owner| *owner != place.us) {
        let evidence = format!("`{path}` names user {owner}, we are user {}", place.us);
        error(Kind::RecordOwner, evidence);
    }
    let away = astray(pane, record, place);
    if !away.is_empty() {
        error(Kind::RecordElsewhere, format!("in `{path}`: {}", away.join("; ")));
    }
    findings
}

/// What in a record leads away from where the pane's directories are.
fn astray(pane: &Subject, record: &LaunchRecord, place: &Place<'_>) -> Vec<String> {
    let isolation = &record.isolation;
    let mut away = Vec::new();
    for (path, own) in isolation.places(place.root, pane.id) {
        if path != own {
            away.push(format!("`{path}` instead of `{own}`"));
        }
    }
    if isolation.method == Method::Home && isolation.home.is_none() {
        away.push("no home of its own".to_owned());
    }
    if isolation.method != Method::None && isolation.dirs.is_empty() {
        away.push("no directory of its own".to_owned());
    }
    for (name, own) in isolation.required(place.root, pane.id, place.agents) {
        match record.env.get(&name) {
            Some(value) if value == own => {}
            Some(value) => away.push(format!("{name}={value} instead of {own}")),
            None => away.push(format!("no {name}")),
        }
    }
    away
}

#[cfg(test)]
mod tests {
    use super::super::testing::{pane, record};
    use super::*;

    fn judged(change: impl FnOnce(&mut LaunchRecord)) -> Vec<(String, String)> {
        let agents = BTreeMap::new();
        let mut record = record(1);
        let place = Place {
            path: "/s/pane.json",
            session: record.session,
            root: "/s",
            us: 1000,
            agents: &agents,
        };
        change(&mut record);
        let findings = judge(&pane(1, true), &record, &place);
        findings.into_iter().map(|finding| (finding.what, finding.evidence)).collect()
    }

    #[test]
    fn a_record_that_was_planned_for_its_pane_is_well() {
        assert_eq!(judged(|_| {}), []);
        assert_eq!(judged(|record| record.owner = None), [], "older releases did not name it");
    }

    #[test]
    fn a_record_of_somebody_else_or_to_elsewhere_is_told_with_what_it_says() {
        type Change = fn(&mut LaunchRecord);
        #[rustfmt::skip]
        let table: [(Change, Kind, &str); 7] = [
            (|r| r.pane = super::super::testing::pane(2, true).id, Kind::RecordOfAnother, "names pane"),
            (|r| r.session = SessionId::from_random([9; 16]), Kind::RecordOfAnother, "names session"),
            (|r| r.owner = Some(0), Kind::RecordOwner, "user 0"),
            (|r| r.isolation.dirs[0].path = "/home/me/.claude".to_owned(),
                Kind::RecordElsewhere, "`/home/me/.claude` instead of `/s/claude-configs/pane-"),
            (|r| r.isolation.temp = Some("/tmp".to_owned()), Kind::RecordElsewhere, "`/tmp`"),
            (|r| r.env.set("CLAUDE_CONFIG_DIR", "/x").unwrap(),
                Kind::RecordElsewhere, "CLAUDE_CONFIG_DIR=/x"),
            (|r| r.env.remove("CODEX_HOME"), Kind::RecordElsewhere, "no CODEX_HOME"),
        ];
        for (change, kind, evidence) in table {
            let findings = judged(change);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].0, kind.as_str());
            assert!(findings[0].1.contains(evidence), "{findings:?}");
        }
    }
}
