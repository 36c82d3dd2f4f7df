//! Replacement of the path of a state root in records, after the root was moved or copied.

use std::borrow::Cow;

use serde_json::Value;

/// Characters that may separate a path from the text around it.
const SEPARATORS: [char; 9] = [':', '=', ',', ';', '"', '\'', ' ', '\t', '\n'];

/// Replaces the directory `from` by `to` in every string of a JSON value. Keys are not changed.
///
/// Working on JSON instead of on fields covers every field that a record has or will have.
pub fn value(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(string) => {
            if let Cow::Owned(rebased) = text(string, from, to) {
                *string = rebased;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|item| self::value(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|item| self::value(item, from, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces the directory `from` by `to` wherever a text contains it as a complete path or as the
/// beginning of one, for example in `PATH` or in an argument `--option=PATH`.
#[must_use]
pub fn text<'a>(text: &'a str, from: &str, to: &str) -> Cow<'a, str> {
    let starts_path = |at: usize| text[..at].chars().next_back().is_none_or(is_separator);
    let ends_name =
        |at: usize| text[at..].chars().next().is_none_or(|next| next == '/' || is_separator(next));
    let found = text.match_indices(from).map(|(at, _)| at);
    let mut copied_to = 0;
    let mut rebased = String::new();
    for at in found.filter(|at| starts_path(*at) && ends_name(at + from.len())) {
        rebased.push_str(&text[copied_to..at]);
        rebased.push_str(to);
        copied_to = at + from.len();
    }
    if copied_to == 0 {
        return Cow::Borrowed(text);
    }
    rebased.push_str(&text[copied_to..]);
    Cow::Owned(rebased)
}

fn is_separator(found: char) -> bool {
    SEPARATORS.contains(&found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_replaces_complete_paths_only() {
        let cases = [
            ("/a/.ccmux", "/b/new"),
            ("/a/.ccmux/tmp", "/b/new/tmp"),
            ("/a/.ccmux-old/tmp", "/a/.ccmux-old/tmp"),
            ("/x/a/.ccmux/tmp", "/x/a/.ccmux/tmp"),
            ("/bin:/a/.ccmux/bin:/a/.ccmux", "/bin:/b/new/bin:/b/new"),
            ("--dir=/a/.ccmux/x", "--dir=/b/new/x"),
            ("", ""),
        ];
        for (before, after) in cases {
            assert_eq!(text(before, "/a/.ccmux", "/b/new"), after);
        }
    }

    #[test]
    fn value_rebases_nested_strings() {
        let mut record = json!({"cwd": "/a/w", "env": {"/a": "/a"}, "argv": ["x", "/a/y"], "n": 1});

        value(&mut record, "/a", "/b");

        let expected = json!({"cwd": "/b/w", "env": {"/a": "/b"}, "argv": ["x", "/b/y"], "n": 1});
        assert_eq!(record, expected);
    }
}
