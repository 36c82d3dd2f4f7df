//! Lines that say where the changes of an ended pane are and what to do next.

use std::path::Path;

use protocol::control::{PaneAnswer, WorkspaceChanges};

/// Returns the lines; none for a pane without changes on its own branch.
pub(crate) fn lines(answer: &PaneAnswer, home: Option<&str>) -> Vec<String> {
    let pane = &answer.pane;
    let (Some(changes), Some(branch)) = (&answer.changes, &pane.branch) else { return Vec::new() };
    let place = tilde(&pane.workspace, home);
    let name = &pane.name;
    if changes.files == 0 {
        return vec![format!("{name} changed no files; remove it with `ccmux close {name}`")];
    }
    let mut lines =
        vec![format!("{name} changed {} on branch {branch} in {place}", counts(changes))];
    let commit = match changes.uncommitted {
        0 => String::new(),
        1 => "commit 1 file there, then ".to_owned(),
        many => format!("commit {many} files there, then "),
    };
    let dir = tilde(&changes.source, home);
    let merge = if changes.is_clone {
        format!("git -C {dir} pull {place} {branch}")
    } else {
        format!("git -C {dir} merge {branch}")
    };
    lines.push(format!("next: {commit}`{merge}`, `ccmux close {name}`"));
    lines
}

/// Formats the number of files and lines.
pub(crate) fn counts(changes: &WorkspaceChanges) -> String {
    let files = if changes.files == 1 { "file" } else { "files" };
    format!("{} {files} (+{} -{})", changes.files, changes.added, changes.removed)
}

/// Abbreviates the user's home directory at the beginning of a path.
pub(crate) fn tilde(path: &str, home: Option<&str>) -> String {
    let below = home.and_then(|home| Path::new(path).strip_prefix(home).ok());
    match below {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tilde_abbreviates_the_home_directory_only() {
        let home = Some("/home/me");
        assert_eq!(tilde("/home/me", home), "~");
        assert_eq!(tilde("/home/me/app", home), "~/app");
        assert_eq!(tilde("/home/meg/app", home), "/home/meg/app");
        assert_eq!(tilde("/src", None), "/src");
    }
}
