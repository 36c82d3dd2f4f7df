//! `ccmux config`: show the effective configuration and the source of each value.
//!
//! Does not need a daemon; reads the file in the same way as a daemon does at start.

use model::config::Config;
use model::config::keys::entries;
use model::config::sample::{assignment, sample};
use model::config::value::Value;
use model::environment;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::daemon::{Loaded, Origin, configuration};
use crate::args::ConfigArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Output, Style, printable};

/// Origins are aligned behind values of up to this many columns.
const MAX_ALIGNED: usize = 60;

/// Output of `config --json`.
#[derive(Debug, Serialize)]
struct Shown {
    /// Path of the configuration file.
    path: String,
    /// Whether the file exists.
    exists: bool,
    /// All effective values.
    values: Vec<ShownValue>,
}

/// Output of `config --defaults --json`.
#[derive(Debug, Serialize)]
struct Defaults {
    values: Vec<ShownValue>,
}

/// Output of `config --check --json` for a valid file.
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

/// Prints the default configuration. Does not need a state root.
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
        format!("{path}: valid\n")
    } else {
        format!("{path} does not exist; using the defaults\n")
    }
}

impl Shown {
    fn of(loaded: &Loaded) -> Self {
        let values = loaded
            .values()
            .into_iter()
            .map(|found| ShownValue {
                value: mask_secrets(&found.key, found.value),
                key: found.key,
                origin: found.origin,
            })
            .collect();
        Self { path: loaded.path.display().to_string(), exists: loaded.exists, values }
    }

    /// Formats the values as a configuration file, with the source of each value in a comment.
    fn text(&self, _style: Style) -> String {
        let state = if self.exists { "" } else { " does not exist" };
        let mut lines = vec![format!("# {}{state}", printable(&self.path)), String::new()];
        let mut assignments: Vec<_> = self.values.iter().map(ShownValue::lines).collect();
        let widths = assignments.iter().map(|lines| lines[0].width());
        let aligned = widths.filter(|width| *width <= MAX_ALIGNED).max().unwrap_or(0);
        for (value, lines) in self.values.iter().zip(&mut assignments) {
            let padding = " ".repeat(aligned.saturating_sub(lines[0].width()));
            lines[0] = format!("{}{padding}  # {}", lines[0], value.short_origin());
        }
        lines.extend(assignments.into_iter().flatten());
        lines.join("\n") + "\n"
    }
}

/// Masks secrets in environment variables, because the output may end up in logs.
fn mask_secrets(key: &str, value: Value) -> Value {
    let Value::Table(entries) = &value else { return value };
    if key != "env" && !key.ends_with(".env") {
        return value;
    }
    let masked = |(name, text): (&String, &String)| {
        (name.clone(), environment::shown(name, text).to_owned())
    };
    Value::Table(entries.iter().map(masked).collect())
}

impl ShownValue {
    fn lines(&self) -> Vec<String> {
        if self.value == Value::Nothing {
            return vec![format!("# {} is not set", self.key)];
        }
        assignment(&self.key, &self.value)
    }

    /// Returns the origin without the directory, which is in the first line of the output.
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
    fn text_shows_every_value_with_its_origin() {
        insta::assert_snapshot!(shown().text(style()));
    }

    #[test]
    fn json_has_the_documented_fields() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&shown()).unwrap());
    }

    #[test]
    fn defaults_are_a_complete_configuration_file() {
        insta::assert_snapshot!(sample());
    }

    #[test]
    fn check_accepts_a_missing_file() {
        let missing = Checked { path: "/s/ccmux.toml".to_owned(), exists: false, valid: true };
        let text = verdict(&missing);
        assert_eq!(text, "/s/ccmux.toml does not exist; using the defaults\n");
    }
}
