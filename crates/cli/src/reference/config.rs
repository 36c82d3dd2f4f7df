//! The reference of `ccmux.toml`, made from the table of its keys.

use std::fmt::Write as _;

use model::config::agent::AGENT_KEYS;
use model::config::key::Key;
use model::config::keys::KEYS;
use model::config::role::ROLE_KEYS;
use model::config::sample::sample;
use model::config::value::Value;
use model::config::{AgentConfig, Config, RoleConfig};

use super::assert_up_to_date;

const OPENING: &str = "\
# Configuration

Generated from the program: `UPDATE=1 cargo test -p ccmux`.

What you want otherwise is said in `config/ccmux.toml` in the state root, which is `CCMUX_HOME` or
`~/.ccmux`. Without a file, and for every key that is not in it, the defaults below are in force.

- `ccmux config` shows what is in force and where each value comes from.
- `ccmux config --check` names everything that is wrong with the file, with line and column.
- `ccmux config --defaults` prints the file at the end of this page, to begin with.

The file may be a link, but must be yours (or root's), and nobody else may be able to write to it.
A file with a mistake is refused as a whole. Durations are a whole number and one of `s`, `m`, `h`,
`d`, up to `3650d`.
";

const AGENTS: &str = "
## `[agents.NAME]`

Agents of your own. A name has 1 to 32 characters of `a-z`, `0-9`, `_` and `-` and begins with a
letter; the names of the agents that ccmux knows by itself are taken. Paths on the left side count
from the pane's own directory and stay inside of it; files of yours are named by an absolute path or
with `~/`. No path of `seed` and `share` may lie inside another one of them, and what
`config_variables` sets cannot be in `scrub`.
";

const ROLES: &str = "
## `[roles.NAME]`

What goes with a role, which a pane has by `ccmux new --role NAME`. The roles `dev`, `qa`, `ux` and
`pm` are there without being described. A name has 1 to 32 characters of `a-z`, `0-9`, `_` and `-`
and begins with a letter.
";

/// `docs/reference/config.md`.
fn reference() -> String {
    let mut text = OPENING.to_owned();
    let defaults = Config::default();
    let mut section = None;
    for key in KEYS {
        let (table, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        if section.replace(table) != Some(table) {
            let heading = if table.is_empty() { "At the top" } else { &format!("`[{table}]`") };
            write!(text, "\n## {heading}\n").expect("a string takes everything");
        }
        describe(&mut text, name, key, &key.get(&defaults));
    }
    text.push_str(AGENTS);
    for key in AGENT_KEYS {
        describe(&mut text, key.name, key, &key.get(&AgentConfig::default()));
    }
    text.push_str(ROLES);
    for key in ROLE_KEYS {
        describe(&mut text, key.name, key, &key.get(&RoleConfig::default()));
    }
    write!(text, "\n## A complete file\n\n```toml\n{}```\n", sample())
        .expect("a string takes everything");
    text
}

fn describe<T>(text: &mut String, name: &str, key: &Key<T>, default: &Value) {
    let default = if *default == Value::Nothing {
        "not set".to_owned()
    } else if name == "command" {
        "none, it is required".to_owned()
    } else {
        format!("`{default}`")
    };
    let Key { meaning, takes, .. } = key;
    write!(text, "\n### `{name}`\n\n{meaning}\n\n- takes {takes}\n- default: {default}\n")
        .expect("a string takes everything");
}

#[test]
fn the_reference_of_the_configuration_is_up_to_date() {
    assert_up_to_date("config.md", &reference());
}
