//! Roles: the purpose of a pane, with its variables and agent.
//!
//! The built-in roles only set [`VARIABLE`]. `[roles.NAME]` in `ccmux.toml` configures them or
//! defines others.

use std::collections::BTreeMap;

use crate::config::RoleConfig;
use crate::nearest::nearest;

/// The variable that contains the role of a pane.
pub const VARIABLE: &str = crate::environment::variables::ROLE;

/// The built-in roles.
pub const BUILT_IN: [&str; 7] = ["dev", "qa", "ux", "pm", "lead", "manager", "worker"];

/// An undefined role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role {name:?}; known roles: {known}{}", suggested(.meant.as_deref()))]
pub struct UnknownRole {
    /// The requested name.
    pub name: String,
    /// The known roles, separated by commas.
    pub known: String,
    /// The most similar known role.
    pub meant: Option<String>,
}

fn suggested(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// Returns the settings of a role, or empty ones without a role.
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
    fn preset_finds_built_in_and_user_defined_roles() {
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
