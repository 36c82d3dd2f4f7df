//! Health checks: from observations to findings, each with evidence and a remedy.
//!
//! This module does no I/O. The caller passes observations to functions that are tables of rules.
//! [`FindingKind`] lists all possible findings.

pub mod agent;
pub mod conversation;
pub mod login;
pub mod ownership;
pub mod place;
pub mod process;
pub mod saved;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::PaneId;
use crate::name::Name;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Isolation is broken, or data is lost or at risk.
    Error,
    /// The user should act.
    Warning,
    /// For information.
    Info,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The object concerned.
    pub subject: String,
    /// The kind of finding, as a fixed text.
    pub what: String,
    /// The observation.
    pub evidence: String,
    /// The recommended action; empty if none.
    pub remedy: String,
}

/// The result of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Whether there is neither an error nor a warning.
    pub ok: bool,
    /// The findings, most severe first.
    pub findings: Vec<Finding>,
    /// The number of objects checked.
    #[serde(default)]
    pub checked: Checked,
}

/// The number of objects checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checked {
    /// Panes, running or not.
    pub panes: usize,
    /// Files and directories of ccmux.
    pub places: usize,
    /// First processes of panes.
    pub processes: usize,
    /// Conversations.
    pub conversations: usize,
    /// The user's own configuration directories.
    pub own_places: usize,
    /// Programs of agents.
    pub agents: usize,
}

impl Health {
    /// Makes the result from the findings.
    #[must_use]
    pub fn of(mut findings: Vec<Finding>, checked: Checked) -> Self {
        // Stable, so that the findings about one object stay together.
        findings.sort_by_key(|finding| finding.severity);
        let ok = findings.iter().all(|finding| finding.severity == Severity::Info);
        Self { ok, findings, checked }
    }

    /// Returns the number of findings with this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// The pane that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its id.
    pub id: PaneId,
    /// Its name.
    pub name: Name,
    /// Whether its process is alive.
    pub live: bool,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pane {} ({})", self.name, self.id.short())
    }
}

impl Subject {
    /// Returns the commands that restart it, to complete a remedy.
    #[must_use]
    pub fn again(&self) -> String {
        let id = self.id.short();
        if self.live {
            format!("`ccmux stop {id}`, then `ccmux restore {id}`")
        } else {
            format!("`ccmux restore {id}`")
        }
    }
}

impl Finding {
    /// Makes a finding.
    #[must_use]
    pub fn new(
        severity: Severity,
        subject: impl fmt::Display,
        kind: FindingKind,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            subject: subject.to_string(),
            what: kind.as_str().to_owned(),
            evidence: evidence.into(),
            remedy: remedy.into(),
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// All kinds of findings. The documentation explains each under its text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FindingKind {
            $($(#[$doc])* $name,)*
        }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the text.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// A file or directory of ccmux does not exist.
    Missing => "file or directory missing",
    /// A link could point anywhere.
    Link => "symbolic link in place of a file or directory",
    /// The file is of another type.
    OtherThing => "unexpected file type",
    /// The file belongs to another user.
    Foreign => "wrong owner",
    /// The mode gives access to other users.
    Open => "permissions too open",
    /// `pane.json` is missing, damaged or of a newer version.
    RecordUnreadable => "launch record unreadable",
    /// The record belongs to another pane.
    RecordOfAnother => "launch record of another pane",
    /// The record was written for another user.
    RecordOwner => "launch record of another user",
    /// The record names directories of other panes.
    RecordElsewhere => "launch record with foreign directories",
    /// The first process of the pane runs without the isolation variables.
    Unprotected => "process not isolated",
    /// The pane runs as root, and the shared directory could not be mounted read-only.
    SharedOpen => "shared directory writable",
    /// The kernel does not show the environment of the process.
    Hidden => "process environment not visible",
    /// A process of another pane or of the user works in the pane's directory.
    ForeignSession => "foreign agent session in the pane's directory",
    /// A killed agent left its session file behind.
    StaleSession => "stale session file",
    /// The agent reports another conversation than the record.
    OtherConversation => "conversation differs from the record",
    /// The transcript of the conversation does not exist.
    TranscriptMissing => "transcript missing",
    /// B4.
    SharedConversation => "conversation in several panes",
    /// A transcript of an isolated pane is in the user's own directory.
    LeakedConversation => "conversation of a pane in your own directory",
    /// A process of an isolated pane works in the user's own directory.
    LeakedSession => "agent session of a pane in your own directory",
    /// The agent will ask its initial questions again.
    StateMissing => "agent state file missing",
    /// The agent's state file cannot be parsed.
    StateUnreadable => "agent state file unreadable",
    /// The agent's state file was created for another pane.
    StateOfAnother => "agent state file of another pane",
    /// Two paths are the same file.
    StateShared => "agent state file shared by two panes",
    /// How the agent logs in.
    Login => "agent login",
    /// The agent has no login.
    WillAsk => "agent not logged in",
    /// This version of the agent does not support the variable of the store.
    LoginIgnored => "shared login not supported",
    /// The keeper is alive, but does not respond.
    KeeperSilent => "keeper not responding",
    /// The keeper is of an incompatible version.
    KeeperIncompatible => "keeper protocol mismatch",
    /// The version differs from that of the client.
    OtherRelease => "version mismatch",
    /// A damaged `session.state`, still in place or set aside.
    StateDamaged => "saved state damaged",
    /// A `session.state` that this version must not replace.
    StateUntouchable => "saved state cannot be updated",
    /// A problem that the daemon recorded earlier.
    Problem => "recorded problem",
    /// The database fails its integrity check.
    RegistryDamaged => "registry damaged",
    /// `ccmux.toml` is rejected.
    ConfigInvalid => "configuration invalid",
    /// The state root was renamed since it was created.
    RootMoved => "state root moved",
    /// The state root is a copy of another one.
    RootCopied => "state root copied",
    /// A directory of an unknown pane.
    Orphan => "orphaned directory",
    /// Directories that wait for deletion.
    Trash => "directories in the trash",
    /// A program of an agent.
    Agent => "agent installed",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn finding(severity: Severity, subject: &str) -> Finding {
        Finding::new(severity, subject, FindingKind::Problem, "", "")
    }

    #[test]
    fn findings_are_sorted_by_severity_and_only_info_is_ok() {
        use Severity::{Error, Info, Warning};
        #[rustfmt::skip]
        let table: [(&[Severity], bool); 4] = [
            (&[],                     true),
            (&[Info, Info],           true),
            (&[Info, Warning],        false),
            (&[Info, Error, Warning], false),
        ];
        for (severities, ok) in table {
            let findings = severities.iter().map(|severity| finding(*severity, "x")).collect();
            let health = Health::of(findings, Checked::default());
            assert_eq!(health.ok, ok, "{severities:?}");
            assert!(health.findings.is_sorted_by_key(|finding| finding.severity));
        }
    }

    #[test]
    fn findings_of_equal_severity_keep_their_order() {
        let findings = ["a", "b", "a"].map(|subject| finding(Severity::Info, subject)).into();

        let health = Health::of(findings, Checked::default());

        let subjects: Vec<&str> = health.findings.iter().map(|f| f.subject.as_str()).collect();
        assert_eq!(subjects, ["a", "b", "a"]);
    }

    #[test]
    fn finding_kinds_have_distinct_texts() {
        let words: BTreeSet<&str> = FindingKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), FindingKind::ALL.len());
    }

    #[test]
    fn health_json_has_the_documented_fields() {
        let health = Health::of(vec![finding(Severity::Warning, "daemon")], Checked::default());

        let value = serde_json::to_value(&health).unwrap();

        assert_eq!(value["ok"], false);
        let keys: Vec<&String> = value["findings"][0].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["evidence", "remedy", "severity", "subject", "what"]);
        assert_eq!(value["findings"][0]["severity"], "warning");
    }
}

/// Sample panes and records for the tests of the submodules.
#[cfg(test)]
mod testing {
    use std::collections::BTreeMap;

    use super::Subject;
    use crate::ids::PaneId;
    use crate::launch::{self, Launch, LaunchRecord, LaunchRequest, NewPane, plan};

    pub(super) fn pane(n: u8, live: bool) -> Subject {
        let name = format!("p{n}").parse().unwrap();
        Subject { id: PaneId::from_random([n; 16]), name, live }
    }

    /// Returns the planned record of a pane with a shell.
    pub(super) fn record(n: u8) -> LaunchRecord {
        let request = LaunchRequest {
            cwd: "/src".to_owned(),
            client_env: BTreeMap::from([("HOME".to_owned(), "/home/me".to_owned())]),
            ..LaunchRequest::default()
        };
        let pane = NewPane { pane: PaneId::from_random([n; 16]), ..launch::testing::pane() };
        let context = launch::testing::context();
        plan(Launch::New(&request, &pane), &context).unwrap().record
    }
}
