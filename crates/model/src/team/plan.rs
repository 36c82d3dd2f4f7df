//! What has to be done so that there are exactly the panes that are wanted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::WantedPane;
use crate::name::Name;

/// A pane of the session, as it is.
#[derive(Clone, Debug)]
pub struct CurrentPane {
    /// What it is called now.
    pub name: Name,
    /// As what the team wanted it; none if somebody started it by hand.
    pub wanted: Option<WantedPane>,
    /// Whether its process lives.
    pub live: bool,
}

/// What becomes of one pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is made.
    Create,
    /// It has ended, and is started again.
    Restore,
    /// It is as it should be.
    Keep,
    /// It has to be replaced.
    Change,
    /// It is no longer wanted.
    Remove,
}

impl Action {
    /// How a plan shows it.
    #[must_use]
    pub fn sign(self) -> char {
        match self {
            Self::Create => '+',
            Self::Restore => '^',
            Self::Keep => '=',
            Self::Change => '~',
            Self::Remove => '-',
        }
    }
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The pane, as the team calls it.
    pub pane: Name,
    /// What becomes of it.
    pub action: Action,
    /// Why, where that is not plain: what differs, or that it has ended already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

/// What has to be done. Panes that somebody started by hand are not the team's business, unless
/// one has the name of a pane that is wanted.
#[must_use]
pub fn plan(current: &[CurrentPane], wanted: &[WantedPane]) -> Vec<Step> {
    let mut steps: Vec<Step> = wanted.iter().map(|pane| step(current, pane)).collect();
    for pane in current {
        let Some(was) = &pane.wanted else { continue };
        if wanted.iter().all(|wanted| wanted.name != was.name) {
            let ended = (!pane.live).then(|| "has ended already".to_owned());
            steps.push(Step {
                pane: was.name.clone(),
                action: Action::Remove,
                why: ended.into_iter().collect(),
            });
        }
    }
    steps
}

fn step(current: &[CurrentPane], wanted: &WantedPane) -> Step {
    let of_team =
        current.iter().find(|pane| pane.wanted.as_ref().is_some_and(|was| was.name == wanted.name));
    let by_hand = || current.iter().find(|pane| pane.name == wanted.name);
    let (action, why) = match of_team.or_else(by_hand) {
        None => (Action::Create, Vec::new()),
        Some(CurrentPane { wanted: None, .. }) => {
            (Action::Change, vec!["was not started by a team file".to_owned()])
        }
        Some(CurrentPane { wanted: Some(was), live, .. }) => {
            match (differences(was, wanted), live) {
                (none, true) if none.is_empty() => (Action::Keep, none),
                (none, false) if none.is_empty() => (Action::Restore, vec!["has ended".to_owned()]),
                (some, _) => (Action::Change, some),
            }
        }
    };
    Step { pane: wanted.name.clone(), action, why }
}

/// What is different. How a pane is started for the first time (`prompt`, `after`, `ready`) makes
/// no difference to one that is there.
fn differences(was: &WantedPane, wanted: &WantedPane) -> Vec<String> {
    fn words(command: &[String]) -> String {
        command.join(" ")
    }
    fn word<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(|| "none".to_owned(), ToString::to_string)
    }
    let said = |key: &str, was: String, wanted: String| {
        (was != wanted).then(|| format!("{key}: {was} → {wanted}"))
    };
    let mut found: Vec<String> = [
        said("role", word(was.role.as_ref()), word(wanted.role.as_ref())),
        said("agent", word(was.agent.as_ref()), word(wanted.agent.as_ref())),
        said("unit", word(was.unit.as_ref()), word(wanted.unit.as_ref())),
        said("workspace", word(was.workspace.as_ref()), word(wanted.workspace.as_ref())),
        said(
            "isolation",
            word(was.isolation.map(|method| method.as_str()).as_ref()),
            word(wanted.isolation.map(|method| method.as_str()).as_ref()),
        ),
        said("cwd", was.cwd.clone(), wanted.cwd.clone()),
        said("limits", limits(was), limits(wanted)),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Compared as lists: words may have blanks in them.
    if was.command != wanted.command {
        found.push(format!("command: {} → {}", words(&was.command), words(&wanted.command)));
    }
    found.extend(variables(&was.env, &wanted.env));
    found
}

fn limits(pane: &WantedPane) -> String {
    let wishes: Vec<String> = pane.limits.0.iter().map(ToString::to_string).collect();
    wishes.join(",")
}

/// The variables that differ, by name alone: a value may be a secret.
fn variables(was: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> Option<String> {
    let mut names: Vec<&str> = was
        .keys()
        .chain(wanted.keys())
        .filter(|name| was.get(*name) != wanted.get(*name))
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| format!("env: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::{TeamPane, expand};

    fn wanted(names: &[&str]) -> Vec<WantedPane> {
        let pane =
            |name: &&str| TeamPane { name: Some(name.parse().unwrap()), ..TeamPane::default() };
        expand(&names.iter().map(pane).collect::<Vec<_>>(), "/src").unwrap()
    }

    fn there(wanted: &[WantedPane], live: bool) -> Vec<CurrentPane> {
        let current = |pane: &WantedPane| CurrentPane {
            name: pane.name.clone(),
            wanted: Some(pane.clone()),
            live,
        };
        wanted.iter().map(current).collect()
    }

    fn actions(current: &[CurrentPane], wanted: &[WantedPane]) -> String {
        plan(current, wanted).iter().map(|step| step.action.sign()).collect()
    }

    #[test]
    fn only_what_differs_is_done() {
        let (two, three) = (wanted(&["a", "b"]), wanted(&["a", "b", "c"]));

        assert_eq!(actions(&[], &two), "++");
        assert_eq!(actions(&there(&two, true), &two), "==");
        assert_eq!(actions(&there(&two, false), &two), "^^");
        assert_eq!(actions(&there(&two, true), &three), "==+");
        assert_eq!(actions(&there(&three, true), &two), "==-");
    }

    #[test]
    fn what_differs_is_said_and_values_of_variables_are_not() {
        let was = wanted(&["a"]);
        let mut now = was.clone();
        now[0].role = Some("qa".to_owned());
        now[0].command = vec!["a b".to_owned()];
        now[0].env.insert("TOKEN".to_owned(), "hunter2".to_owned());
        now[0].prompt = Some("go".to_owned());

        let steps = plan(&there(&was, true), &now);

        assert_eq!(steps[0].action, Action::Change);
        assert_eq!(steps[0].why, ["role: none → qa", "command:  → a b", "env: TOKEN"]);
        now = was.clone();
        now[0].prompt = Some("go".to_owned());
        assert_eq!(actions(&there(&was, true), &now), "=");
    }

    #[test]
    fn what_somebody_started_by_hand_stays_unless_its_name_is_wanted() {
        let by_hand =
            |name: &str| CurrentPane { name: name.parse().unwrap(), wanted: None, live: true };

        assert_eq!(actions(&[by_hand("x")], &wanted(&["a"])), "+");
        assert_eq!(actions(&[by_hand("a")], &wanted(&["a"])), "~");
    }
}
