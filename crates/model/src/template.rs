//! Templates: what a session begins with. Which parts they have, and what may be in them (R26).

use std::path::{Component, Path};

/// The description of a template, in its directory.
pub const FILE: &str = "template.toml";

/// The parts of a template. Each is copied to the same name in a session's directory.
pub const PARTS: [&str; 3] = ["unit", "workflows", "files"];

/// The directories that every session has, whatever it was made from.
pub const SESSION_DIRS: [&str; 3] = ["unit", "workflows", "logs"];

/// The template that comes with ccmux. A user's own of that name takes its place.
pub const SHIPPED: &str = "default";

/// The most that a template may hold, in bytes.
pub const MOST_BYTES: u64 = 64 << 20;

/// The most files, directories and links that it may hold.
pub const MOST_ENTRIES: usize = 10_000;

/// Whether a link that lies at `at` in a template, relative to its top, and leads to `leads`, stays
/// within the template's parts. What leads out of them would make a copy share something with
/// whoever else can write there.
#[must_use]
pub fn stays_inside(at: &Path, leads: &Path) -> bool {
    if leads.is_absolute() {
        return false;
    }
    let mut place: Vec<&std::ffi::OsStr> = at.iter().collect();
    place.pop();
    for part in leads.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if place.pop().is_none() {
                    return false;
                }
            }
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    place.first().is_some_and(|top| PARTS.iter().any(|part| *top == *part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R26: a copy shares nothing with its original.
    #[test]
    fn a_link_stays_inside_or_is_no_part_of_a_template() {
        let cases = [
            ("unit/a/link", "../b", true),
            ("unit/link", "../workflows/plan.md", true),
            ("unit/link", "./there/../here", true),
            ("unit/link", "../template.toml", false),
            ("unit/link", "../..", false),
            ("unit/link", "..", false),
            ("unit/link", "../../unit/x", false),
            ("unit/link", "/etc/passwd", false),
        ];
        for (at, leads, inside) in cases {
            assert_eq!(stays_inside(Path::new(at), Path::new(leads)), inside, "{at} -> {leads}");
        }
    }
}
