//! No program of an agent runs outside its pane: every setting of git that names a program is
//! planted in the tree of an ended pane, and no command of ccmux runs one of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::{Home, put};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline of a command; generous for a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// Settings of git that name a program, with the driver `planted` where a name can be chosen.
const SETTINGS: &[&str] = &[
    "alias.config",
    "alias.ls-files",
    "alias.rev-list",
    "alias.status",
    "browser.planted.cmd",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "credential.https://example.com.helper",
    "diff.external",
    "diff.planted.command",
    "diff.planted.textconv",
    "difftool.planted.cmd",
    "filter.planted.clean",
    "filter.planted.smudge",
    "filter.a=b.c.clean",
    "filter.long-running.process",
    "gc.recentObjectsHook",
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.ssh.program",
    "gpg.x509.program",
    "guitool.planted.cmd",
    "hook.planted.command",
    "imap.tunnel",
    "interactive.diffFilter",
    "man.planted.cmd",
    "merge.planted.driver",
    "mergetool.planted.cmd",
    "pager.branch",
    "pager.config",
    "pager.log",
    "pager.stash",
    "pager.status",
    "receive.procReceiveHook",
    "remote.origin.receivepack",
    "remote.origin.uploadpack",
    "sendemail.sendmailCmd",
    "sequence.editor",
    "tar.planted.command",
    "trailer.planted.cmd",
    "trailer.planted.command",
    "uploadpack.packObjectsHook",
    "web.browser",
];

/// Settings that make git use the programs above, or another tree.
const SWITCHES: &[(&str, &str)] = &[
    ("commit.gpgSign", "true"),
    ("filter.planted.required", "true"),
    ("hook.planted.event", "post-index-change"),
    ("log.showSignature", "true"),
    ("protocol.ext.allow", "always"),
    ("status.submoduleSummary", "true"),
];

/// The hooks of git.
const HOOKS: &[&str] = &[
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "pre-auto-gc",
    "pre-commit",
    "reference-transaction",
    "update",
];

/// A home with a repository, and a program that leaves a marker with the name of its setting.
struct Trap {
    home: Home,
    repo: PathBuf,
    markers: PathBuf,
    program: PathBuf,
}

impl Trap {
    fn new() -> Self {
        let mut home = Home::new(CCMUX);
        // Programs in the current directory come first for this user.
        home.set_env("PATH", ".:bin:/usr/local/bin:/usr/bin:/bin");
        let (repo, markers) = (home.dir().join("repo"), home.dir().join("markers"));
        let program = home.dir().join("mark");
        fs::create_dir(&markers).unwrap();
        let trap = Self { home, repo, markers, program };
        trap.put_program(&trap.program.clone(), "\"$1\"");
        trap.make_repository(&trap.repo.clone());
        trap
    }

    fn git(&self, dir: &Path, words: &[&str]) -> String {
        let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        let words: Vec<&str> = who.into_iter().chain(words.iter().copied()).collect();
        self.home.program("/usr/bin/git", &words).dir(dir).timeout(LONG).ok()
    }

    fn ccmux(&self, words: &[&str]) -> testkit::Invocation {
        self.home.ccmux(words).dir(&self.repo).timeout(LONG)
    }

    fn make_repository(&self, dir: &Path) {
        put(&dir.join("file"), "text\n");
        put(&dir.join(".gitattributes"), "file filter=planted diff=planted merge=planted\n");
        self.git(dir, &["init", "--quiet", "--initial-branch=main"]);
        self.git(dir, &["add", "."]);
        self.git(dir, &["commit", "--quiet", "-m", "first"]);
    }

    /// Writes a program that leaves the marker `name`, a word of the shell, and copies its input.
    fn put_program(&self, path: &Path, name: &str) {
        let dir = self.markers.display();
        put(path, format!("#!/bin/sh\nname=$(echo {name} | tr / _)\n: > '{dir}'/\"$name\"\ncat\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Plants all settings in the repository of a tree, as a program in the tree could.
    fn plant(&self, tree: &Path) {
        let words = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = PathBuf::from(self.git(tree, &words).trim());
        self.put_program(&tree.join("git"), "git-in-tree");
        self.put_program(&tree.join("bin/git"), "git-in-bin");
        for hook in HOOKS {
            self.put_program(&common.join("hooks").join(hook), &format!("hook-{hook}"));
        }
        put(
            &common.join("info/attributes"),
            "file filter=planted diff=planted\n.gitattributes filter=included\nREADME filter=a=b.c\n",
        );
        let program = self.program.display();
        let included = self.home.dir().join("included");
        put(&included, format!("[filter \"included\"]\n\tclean = {program} included\n"));
        // Written to the file: git would use the settings that are already there.
        let mut text = fs::read_to_string(common.join("config")).unwrap();
        let mut add = |name: &str, value: &str| {
            let (section, key) = name.rsplit_once('.').unwrap();
            let (section, middle) = section.split_once('.').unwrap_or((section, ""));
            let middle = if middle.is_empty() { String::new() } else { format!(" \"{middle}\"") };
            writeln!(text, "[{section}{middle}]\n\t{key} = {value}").unwrap();
        };
        for name in SETTINGS {
            let bang = if name.starts_with("alias.") { "!" } else { "" };
            add(name, &format!("{bang}{program} {name}"));
        }
        SWITCHES.iter().for_each(|(name, value)| add(name, value));
        add("include.path", &included.to_string_lossy());
        put(&common.join("config"), &text);
    }

    /// Makes git compare the contents of the files of a tree again.
    fn touch(tree: &Path) {
        for name in ["file", ".gitattributes"] {
            let text = fs::read_to_string(tree.join(name)).unwrap();
            fs::remove_file(tree.join(name)).unwrap();
            put(&tree.join(name), text);
        }
    }

    fn markers(&self) -> BTreeSet<String> {
        let found = fs::read_dir(&self.markers).unwrap();
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Asserts that planted settings take effect for an ordinary git, and removes the markers. The
    /// status of a tree includes that of its submodules, after which git does not compare them again.
    #[track_caller]
    fn assert_armed(&self, tree: &Path) {
        Self::touch(tree);
        self.home.program("/usr/bin/git", &["status"]).dir(tree).timeout(LONG).run();
        let found = self.markers();
        for name in ["core.fsmonitor", "filter.planted.clean", "included"] {
            assert!(found.contains(name), "{name} has no effect: {found:?}");
        }
        for name in found {
            fs::remove_file(self.markers.join(name)).unwrap();
        }
        Self::touch(tree);
    }

    #[track_caller]
    fn assert_nothing_ran(&self, after: &[&str]) {
        assert_eq!(self.markers(), BTreeSet::new(), "after {after:?}");
    }
}

#[test]
fn no_program_planted_in_a_tree_runs_outside_the_pane() {
    for kind in ["worktree", "clone"] {
        let trap = Trap::new();
        let words = ["new", "-d", "--json", "-n", "a", "--session", "s", "--workspace", kind];
        let words: Vec<&str> = words.into_iter().chain(["--", "sleep", "1000"]).collect();
        let pane: Value = trap.ccmux(&words).json()["pane"].take();
        let tree = PathBuf::from(pane["workspace"].as_str().unwrap());
        let library = trap.home.dir().join("library");
        trap.make_repository(&library);
        let library = library.to_str().unwrap();
        let words = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library];
        trap.git(&tree, &words);
        trap.git(&tree, &["commit", "--quiet", "-m", "submodule"]);
        trap.make_repository(&tree.join("nested"));
        trap.plant(&tree.join("nested"));
        trap.plant(&tree.join("library"));
        trap.plant(&tree);
        trap.assert_armed(&tree);
        trap.assert_armed(&tree.join("library"));
        Trap::touch(&tree.join("nested"));

        let refused = trap.ccmux(&["close", "--json", "a"]).fails_with(4);
        trap.assert_nothing_ran(&["close"]);

        let refused: Value = serde_json::from_str(&refused).unwrap();
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("not committed") && !message.contains("cannot"), "{message}");
        let token = refused["error"]["details"]["panes"][0]["discard"].as_str().unwrap();
        trap.ccmux(&["stop", "a"]).ok();
        for words in [
            &["ls"][..],
            &["show", "a"],
            &["doctor"],
            &["gc", "--dry-run"],
            &["gc"],
            &["purge", "s", "--yes"],
            &["restore", "a", "-d"],
            &["migrate", "s", "--dry-run"],
            &["close", "a"],
            &["close", "a", "--discard", token],
            &["gc", "--empty-trash"],
            &["purge", "s", "--yes", "--discard", token],
        ] {
            trap.ccmux(words).run();
            trap.assert_nothing_ran(words);
        }
        assert!(!tree.exists(), "the tree was discarded");
        trap.home.kill_everything();
    }
}
