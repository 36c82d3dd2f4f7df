//! Names of sessions and panes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A display name: an alias for people, not an identity.
///
/// # Invariant
///
/// 1 to 64 characters of `[A-Za-z0-9._-]`, starting with a letter or a digit, and not the spelling
/// of an id. A name is therefore never an option, a path or a control sequence, and a command that
/// takes "a name or an id" can always tell them apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Empty or too long.
    #[error("a name has 1 to 64 characters, this one has {0}")]
    Length(usize),
    /// A character that could change the meaning of a line, a path or a command.
    #[error("a name may not contain {found:?} (at position {at})")]
    Character {
        /// The first invalid character.
        found: char,
        /// Its position, counted in characters.
        at: usize,
    },
    /// The name would shadow the object that has this id.
    #[error("{0:?} has the form of an id and cannot be a name")]
    LooksLikeId(String),
}

impl Name {
    /// The maximum number of characters.
    pub const MAX: usize = 64;

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the valid name most similar to `text`, for names taken from programs or files.
    #[must_use]
    pub fn near(text: &str) -> Self {
        let legal: String = text
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c))
            .skip_while(|c| !c.is_ascii_alphanumeric())
            .take(Self::MAX)
            .collect();
        legal.parse().unwrap_or_else(|_| Self("pane".to_owned()))
    }

    /// Returns the first of `self`, `self-2`, `self-3` … that is not `taken`.
    #[must_use]
    pub fn free(&self, taken: impl Fn(&Self) -> bool) -> Self {
        if !taken(self) {
            return self.clone();
        }
        (2_u64..)
            .map(|n| self.with_suffix(&format!("-{n}")))
            .find(|name| !taken(name))
            .expect("fewer names are taken than there are numbers")
    }

    /// Returns the name of an ended pane whose own name a new pane gets: the first of `self-old`,
    /// `self-old-2` … that is not `taken`.
    #[must_use]
    pub fn former(&self, taken: impl Fn(&Self) -> bool) -> Self {
        self.with_suffix("-old").free(taken)
    }

    fn with_suffix(&self, suffix: &str) -> Self {
        let keep = self.0.len().min(Self::MAX - suffix.len());
        Self(format!("{}{suffix}", &self.0[..keep]))
    }
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "1 to 64 letters, digits, dots, dashes and underscores",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
        })
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = text.chars().count();
        if !(1..=Self::MAX).contains(&length) {
            return Err(InvalidName::Length(length));
        }
        let legal = |at: usize, c: char| {
            c.is_ascii_alphanumeric() || (at > 0 && matches!(c, '.' | '_' | '-'))
        };
        if let Some((at, found)) = text.chars().enumerate().find(|&(at, c)| !legal(at, c)) {
            return Err(InvalidName::Character { found, at });
        }
        if uuid::Uuid::try_parse(text).is_ok() {
            return Err(InvalidName::LooksLikeId(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_rejects_options_paths_control_characters_and_ids() {
        let id = "550e8400-e29b-41d4-a716-446655440000";
        let cases = [
            ("dev1", None),
            ("a.b_c-d", None),
            ("", Some(InvalidName::Length(0))),
            ("-rf", Some(InvalidName::Character { found: '-', at: 0 })),
            ("..", Some(InvalidName::Character { found: '.', at: 0 })),
            ("a/b", Some(InvalidName::Character { found: '/', at: 1 })),
            ("a\u{1b}[2J", Some(InvalidName::Character { found: '\u{1b}', at: 1 })),
            ("é", Some(InvalidName::Character { found: 'é', at: 0 })),
            (id, Some(InvalidName::LooksLikeId(id.to_owned()))),
        ];
        for (text, refused) in cases {
            assert_eq!(text.parse::<Name>().err(), refused, "input: {text:?}");
        }
    }

    #[test]
    fn taken_name_gets_the_next_free_number() {
        let taken = ["bash", "bash-2"].map(|text| text.parse::<Name>().unwrap());

        let free = taken[0].free(|name| taken.contains(name));

        assert_eq!(free.as_str(), "bash-3");
    }

    #[test]
    fn former_name_is_free_and_never_too_long() {
        let taken = ["dev", "dev-old"].map(|text| text.parse::<Name>().unwrap());
        let long: Name = "x".repeat(Name::MAX).parse().unwrap();

        assert_eq!(taken[0].former(|name| taken.contains(name)).as_str(), "dev-old-2");
        let former = long.former(|_| false);
        assert!(former.as_str().len() == Name::MAX && former.as_str().ends_with("x-old"));
    }

    #[test]
    fn near_returns_a_valid_name_for_any_program() {
        assert_eq!(Name::near("[").as_str(), "pane");
        assert_eq!(Name::near("my agent!").as_str(), "myagent");
        assert_eq!(Name::near(&"x".repeat(200)).as_str().len(), Name::MAX);
    }
}
