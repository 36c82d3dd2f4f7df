//! A complete `ccmux.toml` with every key at its default, to begin with.

use crate::config::Config;
use crate::config::agent::AGENT_KEYS;
use crate::config::key::Key;
use crate::config::keys::{AGENTS, KEYS, ROLES};
use crate::config::role::ROLE_KEYS;
use crate::config::value::Value;

/// The longest line.
const WIDTH: usize = 100;

/// What is above all of it.
const OPENING: &str = "What you may decide. Every value is the default; what you remove or leave \
                       out stays at it. `ccmux config` shows what is in force and where it comes \
                       from, `ccmux config --check` whether the file is right.";

/// What is above the agents.
const AGENTS_OPENING: &str = "Agents of your own, each in a table with its name. Remove the `#` \
                              from these lines to define one called `mine`.";

/// What is above the roles.
const ROLES_OPENING: &str = "Roles, each in a table with its name. dev, qa, ux and pm are there \
                             without being described. Remove the `#` from these lines to describe \
                             qa.";

/// A role that uses every key.
const ROLE_SAMPLE: [(&str, &str); 2] =
    [("env", r#"{ REVIEW = "strict" }"#), ("agent", r#""mine""#)];

/// An agent that uses every key. Each value stands for what would be in a real file.
const AGENT_SAMPLE: [(&str, &str); 8] = [
    ("command", r#"["mine", "--quiet"]"#),
    ("config_variables", r#"{ MINE_HOME = "", MINE_SETTINGS = "settings.json" }"#),
    ("new_conversation", r#"["--session", "{id}"]"#),
    ("resume", r#"["--resume", "{id}"]"#),
    ("transcript", r#""sessions/*/{id}.json""#),
    ("seed", r#"{ "settings.json" = "~/.mine/settings.json" }"#),
    ("share", r#"{ prompts = "~/.mine/prompts" }"#),
    ("scrub", r#"["MINE_DEBUG"]"#),
];

/// The file.
#[must_use]
pub fn sample() -> String {
    let defaults = Config::default();
    let mut lines = comment(OPENING);
    let mut section = "";
    for key in KEYS {
        let (table, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        lines.push(String::new());
        if table != section {
            lines.extend([format!("[{table}]"), String::new()]);
            section = table;
        }
        lines.extend(comment(&format!("{} Takes {}.", key.meaning, key.takes)));
        lines.extend(assignment(name, &key.get(&defaults)));
    }
    table(&mut lines, AGENTS_OPENING, &format!("{AGENTS}.mine"), AGENT_KEYS, &AGENT_SAMPLE);
    table(&mut lines, ROLES_OPENING, &format!("{ROLES}.qa"), ROLE_KEYS, &ROLE_SAMPLE);
    lines.join("\n") + "\n"
}

/// A table that can be there several times, as a comment.
fn table<T>(
    lines: &mut Vec<String>,
    opening: &str,
    name: &str,
    keys: &[Key<T>],
    samples: &[(&str, &str)],
) {
    lines.push(String::new());
    lines.extend(comment(opening));
    lines.extend(["#".to_owned(), format!("# [{name}]")]);
    for key in keys {
        let value = samples.iter().find(|(name, _)| *name == key.name);
        let (name, value) = value.expect("every key of the table is in the sample");
        lines.push("#".to_owned());
        lines.extend(comment(key.meaning).iter().map(|line| format!("# {line}")));
        lines.push(format!("# {name} = {value}"));
    }
}

/// `name = value`, on as many lines as it takes.
#[must_use]
pub fn assignment(name: &str, value: &Value) -> Vec<String> {
    let mut lines = value.to_toml(name.len() + " = ".len(), WIDTH);
    lines[0] = format!("{name} = {}", lines[0]);
    lines
}

/// `text` as a comment, in lines that leave room for another mark before them.
fn comment(text: &str) -> Vec<String> {
    let mut lines = vec!["#".to_owned()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if last.chars().count() + 1 + word.chars().count() > WIDTH - 2 {
            lines.push(format!("# {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_too_long() {
        for line in sample().lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn every_key_is_in_it() {
        let sample = sample();
        for name in KEYS.iter().map(|key| key.name).chain(AGENT_KEYS.iter().map(|key| key.name)) {
            let name = name.rsplit('.').next().unwrap();
            assert!(sample.contains(&format!("{name} = ")), "{name}");
        }
    }
}
