//! Values of configuration keys.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

/// A value of a configuration key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Not set, and without a default. Cannot be written in a file.
    Nothing,
    /// A boolean.
    Flag(bool),
    /// An integer.
    Number(i64),
    /// A string.
    Text(String),
    /// A list of strings.
    List(Vec<String>),
    /// A table of strings.
    Table(BTreeMap<String, String>),
}

impl Value {
    /// Formats the value as TOML, to follow `room` characters on the first line. A list that does
    /// not fit into a line of `width` characters gets one line per item.
    #[must_use]
    pub fn to_toml(&self, room: usize, width: usize) -> Vec<String> {
        let line = self.to_string();
        let fits = room + line.chars().count() <= width;
        let Self::List(items) = self else { return vec![line] };
        if fits || items.is_empty() {
            return vec![line];
        }
        let items = items.iter().map(|item| format!("  {},", quoted(item)));
        ["[".to_owned()].into_iter().chain(items).chain(["]".to_owned()]).collect()
    }
}

/// Formats the value as TOML on one line.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Table(entries) if entries.is_empty() => f.write_str("{}"),
            Self::Table(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(name, text)| format!("{} = {}", key(name), quoted(text)))
                    .collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
        }
    }
}

/// Formats a part of a key as TOML: bare if possible.
#[must_use]
pub fn key(part: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !part.is_empty() && part.chars().all(is_bare) { part.to_owned() } else { quoted(part) }
}

/// Formats a TOML basic string. Control characters are escaped, so it is safe to print.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(c)).expect("writing to a string cannot fail");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_displays_as_toml() {
        let list = |items: &[&str]| Value::List(items.iter().map(|&i| i.to_owned()).collect());
        let table = BTreeMap::from([
            ("a.json".to_owned(), "~/a".to_owned()),
            ("b_1".to_owned(), String::new()),
        ]);
        let cases = [
            (Value::Flag(true), "true"),
            (Value::Text("a\"b\\c\n\x1b\u{9b}é".to_owned()), r#""a\"b\\c\n\u001B\u009Bé""#),
            (list(&[]), "[]"),
            (list(&["a", "b"]), r#"["a", "b"]"#),
            (Value::Table(BTreeMap::new()), "{}"),
            (Value::Table(table), r#"{ "a.json" = "~/a", b_1 = "" }"#),
        ];
        for (value, expected) in cases {
            assert_eq!(value.to_string(), expected);
        }
    }

    #[test]
    fn to_toml_breaks_a_long_list_into_one_line_per_item() {
        let list = Value::List(vec!["one".to_owned(), "two".to_owned()]);

        assert_eq!(list.to_toml(6, 20), [r#"["one", "two"]"#]);
        assert_eq!(list.to_toml(7, 20), ["[", r#"  "one","#, r#"  "two","#, "]"]);
    }
}
