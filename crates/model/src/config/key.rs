//! What a key is: its name, what it means, what it takes, and the way to its value.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::config::nearest::nearest;
use crate::config::path::InvalidPath;
use crate::config::value::Value;

/// One thing that can be decided about a `T`.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// Its name, with dots.
    pub name: &'static str,
    /// What it decides, in sentences.
    pub meaning: &'static str,
    /// What it takes; completes "takes …".
    pub takes: &'static str,
    pub(super) access: Access<T>,
}

/// The way to a value, by the kind of the value.
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

/// The kinds of value there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// A whole number.
    Number,
    /// A text.
    Text,
    /// A list of texts.
    List,
    /// Texts by name.
    Table,
}

/// Why a value, or a part of it, cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The part concerned.
    pub part: Part,
    /// Why.
    pub why: String,
    /// What was probably meant instead.
    pub suggestion: Option<String>,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The item of a list at this position.
    Item(usize),
    /// The entry of a table with this name.
    Entry(String),
}

impl<T> Key<T> {
    /// The kind of value that it takes.
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

    /// The value.
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

    /// Sets the value, or says everything that is wrong with it.
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

    /// What is wrong with a value of another kind, such as "a number".
    #[must_use]
    pub fn mismatch(&self, found: &str) -> Fault {
        Fault::whole(format!("takes {}, not {found}", self.takes))
    }
}

impl Fault {
    /// Something is wrong with the value as a whole.
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

/// Reads one of a few words into `slot`.
pub(super) fn set_word<W: FromStr<Err: fmt::Display>>(
    slot: &mut W,
    text: &str,
    known: &[&'static str],
) -> Result<(), Fault> {
    *slot = read_word(text, known)?;
    Ok(())
}

/// Reads one of a few words.
pub(super) fn read_word<W: FromStr<Err: fmt::Display>>(
    text: &str,
    known: &[&'static str],
) -> Result<W, Fault> {
    text.parse()
        .map_err(|error: W::Err| Fault::whole(error).suggest(nearest(text, known.iter().copied())))
}

/// A fault for every item that was listed before.
pub(super) fn listed_twice(items: &[String]) -> Vec<Fault> {
    let again = (1..items.len()).filter(|&at| items[..at].contains(&items[at]));
    let twice = |at: usize| Fault::whole(format!("{:?} is listed twice", items[at]));
    again.map(|at| twice(at).of(Part::Item(at))).collect()
}

/// Takes into `slot` what `read` makes of the items, if neither it finds anything wrong with one of
/// them nor `check` with all of them.
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

/// For lists whose items have nothing to do with each other.
pub(super) fn unrelated(_items: &[String]) -> Vec<Fault> {
    vec![]
}

/// Takes the entries into `slot` if `check` finds nothing wrong with any of them.
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
