//! The keys of a user-defined agent (`[agents.NAME]`).

use crate::config::AgentConfig;
use crate::config::key::{Access, Fault, Key, Part, set_list, set_table, unrelated};
use crate::config::path::{check_inner, check_pattern, check_users, overlaps};
use crate::environment::Environment;

/// The placeholder for a conversation id in arguments and paths.
pub const ID: &str = "{id}";

/// The maximum length of an agent name, which is shown in listings.
const LONGEST_NAME: usize = 32;

/// The keys of an agent.
pub static AGENT_KEYS: &[Key<AgentConfig>] = &[
    Key {
        name: "command",
        meaning: "Program and first arguments. Required.",
        takes: "a list of words such as [\"mine\", \"--quiet\"]",
        access: Access::List {
            get: |agent| agent.command.clone(),
            set: |agent, words| set_command(&mut agent.command, words),
        },
    },
    Key {
        name: "config_variables",
        meaning: "Variables that tell the agent where its configuration is. Each is set to a path \
                  in the agent's directory in the pane; \"\" is the directory itself.",
        takes: "a table of variables and paths such as { MINE_HOME = \"\" }",
        access: Access::Table {
            get: |agent| agent.config_variables.clone(),
            set: |agent, entries| {
                set_table(&mut agent.config_variables, entries, |name, path| {
                    check_variable(name)?;
                    if path.is_empty() { Ok(()) } else { check_inner(path).map_err(Into::into) }
                })
            },
        },
    },
    Key {
        name: "new_conversation",
        meaning: "Arguments that start a conversation with the id `{id}`, which ccmux chooses. \
                  Empty if the agent does not accept an id.",
        takes: "a list of words such as [\"--session\", \"{id}\"]",
        access: Access::List {
            get: |agent| agent.new_conversation.clone(),
            set: |agent, words| set_arguments(&mut agent.new_conversation, words),
        },
    },
    Key {
        name: "resume",
        meaning: "Arguments that resume the conversation `{id}`. Empty if the agent cannot resume.",
        takes: "a list of words such as [\"--resume\", \"{id}\"]",
        access: Access::List {
            get: |agent| agent.resume.clone(),
            set: |agent, words| set_arguments(&mut agent.resume, words),
        },
    },
    Key {
        name: "transcript",
        meaning: "Path of the transcript of the conversation `{id}` in the agent's directory in \
                  the pane; `*` matches any part of a file name. A conversation is resumed only if \
                  its transcript exists (default: resuming is always tried).",
        takes: "a path such as \"sessions/*/{id}.json\"",
        access: Access::Text {
            get: |agent| agent.transcript.clone(),
            set: |agent, path| {
                check_placeholders(path)?;
                check_pattern(path)?;
                agent.transcript = Some(path.to_owned());
                Ok(())
            },
        },
    },
    Key {
        name: "seed",
        meaning: "Files to copy into the agent's directory in the pane, once, so that the agent \
                  can change them: path in that directory = path of your file.",
        takes: "a table of paths such as { \"config.json\" = \"~/.mine/config.json\" }",
        access: Access::Table {
            get: |agent| agent.seed.clone(),
            set: |agent, entries| set_table(&mut agent.seed, entries, check_pair),
        },
    },
    Key {
        name: "share",
        meaning: "Files and directories to link into the agent's directory in the pane: path in \
                  that directory = path of your file. The agent's changes to them affect your file.",
        takes: "a table of paths such as { prompts = \"~/.mine/prompts\" }",
        access: Access::Table {
            get: |agent| agent.share.clone(),
            set: |agent, entries| set_table(&mut agent.share, entries, check_pair),
        },
    },
    Key {
        name: "scrub",
        meaning: "Variables that are never passed to the agent.",
        takes: "a list of names such as [\"MINE_DEBUG\"]",
        access: Access::List {
            get: |agent| agent.scrub.clone(),
            set: |agent, names| {
                let read = |name: &str| check_variable(name).map(|()| name.to_owned());
                set_list(&mut agent.scrub, names, read, unrelated)
            },
        },
    },
];

/// Checks the name of a user-defined agent; `reserved` are the names of the built-in agents.
///
/// # Errors
///
/// [`Fault`].
pub fn check_agent_name(name: &str, reserved: &[&str]) -> Result<(), Fault> {
    if reserved.contains(&name) {
        return Err(Fault::whole(format!("{name:?} is a built-in agent and cannot be redefined")));
    }
    let is_legal = name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'));
    if is_legal {
        return Ok(());
    }
    Err(Fault::whole(format!(
        "{name:?} is not a valid agent name: use 1 to {LONGEST_NAME} of a-z, 0-9, _ and -, \
         starting with a letter"
    )))
}

/// Returns the contradictions between the values of an agent, each with the key concerned.
#[must_use]
pub fn contradictions(agent: &AgentConfig) -> Vec<(&'static str, Fault)> {
    let mut found = Vec::new();
    if agent.command.is_empty() {
        found.push(("command", Fault::whole("is required")));
    }
    // A copy inside a link would be written into the user's own directory.
    let targets: Vec<(&str, &'static str)> =
        (agent.seed.keys().map(|path| (path.as_str(), "seed")))
            .chain(agent.share.keys().map(|path| (path.as_str(), "share")))
            .collect();
    let paths: Vec<&str> = targets.iter().map(|(path, _)| *path).collect();
    for (at, why) in overlaps(&paths) {
        let (path, key) = targets[at];
        found.push((key, Fault::from(why).of(Part::Entry(path.to_owned()))));
    }
    for (at, name) in agent.scrub.iter().enumerate() {
        if agent.config_variables.contains_key(name) {
            let why = format!("{name:?} is set by config_variables");
            found.push(("scrub", Fault::whole(why).of(Part::Item(at))));
        }
    }
    found
}

fn set_command(slot: &mut Vec<String>, words: &[String]) -> Vec<Fault> {
    let read = |word: &str| check_word(word).map(|()| word.to_owned());
    set_list(slot, words, read, |words| match words.first() {
        None => vec![Fault::whole("must not be empty")],
        Some(program) if program.is_empty() => {
            vec![Fault::whole("the program name is empty").of(Part::Item(0))]
        }
        Some(_) => vec![],
    })
}

/// Sets arguments that must contain the conversation id.
fn set_arguments(slot: &mut Vec<String>, words: &[String]) -> Vec<Fault> {
    let read = |word: &str| {
        check_word(word)?;
        check_placeholders(word)?;
        Ok::<_, Fault>(word.to_owned())
    };
    set_list(slot, words, read, |words| {
        if words.is_empty() || words.iter().any(|word| word.contains(ID)) {
            return vec![];
        }
        vec![Fault::whole(format!("the placeholder `{ID}` is missing"))]
    })
}

fn check_word(word: &str) -> Result<(), Fault> {
    if word.contains('\0') {
        return Err(Fault::whole(format!("{word:?} contains a NUL character")));
    }
    Ok(())
}

/// Rejects placeholders other than `{id}`. Braces around anything but a word are left to the agent.
fn check_placeholders(text: &str) -> Result<(), Fault> {
    let candidates = text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let is_word = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == '-')
    };
    match candidates.filter(is_word).find(|name| *name != "id") {
        Some(name) => {
            Err(Fault::whole(format!("unknown placeholder `{{{name}}}`")).suggest(Some(ID)))
        }
        None => Ok(()),
    }
}

fn check_pair(inside: &str, users: &str) -> Result<(), Fault> {
    check_inner(inside)?;
    Ok(check_users(users)?)
}

pub(super) fn check_variable(name: &str) -> Result<(), Fault> {
    Environment::default().set(name, "").map_err(Fault::whole)?;
    // `$NAME` is the value of the variable `NAME`.
    match name.strip_prefix('$') {
        Some(bare) => {
            let why = format!("{name:?} is not a variable name");
            Err(Fault::whole(why).suggest(Some(bare)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::value::Value;

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|&item| item.to_owned()).collect())
    }

    fn table(entries: &[(&str, &str)]) -> Value {
        Value::Table(strings(entries))
    }

    fn strings(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    fn set(name: &str, value: &Value) -> Vec<String> {
        let key = AGENT_KEYS.iter().find(|key| key.name == name).unwrap();
        let faults = key.set(&mut AgentConfig::default(), value);
        faults.into_iter().map(|fault| format!("{:?}: {}", fault.part, fault.why)).collect()
    }

    #[test]
    fn set_reports_all_errors_in_a_value() {
        let cases = [
            ("command", list(&["mine", "", "a b"]), vec![]),
            ("command", list(&[]), vec!["Whole: must not be empty"]),
            ("command", list(&[""]), vec!["Item(0): the program name is empty"]),
            ("command", list(&["a", "b\0"]), vec!["Item(1): \"b\\0\" contains a NUL character"]),
            ("config_variables", table(&[("MINE_HOME", ""), ("MINE", "a/b.json")]), vec![]),
            (
                "config_variables",
                table(&[("A=B", ""), ("X", "../y")]),
                vec![
                    "Entry(\"A=B\"): invalid environment variable name \"A=B\"",
                    "Entry(\"X\"): \"../y\" contains `..`",
                ],
            ),
            ("new_conversation", list(&[]), vec![]),
            ("new_conversation", list(&["--id={id}", "{\"json\": {}}"]), vec![]),
            (
                "new_conversation",
                list(&["--new"]),
                vec!["Whole: the placeholder `{id}` is missing"],
            ),
            (
                "resume",
                list(&["-r", "{session}"]),
                vec!["Item(1): unknown placeholder `{session}`"],
            ),
            ("transcript", Value::Text("s/*/{id}.json".to_owned()), vec![]),
            (
                "transcript",
                Value::Text("/s/{id}.json".to_owned()),
                vec!["Whole: \"/s/{id}.json\" is not a relative path"],
            ),
            (
                "seed",
                table(&[("a", "~/a"), ("b", "b"), ("..", "~/c")]),
                vec![
                    "Entry(\"..\"): \"..\" contains `..`",
                    "Entry(\"b\"): \"b\" does not start with `/` or `~/`",
                ],
            ),
            ("share", table(&[("", "~/a")]), vec!["Entry(\"\"): a path may not be empty"]),
            ("scrub", list(&["$X"]), vec!["Item(0): \"$X\" is not a variable name"]),
        ];
        for (name, value, expected) in cases {
            assert_eq!(set(name, &value), expected, "{name} = {value}");
        }
    }

    #[test]
    fn check_agent_name_accepts_short_lowercase_names() {
        let longest = "x".repeat(32);
        for name in ["a", "my-agent_2", &longest] {
            assert_eq!(check_agent_name(name, &["built-in"]), Ok(()), "{name:?}");
        }
        let too_long = "x".repeat(33);
        for name in ["", "A", "2a", "-a", "a.b", "a b", "é", "built-in", &too_long] {
            assert!(check_agent_name(name, &["built-in"]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn contradictions_are_reported_with_their_keys() {
        let agent = AgentConfig {
            config_variables: strings(&[("MINE_HOME", "")]),
            seed: strings(&[("prompts/mine.md", "~/mine.md")]),
            share: strings(&[("prompts", "~/prompts")]),
            scrub: vec!["OTHER".to_owned(), "MINE_HOME".to_owned()],
            ..AgentConfig::default()
        };

        let found: Vec<_> = contradictions(&agent)
            .into_iter()
            .map(|(key, fault)| format!("{key} {:?}: {}", fault.part, fault.why))
            .collect();

        assert_eq!(
            found,
            [
                "command Whole: is required",
                "seed Entry(\"prompts/mine.md\"): \"prompts/mine.md\" is inside \"prompts\", which \
                 is also listed",
                "scrub Item(1): \"MINE_HOME\" is set by config_variables",
            ]
        );
    }
}
