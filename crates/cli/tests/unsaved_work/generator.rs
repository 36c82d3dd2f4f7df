//! A generator of cases: random work, a random operation, and random writers beside it.
//!
//! The promise: every byte that was not discarded with its exact token is in its place or in the
//! trash afterwards, where it stays for the retention period.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::hooks::Hooks;
use testkit::soak::Dice;
use testkit::{Home, put, wait_until};

use crate::writer::{Writer, WriterPlan, Written, pick};
use crate::{CCMUX, CLASSES, LONG, Place};

/// An operation on a pane, its session or the state root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Close,
    Purge,
    PurgeNow,
    Gc,
    Down,
    DownPurge,
    Migrate,
    UpPrune,
    CloseAfterMove,
    CloseInCopy,
}

const OPERATIONS: [Operation; 10] = [
    Operation::Close,
    Operation::Purge,
    Operation::PurgeNow,
    Operation::Gc,
    Operation::Down,
    Operation::DownPurge,
    Operation::Migrate,
    Operation::UpPrune,
    Operation::CloseAfterMove,
    Operation::CloseInCopy,
];

/// A class of files that count as work only if their directory is removed, or not at all.
type Extra = (&'static str, fn(&Case, &str));

const EXTRAS: [Extra; 6] = [
    ("logs of the session", |case, text| put(&case.session.join("logs/result"), text)),
    ("unit of the session", |case, text| put(&case.session.join("unit/notes"), text)),
    ("file beside the panes of the session", |case, text| put(&case.session.join("memo"), text)),
    ("temp", |case, text| put(&case.dir.join("temp/scratch"), text)),
    ("hidden file of the home", |case, text| put(&case.home.join(".tool/settings"), text)),
    ("agent configuration", |case, text| put(&case.home.join(".claude/memory"), text)),
];

/// The number of [`EXTRAS`] that count as work if the session is removed.
const EXTRAS_OF_SESSION: usize = 3;

/// Files by path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A pane with its directories.
struct Case {
    number: usize,
    operation: Operation,
    name: String,
    target: String,
    team: PathBuf,
    dir: PathBuf,
    /// Where `workspace` of the pane leads to.
    tree: PathBuf,
    session: PathBuf,
    home: PathBuf,
    /// The names of the files that the program of the pane has written.
    log: PathBuf,
    has_program: bool,
}

impl Case {
    /// Returns the files in the directories of the pane and its session.
    fn files(&self) -> Files {
        let mut files = contents(&self.dir);
        files.extend(contents(&self.tree));
        files.extend(contents(&self.home));
        for part in ["logs", "unit", "workflows"] {
            files.extend(contents(&self.session.join(part)));
        }
        if let Ok(memo) = fs::read(self.session.join("memo")) {
            files.insert(self.session.join("memo"), memo);
        }
        let is_own = |path: &Path| path.parent() == Some(&self.dir);
        files.retain(|path, _| {
            let name = path.file_name().unwrap().to_string_lossy();
            // Links to a git directory and records have absolute paths, which change with the root.
            name != ".git"
                && !path.starts_with(self.dir.join("log"))
                && (!is_own(path) || name == "notes")
        });
        files
    }
}

impl Operation {
    fn removes(self) -> bool {
        !matches!(self, Self::Gc | Self::Down | Self::Migrate)
    }

    fn removes_session(self) -> bool {
        self.removes() && self != Self::UpPrune
    }

    fn has_team(self) -> bool {
        matches!(self, Self::Down | Self::DownPurge | Self::UpPrune)
    }
}

/// The home in which the cases run.
pub(crate) struct Generator {
    place: Place,
    hooks: Hooks,
    dice: Dice,
    counts: BTreeMap<String, usize>,
}

impl Generator {
    pub(crate) fn new() -> Self {
        let mut home = Home::new(CCMUX);
        let hooks = home.hooks();
        let place = Place::of(home);
        Self { place, hooks, dice: Dice::default(), counts: BTreeMap::new() }
    }

    /// Returns the number of cases by operation and result.
    pub(crate) fn summary(&self) -> String {
        self.counts.iter().map(|(what, count)| format!("{what}: {count}\n")).collect()
    }

    pub(crate) fn run_case(&mut self, number: usize) {
        let case = self.start(number);
        let baseline = case.files();
        let (classes, extras) = self.add_work(&case);
        let head = self.head(&case);
        let writers = self.start_writers(&case);
        let program = if case.has_program { "with" } else { "without" };
        let operation = case.operation;
        let context = format!(
            "case {number}, {program} program: {operation:?}, {classes:?}, {extras:?}, {writers:?}"
        );
        let writers: Vec<Writer> =
            writers.into_iter().map(|plan| plan.start(&self.hooks)).collect();
        let has_writers = !writers.is_empty();
        let before = case.files();

        let (succeeded, said) = self.operate(&case);

        let context = format!("{context}: {said}");
        *self.counts.entry(format!("{operation:?} {succeeded}")).or_default() += 1;
        let mut written: Vec<Written> = writers.into_iter().flat_map(Writer::end).collect();
        written.extend(written_by_program(&case));
        let counts = |extra: &usize| *extra < EXTRAS_OF_SESSION && operation.removes_session();
        // The branch of the original has the commits of a work tree in a copy.
        let is_lost =
            |class: &usize| operation != Operation::CloseInCopy || CLASSES[*class].0 != "committed";
        let is_work = classes.iter().any(is_lost) || extras.iter().any(counts);
        if operation.removes() {
            assert!(!(succeeded && is_work), "work was removed: {context}");
        }
        let is_quiet = !case.has_program && !has_writers;
        // A writer in its new workspace makes a migration fail.
        let may_fail = operation == Operation::Migrate && has_writers;
        let is_harmless = !operation.removes() && !may_fail;
        if is_harmless || classes.is_empty() && !is_work && is_quiet {
            assert!(succeeded, "{context}");
        }
        let mut work = before.clone();
        work.retain(|path, content| baseline.get(path) != Some(content));
        if operation == Operation::PurgeNow && succeeded {
            // Only what does not count was there before.
            work.clear();
        }
        work.extend(written.into_iter().map(|written| (written.path, written.content)));
        self.assert_kept(&work, &context);
        let is_refused = !succeeded && operation.removes();
        if is_refused || matches!(operation, Operation::Gc | Operation::Down) {
            for (path, content) in work.iter().filter(|(path, _)| before.contains_key(*path)) {
                let is_same = fs::read(path).is_ok_and(|now| now == *content);
                assert!(content.is_empty() || is_same, "moved {}: {context}", path.display());
            }
        }
        if operation == Operation::CloseInCopy {
            assert_eq!(self.head(&case), head, "{context}");
        }
        self.discard(&case, &work, &context);
    }

    /// Starts a pane for a random operation.
    fn start(&mut self, number: usize) -> Case {
        let operation = OPERATIONS[pick(&mut self.dice, OPERATIONS.len())];
        let kind = ["worktree", "clone"][pick(&mut self.dice, 2)];
        let has_program = operation != Operation::Migrate && self.dice.roll(4) == 0;
        let (name, target) = (format!("p{number}"), format!("s{number}"));
        let log = self.place.home.dir().join(format!("log-{number}"));
        let script = format!(
            "i=0; while :; do i=$((i+1)); f=made-{number}-$i; \
             echo $f > $f && echo $PWD/$f >> {}; sleep 0.02; done",
            log.display()
        );
        let program = match (has_program, operation.has_team()) {
            (true, _) => vec!["sh", "-c", &script],
            (false, true) => vec!["sleep", "1000"],
            (false, false) => vec!["true"],
        };
        let team = self.place.home.dir().join(format!("team-{number}.toml"));
        if operation.has_team() {
            let repo = self.place.repo.to_str().unwrap();
            let stay = format!(
                "session = \"{target}\"\n[[pane]]\nname = \"stay-{number}\"\n\
                workspace = \"empty\"\ncommand = [\"sleep\", \"1000\"]\n"
            );
            let pane = format!(
                "[[pane]]\nname = \"{name}\"\nworkspace = \"{kind}\"\n\
                isolation = \"home\"\ncwd = {repo:?}\ncommand = {program:?}\n"
            );
            put(&team, format!("{stay}{pane}"));
            self.place.ccmux(&["up", team.to_str().unwrap()]).ok();
            put(&team, &stay);
        } else {
            let mut words = vec!["new", "-d", "-n", &name, "--isolation", "home"];
            if operation == Operation::Migrate {
                words.extend(["--mode", "legacy", "--session", &target]);
            } else {
                words.extend(["--workspace", kind]);
            }
            words.push("--");
            words.extend(program.iter());
            self.place.ccmux(&words).ok();
            if !has_program {
                self.place.ccmux(&["wait", &name, "--for", "exit", "--timeout", "120"]).ok();
            }
        }
        let pane = self.place.ccmux(&["show", "--json", &name]).json()["pane"].take();
        let id = pane["id"].as_str().unwrap();
        let dir = self.pane_dir(id);
        let tree = fs::canonicalize(dir.join("workspace")).unwrap();
        let session = dir.ancestors().nth(2).unwrap().to_owned();
        let home = self.place.home.state_root().join(format!("claude-homes/pane-{id}"));
        if has_program {
            wait_until("the program writes", LONG, || log.exists());
        }
        let target = if operation.has_team() || operation == Operation::Migrate {
            target
        } else {
            session.file_name().unwrap().to_str().unwrap().to_owned()
        };
        Case { number, operation, name, target, team, dir, tree, session, home, log, has_program }
    }

    fn pane_dir(&self, id: &str) -> PathBuf {
        let sessions = fs::read_dir(self.place.home.state_root().join("sessions")).unwrap();
        let mut dirs = sessions.flatten().map(|entry| entry.path().join("panes").join(id));
        dirs.find(|dir| dir.is_dir()).unwrap()
    }

    /// Adds random work. Returns the classes of both kinds.
    fn add_work(&mut self, case: &Case) -> (BTreeSet<usize>, BTreeSet<usize>) {
        // A legacy session works in the project itself.
        let first = if case.operation == Operation::Migrate { CLASSES.len() - 3 } else { 0 };
        let mut classes = BTreeSet::new();
        for _ in 0..self.dice.roll(4) {
            classes.insert(first + pick(&mut self.dice, CLASSES.len() - first));
        }
        let mut extras = BTreeSet::new();
        for _ in 0..self.dice.roll(3) {
            extras.insert(pick(&mut self.dice, EXTRAS.len()));
        }
        let number = case.number;
        for at in &classes {
            (CLASSES[*at].1)(&self.place, &case.tree, &format!("case {number} class {at}\n"));
        }
        for at in &extras {
            (EXTRAS[*at].1)(case, &format!("case {number} extra {at}\n"));
        }
        (classes, extras)
    }

    fn start_writers(&mut self, case: &Case) -> Vec<WriterPlan> {
        let dirs = [
            case.tree.clone(),
            case.dir.join("output"),
            case.home.clone(),
            case.session.join("logs"),
            case.session.clone(),
        ];
        let may_recreate = case.operation != Operation::CloseAfterMove;
        let count = [0, 0, 1, 2][pick(&mut self.dice, 4)];
        let plan = |at| {
            let stem = format!("late-{}-{at}", case.number);
            let hidden = case.home.join(".open");
            WriterPlan::random(&mut self.dice, &dirs, &hidden, stem, may_recreate)
        };
        (0..count).map(plan).collect()
    }

    /// Returns the commit of the workspace.
    fn head(&self, case: &Case) -> Option<String> {
        let is_checked = case.operation == Operation::CloseInCopy;
        is_checked.then(|| self.place.git(&case.tree, &["rev-parse", "HEAD"]))
    }

    /// Performs the operation. Returns whether it succeeded, and its messages.
    fn operate(&self, case: &Case) -> (bool, String) {
        let root = self.place.home.state_root().to_owned();
        let other = root.with_extension("other");
        let (other_text, team) = (other.to_str().unwrap(), case.team.to_str().unwrap());
        let (name, target) = (case.name.as_str(), case.target.as_str());
        let words: &[&str] = match case.operation {
            Operation::Close => &["close", name],
            Operation::Purge => &["purge", target, "--yes"],
            Operation::PurgeNow => &["purge", target, "--yes", "--now"],
            Operation::Gc => &["gc"],
            Operation::Down => &["down", target],
            Operation::DownPurge => &["down", target, "--purge", "--yes"],
            Operation::Migrate => &["migrate", target],
            Operation::UpPrune => &["up", team, "--prune"],
            Operation::CloseAfterMove | Operation::CloseInCopy => {
                &["--home", other_text, "close", name]
            }
        };
        let is_elsewhere = words[0] == "--home";
        if is_elsewhere {
            self.stop_daemon(&root);
        }
        match case.operation {
            Operation::CloseAfterMove => fs::rename(&root, &other).unwrap(),
            // Directories that cannot be read are not copied.
            Operation::CloseInCopy => {
                drop(
                    self.place
                        .home
                        .program("cp", &[Path::new("-a"), &root, &other])
                        .timeout(LONG)
                        .run(),
                );
            }
            Operation::Close
            | Operation::Purge
            | Operation::PurgeNow
            | Operation::Gc
            | Operation::Down
            | Operation::DownPurge
            | Operation::Migrate
            | Operation::UpPrune => {}
        }
        let done = self.place.ccmux(words).run();
        if is_elsewhere {
            self.stop_daemon(&other);
        }
        match case.operation {
            Operation::CloseAfterMove => fs::rename(&other, &root).unwrap(),
            Operation::CloseInCopy => self.remove(&other),
            Operation::Close
            | Operation::Purge
            | Operation::PurgeNow
            | Operation::Gc
            | Operation::Down
            | Operation::DownPurge
            | Operation::Migrate
            | Operation::UpPrune => {}
        }
        (done.status.success(), done.stderr)
    }

    fn stop_daemon(&self, root: &Path) {
        self.place.ccmux(&["--home", root.to_str().unwrap(), "daemon", "stop"]).ok();
        crate::wait_for_exit(root);
    }

    fn remove(&self, tree: &Path) {
        let script = "chmod -R u+rwx \"$0\"; rm -rf \"$0\"";
        let words = [Path::new("-c"), Path::new(script), tree];
        drop(self.place.home.program("sh", &words).timeout(LONG).run());
    }

    /// Asserts that all files are in their place, or in the trash and not due.
    #[track_caller]
    fn assert_kept(&self, work: &Files, context: &str) {
        let root = self.place.home.state_root();
        let names: BTreeSet<OsString> =
            work.keys().map(|path| path.file_name().unwrap().to_owned()).collect();
        let mut kept: BTreeSet<(OsString, Vec<u8>)> = BTreeSet::new();
        for top in ["sessions", "work", "trash", "claude-homes"] {
            let files = find_files(&root.join(top), &names);
            kept.extend(
                files
                    .into_iter()
                    .map(|(path, content)| (path.file_name().unwrap().to_owned(), content)),
            );
        }
        for (path, content) in work {
            let is_kept = kept.contains(&(path.file_name().unwrap().to_owned(), content.clone()));
            assert!(content.is_empty() || is_kept, "lost {}: {context}", path.display());
        }
    }

    /// Closes the pane, if it still exists, with the token for its work, which is kept in the trash.
    fn discard(&self, case: &Case, work: &Files, context: &str) {
        let target = case.name.as_str();
        if self.place.ccmux(&["show", target]).run().status.success() {
            // The work of a running program changes, and its token with it.
            self.place.ccmux(&["stop", target, "--grace", "0"]).ok();
            let refused = self.place.ccmux(&["close", "--json", target, "--grace", "0"]).run();
            if !refused.status.success() {
                let refused: Value = serde_json::from_str(&refused.stderr)
                    .unwrap_or_else(|_| panic!("{context}: {}", refused.stderr));
                let token = refused["error"]["details"]["panes"][0]["discard"].as_str();
                let token = token.unwrap_or_else(|| panic!("{context}: {refused}"));
                self.place.ccmux(&["close", target, "--discard", token]).ok();
            }
            self.assert_kept(work, context);
            assert!(!case.dir.join("pane.json").exists(), "{context}");
        }
        if case.operation.has_team() || case.operation == Operation::Migrate {
            drop(self.place.ccmux(&["purge", &case.target, "--yes", "--grace", "0"]).run());
        }
        // Later cases look through less.
        for entry in fs::read_dir(self.place.home.state_root().join("trash")).unwrap().flatten() {
            if !is_due(&entry.path()) {
                self.remove(&entry.path());
            }
        }
    }
}

/// Returns the files that the program of the pane has written completely.
fn written_by_program(case: &Case) -> Vec<Written> {
    let text = fs::read_to_string(&case.log).unwrap_or_default();
    let line = |path: &str| {
        let path = PathBuf::from(path);
        let name = path.file_name().unwrap().to_str().unwrap();
        Written { content: format!("{name}\n").into_bytes(), path: path.clone() }
    };
    text.lines().map(line).collect()
}

/// Returns whether an entry of the trash is deleted at once.
pub(crate) fn is_due(entry: &Path) -> bool {
    entry.file_name().unwrap().to_string_lossy().starts_with("0-")
}

/// Returns the files with these names in a directory, except where users are not told to look: in
/// directories that are moved aside, and in entries of the trash that are deleted at once.
pub(crate) fn find_files(top: &Path, names: &BTreeSet<OsString>) -> Files {
    let is_aside = |path: &Path| path.to_string_lossy().ends_with(".aside");
    let is_told = |path: &Path| !is_due(path) && !is_aside(path);
    walk(top, &is_told, &|path| names.contains(path.file_name().unwrap()))
}

/// Returns the contents of all files in a tree that can be read, by path.
fn contents(top: &Path) -> Files {
    walk(top, &|_| true, &|_| true)
}

fn walk(top: &Path, enters: &dyn Fn(&Path) -> bool, reads: &dyn Fn(&Path) -> bool) -> Files {
    let (mut found, mut dirs) = (Files::new(), vec![top.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() && enters(&path) {
                dirs.push(path);
            } else if kind.is_file()
                && reads(&path)
                && let Ok(content) = fs::read(&path)
            {
                found.insert(path, content);
            }
        }
    }
    found
}
