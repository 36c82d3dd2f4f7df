//! The environment of a pane's process, planned before anything is created.

pub mod layers;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The complete environment of a child process.
///
/// # Invariant
///
/// Nothing is inherited by accident: a variable is here because the plan set it or because its
/// name is on the inherit list. The variables of the daemon and of the keeper are never consulted.
/// Every name is usable: not empty, without `=` and NUL; no value has a NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Environment(BTreeMap<String, String>);

/// Why a variable cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVariable {
    /// The name is empty, or has a character that no name can have.
    #[error("{0:?} cannot be the name of an environment variable")]
    Name(String),
    /// The value has a NUL, which no value can have.
    #[error("the value of the environment variable {0} contains a NUL character")]
    Value(String),
}

/// Names that a pane takes over from the client that asked for it, exactly as spelt.
///
/// What a shell and its tools need to work as the user is used to. What agents need besides is with
/// them ([`crate::agent::is_inherited`]). Everything else stays outside: a pane that needs more is
/// given it by name.
const INHERITED: &[&str] = &[
    "BROWSER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "EDITOR",
    "GPG_AGENT_INFO",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "LS_COLORS",
    "NO_COLOR",
    "NO_PROXY",
    "PAGER",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TZ",
    "USER",
    "VISUAL",
    "WAYLAND_DISPLAY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Beginnings of names that are taken over as well.
const INHERITED_PREFIXES: &[&str] =
    &["LC_", "XDG_", "GIT_AUTHOR_", "GIT_COMMITTER_", "NODE_EXTRA_"];

/// Whether a pane takes this variable over from the client that asked for it.
#[must_use]
pub fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name)
        || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || crate::agent::is_inherited(name)
}

/// Whether a client has to tell its value of this variable for a pane to be planned: because the
/// pane takes it over, or because it says where the user's own configuration lies.
#[must_use]
pub fn is_told(name: &str) -> bool {
    is_inherited(name) || name == crate::isolation::USER_HOME || crate::agent::is_consulted(name)
}

/// Whether a client has to tell its value of this variable for its surroundings to be looked at:
/// it says where programs or the user's own directories are.
#[must_use]
pub fn is_examined(name: &str) -> bool {
    matches!(name, "PATH" | "HOME" | crate::isolation::USER_HOME)
        || crate::agent::is_consulted(name)
}

/// Whether the value is better not shown: in logs, in derived files, on a screen.
///
/// Judged by the name alone, and generously: a false alarm costs a few stars in a listing.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    const MARKS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"];
    // A socket path is an address, not a secret.
    let name = name.to_ascii_uppercase();
    !name.ends_with("_SOCK") && MARKS.iter().any(|mark| name.contains(mark))
}

/// What is shown in place of a secret.
pub const MASK: &str = "********";

/// The value as it may be shown: [`MASK`] for one that is, or looks like, a secret.
#[must_use]
pub fn shown<'v>(name: &str, value: &'v str) -> &'v str {
    if !value.is_empty() && (is_secret(name) || looks_secret(value)) { MASK } else { value }
}

/// Whether a value looks like a secret whatever its name is: as tokens of well-known services do,
/// or as an address with a password in it.
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
    /// What `client` hands down: the listed names, nothing else.
    #[must_use]
    pub fn inherited(client: &BTreeMap<String, String>) -> Self {
        let kept = client.iter().filter(|(name, _)| is_inherited(name));
        let mut environment = Self::default();
        for (name, value) in kept {
            // A client's variable that cannot be passed on cannot have been set by it either.
            let _unusable = environment.set(name, value);
        }
        environment
    }

    /// Sets one variable; what was set before under that name is forgotten.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`], and nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidVariable> {
        check(name, value)?;
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Takes one variable out.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The value of one variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The variables, in order of name.
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
    fn a_variable_that_nobody_listed_does_not_reach_the_pane() {
        let client = BTreeMap::from(
            [
                ("PATH", "/usr/bin"),
                ("LC_ALL", "C.UTF-8"),
                ("TMUX", "/tmp/tmux-0/default,1,0"),
                ("CLAUDECODE", "1"),
                ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );

        let pane = Environment::inherited(&client);

        let seen: Vec<_> = pane.iter().collect();
        assert_eq!(seen, [("LC_ALL", "C.UTF-8"), ("PATH", "/usr/bin")]);
    }

    #[test]
    fn variables_that_no_process_can_have_are_refused() {
        let mut environment = Environment::default();
        for name in ["", "A=B", "A\0"] {
            let refused = environment.set(name, "x").unwrap_err();
            assert_eq!(refused, InvalidVariable::Name(name.to_owned()));
        }
        let refused = environment.set("A", "x\0y").unwrap_err();
        assert_eq!(refused, InvalidVariable::Value("A".to_owned()));
    }

    #[test]
    fn secrets_are_told_by_their_names() {
        for name in ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "db_password"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "SSH_AUTH_SOCK", "LANG"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_is_shown_of_a_value_is_no_secret() {
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
