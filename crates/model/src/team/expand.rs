//! Expansion of a team's description into individual panes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{MOST_PANES, READY_WITHIN_MOST, Ready, TeamPane};
use crate::isolation::Method;
use crate::limits::LimitOverrides;
use crate::name::Name;
use crate::nearest::nearest;
use crate::workspace::WorkspaceKind;

/// The maximum length of a prompt, in bytes.
const LONGEST_PROMPT: usize = 64 << 10;

/// The description of one pane of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedPane {
    /// Its name.
    pub name: Name,
    /// Its role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Name>,
    /// Its kind of workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceKind>,
    /// Whether uncommitted changes are copied into its workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carry: bool,
    /// Its isolation method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Method>,
    /// The directory to start in, as an absolute path.
    pub cwd: String,
    /// Its environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Program and arguments, or arguments of the agent.
    #[serde(default)]
    pub command: Vec<String>,
    /// The first prompt for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Panes that must be ready first.
    #[serde(default)]
    pub after: Vec<Name>,
    /// The condition for it to be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Its resource limits.
    #[serde(default)]
    pub limits: LimitOverrides,
}

/// An error in a team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TeamFault {
    /// The index of the invalid pane; none if the error is about all panes.
    pub pane: Option<usize>,
    /// The error message, with the key concerned.
    pub why: String,
}

/// Expands the descriptions into panes. Relative directories start at `base`.
///
/// # Errors
///
/// All errors, in the order of the panes.
pub fn expand(panes: &[TeamPane], base: &str) -> Result<Vec<WantedPane>, Vec<TeamFault>> {
    let mut faults = Vec::new();
    let mut wanted: Vec<(usize, WantedPane)> = Vec::new();
    // The panes that a name in `after` refers to: one, or all that a count made.
    let mut stands_for: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
    let explicit: BTreeSet<Name> = panes.iter().filter_map(|pane| pane.name.clone()).collect();
    for (at, pane) in panes.iter().enumerate() {
        let mut say = |why: String| faults.push(TeamFault { pane: Some(at), why });
        check(pane, &mut say);
        let taken = |name: &Name| {
            explicit.contains(name) || wanted.iter().any(|(_, other)| other.name == *name)
        };
        let base_name = pane.name.clone().unwrap_or_else(|| default_name(pane).free(taken));
        for name in names(&base_name, pane.count, &mut say) {
            if wanted.iter().any(|(_, other)| other.name == name) {
                say(format!("duplicate pane name `{name}`"));
                continue;
            }
            stands_for.entry(name.clone()).or_default().push(name.clone());
            if name != base_name {
                stands_for.entry(base_name.clone()).or_default().push(name.clone());
            }
            wanted.push((at, one(pane, name, base)));
        }
    }
    if panes.is_empty() {
        faults.push(TeamFault { pane: None, why: "the team has no panes".to_owned() });
    }
    if wanted.len() > MOST_PANES {
        let why = format!("the team has {} panes; the maximum is {MOST_PANES}", wanted.len());
        faults.push(TeamFault { pane: None, why });
    }
    resolve_after(&mut wanted, &stands_for, &mut faults);
    if faults.is_empty() {
        faults.extend(cycle(&wanted));
    }
    faults.sort_by_key(|fault| fault.pane.unwrap_or(usize::MAX));
    if faults.is_empty() {
        Ok(wanted.into_iter().map(|(_, pane)| pane).collect())
    } else {
        Err(faults)
    }
}

/// Returns the default name of a pane.
fn default_name(pane: &TeamPane) -> Name {
    let program = pane.command.first().map(|path| path.rsplit('/').next().unwrap_or_default());
    let text = pane.role.as_deref().or(pane.agent.as_deref()).or(program);
    Name::near(text.unwrap_or("shell"))
}

/// Returns the names of the panes that one description makes.
fn names(base: &Name, count: Option<u32>, say: &mut impl FnMut(String)) -> Vec<Name> {
    let Some(count) = count else { return vec![base.clone()] };
    if count == 0 || usize::try_from(count).is_ok_and(|count| count > MOST_PANES) {
        say(format!("`count` must be 1 to {MOST_PANES}, not {count}"));
        return Vec::new();
    }
    let mut names = Vec::new();
    for number in 1..=count {
        match format!("{base}{number}").parse() {
            Ok(name) => names.push(name),
            Err(error) => say(format!("`name`: {base}{number}: {error}")),
        }
    }
    names
}

fn one(pane: &TeamPane, name: Name, base: &str) -> WantedPane {
    let cwd = Path::new(base).join(pane.cwd.as_deref().unwrap_or_default());
    let cwd: std::path::PathBuf = cwd.components().collect();
    WantedPane {
        name,
        role: pane.role.clone(),
        agent: pane.agent.clone(),
        unit: pane.unit.clone(),
        workspace: pane.workspace,
        carry: pane.carry,
        isolation: pane.isolation,
        cwd: cwd.to_string_lossy().into_owned(),
        env: pane.env.clone(),
        command: pane.command.iter().chain(&pane.args).cloned().collect(),
        prompt: pane.prompt.clone(),
        after: pane.after.clone(),
        ready: pane.ready.clone(),
        limits: pane.limits.clone(),
    }
}

fn check(pane: &TeamPane, say: &mut impl FnMut(String)) {
    if !pane.args.is_empty() && pane.agent.is_none() && pane.command.is_empty() {
        say("`args` requires an `agent` or a `command`".to_owned());
    }
    if pane.prompt.as_ref().is_some_and(|prompt| prompt.len() > LONGEST_PROMPT) {
        say(format!("`prompt` is longer than {LONGEST_PROMPT} bytes"));
    }
    let Some(ready) = &pane.ready else { return };
    let said = [ready.text.is_some(), ready.port, ready.idle].into_iter().filter(|said| *said);
    if said.count() != 1 {
        say("`ready` requires exactly one of `text`, `port = true` and `idle = true`".to_owned());
    }
    if ready.timeout.is_some_and(|timeout| !(1..=READY_WITHIN_MOST).contains(&timeout)) {
        say(format!("`ready.timeout` must be 1 to {READY_WITHIN_MOST} seconds"));
    }
}

fn resolve_after(
    wanted: &mut [(usize, WantedPane)],
    stands_for: &BTreeMap<Name, Vec<Name>>,
    faults: &mut Vec<TeamFault>,
) {
    for (at, pane) in wanted {
        let mut after = Vec::new();
        for name in &pane.after {
            let Some(meant) = stands_for.get(name) else {
                let known = stands_for.keys().map(Name::as_str);
                let meant = nearest(name.as_str(), known);
                let meant = meant.map(|name| format!("; did you mean `{name}`?"));
                let why = format!("`after`: unknown pane `{name}`{}", meant.unwrap_or_default());
                let fault = TeamFault { pane: Some(*at), why };
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
                continue;
            };
            after.extend(
                meant.iter().filter(|name| !after.contains(*name)).cloned().collect::<Vec<_>>(),
            );
        }
        pane.after = after;
    }
}

/// Returns an error if panes wait for each other.
fn cycle(wanted: &[(usize, WantedPane)]) -> Option<TeamFault> {
    let by_name: BTreeMap<&Name, &(usize, WantedPane)> =
        wanted.iter().map(|entry| (&entry.1.name, entry)).collect();
    let mut done: BTreeSet<&Name> = BTreeSet::new();
    for (_, first) in wanted {
        // The path from the first pane, with the next dependency of each to visit.
        let mut way: Vec<(&Name, usize)> = vec![(&first.name, 0)];
        while let Some((name, next)) = way.last_mut() {
            let (at, pane) = by_name[*name];
            let Some(before) = pane.after.get(*next).filter(|_| !done.contains(*name)) else {
                done.insert(*name);
                way.pop();
                continue;
            };
            *next += 1;
            if let Some(begin) = way.iter().position(|(name, _)| *name == before) {
                let mut names: Vec<&str> =
                    way[begin..].iter().map(|(name, _)| name.as_str()).collect();
                names.push(before.as_str());
                let why = format!("`after`: circular dependency: {}", names.join(" → "));
                return Some(TeamFault { pane: Some(*at), why });
            }
            way.push((before, 0));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane(name: &str) -> TeamPane {
        TeamPane { name: Some(name.parse().unwrap()), ..TeamPane::default() }
    }

    fn after(name: &str, others: &[&str]) -> TeamPane {
        TeamPane { after: others.iter().map(|name| name.parse().unwrap()).collect(), ..pane(name) }
    }

    fn faults(panes: &[TeamPane]) -> Vec<String> {
        let faults = expand(panes, "/src").unwrap_err();
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn count_makes_numbered_panes_and_after_can_name_all_of_them() {
        let dev = TeamPane { count: Some(3), cwd: Some("sub".to_owned()), ..pane("dev") };

        let wanted = expand(&[dev, after("qa", &["dev"]), after("ux", &["dev2"])], "/src").unwrap();

        let names: Vec<&str> = wanted.iter().map(|pane| pane.name.as_str()).collect();
        assert_eq!(names, ["dev1", "dev2", "dev3", "qa", "ux"]);
        assert_eq!(wanted[0].cwd, "/src/sub");
        let after: Vec<&str> = wanted[3].after.iter().map(Name::as_str).collect();
        assert_eq!(after, ["dev1", "dev2", "dev3"]);
        assert_eq!(wanted[4].after.len(), 1);
    }

    #[test]
    fn unnamed_pane_is_named_after_its_role_or_agent() {
        let role = TeamPane { role: Some("qa".to_owned()), ..TeamPane::default() };
        let agent = TeamPane { agent: Some("claude".to_owned()), ..TeamPane::default() };

        let wanted = expand(&[role.clone(), pane("qa-2"), role, agent], "/src").unwrap();

        let names: Vec<&str> = wanted.iter().map(|pane| pane.name.as_str()).collect();
        assert_eq!(names, ["qa", "qa-2", "qa-3", "claude"]);
    }

    #[test]
    fn expand_reports_all_errors() {
        let many = TeamPane { count: Some(65), ..pane("many") };
        let args = TeamPane { args: vec!["-x".to_owned()], ..pane("args") };
        let ready = TeamPane { ready: Some(Ready::default()), ..pane("ready") };

        let errors = faults(&[pane("a"), pane("a"), many, args, ready, after("z", &["reddy"])]);

        assert_eq!(errors.len(), 5, "{errors:?}");
        assert!(errors[0].contains("duplicate pane name `a`"), "{errors:?}");
        assert!(errors[1].contains("1 to 64, not 65"), "{errors:?}");
        assert!(errors[2].contains("`args`") && errors[3].contains("`ready`"), "{errors:?}");
        assert!(errors[4].contains("did you mean `ready`?"), "{errors:?}");
        assert_eq!(faults(&[]), ["the team has no panes"]);
    }

    #[test]
    fn circular_dependency_is_reported_with_its_panes() {
        let errors = faults(&[after("a", &["b"]), after("b", &["c"]), after("c", &["b"])]);
        assert_eq!(errors, ["`after`: circular dependency: b → c → b"]);

        let errors = faults(&[after("a", &["a"])]);
        assert_eq!(errors, ["`after`: circular dependency: a → a"]);
        assert!(expand(&[after("a", &["b", "c"]), after("b", &["c"]), pane("c")], "/").is_ok());
    }
}
