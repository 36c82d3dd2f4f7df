//! Settings that keep git from running programs in a tree that an agent could write to.
//!
//! A repository's configuration can name programs: filters, hooks, drivers, helpers, editors. Some
//! of these settings have fixed names, others contain a name that the repository chooses, as in
//! `filter.NAME.clean`. [`FIXED`] disables the former. For the latter, git lists the names that are
//! set anywhere, included files as well, and [`overrides`] returns a harmless value for each. All of
//! them are passed in the environment, which takes precedence over every file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Settings with fixed names, and their harmless values.
const FIXED: [(&str, &str); 23] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", ""),
    ("core.gitProxy", ""),
    ("core.askPass", ""),
    ("core.editor", ""),
    ("core.pager", ""),
    ("core.alternateRefsCommand", ""),
    ("sequence.editor", ""),
    ("interactive.diffFilter", ""),
    ("diff.external", ""),
    ("credential.helper", ""),
    ("gpg.program", ""),
    ("gpg.openpgp.program", ""),
    ("gpg.x509.program", ""),
    ("gpg.ssh.program", ""),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("uploadpack.packObjectsHook", ""),
    ("gc.recentObjectsHook", ""),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("status.submoduleSummary", "false"),
];

/// Variables of git that have the same effect as settings.
pub(super) const VARIABLES: [(&str, &str); 5] = [
    // Overrides `protocol.*.allow`: a missing object is not fetched, `ext::` runs nothing.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_SSH_COMMAND", "false"),
];

/// Arguments that make git list the names of all settings.
pub(super) const LIST: [&str; 4] = ["config", "--list", "--name-only", "-z"];

/// Returns the variables that override every setting that names a program, given the output of
/// [`LIST`].
pub(super) fn overrides(listed: &[u8]) -> Vec<(OsString, OsString)> {
    let mut settings: Vec<(Vec<u8>, &str)> =
        FIXED.iter().map(|&(name, value)| (name.as_bytes().to_vec(), value)).collect();
    for name in listed.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        if let Some(value) = harmless_value(name) {
            settings.push((name.to_vec(), value));
        }
    }
    let count = settings.len().to_string();
    let pairs = settings.into_iter().enumerate().flat_map(|(at, (name, value))| {
        let key = (format!("GIT_CONFIG_KEY_{at}").into(), OsStr::from_bytes(&name).to_owned());
        [key, (format!("GIT_CONFIG_VALUE_{at}").into(), value.into())]
    });
    pairs.chain([("GIT_CONFIG_COUNT".into(), count.into())]).collect()
}

/// Returns a value that disables the setting with this name, or `None` if it names no program.
fn harmless_value(name: &[u8]) -> Option<&'static str> {
    /// Sections in which every setting can be a command.
    const SECTIONS: [&str; 3] = ["alias", "pager", "guitool"];
    /// Last parts of names of settings that are commands or programs, in any section.
    const ENDINGS: [&str; 18] = [
        "askpass", "browser", "clean", "cmd", "command", "driver", "editor", "external", "filter",
        "helper", "hook", "pager", "process", "program", "proxy", "smudge", "textconv", "tunnel",
    ];
    let name = name.to_ascii_lowercase();
    let section = name.split(|&byte| byte == b'.').next()?;
    let last = name.rsplit(|&byte| byte == b'.').next()?;
    let is = |word: &str| last == word.as_bytes();
    match section {
        b"filter" if is("required") => return Some("false"),
        b"hook" if is("enabled") => return Some("false"),
        b"submodule" if is("update") => return Some("none"),
        b"remote" if is("promisor") => return Some("false"),
        b"remote" if is("uploadpack") || is("receivepack") || is("vcs") => return Some(""),
        _ => {}
    }
    let names_program = SECTIONS.iter().any(|word| section == word.as_bytes())
        || ENDINGS.iter().any(|word| last.ends_with(word.as_bytes()));
    names_program.then_some("")
}

/// Returns the variables that bind git to the work tree in `dir`: neither `core.worktree` nor a
/// missing `.git` leads to another one. Empty if `dir` is not the root of a work tree.
pub(super) fn bounds(dir: &Path) -> Vec<(OsString, OsString)> {
    let mut bounds = Vec::new();
    if dir.join(".git").symlink_metadata().is_ok() {
        bounds.push(("GIT_WORK_TREE".into(), dir.as_os_str().to_owned()));
    }
    if let Some(parent) = dir.parent() {
        bounds.push(("GIT_CEILING_DIRECTORIES".into(), parent.as_os_str().to_owned()));
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_value_is_known_for_every_setting_that_names_a_program() {
        for (name, value) in [
            ("filter.a.b=c.clean", Some("")),
            ("filter.X.process", Some("")),
            ("filter.x.required", Some("false")),
            ("diff.x.textconv", Some("")),
            ("diff.x.command", Some("")),
            ("merge.x.driver", Some("")),
            ("mergetool.x.cmd", Some("")),
            ("credential.https://example.com.helper", Some("")),
            ("trailer.x.cmd", Some("")),
            ("tar.x.command", Some("")),
            ("alias.st", Some("")),
            ("pager.status", Some("")),
            ("hook.x.command", Some("")),
            ("remote.origin.uploadpack", Some("")),
            ("remote.origin.promisor", Some("false")),
            ("submodule.x.update", Some("none")),
            ("core.sshcommand", Some("")),
            ("sendemail.sendmailcmd", Some("")),
            ("core.filemode", None),
            ("core.autocrlf", None),
            ("core.excludesfile", None),
            ("core.hookspath", None),
            ("remote.origin.fetch", None),
            ("extensions.worktreeconfig", None),
        ] {
            assert_eq!(harmless_value(name.as_bytes()), value, "{name}");
        }
    }
}
