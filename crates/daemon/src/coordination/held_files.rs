//! Detects changes of locked files by other panes than their holder.
//!
//! The directory of a locked file is watched until the lock is released. When the file changes, the
//! processes that have it open are looked up at once; after the write has settled, its content is
//! compared. Edits by the holder are recognised because its hooks announce them before and after.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::fingerprint::{self, Fingerprint};
use host::open_files;
use model::PaneId;
use model::conflict::{Attribution, ConflictOutcome, ObservedWrite};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::warn;

use super::conflicts::ForeignWrite;
use super::{Coordination, SETTLE_TIME, resolve};
use crate::file_watch::{FileWatch, Subscription, Writers};
use crate::runtime::run_blocking;

/// Maximum number of watched files.
const MAX_FILES: usize = 4096;

/// Maximum number of lookups of the processes that have a file open, until its change is inspected.
const MAX_LOOKUPS: u8 = 8;

/// The files that panes have locked one by one.
pub(crate) struct HeldFiles {
    watched: Arc<WatchedFiles>,
    changes: Mutex<Option<mpsc::UnboundedReceiver<PathBuf>>>,
}

/// # Invariant
///
/// Each file in `state` accounts for one watch of its directory.
struct WatchedFiles {
    state: Arc<Mutex<State>>,
    subscription: Subscription,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<PathBuf, HeldFile>,
    /// The last revision that was given to a file.
    last_revision: u64,
}

#[derive(Clone, Copy, Debug)]
struct HeldFile {
    holder: PaneId,
    content: Fingerprint,
    /// The holder has announced an edit and not finished it.
    editing: bool,
    /// The holder announces all its edits, through its hooks.
    announces: bool,
    /// A change that was not inspected yet.
    pending: Option<PendingChange>,
    /// Grows with each announcement. An observation made under an earlier revision is void.
    revision: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct PendingChange {
    lookups: u8,
    writer: Option<PaneId>,
}

/// Tells whether a file is locked.
#[derive(Clone, Debug)]
pub(super) struct HeldIndex(Arc<Mutex<State>>);

impl HeldIndex {
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.0.lock().files.contains_key(path)
    }
}

impl HeldFiles {
    pub(super) fn new(file_watch: &FileWatch) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        let state: Arc<Mutex<State>> = Arc::default();
        let subscription = file_watch.subscribe(Writers::Tracked, {
            let state = Arc::clone(&state);
            move |change| {
                if note_change(&state, change.path) {
                    // Closed only when the daemon ends.
                    let _closed = sender.send(change.path.to_owned());
                }
            }
        });
        let watched = Arc::new(WatchedFiles { state, subscription });
        Self { watched, changes: Mutex::new(Some(changes)) }
    }

    pub(super) fn index(&self) -> HeldIndex {
        HeldIndex(Arc::clone(&self.watched.state))
    }

    /// Watches a file that a pane has locked and is about to edit.
    pub(crate) async fn edit_started(&self, pane: PaneId, path: &str) {
        self.add(pane, path, true).await;
    }

    /// Records the content of a file after an edit by its holder.
    pub(crate) async fn edit_finished(&self, pane: PaneId, path: &str) {
        let (watched, path) = (Arc::clone(&self.watched), PathBuf::from(path));
        run_blocking(move || watched.edit_finished(pane, &path)).await;
    }

    /// Sets the files that are locked without hooks. Files that hooks have locked stay watched.
    pub(super) async fn set_locked(&self, locked: &[(PaneId, String)]) {
        let is_locked = |holder: PaneId, path: &Path| {
            locked.iter().any(|(pane, locked)| *pane == holder && Path::new(locked) == path)
        };
        self.watched.remove(|path, file| !file.announces && !is_locked(file.holder, path));
        for (pane, path) in locked {
            if !self.watched.state.lock().files.contains_key(Path::new(path)) {
                self.add(*pane, path, false).await;
            }
        }
    }

    /// Stops watching the files of a pane.
    pub(crate) fn release(&self, pane: PaneId) {
        self.watched.remove(|_, file| file.holder == pane);
    }

    async fn add(&self, pane: PaneId, path: &str, announces: bool) {
        let (watched, path) = (Arc::clone(&self.watched), PathBuf::from(path));
        run_blocking(move || watched.add(pane, &path, announces)).await;
    }

    /// Returns the foreign write behind a change, unless the holder has made the change.
    async fn inspect(&self, path: PathBuf) -> Option<ForeignWrite> {
        let watched = Arc::clone(&self.watched);
        run_blocking(move || watched.inspect(path)).await
    }
}

/// All methods block.
impl WatchedFiles {
    fn add(&self, pane: PaneId, path: &Path, announces: bool) {
        let path = resolve(path);
        let Some(dir) = path.parent().map(Path::to_owned) else { return };
        if let Err(error) = self.subscription.watch(&dir) {
            warn!(dir = %dir.display(), %error, "directory of held file not watched");
        }
        let content = fingerprint::of_file(&path);
        let is_new = {
            let mut state = self.state.lock();
            let revision = state.next_revision();
            let (holder, editing, pending) = (pane, announces, None);
            let file = HeldFile { holder, content, editing, announces, pending, revision };
            state.insert(path, file)
        };
        if !is_new {
            self.subscription.unwatch(&dir);
        }
    }

    fn edit_finished(&self, pane: PaneId, path: &Path) {
        let path = resolve(path);
        let content = fingerprint::of_file(&path);
        {
            let mut state = self.state.lock();
            let revision = state.next_revision();
            if let Some(file) = state.files.get_mut(&path)
                && file.holder == pane
            {
                *file = HeldFile { content, editing: false, revision, ..*file };
            }
        }
        // The edit may have created the directory.
        if let Some(dir) = path.parent()
            && let Err(error) = self.subscription.retry(dir)
        {
            warn!(dir = %dir.display(), %error, "directory of held file not watched");
        }
    }

    fn remove(&self, is_over: impl Fn(&Path, &HeldFile) -> bool) {
        let removed: Vec<PathBuf> = {
            let mut state = self.state.lock();
            let removed = state.files.extract_if(|path, file| is_over(path, file));
            removed.map(|(path, _)| path).collect()
        };
        for dir in removed.iter().filter_map(|path| path.parent()) {
            self.subscription.unwatch(dir);
        }
    }

    fn inspect(&self, path: PathBuf) -> Option<ForeignWrite> {
        let (pending, revision) = {
            let mut state = self.state.lock();
            let file = state.files.get_mut(&path)?;
            (file.pending.take()?, file.revision)
        };
        let open_by = pending.writer.or_else(|| open_files::pane_writing(&path));
        let content = fingerprint::of_file(&path);
        // Asked last: the kernel has then reported every write that is in the content.
        let by_kernel = self.subscription.writer_of(&path);
        let evidence = match (by_kernel, open_by) {
            (Some(_), _) => Attribution::Kernel,
            (None, Some(_)) => Attribution::OpenFile,
            (None, None) => Attribution::Nothing,
        };
        let observation = Observation { content, writer: by_kernel.or(open_by), revision };
        let (holder, writer) = self.state.lock().apply(&path, observation)?;
        Some(ForeignWrite { path, writer, holder, outcome: ConflictOutcome::Changed, evidence })
    }
}

/// A held file as it was after a change.
#[derive(Clone, Copy, Debug)]
struct Observation {
    content: Fingerprint,
    writer: Option<PaneId>,
    /// The revision of the file before it was read.
    revision: u64,
}

impl State {
    fn next_revision(&mut self) -> u64 {
        self.last_revision += 1;
        self.last_revision
    }

    /// Adds or replaces a file. Returns whether it is new; a new file over the limit is not added.
    fn insert(&mut self, path: PathBuf, file: HeldFile) -> bool {
        let is_new = !self.files.contains_key(&path);
        if is_new && self.files.len() >= MAX_FILES {
            return false;
        }
        self.files.insert(path, file);
        is_new
    }

    /// Takes in the new content of a file. Returns the holder and the writer of a conflict.
    fn apply(&mut self, path: &Path, seen: Observation) -> Option<(PaneId, Option<PaneId>)> {
        let file = self.files.get_mut(path)?;
        if file.content == seen.content || file.revision != seen.revision {
            return None;
        }
        file.content = seen.content;
        let HeldFile { holder, editing, announces, .. } = *file;
        let write = ObservedWrite { holder, writer: seen.writer, editing, tells: announces };
        write.is_conflict().then_some((holder, seen.writer))
    }

    /// Returns whether to look up the processes that have a file open: it is held, and the writer
    /// of its pending change is unknown.
    fn wants_lookup(&self, path: &Path) -> bool {
        self.files.get(path).is_some_and(|file| {
            let pending = file.pending.unwrap_or_default();
            pending.writer.is_none() && pending.lookups < MAX_LOOKUPS
        })
    }
}

/// Notes a change of a held file. Returns true if it has to be inspected and is not queued yet.
fn note_change(state: &Mutex<State>, path: &Path) -> bool {
    if !state.lock().wants_lookup(path) {
        return false;
    }
    // Looked up now, because the writer may close the file at any moment.
    let writer = open_files::pane_writing(path);
    let mut state = state.lock();
    let Some(file) = state.files.get_mut(path) else { return false };
    let is_first = file.pending.is_none();
    let pending = file.pending.get_or_insert_default();
    pending.lookups += 1;
    pending.writer = pending.writer.or(writer);
    is_first
}

impl Coordination {
    /// Inspects the changes of held files and records conflicts, until the daemon ends.
    pub(crate) async fn watch_held_files(self: Arc<Self>) {
        let changes = self.held_files.changes.lock().take();
        let Some(mut changes) = changes else { return };
        loop {
            let first = tokio::select! {
                first = changes.recv() => first,
                () = self.runtime.ending.cancelled() => return,
            };
            let Some(first) = first else { return };
            tokio::time::sleep(SETTLE_TIME).await;
            let mut paths = vec![first];
            while let Ok(path) = changes.try_recv() {
                paths.push(path);
            }
            for path in paths {
                if let Some(write) = self.held_files.inspect(path).await {
                    self.record_foreign_write(write).await;
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files in place")]
mod tests {
    use std::fs;
    use std::time::Duration;

    use host::own_processes::OwnProcesses;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    struct Fixture {
        _temp: tempfile::TempDir,
        dir: PathBuf,
        file_watch: FileWatch,
        held: HeldFiles,
        changes: mpsc::UnboundedReceiver<PathBuf>,
    }

    fn fixture() -> Fixture {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        let file_watch = FileWatch::new(OwnProcesses::none());
        let held = HeldFiles::new(&file_watch);
        let changes = held.changes.lock().take().unwrap();
        Fixture { _temp: temp, dir, file_watch, held, changes }
    }

    impl Fixture {
        /// Waits for a change and inspects it.
        async fn next(&mut self) -> Option<ForeignWrite> {
            let path = tokio::time::timeout(DEADLINE, self.changes.recv()).await.unwrap();
            self.held.inspect(path.unwrap()).await
        }
    }

    #[tokio::test]
    async fn unannounced_change_of_held_file_is_a_foreign_write() {
        let mut fixture = fixture();
        let path = fixture.dir.join("file");
        let text = path.to_str().unwrap().to_owned();
        let holder = PaneId::from_random([1; 16]);

        fixture.held.edit_started(holder, &text).await;
        fs::write(&path, "holder").unwrap();
        assert!(fixture.next().await.is_none(), "the holder is editing");
        fixture.held.edit_finished(holder, &text).await;
        fs::write(&path, "other").unwrap();

        // The file is truncated first, which is a change as well.
        let found = loop {
            if let Some(found) = fixture.next().await {
                break found;
            }
        };
        assert_eq!((found.path, found.holder, found.writer), (path, holder, None));
        assert_eq!(found.evidence, Attribution::Nothing);
        fixture.held.release(holder);
        assert!(!fixture.file_watch.is_running().0);
    }

    #[tokio::test]
    async fn observation_made_before_an_announcement_is_discarded() {
        let fixture = fixture();
        let path = fixture.dir.join("file");
        let text = path.to_str().unwrap();
        let holder = PaneId::from_random([1; 16]);
        fixture.held.edit_started(holder, text).await;
        fixture.held.edit_finished(holder, text).await;
        fs::write(&path, "new").unwrap();
        let content = fingerprint::of_file(&path);
        let before = fixture.held.watched.state.lock().files[&path];
        let seen = Observation { content, writer: None, revision: before.revision };

        fixture.held.edit_started(holder, text).await;

        let mut state = fixture.held.watched.state.lock();
        assert_eq!(state.apply(&path, seen), None);
        let current = Observation { revision: state.files[&path].revision, ..seen };
        state.files.get_mut(&path).unwrap().content = before.content;
        assert_eq!(state.apply(&path, current), None, "the holder is editing");
        state.files.get_mut(&path).unwrap().content = before.content;
        state.files.get_mut(&path).unwrap().editing = false;
        assert_eq!(state.apply(&path, current), Some((holder, None)));
    }

    #[tokio::test]
    async fn locks_without_hooks_are_replaced_as_a_whole() {
        let fixture = fixture();
        let [one, two, hook] =
            ["one", "two", "hook"].map(|name| fixture.dir.join(name).display().to_string());
        let pane = PaneId::from_random([1; 16]);
        fixture.held.edit_started(pane, &hook).await;

        fixture.held.set_locked(&[(pane, one.clone())]).await;
        fixture.held.set_locked(&[(pane, two.clone())]).await;

        let index = fixture.held.index();
        let held = [&one, &two, &hook].map(|path| index.contains(Path::new(path)));
        assert_eq!(held, [false, true, true]);
    }
}
