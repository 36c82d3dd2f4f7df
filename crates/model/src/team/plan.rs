//! The steps from the existing panes to those that a team describes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::WantedPane;
use crate::name::Name;

/// An existing pane of the session.
#[derive(Clone, Debug)]
pub struct CurrentPane {
    /// Its present name.
    pub name: Name,
    /// The team's description that it was created from; none if it was started individually.
    pub wanted: Option<WantedPane>,
    /// Whether its process is alive.
    pub live: bool,
}

/// The action on one pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Create it.
    Create,
    /// Restore it, because it has ended.
    Restore,
    /// Leave it as it is.
    Keep,
    /// Replace it.
    Change,
    /// Close it.
    Remove,
}

impl Action {
    /// Returns the sign that a plan shows.
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

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The name of the pane in the team.
    pub pane: Name,
    /// The action.
    pub action: Action,
    /// The reasons: the differences, or that the pane has already ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

/// Returns the steps. Panes that were started individually are left alone, unless the team needs
/// their name.
#[must_use]
pub fn plan(current: &[CurrentPane], wanted: &[WantedPane]) -> Vec<Step> {
    let mut steps: Vec<Step> = wanted.iter().map(|pane| step(current, pane)).collect();
    for pane in current {
        let Some(was) = &pane.wanted else { continue };
        if wanted.iter().all(|wanted| wanted.name != was.name) {
            let ended = (!pane.live).then(|| "has already ended".to_owned());
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
            (Action::Change, vec!["was not created by a team file".to_owned()])
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

/// Returns the differences. Keys that only affect the first start (`carry`, `prompt`, `after`, `ready`)
/// are ignored.
fn differences(was: &WantedPane, wanted: &WantedPane) -> Vec<String> {
    fn words(command: &[String]) -> String {
        command.join(" ")
    }
    fn word<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(|| "none".to_owned(), ToString::to_string)
    }
    let changed = |key: &str, was: String, wanted: String| {
        (was != wanted).then(|| format!("{key}: {was} → {wanted}"))
    };
    let mut found: Vec<String> = [
        changed("role", word(was.role.as_ref()), word(wanted.role.as_ref())),
        changed("agent", word(was.agent.as_ref()), word(wanted.agent.as_ref())),
        changed("unit", word(was.unit.as_ref()), word(wanted.unit.as_ref())),
        changed("workspace", word(was.workspace.as_ref()), word(wanted.workspace.as_ref())),
        changed(
            "isolation",
            word(was.isolation.map(|method| method.as_str()).as_ref()),
            word(wanted.isolation.map(|method| method.as_str()).as_ref()),
        ),
        changed("cwd", was.cwd.clone(), wanted.cwd.clone()),
        changed("limits", limits(was), limits(wanted)),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Compared as lists, because arguments may contain spaces.
    if was.command != wanted.command {
        found.push(format!("command: {} → {}", words(&was.command), words(&wanted.command)));
    }
    found.extend(variables(&was.env, &wanted.env));
    found
}

fn limits(pane: &WantedPane) -> String {
    let overrides: Vec<String> = pane.limits.0.iter().map(ToString::to_string).collect();
    overrides.join(",")
}

/// Returns the names of the variables that differ, without their values, which may be secret.
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
    fn plan_contains_only_necessary_actions() {
        let (two, three) = (wanted(&["a", "b"]), wanted(&["a", "b", "c"]));

        assert_eq!(actions(&[], &two), "++");
        assert_eq!(actions(&there(&two, true), &two), "==");
        assert_eq!(actions(&there(&two, false), &two), "^^");
        assert_eq!(actions(&there(&two, true), &three), "==+");
        assert_eq!(actions(&there(&three, true), &two), "==-");
    }

    #[test]
    fn plan_shows_differences_without_values_of_variables() {
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
    fn individually_started_pane_is_kept_unless_its_name_is_needed() {
        let by_hand =
            |name: &str| CurrentPane { name: name.parse().unwrap(), wanted: None, live: true };

        assert_eq!(actions(&[by_hand("x")], &wanted(&["a"])), "+");
        assert_eq!(actions(&[by_hand("a")], &wanted(&["a"])), "~");
    }
}
