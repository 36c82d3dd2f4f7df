//! How a pane's agent is kept apart from the user's own configuration and from other panes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where the agent of a pane finds its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// In a configuration directory of the pane's own; the rest of the home is the user's.
    #[default]
    ConfigDir,
    /// In a home of the pane's own, into which only listed items of the user's are linked.
    Home,
    /// Where the user has it: nothing is kept apart.
    None,
}

/// A word that names no method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a method of isolation is config_dir, home or none, not {0:?}")]
pub struct UnknownMethod(pub String);

impl Method {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 3] = [Self::ConfigDir, Self::Home, Self::None];

    /// The word for it, in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigDir => "config_dir",
            Self::Home => "home",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|method| method.as_str() == text);
        named.ok_or_else(|| UnknownMethod(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_read_from_its_word_and_nothing_else() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        for word in ["", "Home", "config-dir", "off"] {
            assert_eq!(word.parse::<Method>(), Err(UnknownMethod(word.to_owned())));
        }
    }
}
