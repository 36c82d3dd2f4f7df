//! Comparison of an answer with the recorded answer to the same request.
//!
//! Clients ignore fields that they do not know. They fail on a field that is missing, has another
//! type, or holds a word that they do not know. So an answer may say more than the recorded one and
//! never less.

use std::collections::BTreeMap;

use serde_json::Value;

/// Fields for people: the text may be rewritten, and must still be there.
const PROSE: [&str; 12] = [
    "message",
    "hint",
    "why",
    "exactness",
    "text",
    "title",
    "line",
    "description",
    "detail",
    "what",
    "advice",
    "work",
];

/// Fields that depend on the machine or on timing.
const VARYING: [&str; 10] = [
    "means",
    "used",
    "shared_note",
    "login_note",
    "last_output",
    "next_due",
    "findings",
    "log_problem",
    "items",
    "notes",
];

/// Ids of the recording and the ids that stand for the same things now.
#[derive(Debug, Default)]
pub(crate) struct Ids(BTreeMap<String, String>);

impl Ids {
    /// The text of a recorded request with the ids of now.
    pub(crate) fn translate(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// Returns the differences that break a client that reads `recorded`, and learns new ids.
pub(crate) fn compare(recorded: &Value, now: &Value, ids: &mut Ids) -> Vec<String> {
    let mut faults = Vec::new();
    walk("", "", recorded, now, ids, &mut faults);
    faults
}

fn walk(
    path: &str,
    field: &str,
    recorded: &Value,
    now: &Value,
    ids: &mut Ids,
    faults: &mut Vec<String>,
) {
    if VARYING.contains(&field) {
        return;
    }
    match (recorded, now) {
        (Value::Null, _)
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Number(_), Value::Number(_)) => {}
        (Value::Object(recorded), Value::Object(now)) => {
            for (name, value) in recorded {
                match now.get(name) {
                    Some(now) => walk(&format!("{path}.{name}"), name, value, now, ids, faults),
                    None if value.is_null() || VARYING.contains(&name.as_str()) => {}
                    None => faults.push(format!("{path}.{name} is missing; it was {value}")),
                }
            }
        }
        (Value::Array(recorded), Value::Array(now)) => {
            if recorded.len() != now.len() && !PROSE.contains(&field) {
                faults.push(format!("{path} has {} entries, not {}", now.len(), recorded.len()));
            }
            for (at, (recorded, now)) in recorded.iter().zip(now).enumerate() {
                walk(&format!("{path}[{at}]"), field, recorded, now, ids, faults);
            }
        }
        (Value::String(recorded), Value::String(now)) => {
            if is_id(recorded) && is_id(now) {
                ids.0.insert(recorded.clone(), now.clone());
            } else if is_word(recorded) && recorded != now && !PROSE.contains(&field) {
                faults.push(format!("{path} is {now:?}; it was {recorded:?}"));
            }
        }
        _ => faults.push(format!("{path} is {now}; it was {recorded}")),
    }
}

/// A word of the protocol, such as a state: a client may know no other.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn is_id(text: &str) -> bool {
    let is_dash = |at: usize| [8, 13, 18, 23].contains(&at);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match byte {
            b'-' => is_dash(at),
            _ => byte.is_ascii_hexdigit() && !is_dash(at),
        })
}

#[test]
fn answers_may_say_more_and_not_less() {
    let recorded = serde_json::json!({"state": "exited", "pid": null, "names": ["a"], "n": 1});
    let faults = |now: Value| compare(&recorded, &now, &mut Ids::default()).len();

    let same = recorded.clone();
    assert_eq!(faults(same), 0);
    assert_eq!(faults(serde_json::json!({"state": "exited", "names": ["a"], "n": 2, "x": 0})), 0);
    assert_eq!(faults(serde_json::json!({"state": "ended", "names": ["a"], "n": 2})), 1);
    assert_eq!(faults(serde_json::json!({"state": "exited", "names": ["a"]})), 1);
    assert_eq!(faults(serde_json::json!({"state": "exited", "names": [], "n": "1"})), 2);
}

#[test]
fn ids_of_an_answer_replace_those_of_the_recording() {
    let (then, now) =
        ("01010101-0101-4101-8101-010101010101", "02020202-0202-4202-8202-020202020202");
    let mut ids = Ids::default();

    compare(&serde_json::json!({"id": then}), &serde_json::json!({"id": now}), &mut ids);

    assert_eq!(ids.translate(&format!("release {then}")), format!("release {now}"));
}
