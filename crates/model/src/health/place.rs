//! Files and directories of ours: there, real, and for their owner alone (R3).

use super::{Finding, Kind, Severity, Subject};

/// What has a name on disk; links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, to this.
    Link(String),
    /// Anything else.
    Other,
}

/// What was seen at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub shape: Shape,
    /// The user that it belongs to.
    pub owner: u32,
    /// Who may do what with it.
    pub mode: u32,
    /// Device and number: the same for two names of one thing.
    pub identity: (u64, u64),
}

/// A place, and what was seen there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The place.
    pub path: String,
    /// What was seen, or why nothing was.
    pub found: Result<Found, String>,
}

/// What a place should hold.
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

/// What is wrong with a place of a pane.
#[must_use]
pub fn of_pane(
    pane: &Subject,
    sighting: &Sighting,
    expected: Expected,
    us: u32,
) -> Option<Finding> {
    let missing = if pane.live { Severity::Error } else { Severity::Warning };
    judge(&pane.to_string(), missing, &pane.again(), sighting, expected, us)
}

/// What is wrong with a place of the daemon's.
#[must_use]
pub fn of_root(subject: &str, sighting: &Sighting, expected: Expected, us: u32) -> Option<Finding> {
    let again = "`ccmux daemon stop`; the next command makes it again";
    judge(subject, Severity::Error, again, sighting, expected, us)
}

fn judge(
    subject: &str,
    missing: Severity,
    again: &str,
    sighting: &Sighting,
    expected: Expected,
    us: u32,
) -> Option<Finding> {
    let path = &sighting.path;
    let error = |kind, evidence: String, remedy: String| {
        Some(Finding::new(Severity::Error, subject, kind, evidence, remedy))
    };
    let found = match &sighting.found {
        Ok(found) => found,
        Err(why) => {
            let evidence = format!("`{path}`: {why}");
            let remedy = format!("make it again: {again}");
            return Some(Finding::new(missing, subject, Kind::Missing, evidence, remedy));
        }
    };
    let put_back = format!("find out who put it there, move it away, and make ours again: {again}");
    match (&found.shape, expected) {
        (Shape::Link(to), _) => {
            return error(Kind::Link, format!("`{path}` is a link to `{to}`"), put_back);
        }
        (Shape::Directory, Expected::Directory) | (Shape::File, Expected::File) => {}
        (shape, _) => {
            let what = match shape {
                Shape::Directory => "a directory",
                Shape::File => "a file",
                Shape::Link(_) | Shape::Other => "neither a file nor a directory",
            };
            return error(Kind::OtherThing, format!("`{path}` is {what}"), put_back);
        }
    }
    if found.owner != us {
        let evidence = format!("`{path}` belongs to user {}, we are user {us}", found.owner);
        return error(Kind::Foreign, evidence, put_back);
    }
    let mode = found.mode & 0o7777;
    if mode & 0o077 != 0 {
        let wanted = expected.mode();
        let evidence = format!("`{path}` has mode {mode:04o}, not {wanted}");
        return error(Kind::Open, evidence, format!("`chmod {wanted} {path}`"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::pane;
    use super::*;

    const US: u32 = 1000;

    fn at(shape: Shape, owner: u32, mode: u32) -> Result<Found, String> {
        Ok(Found { shape, owner, mode, identity: (1, 2) })
    }

    #[test]
    fn only_a_directory_of_ours_for_us_alone_is_well() {
        let link = Shape::Link("/elsewhere".to_owned());
        #[rustfmt::skip]
        let table = [
            (at(Shape::Directory, US, 0o040_700), None),
            (at(Shape::Directory, US, 0o040_500), None),
            (Err("it is not there".to_owned()),   Some((Kind::Missing, "it is not there"))),
            (at(link, US, 0o120_777),             Some((Kind::Link, "`/elsewhere`"))),
            (at(Shape::File, US, 0o100_600),      Some((Kind::OtherThing, "a file"))),
            (at(Shape::Other, US, 0o010_600),     Some((Kind::OtherThing, "neither"))),
            (at(Shape::Directory, 0, 0o040_700),  Some((Kind::Foreign, "user 0"))),
            (at(Shape::Directory, US, 0o040_755), Some((Kind::Open, "mode 0755, not 0700"))),
            (at(Shape::Directory, US, 0o040_710), Some((Kind::Open, "mode 0710"))),
        ];
        for (found, expected) in table {
            let sighting = Sighting { path: "/s/dir".to_owned(), found };
            let finding = of_pane(&pane(1, true), &sighting, Expected::Directory, US);
            match (finding, expected) {
                (None, None) => {}
                (Some(finding), Some((kind, evidence))) => {
                    assert_eq!(finding.what, kind.as_str(), "{sighting:?}");
                    assert!(finding.evidence.contains(evidence), "{finding:?}");
                    assert!(finding.evidence.contains("`/s/dir`"), "{finding:?}");
                    assert_eq!(finding.severity, Severity::Error);
                    assert!(!finding.remedy.is_empty());
                }
                (finding, expected) => panic!("{sighting:?}: {finding:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn what_is_missing_is_worse_for_a_pane_that_lives() {
        let path = "/s/dir".to_owned();
        let nothing = Sighting { path, found: Err("it is not there".to_owned()) };
        let severity = |live| {
            let finding = of_pane(&pane(1, live), &nothing, Expected::Directory, US);
            finding.unwrap().severity
        };

        assert_eq!((severity(true), severity(false)), (Severity::Error, Severity::Warning));
    }

    #[test]
    fn files_are_held_to_their_own_mode() {
        let sighting =
            |mode| Sighting { path: "/s/pane.json".to_owned(), found: at(Shape::File, US, mode) };

        let open = of_root("state root", &sighting(0o100_644), Expected::File, US).unwrap();

        assert_eq!(open.remedy, "`chmod 0600 /s/pane.json`");
        assert_eq!(of_root("state root", &sighting(0o100_600), Expected::File, US), None);
    }
}
