//! Parses the configuration file and collects all problems.
//!
//! The parser recovers from errors, so all problems are reported at once. Values that it substitutes
//! for an error are not reported a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use model::config::agent::{AGENT_KEYS, check_agent_name, contradictions};
use model::config::key::{Fault, Key, Kind, Part};
use model::config::keys::{AGENTS, KEYS, ROLES};
use model::config::role::{ROLE_KEYS, check_role_name};
use model::config::value::{self, Value};
use model::config::{AgentConfig, Config, RoleConfig};
use model::nearest::nearest;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::config::Problem;
use crate::config::position::Positions;

/// Longer messages are truncated.
const MAX_MESSAGE: usize = 300;

/// The configuration, and the line of each key in the text.
pub(super) type Read = (Config, BTreeMap<String, usize>);

/// Parses `text`.
///
/// # Errors
///
/// All problems, in file order; never empty.
pub(super) fn read(text: &str, path: &Path, reserved: &[&str]) -> Result<Read, Vec<Problem>> {
    let (document, mistakes) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        path,
        reserved,
        positions: Positions::of(text),
        problems: Vec::new(),
        unreadable: BTreeSet::new(),
        lines: BTreeMap::new(),
    };
    for mistake in &mistakes {
        let at = mistake.span().unwrap_or_default();
        reader.syntax_error(mistake.message(), at.start, text.get(at).unwrap_or_default());
    }
    reader.skip_lines_without_heading(text);
    let mut config = Config::default();
    reader.table(document.get_ref(), "", &mut config);
    if reader.problems.is_empty() {
        return Ok((config, reader.lines));
    }
    reader.problems.sort_by_key(|problem| (problem.line, problem.column));
    Err(reader.problems)
}

struct Reader<'a> {
    path: &'a Path,
    reserved: &'a [&'a str],
    positions: Positions<'a>,
    problems: Vec<Problem>,
    /// Lines that are not TOML, or that belong to an unknown table.
    unreadable: BTreeSet<usize>,
    lines: BTreeMap<String, usize>,
}

/// A key and its value.
type Entry<'e, 'i> = (&'e Spanned<DeString<'i>>, &'e Spanned<DeValue<'i>>);

impl Reader<'_> {
    /// Reads a table with this full name, which is empty for the whole document.
    fn table(&mut self, table: &DeTable<'_>, name: &str, config: &mut Config) {
        for (key, value) in table {
            let full = join(name, key.get_ref());
            if let Some(known) = KEYS.iter().find(|known| known.name == full) {
                self.value(known, &full, (key, value), config);
            } else if full == AGENTS {
                self.agents(value, config);
            } else if full == ROLES {
                self.roles(value, config);
            } else if is_table(&full) {
                if let Some(table) = self.expect_table(&full, value) {
                    self.table(table, &full, config);
                }
            } else {
                self.unknown(&full, key.span().start, meant_key(name, key.get_ref()));
            }
        }
    }

    fn agents(&mut self, value: &Spanned<DeValue<'_>>, config: &mut Config) {
        let Some(agents) = self.expect_table(AGENTS, value) else { return };
        for (name, value) in agents {
            if let Err(fault) = check_agent_name(name.get_ref(), self.reserved) {
                self.problem(name.span().start, fault.why, fault.suggestion);
            }
            let full = join(AGENTS, name.get_ref());
            if let Some(table) = self.expect_table(&full, value) {
                let agent = self.agent(table, &full, name.span());
                config.agents.insert(name.get_ref().to_string(), agent);
            }
        }
    }

    /// Reads the table `name` of an agent, which starts at `heading`.
    fn agent(&mut self, table: &DeTable<'_>, name: &str, heading: Range<usize>) -> AgentConfig {
        let mut agent = AgentConfig::default();
        let problems_before = self.problems.len();
        self.keys(AGENT_KEYS, table, name, &mut agent);
        // A missing key may be on an unreadable line.
        let is_complete = self.unreadable.range(self.line(&heading)..).next().is_none();
        if self.problems.len() == problems_before && is_complete {
            for (key, fault) in contradictions(&agent) {
                let entry = table.get_key_value(key);
                let at = entry.map_or(heading.clone(), |entry| place(&fault.part, entry));
                self.fault(&join(name, key), at.start, fault);
            }
        }
        agent
    }

    fn roles(&mut self, value: &Spanned<DeValue<'_>>, config: &mut Config) {
        let Some(roles) = self.expect_table(ROLES, value) else { return };
        for (name, value) in roles {
            if let Err(fault) = check_role_name(name.get_ref()) {
                self.problem(name.span().start, fault.why, fault.suggestion);
            }
            let full = join(ROLES, name.get_ref());
            let Some(table) = self.expect_table(&full, value) else { continue };
            let mut role = RoleConfig::default();
            self.keys(ROLE_KEYS, table, &full, &mut role);
            config.roles.insert(name.get_ref().to_string(), role);
        }
    }

    /// Reads a table with a fixed set of keys.
    fn keys<T>(&mut self, keys: &[Key<T>], table: &DeTable<'_>, name: &str, target: &mut T) {
        for (key, value) in table {
            let full = join(name, key.get_ref());
            match keys.iter().find(|known| known.name == key.get_ref()) {
                Some(known) => self.value(known, &full, (key, value), target),
                None => {
                    let known = keys.iter().map(|known| known.name);
                    let meant = nearest(key.get_ref(), known).map(str::to_owned);
                    self.unknown(&full, key.span().start, meant);
                }
            }
        }
    }

    fn expect_table<'e, 'i>(
        &mut self,
        name: &str,
        value: &'e Spanned<DeValue<'i>>,
    ) -> Option<&'e DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = kind_of(value.get_ref());
            self.problem(value.span().start, format!("`{name}` is a table, not {found}"), None);
        }
        table
    }

    /// Sets the value of a known key.
    fn value<T>(
        &mut self,
        known: &Key<T>,
        full: &str,
        (key, value): Entry<'_, '_>,
        target: &mut T,
    ) {
        let faults = match convert(known, value.get_ref()) {
            Ok(converted) => converted.assign_to(known, target),
            Err(fault) => vec![fault],
        };
        for fault in faults {
            let at = place(&fault.part, (key, value));
            self.fault(full, at.start, fault);
        }
        self.lines.insert(full.to_owned(), self.line(&key.span()));
    }

    /// Reports a syntax error at byte `at`; `snippet` is the unexpected text, if known.
    fn syntax_error(&mut self, message: &str, at: usize, snippet: &str) {
        let (line, _) = self.positions.of_byte(at);
        // One mistake often causes several parser errors; only the first one on a line is useful.
        if self.unreadable.contains(&line) {
            return;
        }
        let snippet = snippet.lines().next().unwrap_or_default();
        let message = match snippet {
            "" => message.to_owned(),
            snippet => format!("{message}: `{snippet}`"),
        };
        self.problem(at, message, None);
        self.unreadable.insert(line);
    }

    /// Skips the lines after an unreadable heading, which would be taken for the table before it.
    fn skip_lines_without_heading(&mut self, text: &str) {
        let mut skipping = false;
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim_start().starts_with('[') {
                skipping = self.unreadable.contains(&line);
            }
            if skipping {
                self.unreadable.insert(line);
            }
        }
    }

    fn unknown(&mut self, name: &str, at: usize, meant: Option<String>) {
        self.problem(at, format!("unknown key `{name}`"), meant);
    }

    fn fault(&mut self, name: &str, at: usize, fault: Fault) {
        self.problem(at, format!("`{name}`: {}", fault.why), fault.suggestion);
    }

    fn line(&self, at: &Range<usize>) -> usize {
        self.positions.of_byte(at.start).0
    }

    fn problem(&mut self, at: usize, message: String, suggestion: Option<String>) {
        let (line, column) = self.positions.of_byte(at);
        if self.unreadable.contains(&line) {
            return;
        }
        let path = self.path.to_owned();
        self.problems.push(Problem { path, line, column, message: cut(message), suggestion });
    }
}

/// A value converted to the type of its key.
struct Converted {
    value: Value,
    /// For a list, the positions of its items; items of another type are left out.
    items: Vec<Part>,
    /// The problems of the parts that were left out.
    faults_left_out: Vec<Fault>,
}

impl Converted {
    fn simple(value: Value) -> Self {
        Self { value, items: vec![], faults_left_out: vec![] }
    }

    /// Sets the value. Returns its problems and those of the parts that were left out.
    fn assign_to<T>(self, key: &Key<T>, target: &mut T) -> Vec<Fault> {
        let mut faults = key.set(target, &self.value);
        if !self.faults_left_out.is_empty() {
            // A problem of the whole value may be due to the parts that were left out.
            faults.retain(|fault| fault.part != Part::Whole);
        }
        for fault in &mut faults {
            if let Part::Item(at) = fault.part {
                fault.part = self.items[at].clone();
            }
        }
        faults.extend(self.faults_left_out);
        faults
    }
}

fn convert<T>(key: &Key<T>, value: &DeValue<'_>) -> Result<Converted, Fault> {
    match (key.kind(), value) {
        (Kind::Flag, DeValue::Boolean(flag)) => Ok(Converted::simple(Value::Flag(*flag))),
        (Kind::Number, DeValue::Integer(digits)) => {
            match i64::from_str_radix(digits.as_str(), digits.radix()) {
                Ok(number) => Ok(Converted::simple(Value::Number(number))),
                Err(_) => Err(key.mismatch("one that large")),
            }
        }
        (Kind::Text, DeValue::String(text)) => Ok(Converted::simple(Value::Text(text.to_string()))),
        (Kind::List, DeValue::Array(items)) => {
            let parts = items.iter().enumerate().map(|(at, item)| (Part::Item(at), item));
            let (texts, faults_left_out) = texts(parts);
            let (items, texts) = texts.into_iter().unzip();
            Ok(Converted { value: Value::List(texts), items, faults_left_out })
        }
        (Kind::Table, DeValue::Table(entries)) => {
            let parts = entries.iter().map(|(name, text)| (name.get_ref().to_string(), text));
            let (texts, faults_left_out) = texts(parts);
            Ok(Converted {
                value: Value::Table(texts.into_iter().collect()),
                items: vec![],
                faults_left_out,
            })
        }
        (_, other) => Err(key.mismatch(kind_of(other))),
    }
}

/// Returns the parts that are strings, and the problems of the others.
fn texts<'e, 'i: 'e, P: Into<Part>>(
    parts: impl Iterator<Item = (P, &'e Spanned<DeValue<'i>>)>,
) -> (Vec<(P, String)>, Vec<Fault>) {
    let (mut texts, mut faults_left_out) = (Vec::new(), Vec::new());
    for (part, value) in parts {
        match value.get_ref().as_str() {
            Some(text) => texts.push((part, text.to_owned())),
            None => {
                let why = format!("{} instead of a string", kind_of(value.get_ref()));
                faults_left_out.push(Fault { part: part.into(), why, suggestion: None });
            }
        }
    }
    (texts, faults_left_out)
}

/// Returns the position of a part of a value.
fn place(part: &Part, (key, value): Entry<'_, '_>) -> Range<usize> {
    let inner = match (part, value.get_ref()) {
        (Part::Item(at), DeValue::Array(items)) => items.get(*at).map(Spanned::span),
        (Part::Entry(name), DeValue::Table(entries)) => {
            entries.get_key_value(name.as_str()).map(|(name, _)| name.span())
        }
        _ => None,
    };
    // For a table with its own heading, the key is the better position.
    inner.unwrap_or_else(|| if value.get_ref().is_table() { key.span() } else { value.span() })
}

/// Returns the name of a value's type.
fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn join(table: &str, key: &str) -> String {
    let key = value::key(key);
    if table.is_empty() { key } else { format!("{table}.{key}") }
}

/// Returns whether a table of this name contains keys, directly or in subtables.
fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the key that was probably meant by `key` in `table`: a similar name in the same table, or
/// the full name of a key with the same name elsewhere.
fn meant_key(table: &str, key: &str) -> Option<String> {
    let names: BTreeSet<&str> = KEYS.iter().flat_map(|key| with_tables(key.name)).collect();
    let split = |name: &'static str| name.rsplit_once('.').unwrap_or(("", name));
    let all = || names.iter().copied().chain([AGENTS, ROLES]);

    let here = all().map(split).filter(|(of, _)| *of == table).map(|(_, name)| name);
    if let Some(similar) = nearest(key, here) {
        return Some(similar.to_owned());
    }
    all().find(|name| split(name).1 == key).map(str::to_owned)
}

/// Iterates over `a.b.c`, `a.b` and `a`.
fn with_tables(name: &'static str) -> impl Iterator<Item = &'static str> {
    std::iter::successors(Some(name), |name| name.rsplit_once('.').map(|(table, _)| table))
}

fn cut(message: String) -> String {
    if message.chars().count() <= MAX_MESSAGE {
        return message;
    }
    message.chars().take(MAX_MESSAGE).chain(['…']).collect()
}
