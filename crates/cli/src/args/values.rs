//! Parsers for option values.

use std::str::FromStr;
use std::time::Duration;

use protocol::pane_io::Until;

/// An environment variable for a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Name; never empty.
    pub(crate) name: String,
    /// Value, or `None` to copy it from the client's environment.
    pub(crate) value: Option<String>,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        if name.is_empty() {
            return Err("missing variable name before `=`".to_owned());
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

/// Parses a number of seconds, with or without a fraction.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{text:?} is not a number of seconds"))
}

/// Parses the condition of `wait --for`.
pub(super) fn until(text: &str) -> Result<Until, String> {
    match text.split_once('=') {
        None if text == "exit" => Ok(Until::Exit),
        Some(("text", pattern)) if !pattern.is_empty() => Ok(Until::Text(pattern.to_owned())),
        _ => Err(format!("expected `exit` or `text=REGEX`, got {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_rejects_values_outside_the_range_of_a_duration() {
        let cases = [
            ("0", Some(Duration::ZERO)),
            ("1.5", Some(Duration::from_millis(1500))),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("1e300", None),
            ("soon", None),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text).ok(), expected, "input: {text:?}");
        }
    }

    #[test]
    fn until_accepts_an_equals_sign_in_the_pattern() {
        assert_eq!(until("text=a=b$").unwrap(), Until::Text("a=b$".to_owned()));
        assert_eq!(until("exit").unwrap(), Until::Exit);
    }
}
