//! The keys of a role (`[roles.NAME]`), and of the variables that all panes share (`[env]`).

use crate::config::agent::check_variable;
use crate::config::key::{Access, Fault, Key, set_table};
use crate::config::{Config, RoleConfig};

/// The most letters that the name of a role may have: it is shown in every listing.
const LONGEST_NAME: usize = 32;

/// Variables of every pane.
pub(super) const ENV: Key<Config> = Key {
    name: "env",
    meaning: "Variables of every pane, whoever asks for it. They win over what the asking client \
              hands down; a role, a session and a pane win over them.",
    takes: "a table of variables such as { EDITOR = \"vi\" }",
    access: Access::Table {
        get: |config| config.env.clone(),
        set: |config, entries| set_table(&mut config.env, entries, check_setting),
    },
};

/// Every key of a role.
pub static ROLE_KEYS: &[Key<RoleConfig>] = &[
    Key {
        name: "env",
        meaning: "Variables of every pane with this role. They win over those that all panes \
                  share; a session and a pane win over them.",
        takes: "a table of variables such as { REVIEW = \"strict\" }",
        access: Access::Table {
            get: |role| role.env.clone(),
            set: |role, entries| set_table(&mut role.env, entries, check_setting),
        },
    },
    Key {
        name: "agent",
        meaning: "The agent to run in a pane with this role that names neither an agent nor a \
                  command. Not set: your shell, as without a role.",
        takes: "the name of an agent such as \"claude\"",
        access: Access::Text {
            get: |role| role.agent.clone(),
            set: |role, name| {
                if name.is_empty() {
                    return Err(Fault::whole("an agent has a name"));
                }
                role.agent = Some(name.to_owned());
                Ok(())
            },
        },
    },
];

/// Checks the name of a role.
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
        "{name:?} cannot name a role: 1 to {LONGEST_NAME} of a-z, 0-9, _ and -, beginning with a \
         letter"
    )))
}

fn check_setting(name: &str, value: &str) -> Result<(), Fault> {
    check_variable(name)?;
    if value.contains('\0') {
        return Err(Fault::whole("contains a NUL character"));
    }
    Ok(())
}
