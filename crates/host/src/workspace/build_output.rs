//! Names of build output and caches.
//!
//! Files that git ignores and that lie below such a directory can be made again, so that they do not
//! count as unsaved work. A repository below it is examined all the same.

use std::path::Path;

/// Directories that only contain generated files.
const DIRECTORIES: [&str; 26] = [
    ".cache",
    ".eggs",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    ".vite",
    "__pycache__",
    "_build",
    "build",
    "coverage",
    "dist",
    "node_modules",
    "obj",
    "out",
    "target",
    "venv",
];

/// Extensions of generated files.
const EXTENSIONS: [&str; 8] = ["class", "elc", "gcda", "gcno", "o", "pyc", "pyo", "tsbuildinfo"];

/// Returns whether an ignored file is known build output.
pub(super) fn is_build_output(name: &Path) -> bool {
    let is_listed = |dir: &Path| {
        let dir = dir.file_name().and_then(|name| name.to_str());
        dir.is_some_and(|dir| DIRECTORIES.binary_search(&dir).is_ok())
    };
    let extension = name.extension().and_then(|extension| extension.to_str());
    name.ancestors().skip(1).any(is_listed)
        || extension.is_some_and(|extension| EXTENSIONS.binary_search(&extension).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_build_output_looks_at_directories_and_extensions() {
        assert!(DIRECTORIES.is_sorted() && EXTENSIONS.is_sorted());
        for (name, expected) in [
            ("target/debug/a", true),
            ("web/node_modules/b/c.js", true),
            ("src/a.pyc", true),
            ("target", false),
            ("notes/.env", false),
            ("targets/a", false),
        ] {
            assert_eq!(is_build_output(Path::new(name)), expected, "{name}");
        }
    }
}
