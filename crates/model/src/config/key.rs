//! The description of a configuration key: name, documentation, allowed values and access.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::config::path::InvalidPath;
use crate::config::value::Value;
use crate::nearest::nearest;

/// A key of a `T`.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// Its name, with dots.
    pub name: &'static str,
    /// Its documentation, in full sentences.
    pub meaning: &'static str,
    /// The allowed values; completes "takes …".
    pub takes: &'static str,
    pub(super) access: Access<T>,
}

/// Accessors of a key, by kind of value.
#[derive(Debug)]
pub(super) enum Access<T: 'static> {
    Flag {
        get: fn(&T) -> bool,
        set: fn(&mut T, bool),
    },
    Number {
        get: fn(&T) -> i64,
        set: fn(&mut T, i64) -> Result<(), Fault>,
    },
    Text {
        get: fn(&T) -> Option<String>,
        set: fn(&mut T, &str) -> Result<(), Fault>,
    },
    List {
        get: fn(&T) -> Vec<String>,
        set: fn(&mut T, &[String]) -> Vec<Fault>,
    },
    Table {
        get: fn(&T) -> BTreeMap<String, String>,
        set: fn(&mut T, &BTreeMap<String, String>) -> Vec<Fault>,
    },
}

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A boolean.
    Flag,
    /// An integer.
    Number,
    /// A string.
    Text,
    /// A list of strings.
    List,
    /// A table of strings.
    Table,
}

/// An error in a value, or in a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The invalid part.
    pub part: Part,
    /// The error message.
    pub why: String,
    /// A suggested replacement.
    pub suggestion: Option<String>,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole value.
    Whole,
    /// The item of a list at this position.
    Item(usize),
    /// The entry of a table with this name.
    Entry(String),
}

impl<T> Key<T> {
    /// Returns the kind of value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.access {
            Access::Flag { .. } => Kind::Flag,
            Access::Number { .. } => Kind::Number,
            Access::Text { .. } => Kind::Text,
            Access::List { .. } => Kind::List,
            Access::Table { .. } => Kind::Table,
        }
    }

    /// Returns the value.
    #[must_use]
    pub fn get(&self, from: &T) -> Value {
        match self.access {
            Access::Flag { get, .. } => Value::Flag(get(from)),
            Access::Number { get, .. } => Value::Number(get(from)),
            Access::Text { get, .. } => get(from).map_or(Value::Nothing, Value::Text),
            Access::List { get, .. } => Value::List(get(from)),
            Access::Table { get, .. } => Value::Table(get(from)),
        }
    }

    /// Sets the value, or returns everything that is wrong with it.
    pub fn set(&self, target: &mut T, value: &Value) -> Vec<Fault> {
        match (&self.access, value) {
            (Access::Flag { set, .. }, Value::Flag(flag)) => {
                set(target, *flag);
                vec![]
            }
            (Access::Number { set, .. }, Value::Number(number)) => {
                set(target, *number).err().into_iter().collect()
            }
            (Access::Text { set, .. }, Value::Text(text)) => {
                set(target, text).err().into_iter().collect()
            }
            (Access::List { set, .. }, Value::List(items)) => set(target, items),
            (Access::Table { set, .. }, Value::Table(entries)) => set(target, entries),
            (_, Value::Nothing) => vec![self.mismatch("nothing")],
            (_, Value::Flag(_)) => vec![self.mismatch("a boolean")],
            (_, Value::Number(_)) => vec![self.mismatch("a number")],
            (_, Value::Text(_)) => vec![self.mismatch("a string")],
            (_, Value::List(_)) => vec![self.mismatch("a list")],
            (_, Value::Table(_)) => vec![self.mismatch("a table")],
        }
    }

    /// Returns the error for a value of another kind, such as "a number".
    #[must_use]
    pub fn mismatch(&self, found: &str) -> Fault {
        Fault::whole(format!("takes {}, not {found}", self.takes))
    }
}

impl Fault {
    /// Makes an error about the value as a whole.
    pub(super) fn whole(why: impl fmt::Display) -> Self {
        Self { part: Part::Whole, why: why.to_string(), suggestion: None }
    }

    pub(super) fn of(self, part: Part) -> Self {
        Self { part, ..self }
    }

    pub(super) fn suggest(self, suggestion: Option<impl Into<String>>) -> Self {
        Self { suggestion: suggestion.map(Into::into), ..self }
    }
}

impl From<String> for Part {
    fn from(entry: String) -> Self {
        Self::Entry(entry)
    }
}

impl From<InvalidPath> for Fault {
    fn from(error: InvalidPath) -> Self {
        Self::whole(&error).suggest(error.suggestion())
    }
}

/// Parses one of a few words into `slot`.
pub(super) fn set_word<W: FromStr<Err: fmt::Display>>(
    slot: &mut W,
    text: &str,
    known: &[&'static str],
) -> Result<(), Fault> {
    *slot = read_word(text, known)?;
    Ok(())
}

/// Parses one of a few words.
pub(super) fn read_word<W: FromStr<Err: fmt::Display>>(
    text: &str,
    known: &[&'static str],
) -> Result<W, Fault> {
    text.parse()
        .map_err(|error: W::Err| Fault::whole(error).suggest(nearest(text, known.iter().copied())))
}

/// Returns an error for each duplicate item.
pub(super) fn listed_twice(items: &[String]) -> Vec<Fault> {
    let again = (1..items.len()).filter(|&at| items[..at].contains(&items[at]));
    let twice = |at: usize| Fault::whole(format!("{:?} is listed twice", items[at]));
    again.map(|at| twice(at).of(Part::Item(at))).collect()
}

/// Sets `slot` to the parsed items, unless `read` rejects an item or `check` the whole list.
pub(super) fn set_list<I, E: Into<Fault>>(
    slot: &mut Vec<I>,
    items: &[String],
    read: impl Fn(&str) -> Result<I, E>,
    check: impl FnOnce(&[String]) -> Vec<Fault>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut taken = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match read(item) {
            Ok(item) => taken.push(item),
            Err(error) => faults.push(error.into().of(Part::Item(at))),
        }
    }
    if faults.is_empty() {
        faults = check(items);
    }
    if faults.is_empty() {
        *slot = taken;
    }
    faults
}

/// A check for [`set_list`] that accepts every list.
pub(super) fn unrelated(_items: &[String]) -> Vec<Fault> {
    vec![]
}

/// Sets `slot` to the entries, unless `check` rejects one of them.
pub(super) fn set_table(
    slot: &mut BTreeMap<String, String>,
    entries: &BTreeMap<String, String>,
    check: impl Fn(&str, &str) -> Result<(), Fault>,
) -> Vec<Fault> {
    let faults: Vec<Fault> = entries
        .iter()
        .filter_map(|(name, text)| Some((name, check(name, text).err()?)))
        .map(|(name, fault)| fault.of(Part::Entry(name.clone())))
        .collect();
    if faults.is_empty() {
        slot.clone_from(entries);
    }
    faults
}
