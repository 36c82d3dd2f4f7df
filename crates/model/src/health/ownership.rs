//! Checks of the launch record: whether it belongs to its pane and stays in its directories (R5).

use std::collections::BTreeMap;

use super::{Finding, FindingKind, Severity, Subject};
use crate::config::AgentConfig;
use crate::ids::SessionId;
use crate::isolation::Method;
use crate::launch::LaunchRecord;
use crate::launch::isolation::required;

/// The location of a record, and the values it must agree with.
#[derive(Clone, Copy, Debug)]
pub struct RecordLocation<'a> {
    /// The path of the record.
    pub path: &'a str,
    /// The session that contains it.
    pub session: SessionId,
    /// The state root.
    pub root: &'a str,
    /// The user id of the daemon.
    pub us: u32,
    /// The user-defined agents.
    pub agents: &'a BTreeMap<String, AgentConfig>,
}

/// Reports a record that is missing or damaged.
#[must_use]
pub fn unreadable(pane: &Subject, why: &str) -> Finding {
    let id = pane.id.short();
    let remedy = if pane.live {
        "it keeps running; restore the record from a backup, or the pane cannot be restored later"
            .to_owned()
    } else {
        format!(
            "it cannot be restored; `ccmux read {id} --log` shows its output, `ccmux close {id}` \
             removes it"
        )
    };
    Finding::new(Severity::Error, pane, FindingKind::RecordUnreadable, why, remedy)
}

/// Checks a record.
#[must_use]
pub fn judge(pane: &Subject, record: &LaunchRecord, place: &RecordLocation<'_>) -> Vec<Finding> {
    let path = place.path;
    let mut findings = Vec::new();
    let mut error = |kind, evidence: String| {
        let remedy = format!(
            "find out what wrote `{path}`; close the pane with `ccmux close {}` and start a new one",
            pane.id.short()
        );
        findings.push(Finding::new(Severity::Error, pane, kind, evidence, remedy));
    };
    if record.pane != pane.id {
        error(FindingKind::RecordOfAnother, format!("`{path}` names pane {}", record.pane));
    }
    if record.session != place.session {
        error(FindingKind::RecordOfAnother, format!("`{path}` names session {}", record.session));
    }
    if let Some(owner) = record.owner.filter(|owner| *owner != place.us) {
        let evidence = format!("`{path}` names user {owner}, not user {}", place.us);
        error(FindingKind::RecordOwner, evidence);
    }
    let away = astray(pane, record, place);
    if !away.is_empty() {
        error(FindingKind::RecordElsewhere, format!("in `{path}`: {}", away.join("; ")));
    }
    findings
}

/// Returns the entries of a record that point outside the pane's directories.
fn astray(pane: &Subject, record: &LaunchRecord, place: &RecordLocation<'_>) -> Vec<String> {
    let isolation = &record.isolation;
    let mut away = Vec::new();
    for (path, own) in isolation.places(place.root, pane.id) {
        if path != own {
            away.push(format!("`{path}` instead of `{own}`"));
        }
    }
    if isolation.method == Method::Home && isolation.home.is_none() {
        away.push("no home directory".to_owned());
    }
    if isolation.method != Method::None && isolation.dirs.is_empty() {
        away.push("no agent directory".to_owned());
    }
    for (name, own) in required(isolation, place.root, pane.id, place.agents) {
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
        let place = RecordLocation {
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
    fn planned_record_has_no_finding() {
        assert_eq!(judged(|_| {}), []);
        assert_eq!(judged(|record| record.owner = None), [], "as in records of older releases");
    }

    #[test]
    fn foreign_or_misdirected_record_is_reported_with_the_evidence() {
        type Change = fn(&mut LaunchRecord);
        #[rustfmt::skip]
        let table: [(Change, FindingKind, &str); 7] = [
            (|r| r.pane = super::super::testing::pane(2, true).id, FindingKind::RecordOfAnother, "names pane"),
            (|r| r.session = SessionId::from_random([9; 16]), FindingKind::RecordOfAnother, "names session"),
            (|r| r.owner = Some(0), FindingKind::RecordOwner, "user 0"),
            (|r| r.isolation.dirs[0].path = "/home/me/.claude".to_owned(),
                FindingKind::RecordElsewhere, "`/home/me/.claude` instead of `/s/claude-configs/pane-"),
            (|r| r.isolation.temp = Some("/tmp".to_owned()), FindingKind::RecordElsewhere, "`/tmp`"),
            (|r| r.env.set("CLAUDE_CONFIG_DIR", "/x").unwrap(),
                FindingKind::RecordElsewhere, "CLAUDE_CONFIG_DIR=/x"),
            (|r| r.env.remove("CODEX_HOME"), FindingKind::RecordElsewhere, "no CODEX_HOME"),
        ];
        for (change, kind, evidence) in table {
            let findings = judged(change);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].0, kind.as_str());
            assert!(findings[0].1.contains(evidence), "{findings:?}");
        }
    }
}
