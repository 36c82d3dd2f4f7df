//! Unsaved work in a repository that is about to be removed.
//!
//! A commit is saved if another repository has it, or a ref that stays. Remotes are asked for what
//! they have now, if they are directories that stay; the remote-tracking refs are believed for
//! remotes on other machines.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::build_output::is_build_output;
use super::contents::{FoundRepository, is_same};
use super::unsaved::Work;
use crate::git::{Git, GitError};

/// Retries after another process deleted a branch.
const MAX_RETRIES: usize = 3;

/// Maximum number of file names in one command line.
const CHUNK: usize = 500;

/// Settings of a repository that would hide changes.
const SETTINGS: [&str; 8] = [
    "-c",
    "core.trustctime=true",
    "-c",
    "core.checkStat=default",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "core.ignoreStat=false",
];

/// A repository under examination.
pub(super) struct RepositoryExamination<'a> {
    pub(super) git: &'a Git,
    pub(super) found: &'a FoundRepository,
    /// The directory below which nothing counts as saved.
    pub(super) removed: &'a Path,
    /// The tree from which the work tree was made.
    pub(super) source: Option<PathBuf>,
    /// The branch that is removed together with the work tree.
    pub(super) own_branch: Option<&'a str>,
    /// Prefix of the descriptions.
    pub(super) label: String,
}

/// The places in which commits are saved.
#[derive(Default)]
pub(super) struct Saved {
    /// Arguments of `rev-list` that exclude saved commits.
    words: Vec<String>,
    /// Objects that the refs of other repositories name.
    objects: HashSet<String>,
    /// Remotes on other machines, whose tags are not known.
    pub(super) remotes: Vec<String>,
    /// The Git LFS objects of other repositories.
    pub(super) stores: Vec<PathBuf>,
}

impl RepositoryExamination<'_> {
    /// Adds the unsaved work of the repository. `is_unchanged` recognises ignored files that were
    /// copied into the work tree.
    pub(super) fn examine(&self, work: &mut Work, is_unchanged: &dyn Fn(&Path) -> bool) {
        if let Err(error) = self.try_examine(work, is_unchanged) {
            let place = self.found.tree.as_ref().or(self.found.git_dir.as_ref());
            let contents: Vec<PathBuf> = place.into_iter().cloned().collect();
            work.add(format!("{}cannot be examined: {error}", self.label), "", &contents);
        }
    }

    fn try_examine(
        &self,
        work: &mut Work,
        is_unchanged: &dyn Fn(&Path) -> bool,
    ) -> Result<(), GitError> {
        let Some(git_dir) = &self.found.git_dir else {
            let why = "`.git` does not lead to a repository".to_owned();
            return Err(GitError::Failed { what: "rev-parse".to_owned(), why });
        };
        if let Some(tree) = &self.found.tree {
            self.uncommitted(tree, work)?;
            self.hidden(tree, work)?;
            self.ignored(tree, work, is_unchanged)?;
            self.unfinished(git_dir, work);
        }
        self.commits(git_dir, work)
    }

    /// Runs git on exactly this repository: settings in it could name another work tree.
    fn run<A: AsRef<OsStr>>(&self, words: &[A]) -> Result<Vec<u8>, GitError> {
        let git_dir = self.found.git_dir.as_deref().unwrap_or(Path::new(".git"));
        let option = |name: &str, path: &Path| {
            let mut word = OsString::from(name);
            word.push(path);
            word
        };
        let mut all: Vec<OsString> = SETTINGS.map(OsString::from).to_vec();
        all.push(option("--git-dir=", git_dir));
        match &self.found.tree {
            Some(tree) => all.push(option("--work-tree=", tree)),
            None => all.push("--bare".into()),
        }
        all.extend(words.iter().map(|word| word.as_ref().to_owned()));
        self.git.run(self.found.tree.as_deref().unwrap_or(git_dir), &all)
    }

    pub(super) fn lines<A: AsRef<OsStr>>(&self, words: &[A]) -> Result<Vec<String>, GitError> {
        let output = self.run(words)?;
        Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
    }

    fn uncommitted(&self, tree: &Path, work: &mut Work) -> Result<(), GitError> {
        // Submodules are examined as repositories; only the commits that they are at count here.
        let output = self.run(&[
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=dirty",
        ])?;
        let entries = names(&output).filter(|entry| entry.len() > 3);
        let files: Vec<PathBuf> = entries.map(|entry| path(&entry[3..])).collect();
        if files.is_empty() {
            return Ok(());
        }
        // Staged contents can differ from the commit and from the file.
        let marks = [output.clone(), self.run(&["ls-files", "--stage", "-z"])?].concat();
        self.name_files(work, "not committed", tree, &files, &marks);
        Ok(())
    }

    /// Adds files that git was told not to look at and that differ from the index.
    fn hidden(&self, tree: &Path, work: &mut Work) -> Result<(), GitError> {
        let output = self.run(&["ls-files", "-v", "-z"])?;
        let is_marked =
            |entry: &&[u8]| entry.len() > 2 && (entry[0].is_ascii_lowercase() || entry[0] == b'S');
        let marked = names(&output).filter(is_marked).map(|entry| path(&entry[2..]));
        let marked: Vec<PathBuf> =
            marked.filter(|name| tree.join(name).symlink_metadata().is_ok()).collect();
        let mut changed = Vec::new();
        for chunk in marked.chunks(CHUNK) {
            changed.extend(self.differ_from_index(tree, chunk)?);
        }
        if !changed.is_empty() {
            self.name_files(work, "changed, but hidden from git", tree, &changed, b"");
        }
        Ok(())
    }

    fn differ_from_index(&self, tree: &Path, files: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        let is_file =
            |name: &&PathBuf| tree.join(name).symlink_metadata().is_ok_and(|found| found.is_file());
        let (plain, other): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(is_file);
        let mut changed: Vec<PathBuf> = other.into_iter().cloned().collect();
        if plain.is_empty() {
            return Ok(changed);
        }
        let literal = |name: &&PathBuf| {
            let mut word = OsString::from(":(top,literal)");
            word.push(name);
            word
        };
        let words = ["ls-files", "--stage", "-z", "--"].map(OsString::from).into_iter();
        let staged = self.run(&words.chain(plain.iter().map(literal)).collect::<Vec<_>>())?;
        let words = ["hash-object", "--"].map(OsString::from).into_iter();
        let files = plain.iter().map(|name| name.as_os_str().to_owned());
        let hashes = self.lines(&words.chain(files).collect::<Vec<_>>())?;
        // An entry is `MODE OBJECT STAGE\tNAME`.
        let staged: HashSet<(String, PathBuf)> = names(&staged)
            .filter_map(|entry| {
                let at = entry.iter().position(|&byte| byte == b'\t')?;
                let object = String::from_utf8_lossy(&entry[..at]);
                Some((object.split(' ').nth(1)?.to_owned(), path(&entry[at + 1..])))
            })
            .collect();
        let hashed = plain.into_iter().cloned().zip(hashes);
        changed.extend(
            hashed
                .filter(|(name, hash)| !staged.contains(&(hash.clone(), name.clone())))
                .map(|(name, _)| name),
        );
        Ok(changed)
    }

    /// Adds ignored files that are neither build output nor in the source tree.
    fn ignored(
        &self,
        tree: &Path,
        work: &mut Work,
        is_unchanged: &dyn Fn(&Path) -> bool,
    ) -> Result<(), GitError> {
        let output =
            self.run(&["ls-files", "-z", "--others", "--ignored", "--exclude-standard"])?;
        let is_saved = |name: &Path| {
            let in_source = self.source.as_ref().map(|source| source.join(name));
            is_unchanged(name) || in_source.is_some_and(|other| is_same(&tree.join(name), &other))
        };
        let files: Vec<PathBuf> = names(&output)
            // A name with a slash at its end is a repository, which is examined as such.
            .filter(|name| !name.ends_with(b"/"))
            .map(path)
            .filter(|name| !is_build_output(name) && !is_saved(name))
            .collect();
        if files.is_empty() {
            return Ok(());
        }
        let size =
            |name: &PathBuf| tree.join(name).symlink_metadata().map_or(0, |found| found.len());
        let bytes: u64 = files.iter().map(size).sum();
        let count = if files.len() == 1 { "file" } else { "files" };
        let what = format!("{} ignored {count} ({bytes} bytes)", files.len());
        self.name_files(work, &what, tree, &files, b"");
        Ok(())
    }

    fn name_files(
        &self,
        work: &mut Work,
        what: &str,
        tree: &Path,
        files: &[PathBuf],
        marks: &[u8],
    ) {
        let names: Vec<String> = files.iter().map(|name| name.display().to_string()).collect();
        let paths: Vec<PathBuf> = files.iter().map(|name| tree.join(name)).collect();
        work.add_names(&format!("{}{what}", self.label), &names, marks, &paths);
    }

    /// Adds unfinished git operations.
    fn unfinished(&self, git_dir: &Path, work: &mut Work) {
        const STATES: [(&str, &str); 6] = [
            ("MERGE_HEAD", "a merge"),
            ("rebase-merge", "a rebase"),
            ("rebase-apply", "a rebase"),
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
            ("BISECT_LOG", "a bisection"),
        ];
        for (file, what) in STATES {
            let state = git_dir.join(file);
            if state.exists() {
                work.add(format!("{}{what} is unfinished", self.label), "", &[state]);
            }
        }
    }

    fn commits(&self, git_dir: &Path, work: &mut Work) -> Result<(), GitError> {
        let common = common_dir(git_dir);
        let is_linked = common.as_path() != git_dir;
        let head = self.head()?;
        if is_linked && !common.starts_with(self.removed) {
            let head = head.as_slice();
            let own = self.own_branch.unwrap_or_default();
            let commits = branch_commits(self.git, &common, own, head, self.source.as_deref())?;
            self.name_commits(work, &commits);
            return self.stashes(work, self.own_branch);
        }
        let saved = self.saved()?;
        let mut words = vec!["rev-list".to_owned(), "--ignore-missing".to_owned()];
        words.extend(head);
        if !is_linked {
            words.extend(["--exclude=refs/stash", "--all"].map(str::to_owned));
            self.other_objects(work, &saved)?;
            self.lfs_objects(git_dir, &saved, work)?;
        }
        if words.len() > 2 {
            words.push("--not".to_owned());
            words.extend(saved.words);
            self.name_commits(work, &self.lines(&words)?);
        }
        if is_linked { Ok(()) } else { self.stashes(work, None) }
    }

    /// Returns the commit that is checked out; none in a repository without commits.
    fn head(&self) -> Result<Vec<String>, GitError> {
        self.lines(&["rev-parse", "--revs-only", "HEAD^{commit}"])
    }

    fn name_commits(&self, work: &mut Work, commits: &[String]) {
        if commits.is_empty() {
            return;
        }
        let count = if commits.len() == 1 { "commit" } else { "commits" };
        let place = self.own_branch.map_or("here".to_owned(), |branch| format!("on {branch}"));
        let line = format!("{}{} {count} only {place}", self.label, commits.len());
        work.add(line, commits.join("\n"), &[]);
    }

    /// Adds refs to objects other than commits, such as tags with a message.
    fn other_objects(&self, work: &mut Work, saved: &Saved) -> Result<(), GitError> {
        let format = "--format=%(objectname) %(objecttype) %(refname)";
        for line in self.lines(&["for-each-ref", format])? {
            let mut words = line.splitn(3, ' ');
            let (Some(object), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let is_fetched = !saved.remotes.is_empty() && kind == "tag";
            if kind != "commit" && !is_fetched && !saved.objects.contains(object) {
                work.add(format!("{}{name} is only here", self.label), object, &[]);
            }
        }
        Ok(())
    }

    /// Returns where commits of a repository that is removed completely are saved.
    fn saved(&self) -> Result<Saved, GitError> {
        let mut saved = Saved::default();
        // Exits with an error if there is no remote.
        let remotes = self.run(&["config", "-z", "--get-regexp", r"^remote\..*\.url$"]);
        let remotes = remotes.unwrap_or_default();
        let mut dirs: Vec<PathBuf> = self.source.iter().cloned().collect();
        for remote in names(&remotes) {
            let remote = String::from_utf8_lossy(remote);
            let Some((key, url)) = remote.split_once('\n') else { continue };
            let name = key.trim_start_matches("remote.").trim_end_matches(".url");
            match local_path(url) {
                Some(path) => {
                    let top = self.found.tree.as_ref().or(self.found.git_dir.as_ref());
                    dirs.extend(top.map(|top| top.join(path)));
                }
                // A remote helper can be anything.
                None if url.contains("::") => {}
                None => {
                    saved.words.push(format!("--remotes={name}"));
                    saved.remotes.push(name.to_owned());
                }
            }
        }
        for dir in dirs {
            let Ok(real) = fs::canonicalize(&dir) else { continue };
            if real.starts_with(self.removed) {
                continue;
            }
            // A directory without a repository has saved nothing.
            let format = "--format=%(objectname)";
            let refs = self.git.line(&real, &["for-each-ref", format]).unwrap_or_default();
            let head = self.git.line(&real, &["rev-parse", "--revs-only", "HEAD^{commit}"]);
            let objects = refs.lines().map(str::to_owned).chain(head.ok());
            saved.objects.extend(objects.filter(|object| !object.is_empty()));
            if let Ok(common) = self.git.line(&real, &["rev-parse", "--git-common-dir"]) {
                saved.stores.push(real.join(common).join("lfs/objects"));
            }
        }
        saved.words.extend(saved.objects.iter().cloned());
        Ok(saved)
    }

    /// Adds the stashes; with a branch, only those made on it: work trees share their stashes.
    fn stashes(&self, work: &mut Work, branch: Option<&str>) -> Result<(), GitError> {
        let output = self.lines(&["stash", "list", "--format=%H %gs"])?;
        let is_own = |what: &str| {
            branch.is_none_or(|branch| {
                what.starts_with(&format!("WIP on {branch}: "))
                    || what.starts_with(&format!("On {branch}: "))
            })
        };
        let own = output.iter().filter_map(|line| line.split_once(' '));
        let own: Vec<(&str, &str)> = own.filter(|(_, what)| is_own(what)).collect();
        if !own.is_empty() {
            let names: Vec<String> = own.iter().map(|(_, what)| (*what).to_owned()).collect();
            let ids: Vec<&str> = own.iter().map(|(id, _)| *id).collect();
            let what = format!("{}stashed", self.label);
            work.add_names(&what, &names, ids.join("\n").as_bytes(), &[]);
        }
        Ok(())
    }
}

/// Returns the commits of a branch and of `heads` that no other branch, tag or remote of the
/// repository has, nor the work tree `source`.
pub(super) fn branch_commits(
    git: &Git,
    repository: &Path,
    branch: &str,
    heads: &[String],
    source: Option<&Path>,
) -> Result<Vec<String>, GitError> {
    let mut words = vec!["rev-list".to_owned(), "--ignore-missing".to_owned()];
    if git.branches(repository)?.iter().any(|other| other == branch) {
        words.push(format!("refs/heads/{branch}"));
    }
    words.extend(heads.iter().cloned());
    if words.len() == 2 {
        return Ok(Vec::new());
    }
    words.push("--not".to_owned());
    words.extend((!branch.is_empty()).then(|| format!("--exclude={branch}")));
    words.extend(["--branches", "--tags", "--remotes"].map(str::to_owned));
    let head = ["rev-parse", "--revs-only", "HEAD^{commit}"];
    let source = source.and_then(|source| git.line(source, &head).ok());
    words.extend(source.filter(|head| !head.is_empty()));
    let mut again = MAX_RETRIES;
    let output = loop {
        match git.run(repository, &words) {
            // Other git processes delete branches without taking our lock.
            Err(GitError::Failed { .. }) if again > 0 => again -= 1,
            output => break output?,
        }
    };
    Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
}

/// Returns the directory that all work trees of a repository share.
pub(super) fn common_dir(git_dir: &Path) -> PathBuf {
    let Ok(text) = fs::read_to_string(git_dir.join("commondir")) else {
        return git_dir.to_owned();
    };
    let common = git_dir.join(text.trim_end_matches('\n'));
    fs::canonicalize(&common).unwrap_or(common)
}

/// Returns the path of a remote that is a directory on this machine.
fn local_path(url: &str) -> Option<&str> {
    if let Some(path) = url.strip_prefix("file://") {
        return Some(path);
    }
    let colon = url.find(':').unwrap_or(url.len());
    let slash = url.find('/').unwrap_or(url.len());
    // As in git: `host:path` has its colon before the first slash.
    (colon >= slash).then_some(url)
}

/// Splits output in which each entry ends with a zero byte.
fn names(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|&byte| byte == 0).filter(|name| !name.is_empty())
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
