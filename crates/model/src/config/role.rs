//! The keys of `[roles.NAME]` and `[env]`.

use crate::config::agent::check_variable;
use crate::config::key::{Access, Fault, Key, set_table};
use crate::config::{Config, RoleConfig};

/// The maximum length of a role name, which is shown in listings.
const LONGEST_NAME: usize = 32;

/// Environment variables of every pane.
pub(super) const ENV: Key<Config> = Key {
    name: "env",
    meaning: "Environment variables of every pane. They override the variables inherited from the \
              client; those of the role, the session and the pane override them.",
    takes: "a table of variables such as { EDITOR = \"vi\" }",
    access: Access::Table {
        get: |config| config.env.clone(),
        set: |config, entries| set_table(&mut config.env, entries, check_setting),
    },
};

/// The keys of a role.
pub static ROLE_KEYS: &[Key<RoleConfig>] = &[
    Key {
        name: "env",
        meaning: "Environment variables of panes with this role. They override those in `[env]`; \
                  those of the session and the pane override them.",
        takes: "a table of variables such as { REVIEW = \"strict\" }",
        access: Access::Table {
            get: |role| role.env.clone(),
            set: |role, entries| set_table(&mut role.env, entries, check_setting),
        },
    },
    Key {
        name: "agent",
        meaning: "Agent to run in a pane with this role if neither an agent nor a command is \
                  specified (default: your shell).",
        takes: "the name of an agent such as \"claude\"",
        access: Access::Text {
            get: |role| role.agent.clone(),
            set: |role, name| {
                if name.is_empty() {
                    return Err(Fault::whole("the name of an agent cannot be empty"));
                }
                role.agent = Some(name.to_owned());
                Ok(())
            },
        },
    },
];

/// Checks a role name.
///
/// # Errors
///
/// [`Fault`].
pub fn check_role_name(name: &str) -> Result<(), Fault> {
    let is_legal = name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'));
    if is_legal {
        return Ok(());
    }
    Err(Fault::whole(format!(
        "{name:?} is not a valid role name: use 1 to {LONGEST_NAME} of a-z, 0-9, _ and -, starting \
         with a letter"
    )))
}

fn check_setting(name: &str, value: &str) -> Result<(), Fault> {
    check_variable(name)?;
    if value.contains('\0') {
        return Err(Fault::whole("contains a NUL character"));
    }
    Ok(())
}
