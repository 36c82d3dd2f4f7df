//! Validation of paths in the configuration.

/// A path that is not valid in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// The path is empty.
    #[error("a path may not be empty")]
    Empty,
    /// The path must be relative.
    #[error("{0:?} is not a relative path")]
    NotRelative(String),
    /// The path must be absolute or start with `~/`.
    #[error("{0:?} does not start with `/` or `~/`")]
    NotRooted(String),
    /// The path contains `.` or `..`.
    #[error("{path:?} contains `{part}`")]
    Dots {
        /// The path.
        path: String,
        /// `.` or `..`.
        part: String,
    },
    /// The path has an empty component.
    #[error("{0:?} has a superfluous slash")]
    Slashes(String),
    /// The path contains a control character.
    #[error("{0:?} contains a control character")]
    Control(String),
    /// Patterns are not allowed here.
    #[error("{0:?} contains `*`; patterns are not allowed here")]
    Pattern(String),
    /// Recursive patterns are not supported.
    #[error("{0:?} contains `**`, which is not supported; `*` matches any part of one file name")]
    DeepPattern(String),
    /// Sharing the path would defeat isolation.
    #[error("{0:?} is part of the agent's configuration, which cannot be shared between panes")]
    AgentsOwn(String),
    /// The inner path would be written through the outer one.
    #[error("{inner:?} is inside {outer:?}, which is also listed")]
    Nested {
        /// The inner path.
        inner: String,
        /// The outer path.
        outer: String,
    },
    /// The path is a duplicate.
    #[error("{0:?} is listed twice")]
    Twice(String),
}

/// Checks a path that must stay inside the directory it is relative to.
///
/// # Errors
///
/// [`InvalidPath`].
pub fn check_inner(path: &str) -> Result<(), InvalidPath> {
    check_relative(path)?;
    if path.contains('*') {
        return Err(InvalidPath::Pattern(path.to_owned()));
    }
    Ok(())
}

/// Checks a path, relative to the user's home, that panes may share.
///
/// # Errors
///
/// [`InvalidPath`].
pub fn check_home_item(path: &str) -> Result<(), InvalidPath> {
    check_inner(path)?;
    // Some file systems ignore case. The agent keeps backups and a lock file with the same prefix
    // next to its file.
    let first = path.split('/').next().unwrap_or_default().to_ascii_lowercase();
    if first == ".claude" || first.starts_with(".claude.json") {
        return Err(InvalidPath::AgentsOwn(path.to_owned()));
    }
    Ok(())
}

/// Checks a relative pattern, in which `*` matches any part of a file name.
///
/// # Errors
///
/// [`InvalidPath`].
pub fn check_pattern(path: &str) -> Result<(), InvalidPath> {
    check_relative(path)?;
    if path.contains("**") {
        return Err(InvalidPath::DeepPattern(path.to_owned()));
    }
    Ok(())
}

/// Checks the path of a user's file or directory: absolute, or starting with `~/`.
///
/// # Errors
///
/// [`InvalidPath`].
pub fn check_users(path: &str) -> Result<(), InvalidPath> {
    if path.is_empty() {
        return Err(InvalidPath::Empty);
    }
    let below = path.strip_prefix("~/").or_else(|| path.strip_prefix('/'));
    let below = below.ok_or_else(|| InvalidPath::NotRooted(path.to_owned()))?;
    check_names(below, path)
}

/// Returns the paths that are duplicates or inside another one, with their positions.
#[must_use]
pub fn overlaps(paths: &[&str]) -> Vec<(usize, InvalidPath)> {
    let overlap = |(at, path): (usize, &&str)| {
        if paths[..at].contains(path) {
            return Some((at, InvalidPath::Twice((*path).to_owned())));
        }
        let outer = paths.iter().find(|outer| is_inside(path, outer))?;
        let (inner, outer) = ((*path).to_owned(), (*outer).to_owned());
        Some((at, InvalidPath::Nested { inner, outer }))
    };
    paths.iter().enumerate().filter_map(overlap).collect()
}

impl InvalidPath {
    /// Returns a suggested replacement.
    #[must_use]
    pub fn suggestion(&self) -> Option<String> {
        let (Self::NotRelative(path) | Self::Slashes(path)) = self else { return None };
        let relative = path.strip_prefix("~/").unwrap_or(path).trim_end_matches('/');
        (relative != path && check_inner(relative).is_ok()).then(|| relative.to_owned())
    }
}

/// Returns true if `path` is below `outer`.
fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

fn check_relative(path: &str) -> Result<(), InvalidPath> {
    if path.is_empty() {
        return Err(InvalidPath::Empty);
    }
    if path.starts_with('/') || path == "~" || path.starts_with("~/") {
        return Err(InvalidPath::NotRelative(path.to_owned()));
    }
    check_names(path, path)
}

/// Checks the components of `below`, which is a suffix of `path`.
fn check_names(below: &str, path: &str) -> Result<(), InvalidPath> {
    if path.chars().any(char::is_control) {
        return Err(InvalidPath::Control(path.to_owned()));
    }
    below.split('/').try_for_each(|part| match part {
        "" => Err(InvalidPath::Slashes(path.to_owned())),
        "." | ".." => Err(InvalidPath::Dots { path: path.to_owned(), part: part.to_owned() }),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(path: &str, part: &str) -> Option<InvalidPath> {
        Some(InvalidPath::Dots { path: path.to_owned(), part: part.to_owned() })
    }

    fn refused(why: fn(String) -> InvalidPath, path: &str) -> Option<InvalidPath> {
        Some(why(path.to_owned()))
    }

    #[test]
    fn check_home_item_rejects_paths_that_escape_or_belong_to_the_agent() {
        use InvalidPath as I;
        let cases = [
            (".ssh", None),
            (".config/git", None),
            (".claude-tools", None),
            ("..gitconfig", None),
            ("", Some(I::Empty)),
            ("/etc/passwd", refused(I::NotRelative, "/etc/passwd")),
            ("~/.ssh", refused(I::NotRelative, "~/.ssh")),
            ("~", refused(I::NotRelative, "~")),
            ("..", dots("..", "..")),
            (".ssh/../.claude", dots(".ssh/../.claude", "..")),
            ("./.ssh", dots("./.ssh", ".")),
            (".", dots(".", ".")),
            (".ssh/", refused(I::Slashes, ".ssh/")),
            (".config//git", refused(I::Slashes, ".config//git")),
            (".ssh\0", refused(I::Control, ".ssh\0")),
            (".ssh\n", refused(I::Control, ".ssh\n")),
            (".config/*", refused(I::Pattern, ".config/*")),
            (".claude", refused(I::AgentsOwn, ".claude")),
            (".claude/projects", refused(I::AgentsOwn, ".claude/projects")),
            (".Claude/x", refused(I::AgentsOwn, ".Claude/x")),
            (".claude.json", refused(I::AgentsOwn, ".claude.json")),
            (".claude.json.backup", refused(I::AgentsOwn, ".claude.json.backup")),
        ];
        for (path, expected) in cases {
            assert_eq!(check_home_item(path).err(), expected, "input: {path:?}");
        }
    }

    #[test]
    fn check_users_requires_an_absolute_or_home_path() {
        use InvalidPath as I;
        let cases = [
            ("~/.config/agent.json", None),
            ("/etc/agent/*.d", None),
            ("", Some(I::Empty)),
            ("agent.json", refused(I::NotRooted, "agent.json")),
            ("~other/x", refused(I::NotRooted, "~other/x")),
            ("/", refused(I::Slashes, "/")),
            ("~/", refused(I::Slashes, "~/")),
            ("~//x", refused(I::Slashes, "~//x")),
            ("~/a/../b", dots("~/a/../b", "..")),
        ];
        for (path, expected) in cases {
            assert_eq!(check_users(path).err(), expected, "input: {path:?}");
        }
    }

    #[test]
    fn check_pattern_rejects_recursive_and_escaping_patterns() {
        assert_eq!(check_pattern("projects/*/{id}.jsonl"), Ok(()));
        assert!(check_pattern("**/{id}.jsonl").is_err());
        assert!(check_pattern("../*").is_err());
    }

    #[test]
    fn overlaps_reports_duplicates_and_nested_paths() {
        let nested = |inner: &str, outer: &str| InvalidPath::Nested {
            inner: inner.to_owned(),
            outer: outer.to_owned(),
        };
        let cases: [(&[&str], _); 5] = [
            (&[".config/git", ".config/gh", ".configure"], vec![]),
            (&["a", "b", "a"], vec![(2, InvalidPath::Twice("a".to_owned()))]),
            (&["a", "a/b", "a/c"], vec![(1, nested("a/b", "a")), (2, nested("a/c", "a"))]),
            (&["a/b/c", "a"], vec![(0, nested("a/b/c", "a"))]),
            (&[], vec![]),
        ];
        for (paths, expected) in cases {
            assert_eq!(overlaps(paths), expected, "{paths:?}");
        }
    }

    #[test]
    fn suggestion_is_made_only_for_obvious_corrections() {
        let suggested = |path: &str| check_home_item(path).unwrap_err().suggestion();
        assert_eq!(suggested("~/.ssh").as_deref(), Some(".ssh"));
        assert_eq!(suggested(".ssh/").as_deref(), Some(".ssh"));
        assert_eq!(suggested("/etc/passwd"), None);
        assert_eq!(suggested("~/../x"), None);
    }
}
