//! `ccmux config`: show the configuration in force, and where each value comes from.
//!
//! Works without a daemon, and reads the file as a daemon that is started now would.

use model::config::Config;
use model::config::keys::entries;
use model::config::sample::{assignment, sample};
use model::config::value::Value;
use model::environment;
use serde::Serialize;

use super::daemon::{Loaded, Origin, configuration};
use crate::args::ConfigArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Output, Style, printable};

/// Longer values do not push the origins of all others to the right.
const MOST_ALIGNED: usize = 60;

/// What `config --json` prints.
#[derive(Debug, Serialize)]
struct Shown {
    /// Where the file is, or would be.
    path: String,
    /// Whether there is one.
    exists: bool,
    /// Every value in force.
    values: Vec<ShownValue>,
}

/// What `config --defaults --json` prints.
#[derive(Debug, Serialize)]
struct Defaults {
    values: Vec<ShownValue>,
}

/// What `config --check --json` prints of a file with nothing wrong in it.
#[derive(Debug, Serialize)]
struct Checked {
    path: String,
    exists: bool,
    valid: bool,
}

#[derive(Debug, Serialize)]
struct ShownValue {
    key: String,
    value: Value,
    /// `default`, or `file:line`.
    #[serde(serialize_with = "as_text")]
    origin: Origin,
}

pub(super) fn run(context: &Context, args: &ConfigArgs) -> Result<(), Failure> {
    let loaded = configuration(context)?;
    if args.check {
        let path = loaded.path.display().to_string();
        let checked = Checked { path, exists: loaded.exists, valid: true };
        return context.out.answer(&checked, |checked, _| verdict(checked));
    }
    context.out.answer(&Shown::of(&loaded), Shown::text)
}

/// Needs no state root: what it prints is the same everywhere.
pub(super) fn print_defaults(out: &Output) -> Result<(), Failure> {
    let values = entries(&Config::default())
        .into_iter()
        .map(|(key, value)| ShownValue { key, value, origin: Origin::Default })
        .collect();
    out.answer(&Defaults { values }, |_, _| sample())
}

fn verdict(checked: &Checked) -> String {
    let path = printable(&checked.path);
    if checked.exists {
        format!("{path}: nothing is wrong\n")
    } else {
        format!("{path} does not exist; the defaults are in force\n")
    }
}

impl Shown {
    fn of(loaded: &Loaded) -> Self {
        let values = loaded
            .values()
            .into_iter()
            .map(|found| ShownValue {
                value: without_secrets(&found.key, found.value),
                key: found.key,
                origin: found.origin,
            })
            .collect();
        Self { path: loaded.path.display().to_string(), exists: loaded.exists, values }
    }

    /// For people: a file that would say the same, with where each value comes from beside it.
    fn text(&self, _style: Style) -> String {
        let state = if self.exists { "" } else { " does not exist" };
        let mut lines = vec![format!("# {}{state}", printable(&self.path)), String::new()];
        let mut assignments: Vec<_> = self.values.iter().map(ShownValue::lines).collect();
        let widths = assignments.iter().map(|lines| lines[0].chars().count());
        let aligned = widths.filter(|width| *width <= MOST_ALIGNED).max().unwrap_or(0);
        for (value, lines) in self.values.iter().zip(&mut assignments) {
            lines[0] = format!("{:<aligned$}  # {}", lines[0], value.short_origin());
        }
        lines.extend(assignments.into_iter().flatten());
        lines.join("\n") + "\n"
    }
}

/// Variables may be secrets, and what is printed ends up in logs.
fn without_secrets(key: &str, value: Value) -> Value {
    let Value::Table(entries) = &value else { return value };
    if key != "env" && !key.ends_with(".env") {
        return value;
    }
    let safe = |(name, text): (&String, &String)| {
        (name.clone(), environment::shown(name, text).to_owned())
    };
    Value::Table(entries.iter().map(safe).collect())
}

impl ShownValue {
    fn lines(&self) -> Vec<String> {
        if self.value == Value::Nothing {
            return vec![format!("# {} is not set", self.key)];
        }
        assignment(&self.key, &self.value)
    }

    /// Without the directory, which is at the top already.
    fn short_origin(&self) -> String {
        match &self.origin {
            Origin::Default => self.origin.to_string(),
            Origin::File { path, line } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("{name}:{line}")
            }
        }
    }
}

fn as_text<S: serde::Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::config::{AgentConfig, ResumeFallback};

    fn shown() -> Shown {
        let mut config = Config { resume_fallback: ResumeFallback::Shell, ..Config::default() };
        let mine = AgentConfig {
            command: vec!["mine".to_owned(), "\x1b[2J".to_owned()],
            share: [("prompts".to_owned(), "~/.mine/prompts".to_owned())].into(),
            ..AgentConfig::default()
        };
        config.agents.insert("mine".to_owned(), mine);
        let from = |line| Origin::File { path: "/state/config/ccmux.toml".into(), line };
        let origin = |key: &str| match key {
            "resume_fallback" => from(1),
            "agents.mine.command" => from(4),
            "agents.mine.share" => from(5),
            _ => Origin::Default,
        };
        let values = entries(&config)
            .into_iter()
            .map(|(key, value)| ShownValue { origin: origin(&key), key, value })
            .collect();
        Shown { path: "/state/config/ccmux.toml".to_owned(), exists: true, values }
    }

    fn style() -> Style {
        Style { colour: false, width: None, now: model::Timestamp(0) }
    }

    #[test]
    fn every_value_is_shown_with_where_it_comes_from() {
        insta::assert_snapshot!(shown().text(style()));
    }

    #[test]
    fn the_configuration_for_programs_has_the_shape_of_the_contract() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&shown()).unwrap());
    }

    #[test]
    fn the_defaults_are_a_file_to_begin_with() {
        insta::assert_snapshot!(sample());
    }

    #[test]
    fn a_missing_file_is_no_fault() {
        let missing = Checked { path: "/s/ccmux.toml".to_owned(), exists: false, valid: true };
        let text = verdict(&missing);
        assert_eq!(text, "/s/ccmux.toml does not exist; the defaults are in force\n");
    }
}
