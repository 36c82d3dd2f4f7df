//! The environment of a pane's process.

pub mod layers;
pub mod variables;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The complete environment of a child process.
///
/// # Invariant
///
/// Nothing is inherited by accident: a variable is present because the plan set it or because its
/// name is on the list of inherited variables. The environment of the daemon and of the keeper is
/// never used. No name is empty or contains `=` or NUL; no value contains NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Environment(BTreeMap<String, String>);

/// A variable that cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVariable {
    /// The name is empty or has an invalid character.
    #[error("invalid environment variable name {0:?}")]
    Name(String),
    /// The value contains NUL.
    #[error("the value of the environment variable {0} contains a NUL character")]
    Value(String),
}

/// Returns true if the value of this variable must not be shown in logs, derived files or listings.
///
/// Judges by the name alone, and errs on the safe side.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    const MARKS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"];
    // A socket path is an address, not a secret.
    let name = name.to_ascii_uppercase();
    !name.ends_with("_SOCK") && MARKS.iter().any(|mark| name.contains(mark))
}

/// The replacement for a secret.
pub const MASK: &str = "********";

/// Returns the value for display: [`MASK`] if it is, or looks like, a secret.
#[must_use]
pub fn shown<'v>(name: &str, value: &'v str) -> &'v str {
    if !value.is_empty() && (is_secret(name) || looks_secret(value)) { MASK } else { value }
}

/// Returns true if a value looks like a token of a well-known service or a URL with a password.
fn looks_secret(value: &str) -> bool {
    const TOKENS: &[&str] = &[
        "sk-",
        "sk_",
        "ghp_",
        "gho_",
        "ghs_",
        "ghu_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "AIza",
        "eyJ",
        "npm_",
        "-----BEGIN",
    ];
    let has_password = value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    });
    has_password || TOKENS.iter().any(|mark| value.starts_with(mark))
}

impl Environment {
    /// Sets a variable and replaces its previous value.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`]; the environment is unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidVariable> {
        check(name, value)?;
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns the value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn check(name: &str, value: &str) -> Result<(), InvalidVariable> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(InvalidVariable::Name(name.to_owned()));
    }
    if value.contains('\0') {
        return Err(InvalidVariable::Value(name.to_owned()));
    }
    Ok(())
}

impl TryFrom<BTreeMap<String, String>> for Environment {
    type Error = InvalidVariable;

    fn try_from(variables: BTreeMap<String, String>) -> Result<Self, Self::Error> {
        variables.iter().try_for_each(|(name, value)| check(name, value))?;
        Ok(Self(variables))
    }
}

impl From<Environment> for BTreeMap<String, String> {
    fn from(environment: Environment) -> Self {
        environment.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_rejects_invalid_names_and_values() {
        let mut environment = Environment::default();
        for name in ["", "A=B", "A\0"] {
            let refused = environment.set(name, "x").unwrap_err();
            assert_eq!(refused, InvalidVariable::Name(name.to_owned()));
        }
        let refused = environment.set("A", "x\0y").unwrap_err();
        assert_eq!(refused, InvalidVariable::Value("A".to_owned()));
    }

    #[test]
    fn is_secret_judges_by_name() {
        for name in ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "db_password"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "SSH_AUTH_SOCK", "LANG"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn shown_masks_secrets() {
        for (name, value) in [
            ("GITHUB_TOKEN", "x"),
            ("MINE", "sk-ant-0123"),
            ("HTTPS_PROXY", "http://me:hunter2@proxy:3128/"),
        ] {
            assert_eq!(shown(name, value), MASK, "{name}");
        }
        for (name, value) in [
            ("GITHUB_TOKEN", ""),
            ("HTTPS_PROXY", "http://proxy:3128/a@b:c"),
            ("PATH", "/usr/bin:/bin"),
        ] {
            assert_eq!(shown(name, value), value, "{name}");
        }
    }
}
