//! The sample `ccmux.toml`, with every key at its default.

use crate::config::Config;
use crate::config::agent::AGENT_KEYS;
use crate::config::key::Key;
use crate::config::keys::{AGENTS, KEYS, ROLES};
use crate::config::role::ROLE_KEYS;
use crate::config::value::Value;

/// The maximum line length.
const WIDTH: usize = 100;

/// The comment at the top of the file.
const OPENING: &str = "The configuration of ccmux. All values are the defaults; a key that you \
                       remove keeps its default. `ccmux config` shows the values in effect and \
                       their sources, `ccmux config --check` checks this file.";

/// The comment above the agents.
const AGENTS_OPENING: &str = "Custom agents, each in a table with its name. Uncomment these lines \
                              to define an agent called `mine`.";

/// The comment above the roles.
const ROLES_OPENING: &str = "Roles, each in a table with its name. dev, qa, ux and pm are \
                             predefined. Uncomment these lines to configure qa.";

/// A sample role that uses every key.
const ROLE_SAMPLE: [(&str, &str); 2] =
    [("env", r#"{ REVIEW = "strict" }"#), ("agent", r#""mine""#)];

/// A sample agent that uses every key.
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
/// Returns the sample file.
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

/// Appends a repeatable table, commented out.
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

/// Formats `name = value`, on several lines if necessary.
#[must_use]
pub fn assignment(name: &str, value: &Value) -> Vec<String> {
    let mut lines = value.to_toml(name.len() + " = ".len(), WIDTH);
    lines[0] = format!("{name} = {}", lines[0]);
    lines
}

/// Wraps `text` into comment lines that leave room for another `# `.
fn comment(text: &str) -> Vec<String> {
    let mut lines = vec!["#".to_owned()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("`lines` starts with one line");
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
    fn sample_lines_fit_the_maximum_length() {
        for line in sample().lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn sample_contains_every_key() {
        let sample = sample();
        for name in KEYS.iter().map(|key| key.name).chain(AGENT_KEYS.iter().map(|key| key.name)) {
            let name = name.rsplit('.').next().unwrap();
            assert!(sample.contains(&format!("{name} = ")), "{name}");
        }
    }
}
