//! Copies of the user's files in a pane's directory, brought up to date at every start.
//!
//! A pane never writes to the user's own files: it has copies. A copy follows the user's file until
//! the pane changes it; from then on the pane keeps its version. Settings are compared by key, other
//! files as a whole. What was copied last is the common base of both sides.

use serde_json::{Map, Value};

/// A copy of a file or directory of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Path of the copy in the agent's directory.
    pub at: String,
    /// The user's file or directory; none if the pane does not use it.
    pub from: Option<String>,
    /// For a JSON object that is merged by key: the values to set unless the user has set them.
    pub settings: Option<&'static [(&'static str, &'static str)]>,
}

/// What to do with a copied file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRefresh {
    /// Leave the pane's file as it is.
    Keep,
    /// Replace or create the pane's file.
    Copy,
    /// Remove the pane's file.
    Remove,
}

/// Compares digests of a file: what was copied last, the user's file, and the pane's file.
#[must_use]
pub fn decide(base: Option<&str>, user: Option<&str>, pane: Option<&str>) -> FileRefresh {
    match (base, user, pane) {
        (_, Some(user), Some(pane)) if user == pane => FileRefresh::Keep,
        (Some(base), Some(_), Some(pane)) if base == pane => FileRefresh::Copy,
        (None, Some(_), None) => FileRefresh::Copy,
        (Some(base), None, Some(pane)) if base == pane => FileRefresh::Remove,
        _ => FileRefresh::Keep,
    }
}

/// Merges settings: the user's, except for the keys that the pane has changed since `base`.
///
/// Objects are merged key by key; any other value, including a list, is taken as a whole.
#[must_use]
pub fn merge(
    base: &Map<String, Value>,
    user: &Map<String, Value>,
    pane: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = Map::new();
    let others = pane.keys().filter(|key| !user.contains_key(*key));
    for key in user.keys().chain(others) {
        if let Some(value) = merged_value(base.get(key), user.get(key), pane.get(key)) {
            merged.insert(key.clone(), value);
        }
    }
    merged
}

fn merged_value(base: Option<&Value>, user: Option<&Value>, pane: Option<&Value>) -> Option<Value> {
    if base == pane {
        return user.cloned();
    }
    if let (Some(Value::Object(user)), Some(Value::Object(pane))) = (user, pane) {
        let base = base.and_then(Value::as_object).cloned().unwrap_or_default();
        return Some(merge(&base, user, pane).into());
    }
    pane.cloned()
}

/// Returns the user's settings with additional values for the keys that the user has not set.
#[must_use]
pub fn with_defaults(
    mut settings: Map<String, Value>,
    defaults: &[(&str, &str)],
) -> Map<String, Value> {
    for (key, value) in defaults {
        settings.entry(*key).or_insert_with(|| (*value).into());
    }
    settings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decide_follows_user_until_pane_changes_the_file() {
        use FileRefresh::{Copy, Keep, Remove};
        #[rustfmt::skip]
        let table = [
            // base       user       pane
            (None,        Some("u"), None,      Copy),
            (None,        Some("u"), Some("p"), Keep),
            (None,        None,      Some("p"), Keep),
            (Some("b"),   Some("b"), Some("b"), Keep),
            (Some("b"),   Some("u"), Some("b"), Copy),
            (Some("b"),   Some("u"), Some("p"), Keep),
            (Some("b"),   Some("u"), Some("u"), Keep),
            (Some("b"),   Some("u"), None,      Keep),
            (Some("b"),   None,      Some("b"), Remove),
            (Some("b"),   None,      Some("p"), Keep),
            (Some("b"),   None,      None,      Keep),
        ];
        for (base, user, pane, expected) in table {
            assert_eq!(decide(base, user, pane), expected, "{base:?} {user:?} {pane:?}");
        }
    }

    #[test]
    fn merge_keeps_changes_of_the_pane_and_takes_all_others_from_the_user() {
        #[rustfmt::skip]
        let table = [
            // base               user                 pane                 merged
            (json!({}),           json!({"a": 1}),     json!({}),           json!({"a": 1})),
            (json!({"a": 1}),     json!({"a": 2}),     json!({"a": 1}),     json!({"a": 2})),
            (json!({"a": 1}),     json!({"a": 2}),     json!({"a": 3}),     json!({"a": 3})),
            (json!({"a": 1}),     json!({}),           json!({"a": 1}),     json!({})),
            (json!({"a": 1}),     json!({}),           json!({"a": 3}),     json!({"a": 3})),
            (json!({"a": 1}),     json!({"a": 2}),     json!({}),           json!({})),
            (json!({}),           json!({"u": 1}),     json!({"p": 2}),     json!({"u": 1, "p": 2})),
            (json!({"o": {"a": 1, "b": 1}}), json!({"o": {"a": 2, "b": 1}}),
                json!({"o": {"a": 1, "b": 2}}), json!({"o": {"a": 2, "b": 2}})),
            (json!({"l": [1]}),   json!({"l": [1, 2]}), json!({"l": [1, 3]}), json!({"l": [1, 3]})),
            (json!({"o": 1}),     json!({"o": {"a": 1}}), json!({"o": {"b": 2}}),
                json!({"o": {"a": 1, "b": 2}})),
        ];
        for (base, user, pane, expected) in table {
            let object = |value: &Value| value.as_object().unwrap().clone();
            let merged = Value::from(merge(&object(&base), &object(&user), &object(&pane)));
            assert_eq!(merged, expected, "{base} {user} {pane}");
        }
    }

    #[test]
    fn defaults_do_not_replace_settings_of_the_user() {
        let user = json!({"a": "mine"}).as_object().unwrap().clone();

        let settings = Value::from(with_defaults(user, &[("a", "x"), ("b", "y")]));

        assert_eq!(settings, json!({"a": "mine", "b": "y"}));
    }
}
