//! Health: from what was found to what is wrong, with the evidence and what to do about it.
//!
//! Nothing in here looks at anything. Whoever gathers evidence gives it to the functions of this
//! module, and each of them is a table: what is found, and what follows from it. [`Kind`] names
//! every finding that there can be.

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

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something is not kept apart, lost, or about to be.
    Error,
    /// Somebody should do something about it.
    Warning,
    /// Good to know.
    Info,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Of what.
    pub subject: String,
    /// What it is, in words that do not change from case to case.
    pub what: String,
    /// What was seen, and where.
    pub evidence: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
}

/// How everything is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Nothing needs to be done: there is neither an error nor a warning.
    pub ok: bool,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// How much was looked at.
    #[serde(default)]
    pub checked: Checked,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checked {
    /// Panes, alive or not.
    pub panes: usize,
    /// Files and directories of ours.
    pub places: usize,
    /// Processes at the heads of panes.
    pub processes: usize,
    /// Conversations.
    pub conversations: usize,
    /// Directories of the user's own that nothing may leak into.
    pub own_places: usize,
    /// Programs of agents.
    pub agents: usize,
}

impl Health {
    /// What follows from these findings.
    #[must_use]
    pub fn of(mut findings: Vec<Finding>, checked: Checked) -> Self {
        // Stable, so that what was found of one thing stays together.
        findings.sort_by_key(|finding| finding.severity);
        let ok = findings.iter().all(|finding| finding.severity == Severity::Info);
        Self { ok, findings, checked }
    }

    /// How many findings are this bad.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// A pane, as far as findings have to name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Which.
    pub id: PaneId,
    /// What people call it.
    pub name: Name,
    /// Whether it lives.
    pub live: bool,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pane {} ({})", self.name, self.id.short())
    }
}

impl Subject {
    /// How to start it again, as the end of a remedy.
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
    /// One thing that was found.
    #[must_use]
    pub fn new(
        severity: Severity,
        subject: impl fmt::Display,
        kind: Kind,
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
        /// Every finding that there can be. The documentation explains each under its words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The words for it.
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
    /// Something of ours is not there.
    Missing => "something of ours is missing",
    /// A link would lead wherever its owner likes.
    Link => "a symbolic link stands in place of something of ours",
    /// Something of another kind is there.
    OtherThing => "something else stands in place of something of ours",
    /// It is another user's.
    Foreign => "something of ours belongs to another user",
    /// Its mode lets others in.
    Open => "others may get at something of ours",
    /// `pane.json` is missing, damaged or of a newer release.
    RecordUnreadable => "the launch record cannot be read",
    /// It is not the record of this pane.
    RecordOfAnother => "the launch record is of another pane",
    /// It was written for another user.
    RecordOwner => "the launch record names another owner",
    /// It names directories that are not this pane's.
    RecordElsewhere => "the launch record leads away from the pane's own directories",
    /// The head of the pane runs without the variables.
    Unprotected => "the process of the pane runs without what keeps it apart",
    /// It is root, and the system did not let us close what panes share for it.
    SharedOpen => "the pane could write to what panes only read",
    /// The system does not show its environment.
    Hidden => "the environment of the process cannot be seen",
    /// Somebody else works in the pane's directory.
    ForeignSession => "a session in the pane's directory is not of this pane",
    /// What a killed process left.
    StaleSession => "a killed agent left its session file behind",
    /// The agent says another conversation than the record.
    OtherConversation => "the agent has another conversation than the record",
    /// What was said is gone.
    TranscriptMissing => "the transcript of the conversation is gone",
    /// B4.
    SharedConversation => "several panes have the same conversation",
    /// A transcript of an isolated pane in the user's own directory.
    LeakedConversation => "a conversation of the pane is in your own directory",
    /// A process of an isolated pane works in the user's own directory.
    LeakedSession => "an agent of the pane works in your own directory",
    /// The agent will ask its first questions again.
    StateMissing => "the agent's state file is missing",
    /// The agent's state cannot be read.
    StateUnreadable => "the agent's state file cannot be understood",
    /// The agent's state was made for another pane.
    StateOfAnother => "the agent's state file is of another pane",
    /// Two names for one file.
    StateShared => "two panes share one state file",
    /// How the agent gets its login.
    Login => "how the agent is logged in",
    /// It has no login.
    WillAsk => "the agent will ask for a login",
    /// The variable of the store means nothing to this release of the agent.
    LoginIgnored => "this release of the agent does not use the shared login",
    /// The keeper lives and says nothing.
    KeeperSilent => "the keeper does not answer",
    /// The keeper is of a release that this one cannot talk to.
    KeeperIncompatible => "the keeper speaks another protocol",
    /// Another release than the one that asks.
    OtherRelease => "it is of another release",
    /// A damaged `session.state`, still in place or set aside.
    StateDamaged => "a saved state was damaged",
    /// A `session.state` that this release may not replace.
    StateUntouchable => "a saved state cannot be kept up to date",
    /// Something that was noticed before.
    Problem => "a problem was noted",
    /// The database does not pass its own check.
    RegistryDamaged => "the registry is damaged",
    /// `ccmux.toml` is refused.
    ConfigInvalid => "the configuration is not valid",
    /// A directory of a pane that nobody knows.
    Orphan => "a directory belongs to no pane",
    /// What waits to be deleted.
    Trash => "retired directories are kept for a while",
    /// A program that was found.
    Agent => "an agent is installed",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn finding(severity: Severity, subject: &str) -> Finding {
        Finding::new(severity, subject, Kind::Problem, "", "")
    }

    #[test]
    fn the_worst_comes_first_and_only_information_is_well() {
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
    fn what_was_found_of_one_thing_stays_together() {
        let findings = ["a", "b", "a"].map(|subject| finding(Severity::Info, subject)).into();

        let health = Health::of(findings, Checked::default());

        let subjects: Vec<&str> = health.findings.iter().map(|f| f.subject.as_str()).collect();
        assert_eq!(subjects, ["a", "b", "a"]);
    }

    #[test]
    fn every_kind_has_words_of_its_own() {
        let words: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), Kind::ALL.len());
    }

    #[test]
    fn the_answer_has_the_shape_of_the_contract() {
        let health = Health::of(vec![finding(Severity::Warning, "daemon")], Checked::default());

        let value = serde_json::to_value(&health).unwrap();

        assert_eq!(value["ok"], false);
        let keys: Vec<&String> = value["findings"][0].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["evidence", "remedy", "severity", "subject", "what"]);
        assert_eq!(value["findings"][0]["severity"], "warning");
    }
}

/// Panes and records for the tests of the parts.
#[cfg(test)]
mod testing {
    use std::collections::BTreeMap;

    use super::Subject;
    use crate::config::IsolationConfig;
    use crate::conversation::ConversationId;
    use crate::ids::{PaneId, SessionId};
    use crate::isolation::Method;
    use crate::launch::{LaunchRecord, LaunchRequest, PanePaths, Setting, plan};
    use crate::time::Timestamp;

    pub(super) fn pane(n: u8, live: bool) -> Subject {
        let name = format!("p{n}").parse().unwrap();
        Subject { id: PaneId::from_random([n; 16]), name, live }
    }

    /// The record of a shell in a pane, as it is planned.
    pub(super) fn record(n: u8) -> LaunchRecord {
        let request = LaunchRequest {
            cwd: "/src".to_owned(),
            client_env: BTreeMap::from([("HOME".to_owned(), "/home/me".to_owned())]),
            ..LaunchRequest::default()
        };
        let setting = Setting {
            pane: PaneId::from_random([n; 16]),
            session: SessionId::from_random([1; 16]),
            name: "x".parse().unwrap(),
            paths: PanePaths {
                socket: "/s/run/control.sock".to_owned(),
                temp: "/s/temp".to_owned(),
                output: "/s/output".to_owned(),
                shared: "/s/shared".to_owned(),
                unit: "/s/unit".to_owned(),
                workflows: "/s/workflows".to_owned(),
                logs: "/s/logs".to_owned(),
            },
            place: None,
            root: "/s",
            owner: 1000,
            method: Method::ConfigDir,
            isolation: &IsolationConfig::default(),
            agents: &BTreeMap::new(),
            roles: &BTreeMap::new(),
            shared_env: &BTreeMap::new(),
            session_env: &BTreeMap::new(),
            ports: None,
            conversation: ConversationId::from_random([3; 16]),
            exists: &|_| false,
            limits: crate::limits::Limits::default(),
            hooks: None,
            now: Timestamp(7),
            version: "0.1.0",
        };
        plan(&request, &setting).unwrap().record
    }
}
