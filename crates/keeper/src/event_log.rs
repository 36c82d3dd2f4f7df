//! The event log of the keeper: `keeper.err` in the pane's directory.
//!
//! One line per event: time, event name, fields. Only failures are logged, so the file is usually
//! empty.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};

use host::clock;

/// Appends an event to the log.
pub(crate) fn report(event: &str, fields: &[(&str, &dyn Display)]) {
    // There is nowhere left to report a failure of standard error.
    let _failed = writeln!(io::stderr(), "{} {}", clock::now(), line(event, fields));
}

/// Formats an event; values that contain spaces or quotes are quoted.
fn line(event: &str, fields: &[(&str, &dyn Display)]) -> String {
    let mut line = event.to_owned();
    for (name, value) in fields {
        let value = value.to_string();
        let is_plain = !value.is_empty()
            && value.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"');
        // Writing to a `String` cannot fail.
        let _infallible = if is_plain {
            write!(line, " {name}={value}")
        } else {
            write!(line, " {name}={value:?}")
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_quotes_values_with_spaces_quotes_and_newlines() {
        let text = line(
            "exit record not written",
            &[
                ("path", &"exit.json"),
                ("error", &"no \"space\"\nleft"),
                ("detail", &""),
                ("pid", &7),
            ],
        );

        let expected =
            r#"exit record not written path=exit.json error="no \"space\"\nleft" detail="" pid=7"#;
        assert_eq!(text, expected);
    }
}
