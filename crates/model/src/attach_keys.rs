//! The keys of an attached terminal: the prefix key, and the command keys that follow it.
//!
//! [`BINDINGS`] is the only list of them: keepers, the help and the documentation use it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Letters whose control character is another key: tab, line feed and return.
const OTHER_KEYS: [char; 3] = ['i', 'j', 'm'];

/// The key that precedes a command key: ctrl and a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PrefixKey {
    letter: char,
}

/// A text that is not a prefix key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a prefix key (use ctrl-LETTER, except ctrl-i, ctrl-j and ctrl-m)")]
pub struct InvalidPrefixKey(String);

/// What a command key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachCommand {
    /// Detaches the client.
    Detach,
    /// Shows the scrollback in a pager.
    Scrollback,
    /// Shows the keys.
    Help,
}

/// A command key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The character that the key types.
    pub key: char,
    /// What it does.
    pub command: AttachCommand,
    /// One or two words for a line at the bottom of the screen.
    pub label: &'static str,
    /// What it does, for the help.
    pub meaning: &'static str,
}

/// All command keys.
pub const BINDINGS: [Binding; 3] = [
    Binding {
        key: 'd',
        command: AttachCommand::Detach,
        label: "detach",
        meaning: "detach; the pane keeps running",
    },
    Binding {
        key: '[',
        command: AttachCommand::Scrollback,
        label: "scrollback",
        meaning: "show the scrollback in $PAGER (default: less)",
    },
    Binding {
        key: '?',
        command: AttachCommand::Help,
        label: "this help",
        meaning: "show these keys at the bottom of the screen",
    },
];

impl PrefixKey {
    /// Returns the letter.
    #[must_use]
    pub fn letter(self) -> char {
        self.letter
    }

    /// Returns the keys and their meanings, for the help.
    #[must_use]
    pub fn help(self) -> Vec<(String, String)> {
        let commands = BINDINGS.iter().map(|Binding { key, meaning, .. }| {
            (format!("{self} {key}"), (*meaning).to_owned()) //
        });
        let own = (format!("{self} {self}"), format!("send {self} to the pane"));
        commands.chain([own]).collect()
    }

    /// Returns the keys in one line.
    #[must_use]
    pub fn summary(self) -> String {
        let commands = BINDINGS.map(|Binding { key, label, .. }| format!("{key} {label}"));
        format!("{self}, then: {}, {self} send {self}", commands.join(", "))
    }
}

/// Returns the command of a key.
#[must_use]
pub fn command(key: char) -> Option<AttachCommand> {
    BINDINGS.iter().find(|binding| binding.key == key).map(|binding| binding.command)
}

impl Default for PrefixKey {
    fn default() -> Self {
        Self { letter: 'b' }
    }
}

impl fmt::Display for PrefixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ctrl-{}", self.letter)
    }
}

impl FromStr for PrefixKey {
    type Err = InvalidPrefixKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.to_ascii_lowercase();
        let letter = lower.strip_prefix("ctrl-").or_else(|| lower.strip_prefix("c-"));
        let mut letters = letter.unwrap_or_default().chars();
        match (letters.next(), letters.next()) {
            (Some(letter @ 'a'..='z'), None) if !OTHER_KEYS.contains(&letter) => {
                Ok(Self { letter })
            }
            _ => Err(InvalidPrefixKey(text.to_owned())),
        }
    }
}

impl From<PrefixKey> for String {
    fn from(key: PrefixKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for PrefixKey {
    type Error = InvalidPrefixKey;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_key_is_ctrl_and_a_letter() {
        let letter = |text: &str| text.parse::<PrefixKey>().map(PrefixKey::letter).ok();

        for (text, expected) in [
            ("ctrl-a", Some('a')),
            ("C-b", Some('b')),
            ("Ctrl-Z", Some('z')),
            ("ctrl-m", None),
            ("ctrl-1", None),
            ("ctrl-ab", None),
            ("alt-a", None),
            ("b", None),
            ("", None),
        ] {
            assert_eq!(letter(text), expected, "{text:?}");
        }
    }

    #[test]
    fn summary_fits_into_a_terminal_of_eighty_columns() {
        let summary = PrefixKey::default().summary();

        assert!(summary.len() < 80 && summary.is_ascii(), "{summary}");
        assert!(BINDINGS.iter().all(|binding| command(binding.key) == Some(binding.command)));
    }
}
