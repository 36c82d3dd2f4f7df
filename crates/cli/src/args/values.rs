//! Values of options that no other crate knows how to read.

use std::str::FromStr;
use std::time::Duration;

use protocol::look::Until;

/// A variable for a pane: set here, or taken over from the client's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Its name; not empty.
    pub(crate) name: String,
    /// Its value; none takes the client's.
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
            return Err("a variable needs a name before its `=`".to_owned());
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

/// Seconds, with or without a fraction.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{text:?} is not a number of seconds"))
}

/// What `wait --for` takes.
pub(super) fn until(text: &str) -> Result<Until, String> {
    match text.split_once('=') {
        None if text == "exit" => Ok(Until::Exit),
        Some(("text", pattern)) if !pattern.is_empty() => Ok(Until::Text(pattern.to_owned())),
        _ => Err(format!("wait for `exit` or `text=RE`, not for {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_numbers_that_a_clock_can_count() {
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
    fn a_pattern_may_contain_an_equals_sign() {
        assert_eq!(until("text=a=b$").unwrap(), Until::Text("a=b$".to_owned()));
        assert_eq!(until("exit").unwrap(), Until::Exit);
    }
}
