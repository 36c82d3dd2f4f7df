//! Roles: what a pane is for, and what goes with that.
//!
//! A few roles exist without being described: they set nothing but [`VARIABLE`]. The user gives
//! them variables, or adds others, in `[roles.NAME]` of `ccmux.toml`.

use std::collections::BTreeMap;

use crate::config::RoleConfig;
use crate::config::nearest::nearest;

/// In a pane that has one: its role.
pub const VARIABLE: &str = crate::agent::ROLE;

/// The roles that everybody has.
pub const BUILT_IN: [&str; 7] = ["dev", "qa", "ux", "pm", "lead", "manager", "worker"];

/// A role that nobody has described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no role {name:?}; known are {known}{}", suggested(.meant.as_deref()))]
pub struct UnknownRole {
    /// What was asked for.
    pub name: String,
    /// What could have been, as a list for people.
    pub known: String,
    /// What probably was meant.
    pub meant: Option<String>,
}

fn suggested(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// What goes with a role; nothing without one.
///
/// # Errors
///
/// [`UnknownRole`].
pub fn preset(
    name: Option<&str>,
    roles: &BTreeMap<String, RoleConfig>,
) -> Result<RoleConfig, UnknownRole> {
    let Some(name) = name else { return Ok(RoleConfig::default()) };
    if let Some(role) = roles.get(name) {
        return Ok(role.clone());
    }
    if BUILT_IN.contains(&name) {
        return Ok(RoleConfig::default());
    }
    let others = roles.keys().map(String::as_str).filter(|name| !BUILT_IN.contains(name));
    let known: Vec<&str> = BUILT_IN.into_iter().chain(others).collect();
    let meant = nearest(name, known.iter().copied()).map(str::to_owned);
    Err(UnknownRole { name: name.to_owned(), known: known.join(", "), meant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_built_in_or_the_users() {
        let own = RoleConfig {
            env: BTreeMap::from([("STRICT".to_owned(), "1".to_owned())]),
            agent: Some("claude".to_owned()),
        };
        let roles = BTreeMap::from([("review".to_owned(), own.clone())]);

        assert_eq!(preset(None, &roles), Ok(RoleConfig::default()));
        assert_eq!(preset(Some("qa"), &roles), Ok(RoleConfig::default()));
        assert_eq!(preset(Some("review"), &roles), Ok(own));
        let unknown = preset(Some("boss"), &roles).unwrap_err().to_string();
        assert!(unknown.contains("dev, qa, ux, pm, lead, manager, worker, review"), "{unknown}");
    }
}
