//! Session templates: their parts and limits (R26).

use std::path::{Component, Path};

/// The file that describes a template, in the template's directory.
pub const FILE: &str = "template.toml";

/// The parts of a template. Each is copied to the directory of that name in the session.
pub const PARTS: [&str; 3] = ["unit", "workflows", "files"];

/// The directories that every session has, with or without a template.
pub const SESSION_DIRS: [&str; 3] = ["unit", "workflows", "logs"];

/// The template that ships with ccmux. A user's template of that name replaces it.
pub const SHIPPED: &str = "default";

/// The maximum total size of a template, in bytes.
pub const MOST_BYTES: u64 = 64 << 20;

/// The maximum number of files, directories and links in a template.
pub const MOST_ENTRIES: usize = 10_000;

/// Returns true if a link at `at` (relative to the template's root) to `target` stays within the
/// parts of the template. A link out of it would share files between the copy and others.
#[must_use]
pub fn stays_inside(at: &Path, target: &Path) -> bool {
    if target.is_absolute() {
        return false;
    }
    let mut place: Vec<&std::ffi::OsStr> = at.iter().collect();
    place.pop();
    for part in target.components() {
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
    fn link_out_of_the_template_is_rejected() {
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
        for (at, target, inside) in cases {
            assert_eq!(stays_inside(Path::new(at), Path::new(target)), inside, "{at} -> {target}");
        }
    }
}
