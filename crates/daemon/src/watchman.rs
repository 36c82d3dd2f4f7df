//! Watching over files that panes hold, for those who ask nobody before they write.
//!
//! The directory of every file that a pane is about to edit is watched until the pane gives the file
//! back; where nobody holds anything, nothing is watched. When such a file changes, it is looked at
//! once who has it open, then, a moment later, whether its content is another one. The holder's own
//! edits are known, because its hooks tell of them before and after.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::household::Household;
use host::witness::Witness;
use host::writer::{self, Content};
use model::PaneId;
use model::conflict::{Evidence, Outcome, Sighting};
use model::event::Happening;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::supervisor::{Supervisor, run_blocking};

/// How many files are watched at most. Who edits more in a turn is not editing by hand.
const MOST_FILES: usize = 4096;

/// How often it is looked who is at a file that is changed all the time.
const MOST_LOOKS: u8 = 8;

/// How long a change may take to be complete, and how often one file is looked at.
const SETTLES: Duration = Duration::from_millis(150);

/// The outside of it.
pub(crate) struct Watchman {
    book: Arc<Mutex<Book>>,
    watcher: Mutex<Option<Eyes>>,
    household: Household,
    wake: mpsc::UnboundedSender<Noticed>,
    notices: Mutex<Option<Notices>>,
}

/// What sees changes, and who makes them where the system tells.
struct Eyes {
    watcher: RecommendedWatcher,
    witness: Option<Witness>,
}

/// Changes that were noticed.
type Notices = mpsc::UnboundedReceiver<Noticed>;

/// A file was changed.
#[derive(Debug)]
struct Noticed(PathBuf);

/// A change that the holder did not make.
#[derive(Debug)]
struct Trespass {
    path: PathBuf,
    holder: PaneId,
    writer: Option<PaneId>,
    evidence: Evidence,
}

#[derive(Debug, Default)]
struct Book {
    files: HashMap<PathBuf, Watched>,
    /// How many files are watched in each directory.
    dirs: HashMap<PathBuf, usize>,
    /// Those that could not be watched, because they were not there yet.
    missing: HashSet<PathBuf>,
    /// How often a holder has told something.
    words: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    holder: PaneId,
    content: Content,
    editing: bool,
    /// Its hooks tell of each of its edits.
    tells: bool,
    /// A change of it is being looked at.
    noticed: Option<Glance>,
    /// Different after everything that the holder tells: what was seen before then says nothing.
    told: u64,
}

/// What was seen of a change before it is judged.
#[derive(Clone, Copy, Debug, Default)]
struct Glance {
    /// How often it was looked who is at the file.
    looks: u8,
    writer: Option<PaneId>,
}

/// Which files are held at this moment.
#[derive(Clone, Debug)]
pub(crate) struct Held(Arc<Mutex<Book>>);

impl Held {
    pub(crate) fn contains(&self, path: &Path) -> bool {
        lock(&self.0).files.contains_key(path)
    }
}

impl Watchman {
    /// Watches nothing yet. The household belongs to no pane.
    pub(crate) fn new(household: Household) -> Self {
        let (wake, notices) = mpsc::unbounded_channel();
        let notices = Mutex::new(Some(notices));
        Self { book: Arc::default(), watcher: Mutex::default(), household, wake, notices }
    }

    pub(crate) fn held(&self) -> Held {
        Held(Arc::clone(&self.book))
    }

    /// A pane is about to edit a file, which it holds.
    pub(crate) async fn editing(&self, pane: PaneId, path: &str) {
        self.add(pane, path, true).await;
    }

    /// Watches over what panes hold that did not get it by their hooks, and over nothing else of
    /// that kind.
    pub(crate) async fn hold(&self, held: &[(PaneId, String)]) {
        let known = |holder: PaneId, path: &Path| {
            held.iter().any(|(pane, held)| *pane == holder && Path::new(held) == path)
        };
        self.drop_files(|path, watched| !watched.tells && !known(watched.holder, path));
        for (pane, path) in held {
            if !lock(&self.book).files.contains_key(Path::new(path)) {
                self.add(*pane, path, false).await;
            }
        }
    }

    async fn add(&self, pane: PaneId, path: &str, tells: bool) {
        let (path, content) = look(path).await;
        let dir = path.parent().map(Path::to_owned);
        let is_new = {
            let mut book = lock(&self.book);
            if book.files.len() >= MOST_FILES && !book.files.contains_key(&path) {
                return;
            }
            let told = book.next_word();
            let watched =
                Watched { holder: pane, content, editing: tells, tells, noticed: None, told };
            book.files.insert(path, watched).is_none()
        };
        if let Some(dir) = dir.filter(|_| is_new) {
            self.watch(&dir);
        }
    }

    /// A pane has edited a file.
    pub(crate) async fn edited(&self, pane: PaneId, path: &str) {
        let (path, content) = look(path).await;
        {
            let mut book = lock(&self.book);
            let told = book.next_word();
            if let Some(watched) = book.files.get_mut(&path)
                && watched.holder == pane
            {
                *watched = Watched { content, editing: false, told, ..*watched };
            }
        }
        // It may have made the directory only now.
        if let Some(dir) = path.parent() {
            let was_missing = lock(&self.book).missing.remove(dir);
            if was_missing {
                self.begin(dir);
            }
        }
    }

    /// A pane no longer holds anything.
    pub(crate) fn leave(&self, pane: PaneId) {
        self.drop_files(|_, watched| watched.holder == pane);
    }

    fn drop_files(&self, mut is_over: impl FnMut(&Path, &Watched) -> bool) {
        let gone: Vec<PathBuf> = {
            let mut book = lock(&self.book);
            book.files
                .extract_if(|path, watched| is_over(path, watched))
                .map(|(path, _)| path)
                .collect()
        };
        for dir in gone.iter().filter_map(|path| path.parent()) {
            self.unwatch(dir);
        }
    }

    /// Counts one more file in a directory.
    fn watch(&self, dir: &Path) {
        let count = {
            let mut book = lock(&self.book);
            let count = book.dirs.entry(dir.to_owned()).or_default();
            *count += 1;
            *count
        };
        if count == 1 {
            self.begin(dir);
        }
    }

    /// Begins to watch a directory; the watcher itself is made when it is first needed.
    fn begin(&self, dir: &Path) {
        let mut watcher = lock(&self.watcher);
        if watcher.is_none() {
            *watcher = self.make();
        }
        let Some(Eyes { watcher, witness }) = watcher.as_mut() else { return };
        if let Err(error) = watcher.watch(dir, RecursiveMode::NonRecursive) {
            warn!(dir = %dir.display(), %error, "changes in here are not noticed");
            lock(&self.book).missing.insert(dir.to_owned());
        } else if let Some(Err(error)) = witness.as_ref().map(|witness| witness.watch(dir)) {
            info!(dir = %dir.display(), %error, "the kernel does not tell who writes in here");
        }
    }

    fn unwatch(&self, dir: &Path) {
        let (is_last, nothing_left) = {
            let mut book = lock(&self.book);
            let count = book.dirs.entry(dir.to_owned()).or_default();
            *count = count.saturating_sub(1);
            let is_last = *count == 0;
            if is_last {
                book.dirs.remove(dir);
                book.missing.remove(dir);
            }
            (is_last, book.dirs.is_empty())
        };
        let mut watcher = lock(&self.watcher);
        if nothing_left {
            // Its thread goes with it.
            *watcher = None;
        } else if let Some(Eyes { watcher, witness }) = watcher.as_mut().filter(|_| is_last) {
            // It goes with its directory as well.
            let _gone = watcher.unwatch(dir);
            witness.iter().for_each(|witness| witness.unwatch(dir));
        }
    }

    fn make(&self) -> Option<Eyes> {
        let (book, wake) = (Arc::clone(&self.book), self.wake.clone());
        let made = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in event.paths {
                if !may_look(&book, &path) {
                    continue;
                }
                // At once: whoever writes may close it in the next moment.
                let writer = writer::of(&path);
                let mut book = lock(&book);
                let Some(watched) = book.files.get_mut(&path) else { continue };
                let is_first = watched.noticed.is_none();
                let glance = watched.noticed.get_or_insert_default();
                glance.looks += 1;
                glance.writer = glance.writer.or(writer);
                if is_first {
                    // The daemon is ending if nobody listens.
                    let _unheard = wake.send(Noticed(path));
                }
            }
        });
        let watcher = made
            .map_err(|error| warn!(%error, "changes of held files will not be noticed"))
            .ok()?;
        Some(Eyes { watcher, witness: Witness::new(self.household.clone()).ok() })
    }

    /// Whether a file that was changed was so by another one than its holder.
    async fn judge(&self, Noticed(path): Noticed) -> Option<Trespass> {
        let (glance, told) = {
            let mut book = lock(&self.book);
            let watched = book.files.get_mut(&path)?;
            (watched.noticed.take()?, watched.told)
        };
        let looked_at = path.clone();
        let (content, open_by) = run_blocking(move || {
            let open_by = glance.writer.or_else(|| writer::of(&looked_at));
            (writer::content(&looked_at), open_by)
        })
        .await;
        let by_kernel = self.writer_of(&path);
        let at_it = by_kernel.or(open_by);
        let evidence = match (by_kernel, open_by) {
            (Some(_), _) => Evidence::Kernel,
            (None, Some(_)) => Evidence::OpenFile,
            (None, None) => Evidence::Nothing,
        };
        let mut book = lock(&self.book);
        let watched = book.files.get_mut(&path)?;
        if watched.content == content || watched.told != told {
            return None;
        }
        watched.content = content;
        let Watched { holder, editing, tells, .. } = *watched;
        let sighting = Sighting { holder, writer: at_it, editing, tells };
        sighting.is_conflict().then_some(Trespass { path, holder, writer: at_it, evidence })
    }

    /// The pane that wrote last to a file, by the word of the kernel.
    fn writer_of(&self, path: &Path) -> Option<PaneId> {
        lock(&self.watcher).as_ref()?.witness.as_ref()?.writer_of(path)
    }
}

impl Book {
    fn next_word(&mut self) -> u64 {
        self.words += 1;
        self.words
    }
}

/// Whether it is worth looking who is at a file: it is watched, and that is not known yet.
fn may_look(book: &Mutex<Book>, path: &Path) -> bool {
    match lock(book).files.get(path).map(|watched| watched.noticed) {
        None => false,
        Some(None) => true,
        Some(Some(glance)) => glance.writer.is_none() && glance.looks < MOST_LOOKS,
    }
}

impl Supervisor {
    /// Looks at what was noticed, and puts conflicts on record.
    pub(crate) async fn keep_watch(self: Arc<Self>) {
        let notices = lock(&self.watchman.notices).take();
        let Some(mut notices) = notices else { return };
        loop {
            let first = tokio::select! {
                first = notices.recv() => first,
                () = self.ending.cancelled() => return,
            };
            let Some(first) = first else { return };
            tokio::time::sleep(SETTLES).await;
            let mut all = vec![first];
            while let Ok(also) = notices.try_recv() {
                all.push(also);
            }
            for noticed in all {
                if let Some(trespass) = self.watchman.judge(noticed).await {
                    self.changed_without_lock(trespass).await;
                }
            }
        }
    }

    async fn changed_without_lock(self: &Arc<Self>, trespass: Trespass) {
        let Trespass { path, holder, writer, evidence } = trespass;
        let name = match writer {
            Some(writer) => self.name_of(writer).await,
            None => None,
        };
        let held_by = match self.name_of(holder).await {
            Some(name) => format!("pane {name}"),
            None => format!("pane {}", holder.short()),
        };
        let told = Happening::Conflict {
            path: path.to_string_lossy().into_owned(),
            pane: writer,
            name,
            holder: Some(holder),
            held_by,
            outcome: Outcome::Changed,
            evidence,
        };
        if self.tell_conflict(told).await.is_err() {
            warn!(path = %path.display(), "a conflict is not on record");
        }
    }
}

/// Where a path leads, and what is there.
pub(crate) async fn look(path: &str) -> (PathBuf, Content) {
    let path = PathBuf::from(path);
    run_blocking(move || {
        let path = path.canonicalize().unwrap_or_else(|_| in_canonical_dir(&path));
        let content = writer::content(&path);
        (path, content)
    })
    .await
}

/// The path of a file that is not there yet.
fn in_canonical_dir(path: &Path) -> PathBuf {
    match (path.parent().and_then(|dir| dir.canonicalize().ok()), path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path.to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
