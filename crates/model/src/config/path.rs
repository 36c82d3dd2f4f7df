//! Paths that the user may name: where they may lead, and where not.

/// Why a path cannot be used where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// Nothing is named.
    #[error("a path may not be empty")]
    Empty,
    /// It does not count from the directory it is meant for.
    #[error("{0:?} is not a relative path")]
    NotRelative(String),
    /// Nobody could say where it counts from.
    #[error("{0:?} neither begins with `/` nor with `~/`")]
    NotRooted(String),
    /// It could lead out of the directory, or names one thing in two ways.
    #[error("{path:?} contains `{part}`")]
    Dots {
        /// The path.
        path: String,
        /// `.` or `..`.
        part: String,
    },
    /// It names one thing in two ways.
    #[error("{0:?} has a slash too many")]
    Slashes(String),
    /// No name of a file that anybody gave on purpose.
    #[error("{0:?} contains a control character")]
    Control(String),
    /// It would be taken for the name of a file, and nothing would be found.
    #[error("{0:?} contains `*`, and patterns have no meaning here")]
    Pattern(String),
    /// It would be read as a name with an asterisk in it, or as something that is not offered.
    #[error("{0:?} contains `**`; `*` stands for any part of one name")]
    DeepPattern(String),
    /// To share it is what isolation is there to prevent.
    #[error("{0:?} is the agent's own configuration, which every pane has for itself")]
    AgentsOwn(String),
    /// One of them would be written through the other.
    #[error("{inner:?} lies inside {outer:?}, which is listed as well")]
    Nested {
        /// The path that lies inside.
        inner: String,
        /// The path around it.
        outer: String,
    },
    /// It is there already.
    #[error("{0:?} is listed twice")]
    Twice(String),
}

/// Checks a path that must stay inside the directory it counts from.
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

/// Checks a path in the user's home that panes may share.
///
/// # Errors
///
/// [`InvalidPath`].
pub fn check_home_item(path: &str) -> Result<(), InvalidPath> {
    check_inner(path)?;
    // Some file systems do not tell capitals from small letters. The agent keeps copies and a lock
    // beside its file, whose names begin like it.
    let first = path.split('/').next().unwrap_or_default().to_ascii_lowercase();
    if first == ".claude" || first.starts_with(".claude.json") {
        return Err(InvalidPath::AgentsOwn(path.to_owned()));
    }
    Ok(())
}

/// Checks a pattern of paths inside a directory, with `*` for any part of a name.
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

/// Checks a file or directory of the user's: absolute, or in the home as `~/…`.
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

/// Those of `paths` that are listed before or lie inside another one, with their positions.
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
    /// What was probably meant.
    #[must_use]
    pub fn suggestion(&self) -> Option<String> {
        let (Self::NotRelative(path) | Self::Slashes(path)) = self else { return None };
        let relative = path.strip_prefix("~/").unwrap_or(path).trim_end_matches('/');
        (relative != path && check_inner(relative).is_ok()).then(|| relative.to_owned())
    }
}

/// Whether `path` lies below `outer`.
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

/// Checks the names between the slashes of `below`, which is the end of `path`.
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
    fn nothing_of_the_home_is_shared_that_leads_elsewhere_or_belongs_to_the_agent() {
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
    fn a_file_of_the_users_is_named_from_the_root_or_the_home() {
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
    fn patterns_are_for_transcripts() {
        assert_eq!(check_pattern("projects/*/{id}.jsonl"), Ok(()));
        assert!(check_pattern("**/{id}.jsonl").is_err());
        assert!(check_pattern("../*").is_err());
    }

    #[test]
    fn no_listed_path_may_lead_through_another() {
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
    fn what_was_probably_meant_is_said_where_it_is_clear() {
        let suggested = |path: &str| check_home_item(path).unwrap_err().suggestion();
        assert_eq!(suggested("~/.ssh").as_deref(), Some(".ssh"));
        assert_eq!(suggested(".ssh/").as_deref(), Some(".ssh"));
        assert_eq!(suggested("/etc/passwd"), None);
        assert_eq!(suggested("~/../x"), None);
    }
}
