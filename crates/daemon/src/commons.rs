//! Watching over trees: those that panes share, for files that nobody holds, and those that a pane
//! holds as a whole.
//!
//! A tree is watched while two or more live panes work in it. It is remembered which pane changed
//! which file last, as far as the system tells; when another one changes it soon after, that is put
//! on record, because it may not have seen what it changed. In a tree that a pane holds, every change
//! by another one is. Files that are held one by one are the business of [`crate::watchman`]: whoever
//! has asked for a file knows what it does.

mod ground;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::clock;
use host::household::Household;
use host::writer::{self, Content};
use model::conflict::{Evidence, LastChange, Outcome, common_trees};
use model::event::Happening;
use model::health::{Finding, Severity};
use model::isolation::USER_HOME;
use model::{LaunchRecord, PaneId, Timestamp};
use tokio::sync::{Notify, mpsc};
use tracing::warn;

use self::ground::{Ground, MOST_DIRS};
use crate::pane::Life;
use crate::supervisor::{Supervisor, run_blocking};
use crate::watchman::{self, Held};

/// How many files are remembered.
const MOST_FILES: usize = 4096;

/// How many changes wait to be looked at. More at once are no work by hand.
const MOST_NOTICED: usize = 4096;

/// How often it is looked who has a file open before the changes of that time are judged.
const MOST_LOOKS: u32 = 32;

/// The largest file that is read. Of a larger one, every write counts as a change.
const LARGEST: u64 = 4 << 20;

/// How long a change may take to be complete, and how often one file is looked at.
const SETTLES: Duration = Duration::from_millis(150);

/// How long nothing more is said of the same two at the same file, in milliseconds.
const SAID: i64 = 60_000;

/// The outside of it.
pub(crate) struct Commons {
    book: Arc<Mutex<Book>>,
    ground: Mutex<Option<Ground>>,
    held: Held,
    household: Household,
    again: Notify,
    wake: mpsc::UnboundedSender<PathBuf>,
    notices: Mutex<Option<mpsc::UnboundedReceiver<PathBuf>>>,
}

#[derive(Debug, Default)]
struct Book {
    /// What is watched.
    trees: BTreeSet<PathBuf>,
    /// Trees that a pane holds as a whole.
    claims: BTreeMap<PathBuf, PaneId>,
    /// What of it is not.
    cut: BTreeSet<PathBuf>,
    files: HashMap<PathBuf, Known>,
    noticed: HashMap<PathBuf, Glance>,
    looks: u32,
    /// How often a pane has told of an edit.
    words: u64,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
struct Known {
    content: Content,
    last: LastChange,
    /// The last conflict that was told, and when.
    said: Option<([PaneId; 2], Timestamp)>,
    /// Different after everything that a pane tells: what was seen before then says nothing.
    told: u64,
}

/// What was seen of a change before it is judged.
#[derive(Clone, Copy, Debug, Default)]
struct Glance {
    writer: Option<PaneId>,
    held: bool,
}

/// What was seen of a file that was changed.
#[derive(Clone, Copy, Debug)]
struct Sight {
    content: Content,
    now: LastChange,
    held: bool,
    told: u64,
}

/// A pane that changed what another one had just changed, or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Crossing {
    writer: PaneId,
    before: PaneId,
    outcome: Outcome,
}

impl Commons {
    pub(crate) fn new(held: Held, household: Household) -> Self {
        let (wake, notices) = mpsc::unbounded_channel();
        Self {
            book: Arc::default(),
            ground: Mutex::default(),
            held,
            household,
            again: Notify::new(),
            wake,
            notices: Mutex::new(Some(notices)),
        }
    }

    /// These trees are held as a whole, and no others.
    pub(crate) fn claim(&self, held: impl Iterator<Item = (PathBuf, PaneId)>) {
        let claims: BTreeMap<PathBuf, PaneId> = held.collect();
        let mut book = lock(&self.book);
        if book.claims != claims {
            book.claims = claims;
            self.look_again();
        }
    }

    /// Panes have come or gone: something else may have to be watched.
    pub(crate) fn look_again(&self) {
        self.again.notify_one();
    }

    /// A pane has edited a file that it holds: that is no conflict with anybody.
    pub(crate) async fn edited(&self, pane: PaneId, path: &str) {
        if lock(&self.book).trees.is_empty() {
            return;
        }
        let (path, _) = watchman::look(path).await;
        let looked_at = path.clone();
        let content = run_blocking(move || writer::content_up_to(&looked_at, LARGEST)).await;
        let last = LastChange { writer: Some(pane), at: clock::now() };
        let mut book = lock(&self.book);
        if book.trees.iter().any(|tree| path.starts_with(tree)) {
            book.words += 1;
            let told = book.words;
            book.remember(path, Known { content, last, said: None, told });
        }
    }

    /// That some of what panes share is not watched.
    pub(crate) fn too_large(&self) -> Vec<Finding> {
        let cut = lock(&self.book).cut.clone();
        let finding = |tree: &PathBuf| Finding {
            severity: Severity::Info,
            subject: "daemon".to_owned(),
            what: "a directory that panes share is not watched as a whole".to_owned(),
            evidence: format!(
                "`{}`; at most {MOST_DIRS} directories are, and as many as the system allows",
                tree.display()
            ),
            remedy: "none is needed; panes that work in trees of their own cannot get into each \
                     other's way"
                .to_owned(),
        };
        cut.iter().map(finding).collect()
    }

    /// Watches the trees that two or more of `places` are in, and those that are held, and nothing
    /// else. Blocks.
    fn cover(&self, places: &[Abode], state: &Path) {
        let state = fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
        let places: Vec<PathBuf> = places.iter().filter_map(|place| place.tree(&state)).collect();
        let places: Vec<&str> = places.iter().filter_map(|place| place.to_str()).collect();
        let mut trees: BTreeSet<PathBuf> =
            common_trees(&places).into_iter().map(PathBuf::from).collect();
        {
            let mut book = lock(&self.book);
            trees.extend(book.claims.keys().cloned());
            if book.trees == trees {
                return;
            }
            let is_in = |path: &Path| trees.iter().any(|tree| path.starts_with(tree));
            book.files.retain(|path, _| is_in(path));
            book.trees.clone_from(&trees);
        }
        let mut ground = lock(&self.ground);
        if trees.is_empty() {
            // The threads go with it.
            *ground = None;
        } else {
            if ground.is_none() {
                *ground = self.make(state);
            }
            if let Some(ground) = ground.as_mut() {
                ground.cover(&trees);
            }
        }
        let cut = ground.as_ref().map(|ground| ground.cut.clone()).unwrap_or_default();
        lock(&self.book).cut = cut;
    }

    fn make(&self, state: PathBuf) -> Option<Ground> {
        let (book, wake, held) = (Arc::clone(&self.book), self.wake.clone(), self.held.clone());
        Ground::new(state, self.household.clone(), move |path, nobody_tells| {
            let held = held.contains(&path);
            let may_look = nobody_tells && lock(&book).may_look(&path);
            // At once: whoever writes may close it in the next moment.
            let writer = if may_look { writer::of(&path) } else { None };
            let mut book = lock(&book);
            if let Some(glance) = book.noticed.get_mut(&path) {
                glance.writer = glance.writer.or(writer);
                glance.held |= held;
            } else if book.noticed.len() < MOST_NOTICED {
                book.noticed.insert(path.clone(), Glance { writer, held });
                // The daemon is ending if nobody listens.
                let _unheard = wake.send(path);
            }
        })
    }

    /// What is in a file that was changed, and who wrote it by the word of the kernel; nothing if
    /// it is no file. Blocks.
    fn look_at(&self, path: &Path) -> Option<(Content, Option<PaneId>)> {
        let found = fs::symlink_metadata(path);
        if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
            let trees = lock(&self.book).trees.clone();
            if let Some(ground) = lock(&self.ground).as_mut() {
                ground.appeared(path, &trees);
                let cut = ground.cut.clone();
                lock(&self.book).cut = cut;
            }
            return None;
        }
        if found.as_ref().is_ok_and(|found| !found.is_file()) {
            return None;
        }
        // What was written before this is known to the kernel afterwards.
        let content = writer::content_up_to(path, LARGEST);
        let mut ground = lock(&self.ground);
        let ground = ground.as_mut()?;
        if found.is_err() {
            ground.gone(path);
        }
        Some((content, ground.writer_of(path)))
    }
}

impl Book {
    /// Whether it is worth looking who has a file open: that costs a look at every process.
    fn may_look(&mut self, path: &Path) -> bool {
        let is_known = self.noticed.get(path).is_some_and(|glance| glance.writer.is_some());
        let may = !is_known && self.looks < MOST_LOOKS;
        self.looks += u32::from(may);
        may
    }

    fn remember(&mut self, path: PathBuf, known: Known) {
        if self.files.len() >= MOST_FILES && !self.files.contains_key(&path) {
            let oldest = self.files.iter().min_by_key(|(_, known)| known.last.at);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.files.remove(&oldest);
            }
        }
        self.files.insert(path, known);
    }

    /// What was seen of a change, and what had been told of the file before it is looked at.
    fn take(&mut self, path: &Path) -> Option<(Glance, u64)> {
        let glance = self.noticed.remove(path)?;
        Some((glance, self.files.get(path).map_or(0, |known| known.told)))
    }

    /// Whose tree this is in, and who is in it against the will of that one.
    fn trespass(&self, path: &Path, writer: Option<PaneId>) -> Option<Crossing> {
        let (writer, mut claims) = (writer?, self.claims.iter());
        let (_, before) = claims.find(|(tree, _)| path.starts_with(tree))?;
        let outcome = Outcome::Changed;
        (*before != writer).then_some(Crossing { writer, before: *before, outcome })
    }

    /// Takes in that a file has this content now; whose change that crossed, or whose tree it is. A
    /// file that is held by itself crosses nobody's.
    fn note(&mut self, path: &Path, seen: Sight) -> Option<Crossing> {
        let Sight { content, now, held, told } = seen;
        let trespass = self.trespass(path, now.writer);
        let known = self.files.get(path).copied();
        if known.is_some_and(|known| known.content == content || known.told != told) {
            return None;
        }
        let mut next = Known { content, last: now, said: None, told };
        if !content.is_there() {
            // Nobody tells who removed it. Who makes it anew crosses whoever wrote it before.
            if let Some(known) = known {
                self.files.insert(path.to_owned(), Known { content, ..known });
            }
            return None;
        }
        let crossed = || {
            let (before, writer) = (known?.last.crossed_by(now)?, now.writer?);
            Some(Crossing { writer, before, outcome: Outcome::ChangedToo })
        };
        let crossing = trespass.or_else(crossed).filter(|_| !held);
        next.said = known.and_then(|known| known.said);
        let two = crossing
            .map(|Crossing { writer, before, .. }| [before.min(writer), before.max(writer)]);
        let is_said = next
            .said
            .is_some_and(|(said, at)| Some(said) == two && now.at.0.saturating_sub(at.0) < SAID);
        if let Some(two) = two.filter(|_| !is_said) {
            next.said = Some((two, now.at));
        }
        self.remember(path.to_owned(), next);
        crossing.filter(|_| !is_said)
    }
}

/// Where a pane works.
struct Abode {
    path: String,
    home: Option<String>,
}

impl Abode {
    /// That of a pane that does not work in a tree of its own.
    fn of(launch: &LaunchRecord) -> Option<Self> {
        let path = match &launch.workspace {
            Some(workspace) if workspace.is_own() => return None,
            Some(workspace) => &workspace.path,
            None => &launch.cwd,
        };
        let home = launch.env.get(USER_HOME).or_else(|| launch.env.get("HOME"));
        Some(Self { path: path.clone(), home: home.map(str::to_owned) })
    }

    /// The tree, unless it is ours, or holds the user's home: nobody works in all of that. Blocks.
    fn tree(&self, state: &Path) -> Option<PathBuf> {
        let tree = fs::canonicalize(&self.path).ok()?;
        let home = self.home.as_ref().and_then(|home| fs::canonicalize(home).ok());
        let holds_home = home.is_some_and(|home| home.starts_with(&tree));
        (!holds_home && tree.parent().is_some() && !tree.starts_with(state)).then_some(tree)
    }
}

impl Supervisor {
    /// Watches over what panes share, and puts conflicts on record.
    pub(crate) async fn keep_commons(self: Arc<Self>) {
        let notices = lock(&self.commons.notices).take();
        let Some(mut notices) = notices else { return };
        loop {
            let first = tokio::select! {
                first = notices.recv() => first,
                () = self.commons.again.notified() => {
                    self.cover_commons().await;
                    continue;
                }
                () = self.ending.cancelled() => return,
            };
            let Some(first) = first else { return };
            tokio::time::sleep(SETTLES).await;
            lock(&self.commons.book).looks = 0;
            let mut all = vec![first];
            while let Ok(also) = notices.try_recv() {
                all.push(also);
            }
            for path in all {
                self.judge_common(path).await;
            }
        }
    }

    async fn cover_commons(self: &Arc<Self>) {
        let live =
            self.every_pane().into_iter().filter(|pane| matches!(pane.life(), Life::Live(_)));
        let places: Vec<Abode> =
            live.filter_map(|pane| Abode::of(pane.launch().as_deref()?)).collect();
        let this = Arc::clone(self);
        run_blocking(move || this.commons.cover(&places, this.root.path())).await;
    }

    async fn judge_common(self: &Arc<Self>, path: PathBuf) {
        let taken = lock(&self.commons.book).take(&path);
        let Some((glance, told)) = taken else { return };
        let (this, looked_at) = (Arc::clone(self), path.clone());
        let seen = run_blocking(move || this.commons.look_at(&looked_at)).await;
        let Some((content, by_kernel)) = seen else { return };
        let evidence = if by_kernel.is_some() { Evidence::Kernel } else { Evidence::OpenFile };
        let writer = by_kernel.or(glance.writer).filter(|pane| self.pane(*pane).is_some());
        let held = glance.held || self.commons.held.contains(&path);
        let now = LastChange { writer, at: clock::now() };
        let crossing = lock(&self.commons.book).note(&path, Sight { content, now, held, told });
        if let Some(crossing) = crossing {
            self.tell_crossing(&path, crossing, evidence).await;
        }
    }

    async fn tell_crossing(&self, path: &Path, crossing: Crossing, evidence: Evidence) {
        let Crossing { writer, before, outcome } = crossing;
        let held_by = match self.name_of(before).await {
            Some(name) => format!("pane {name}"),
            None => format!("pane {}", before.short()),
        };
        let told = Happening::Conflict {
            path: path.to_string_lossy().into_owned(),
            pane: Some(writer),
            name: self.name_of(writer).await,
            holder: Some(before),
            held_by,
            outcome,
            evidence,
        };
        if self.tell_conflict(told).await.is_err() {
            warn!(path = %path.display(), "a conflict is not on record");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use host::file::{self, Survive};

    use super::*;

    #[test]
    fn a_crossing_is_told_once_and_only_of_panes_that_did_not_ask() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (one, two) = (PaneId::from_random([1; 16]), PaneId::from_random([2; 16]));
        let mut book = Book::default();
        let time = std::cell::Cell::new(0);
        let mut change = |text: Option<&str>, writer: Option<PaneId>, held: bool| {
            match text {
                Some(text) => file::write_atomic(&path, text.as_bytes(), Survive::Kill).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            time.set(time.get() + 1000);
            let now = LastChange { writer, at: Timestamp(time.get()) };
            let content = writer::content_up_to(&path, LARGEST);
            book.note(&path, Sight { content, now, held, told: 0 })
        };
        let crossing =
            |writer, before| Some(Crossing { writer, before, outcome: Outcome::ChangedToo });

        assert_eq!(change(Some("a"), Some(one), false), None, "nobody was there before");
        assert_eq!(change(Some("a"), Some(two), false), None, "nothing is changed");
        assert_eq!(change(Some("b"), Some(two), true), None, "it has asked");
        assert_eq!(change(Some("c"), Some(one), false), crossing(one, two));
        assert_eq!(change(Some("d"), Some(two), false), None, "they are known for it");
        assert_eq!(change(Some("e"), None, false), None);
        assert_eq!(change(Some("f"), Some(one), false), None, "who was before is not known");
        time.set(time.get() + SAID);
        assert_eq!(change(None, None, false), None);
        assert_eq!(change(Some("g"), Some(two), false), crossing(two, one), "it was removed");
    }

    #[test]
    fn what_was_seen_before_a_pane_told_of_its_edit_says_nothing() {
        let content = writer::content(Path::new("/nowhere"));
        let pane = PaneId::from_random([1; 16]);
        let last = LastChange { writer: Some(pane), at: Timestamp(0) };
        let mut book = Book::default();
        let (path, other) = (PathBuf::from("/file"), writer::content(Path::new("/proc/self/stat")));
        book.noticed.insert(path.clone(), Glance::default());
        let (_, told) = book.take(&path).unwrap();
        book.remember(path.clone(), Known { content, last, said: None, told: 1 });

        book.note(&path, Sight { content: other, now: last, held: false, told });

        assert_eq!(book.files[&path].content, content);
    }
}
