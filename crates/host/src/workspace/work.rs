//! Unsaved work in the directories that are removed together with a pane (B8).
//!
//! The rule: what is about to be removed is examined, at the path where it is, completely. Anything
//! that cannot be examined counts as work: an error here may keep too much, never too little.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::WorkspaceKind;

use super::contents::{self, FoundRepository, TreeContents};
use super::repository::{self, RepositoryExamination};
use super::unsaved::Work;
use super::{WORKSPACE, WorkDir, WorkspaceError, WorkspaceRecord};
use crate::copy::{self, Manifest, Stamp};
use crate::git::{Git, RepositoryLock, Trust};
use crate::process::{self, PaneProcesses, Stat};
use crate::template;

/// The beginnings of the names that ccmux gives to files in a pane's directory.
pub(super) const OWN_FILES: [&str; 13] = [
    "claude-settings.json",
    "exit.json",
    "frozen.json",
    "groups.json",
    "keeper.",
    "news-",
    "over_limit.json",
    "pane.json",
    "probes.json",
    "session.state",
    "workspace.files",
    "workspace.json",
    "workspace.lock",
];

/// The beginnings of the names that ccmux gives to entries of a session's directory. Copies that a
/// killed daemon did not complete begin with `.new-`.
pub(super) const SESSION_FILES: [&str; 3] = [".session", ".new-", "config.json"];

/// Directories of a session that ccmux writes: its messages, and those of its panes, which are
/// examined separately.
const SESSION_OWN_DIRS: [&str; 2] = ["messages", "panes"];

/// Directories of a pane that are examined separately or hold no work: `log/` has its output, `temp/`
/// is for short-lived files.
const OWN_DIRS: [&str; 3] = ["log", "output", "temp"];

/// Directories of a private home that hold caches and toolchains.
const HOME_CACHES: [&str; 6] = [".cache", ".cargo", ".npm", ".nvm", ".pyenv", ".rustup"];

/// The search path for git if the record of the workspace is lost.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The directories of a pane that are about to be removed.
#[derive(Clone, Debug)]
pub struct PaneRemoval {
    /// The pane's directory, where it is now.
    pub pane_dir: PathBuf,
    /// The pane's directory, where it was while the pane ran.
    pub original_dir: PathBuf,
    /// The pane's private home directory, where it is now.
    pub home: Option<PathBuf>,
    /// The directory below which nothing counts as saved elsewhere.
    pub state_root: PathBuf,
    /// The directory of the lock files.
    pub locks: PathBuf,
    /// The processes of live panes that are ended before the removal, so that they are not work.
    pub ending: Vec<PaneProcesses>,
}

/// The directories of a session that are about to be removed.
#[derive(Clone, Debug)]
pub struct SessionRemoval {
    /// The session's directory, where it is now.
    pub dir: PathBuf,
    /// The directories in it to examine.
    pub parts: Vec<&'static str>,
    /// Directories from which the parts were copied.
    pub sources: Vec<PathBuf>,
}

/// Returns the work that would be lost with the directories of a pane. The caller has ended the
/// pane's processes, unless they are named as ending.
#[must_use]
pub fn find(removal: &PaneRemoval) -> Work {
    let mut work = Work::in_moved_dir(&removal.pane_dir, &removal.original_dir);
    let record = WorkspaceRecord::read(&removal.pane_dir).unwrap_or_else(|error| {
        work.add(format!("the workspace cannot be examined: {error}"), "", &[]);
        None
    });
    let examiner = Examiner::new(removal, record.as_ref());
    if let Some(dir) = &examiner.work_dir {
        work.add_moved_dir(dir.present(), dir.original());
    }
    if let Err(error) = examiner.examine_all(&mut work) {
        let contents = [examiner.tree.clone()];
        work.add(format!("the workspace cannot be examined: {error}"), "", &contents);
    }
    work
}

/// Returns the work that would be lost with the directories of a session: files that are not equal
/// to the ones they were copied from.
#[must_use]
pub fn find_in_session(removal: &SessionRemoval) -> Work {
    let mut work = Work::default();
    for part in &removal.parts {
        let top = removal.dir.join(part);
        let found = TreeContents::of(&top, true);
        let is_copied = |path: &PathBuf| {
            let name = path.strip_prefix(&removal.dir).unwrap_or(path);
            let is_same = |source: &PathBuf| contents::is_same(path, &source.join(name));
            template::is_shipped(path, name) || removal.sources.iter().any(is_same)
        };
        let files = found.files.into_iter().filter(|path| !is_copied(path)).collect();
        work.add_files(&format!("files in {part}/ of the session"), &top, files);
        work.add_unreadable(&removal.dir, found.unreadable);
    }
    let entries = fs::read_dir(&removal.dir).into_iter().flatten().flatten();
    let is_own = |name: &str| {
        SESSION_OWN_DIRS.contains(&name)
            || removal.parts.contains(&name)
            || SESSION_FILES.iter().any(|own| name.starts_with(own))
    };
    for entry in entries.filter(|entry| !is_own(&entry.file_name().to_string_lossy())) {
        let found = TreeContents::of(&entry.path(), true);
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let files = if is_dir { found.files } else { vec![entry.path()] };
        work.add_files("files beside the panes of the session", &removal.dir, files);
    }
    work
}

struct Examiner<'a> {
    removal: &'a PaneRemoval,
    record: Option<&'a WorkspaceRecord>,
    git: Git,
    state_root: PathBuf,
    work_dir: Option<WorkDir>,
    /// The working tree, where it is now.
    tree: PathBuf,
}

impl<'a> Examiner<'a> {
    fn new(removal: &'a PaneRemoval, record: Option<&'a WorkspaceRecord>) -> Self {
        let git =
            record.map_or_else(|| Git::new(DEFAULT_PATH, None, Trust::Agent), WorkspaceRecord::git);
        let root = &removal.state_root;
        let state_root = fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let work_dir = WorkDir::find(root, &removal.pane_dir);
        let tree = match &work_dir {
            Some(dir) => dir.present().join(dir.project()),
            None => removal.pane_dir.join(WORKSPACE),
        };
        Self { removal, record, git, state_root, work_dir, tree }
    }

    fn examine_all(&self, work: &mut Work) -> Result<(), WorkspaceError> {
        let dirs = self.dirs();
        let stays = |process: &Stat| !self.removal.ending.iter().any(|pane| pane.contain(process));
        let processes = dirs.iter().flat_map(|dir| process::working_in(dir));
        for (process, name) in processes.filter(|(process, _)| stays(process)) {
            let line = format!("process {} ({name}) is running in the workspace", process.pid);
            work.add(line, process.start.to_string(), &[]);
        }
        self.output(work);
        self.workspace(work)?;
        for dir in dirs {
            self.other_entries(dir, work)?;
        }
        if let Some(home) = &self.removal.home {
            self.home(home, work)?;
        }
        Ok(())
    }

    /// Returns the directories with the entries to examine.
    fn dirs(&self) -> Vec<&Path> {
        let work_dir = self.work_dir.as_ref().map(WorkDir::present);
        [self.removal.pane_dir.as_path()].into_iter().chain(work_dir).collect()
    }

    /// Returns the one of these directories that contains a path.
    fn dir_of(&self, path: &Path) -> &Path {
        let work_dir = self.work_dir.as_ref().map(WorkDir::present);
        work_dir.filter(|dir| path.starts_with(dir)).unwrap_or(&self.removal.pane_dir)
    }

    fn output(&self, work: &mut Work) {
        let top = self.removal.pane_dir.join("output");
        let found = TreeContents::of(&top, true);
        work.add_files("files in output/", &top, found.files);
        work.add_unreadable(&self.removal.pane_dir, found.unreadable);
    }

    fn workspace(&self, work: &mut Work) -> Result<(), WorkspaceError> {
        let tree = self.tree.clone();
        let manifest = WorkspaceRecord::manifest(&self.removal.pane_dir)?.unwrap_or_default();
        let kind = self.record.map(|record| record.workspace.kind);
        if matches!(kind, Some(WorkspaceKind::Empty | WorkspaceKind::Copy)) {
            self.copied(&tree, &manifest, work);
            return Ok(());
        }
        let own = FoundRepository { git_dir: contents::git_dir(&tree), tree: Some(tree.clone()) };
        if self.own_branch(&own).is_none() {
            // The agent removed the tree or its `.git`; the branch still has commits.
            self.branch(work)?;
        }
        self.tree(&tree, &manifest, "files in the workspace", work)
    }

    /// Examines a copy: every file is either as it was copied, or work.
    fn copied(&self, tree: &Path, manifest: &Manifest, work: &mut Work) {
        let source = self.record.map(|record| Path::new(&record.workspace.source));
        let found = TreeContents::of(tree, true);
        let name = |path: &Path| copy::escaped(path.strip_prefix(tree).unwrap_or(path));
        let mut gone: Vec<String> = manifest.keys().cloned().collect();
        let present: std::collections::HashSet<String> =
            found.files.iter().map(|path| name(path)).collect();
        gone.retain(|name| !present.contains(name));
        let is_changed = |path: &PathBuf| !is_as_copied(tree, path, manifest, source);
        let changed = found.files.into_iter().filter(is_changed).collect();
        work.add_files("changed files in the workspace", tree, changed);
        // A directory that cannot be read hides files that need not be gone.
        if !gone.is_empty() && found.unreadable.is_empty() {
            work.add_names("deleted files in the workspace", &gone, b"", &[]);
        }
        work.add_unreadable(self.dir_of(tree), found.unreadable);
    }

    /// Examines a tree by its repositories. Files outside of them are work, unless they were copied
    /// there by ccmux.
    fn tree(
        &self,
        tree: &Path,
        manifest: &Manifest,
        what: &str,
        work: &mut Work,
    ) -> Result<(), WorkspaceError> {
        let source = self.record.map(|record| Path::new(&record.workspace.source));
        let mut found = TreeContents::of(tree, false);
        // The directory of a linked work tree in its repository is removed as well.
        let linked: Vec<PathBuf> =
            found.repositories.iter().filter_map(|found| found.git_dir.clone()).collect();
        for git_dir in linked.iter().filter(|dir| !dir.starts_with(&self.state_root)) {
            found.walk(&git_dir.join("modules"), false);
        }
        let is_new = |path: &PathBuf| !is_as_copied(tree, path, manifest, source);
        let files = std::mem::take(&mut found.files).into_iter().filter(is_new).collect();
        work.add_files(what, tree, files);
        work.add_unreadable(self.dir_of(tree), std::mem::take(&mut found.unreadable));
        let _lock = self.repository_lock()?;
        for repository in &found.repositories {
            self.repository(tree, repository, manifest, work);
        }
        Ok(())
    }

    fn repository(
        &self,
        top: &Path,
        found: &FoundRepository,
        manifest: &Manifest,
        work: &mut Work,
    ) {
        let own = &self.tree;
        let source = self.record.map(|record| Path::new(&record.workspace.source));
        let place = found.tree.as_ref().or(found.git_dir.as_ref());
        let in_workspace = place.and_then(|place| place.strip_prefix(own).ok());
        let label = match place {
            Some(place) if place == own => String::new(),
            Some(place) => {
                let base = if top == own { top } else { self.dir_of(place) };
                format!("`{}`: ", copy::escaped(place.strip_prefix(base).unwrap_or(place)))
            }
            None => String::new(),
        };
        let examination = RepositoryExamination {
            git: &self.git,
            found,
            removed: &self.state_root,
            source: source.zip(in_workspace).map(|(source, name)| source.join(name)),
            own_branch: self.own_branch(found),
            label,
        };
        let is_unchanged = |name: &Path| {
            let (Some(tree), Some(inside)) = (&found.tree, in_workspace) else { return false };
            let listed = manifest.contains_key(&copy::escaped(&inside.join(name)));
            listed && is_as_copied(own, &tree.join(name), manifest, source)
        };
        examination.examine(work, &is_unchanged);
    }

    /// Returns the branch of the pane for a work tree of its repository.
    fn own_branch(&self, found: &FoundRepository) -> Option<&'a str> {
        let workspace = &self.record?.workspace;
        let branch = workspace.branch.as_deref()?;
        let git_dir = found.git_dir.as_deref()?;
        let is_own = match workspace.kind {
            WorkspaceKind::Worktree => {
                let common =
                    workspace.repository.as_deref().and_then(|dir| fs::canonicalize(dir).ok());
                common == Some(repository::common_dir(git_dir))
            }
            WorkspaceKind::Auto
            | WorkspaceKind::Clone
            | WorkspaceKind::Copy
            | WorkspaceKind::Empty
            | WorkspaceKind::Shared => found.tree.as_deref() == Some(&self.tree),
        };
        is_own.then_some(branch)
    }

    /// Examines the branch of a work tree that is missing.
    fn branch(&self, work: &mut Work) -> Result<(), WorkspaceError> {
        let Some(record) = self.record else { return Ok(()) };
        if record.workspace.kind != WorkspaceKind::Worktree {
            return Ok(());
        }
        let _lock = self.repository_lock()?;
        let commits = record.own_commits()?;
        if let (Some(branch), false) = (&record.workspace.branch, commits.is_empty()) {
            let count = if commits.len() == 1 { "commit" } else { "commits" };
            work.add(
                format!("{} {count} only on {branch}", commits.len()),
                commits.join("\n"),
                &[],
            );
        }
        Ok(())
    }

    /// Takes the lock of the pane's repository: git fails on a branch that is deleted meanwhile
    /// along with another pane.
    fn repository_lock(&self) -> Result<Option<RepositoryLock>, WorkspaceError> {
        let repository = self.record.and_then(WorkspaceRecord::repository);
        let lock = repository.map(|dir| RepositoryLock::take(&self.removal.locks, dir));
        Ok(lock.transpose()?)
    }

    /// Examines the entries of a directory of the pane that ccmux did not create.
    fn other_entries(&self, dir: &Path, work: &mut Work) -> Result<(), WorkspaceError> {
        let is_pane_dir = dir == self.removal.pane_dir;
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                work.add_unreadable(dir, vec![(dir.to_owned(), error)]);
                return Ok(());
            }
        };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                let is_own = is_pane_dir && OWN_DIRS.iter().any(|own| *own == name);
                if !is_own && entry.path() != self.tree {
                    let what = format!("files in {}/", copy::escaped(Path::new(&*name)));
                    self.tree(&entry.path(), &Manifest::new(), &what, work)?;
                }
            } else if kind.is_file() {
                let is_own = is_pane_dir && OWN_FILES.iter().any(|own| name.starts_with(own));
                files.extend((!is_own).then(|| entry.path()));
            }
        }
        work.add_files("files beside the workspace", dir, files);
        Ok(())
    }

    /// Examines a private home. Its hidden files are configuration and caches, which do not count;
    /// repositories count wherever they are.
    fn home(&self, home: &Path, work: &mut Work) -> Result<(), WorkspaceError> {
        let entries = match fs::read_dir(home) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                work.add_unreadable(home, vec![(home.to_owned(), error)]);
                return Ok(());
            }
        };
        let mut found = TreeContents::default();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_hidden = name.starts_with('.');
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !HOME_CACHES.contains(&&*name) => {
                    let before = found.files.len();
                    found.walk(&entry.path(), false);
                    if is_hidden {
                        found.files.truncate(before);
                    }
                }
                Ok(kind) if kind.is_file() && !is_hidden => found.files.push(entry.path()),
                _ => {}
            }
        }
        work.add_files("files in the private home", home, found.files);
        work.add_unreadable(home, found.unreadable);
        let _lock = self.repository_lock()?;
        for repository in &found.repositories {
            self.repository(home, repository, &Manifest::new(), work);
        }
        Ok(())
    }
}

/// Returns whether a file is as it was copied. If only the time of its last status change differs,
/// its content decides.
fn is_as_copied(tree: &Path, path: &Path, manifest: &Manifest, source: Option<&Path>) -> bool {
    let name = path.strip_prefix(tree).unwrap_or(path);
    let Some(then) = manifest.get(&copy::escaped(name)) else { return false };
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let now = Stamp::of(&found);
    then.is_same_status(&now)
        || then.is_same(&now)
            && source.is_some_and(|source| contents::is_same(path, &source.join(name)))
}
