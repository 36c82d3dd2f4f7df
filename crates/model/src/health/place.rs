//! Checks of the files and directories of ccmux: existence, type, owner and permissions (R3).

use super::{Finding, FindingKind, Severity, Subject};

/// The type of a file, without following links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, with its target.
    Link(String),
    /// Anything else.
    Other,
}

/// The metadata of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its type.
    pub shape: Shape,
    /// The user id of its owner.
    pub owner: u32,
    /// Its mode.
    pub mode: u32,
    /// Device and inode number.
    pub identity: (u64, u64),
}

/// An observed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileObservation {
    /// The path.
    pub path: String,
    /// The metadata, or the error.
    pub found: Result<FileInfo, String>,
}

/// The expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A directory.
    Directory,
    /// A file.
    File,
}

impl Expected {
    fn mode(self) -> &'static str {
        match self {
            Self::Directory => "0700",
            Self::File => "0600",
        }
    }
}

/// Checks a path of a pane.
#[must_use]
pub fn of_pane(
    pane: &Subject,
    observed: &FileObservation,
    expected: Expected,
    us: u32,
) -> Option<Finding> {
    let missing = if pane.live { Severity::Error } else { Severity::Warning };
    judge(&pane.to_string(), missing, &pane.again(), observed, expected, us)
}

/// Checks a path of the daemon.
#[must_use]
pub fn of_root(
    subject: &str,
    observed: &FileObservation,
    expected: Expected,
    us: u32,
) -> Option<Finding> {
    let again = "`ccmux daemon stop`; the next command recreates it";
    judge(subject, Severity::Error, again, observed, expected, us)
}

fn judge(
    subject: &str,
    missing: Severity,
    again: &str,
    observed: &FileObservation,
    expected: Expected,
    us: u32,
) -> Option<Finding> {
    let path = &observed.path;
    let error = |kind, evidence: String, remedy: String| {
        Some(Finding::new(Severity::Error, subject, kind, evidence, remedy))
    };
    let found = match &observed.found {
        Ok(found) => found,
        Err(why) => {
            let evidence = format!("`{path}`: {why}");
            let remedy = format!("recreate it: {again}");
            return Some(Finding::new(missing, subject, FindingKind::Missing, evidence, remedy));
        }
    };
    let put_back = format!("find out what created it, move it away, and recreate ours: {again}");
    match (&found.shape, expected) {
        (Shape::Link(to), _) => {
            return error(FindingKind::Link, format!("`{path}` is a link to `{to}`"), put_back);
        }
        (Shape::Directory, Expected::Directory) | (Shape::File, Expected::File) => {}
        (shape, _) => {
            let what = match shape {
                Shape::Directory => "a directory",
                Shape::File => "a file",
                Shape::Link(_) | Shape::Other => "neither a file nor a directory",
            };
            return error(FindingKind::OtherThing, format!("`{path}` is {what}"), put_back);
        }
    }
    if found.owner != us {
        let evidence = format!("`{path}` belongs to user {}, not to user {us}", found.owner);
        return error(FindingKind::Foreign, evidence, put_back);
    }
    let mode = found.mode & 0o7777;
    if mode & 0o077 != 0 {
        let wanted = expected.mode();
        let evidence = format!("`{path}` has mode {mode:04o}, not {wanted}");
        return error(FindingKind::Open, evidence, format!("`chmod {wanted} {path}`"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::pane;
    use super::*;

    const US: u32 = 1000;

    fn at(shape: Shape, owner: u32, mode: u32) -> Result<FileInfo, String> {
        Ok(FileInfo { shape, owner, mode, identity: (1, 2) })
    }

    #[test]
    fn only_a_private_directory_of_the_user_has_no_finding() {
        let link = Shape::Link("/elsewhere".to_owned());
        #[rustfmt::skip]
        let table = [
            (at(Shape::Directory, US, 0o040_700), None),
            (at(Shape::Directory, US, 0o040_500), None),
            (Err("it is not there".to_owned()),   Some((FindingKind::Missing, "it is not there"))),
            (at(link, US, 0o120_777),             Some((FindingKind::Link, "`/elsewhere`"))),
            (at(Shape::File, US, 0o100_600),      Some((FindingKind::OtherThing, "a file"))),
            (at(Shape::Other, US, 0o010_600),     Some((FindingKind::OtherThing, "neither"))),
            (at(Shape::Directory, 0, 0o040_700),  Some((FindingKind::Foreign, "user 0"))),
            (at(Shape::Directory, US, 0o040_755), Some((FindingKind::Open, "mode 0755, not 0700"))),
            (at(Shape::Directory, US, 0o040_710), Some((FindingKind::Open, "mode 0710"))),
        ];
        for (found, expected) in table {
            let observed = FileObservation { path: "/s/dir".to_owned(), found };
            let finding = of_pane(&pane(1, true), &observed, Expected::Directory, US);
            match (finding, expected) {
                (None, None) => {}
                (Some(finding), Some((kind, evidence))) => {
                    assert_eq!(finding.what, kind.as_str(), "{observed:?}");
                    assert!(finding.evidence.contains(evidence), "{finding:?}");
                    assert!(finding.evidence.contains("`/s/dir`"), "{finding:?}");
                    assert_eq!(finding.severity, Severity::Error);
                    assert!(!finding.remedy.is_empty());
                }
                (finding, expected) => panic!("{observed:?}: {finding:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn missing_directory_is_an_error_only_for_a_running_pane() {
        let path = "/s/dir".to_owned();
        let nothing = FileObservation { path, found: Err("it is not there".to_owned()) };
        let severity = |live| {
            let finding = of_pane(&pane(1, live), &nothing, Expected::Directory, US);
            finding.unwrap().severity
        };

        assert_eq!((severity(true), severity(false)), (Severity::Error, Severity::Warning));
    }

    #[test]
    fn file_requires_mode_0600() {
        let observed = |mode| FileObservation {
            path: "/s/pane.json".to_owned(),
            found: at(Shape::File, US, mode),
        };

        let open = of_root("state root", &observed(0o100_644), Expected::File, US).unwrap();

        assert_eq!(open.remedy, "`chmod 0600 /s/pane.json`");
        assert_eq!(of_root("state root", &observed(0o100_600), Expected::File, US), None);
    }
}
