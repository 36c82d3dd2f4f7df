use std::os::unix::fs::PermissionsExt as _;

use model::event::EventBody;
use model::{Ending, EndingReason, PaneId, SessionMode, SessionRecord, Timestamp};

use super::*;

fn root() -> (tempfile::TempDir, StateRoot) {
    let dir = tempfile::tempdir().unwrap();
    let root = StateRoot::open(&dir.path().join("home")).unwrap();
    (dir, root)
}

fn open(root: &StateRoot) -> Store {
    Store::open(root).unwrap().store
}

fn session(n: u8, name: &str, implicit: bool) -> SessionRecord {
    SessionRecord {
        id: SessionId::from_random([n; 16]),
        name: name.parse().unwrap(),
        mode: SessionMode::Isolated,
        created: Timestamp(7),
        implicit,
        isolation: None,
        env: std::collections::BTreeMap::new(),
        template: None,
        project: None,
    }
}

fn pane(n: u8, session: &SessionRecord, name: &str) -> NewPane {
    NewPane {
        id: PaneId::from_random([n; 16]),
        session: session.id,
        name: name.parse().unwrap(),
        created: Timestamp(8),
    }
}

fn exited() -> Ending {
    Ending::of(Some(0), None, EndingReason::Exited, Timestamp(9))
}

fn happenings(store: &mut Store) -> Vec<EventBody> {
    let events = store.change(|change| change.events(0, 100_000)).unwrap();
    events.into_iter().map(|event| event.what).collect()
}

#[test]
fn sessions_and_panes_persist_after_reopening() {
    let (_dir, root) = root();
    let web = session(1, "web", false);
    let dev = pane(2, &web, "dev");
    open(&root)
        .change(|change| {
            change.add_session(&web)?;
            change.add_pane(&dev)?;
            change.announce(dev.id)
        })
        .unwrap();

    let mut store = open(&root);
    let (sessions, panes) =
        store.change(|change| Ok::<_, StoreError>((change.sessions()?, change.panes()?))).unwrap();

    assert_eq!(sessions, [SessionRow { record: web.clone(), announced: true }]);
    assert_eq!((panes[0].id, panes[0].session, panes[0].announced), (dev.id, web.id, true));
    let mode = fs::metadata(root.database()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn ending_is_recorded_once() {
    let (_dir, root) = root();
    let mut store = open(&root);
    let web = session(1, "web", true);
    let dev = pane(2, &web, "dev");

    let first = store.change(|change| {
        change.add_session(&web)?;
        change.add_pane(&dev)?;
        change.end(dev.id, &exited(), 0)
    });
    let second = store.change(|change| change.end(dev.id, &exited(), 0));
    let removed = store.change(|change| change.remove_pane(dev.id));

    assert!(first.unwrap());
    assert!(!second.unwrap());
    assert_eq!(removed.unwrap(), Removed::PaneAndSession);
    assert_eq!(
        happenings(&mut store),
        [
            EventBody::SessionCreated { session: web.id, name: web.name },
            EventBody::PaneCreated { session: web.id, pane: dev.id, name: dev.name },
            EventBody::PaneExited { pane: dev.id, ending: exited() },
            EventBody::PaneClosed { pane: dev.id },
            EventBody::SessionClosed { session: web.id },
        ]
    );
}

#[test]
fn unannounced_pane_is_removed_without_event() {
    let (_dir, root) = root();
    let mut store = open(&root);
    let web = session(1, "web", false);
    let dev = pane(2, &web, "dev");

    let removed = store.change(|change| {
        change.add_session(&web)?;
        change.add_pane(&dev)?;
        change.remove_pane(dev.id)
    });

    assert_eq!(removed.unwrap(), Removed::PaneAndSession);
    assert_eq!(happenings(&mut store), []);
}

#[test]
fn failed_change_does_not_affect_its_group() {
    let (_dir, root) = root();
    let mut store = open(&root);
    let (web, api) = (session(1, "web", false), session(2, "api", false));
    let twin = session(3, "web", false);

    let mut group = store.begin(Durability::PowerLoss).unwrap();
    group.apply(|change| change.add_session(&web)).unwrap();
    let refused = group
        .apply(|change| {
            change.emit(EventBody::SessionClosed { session: web.id })?;
            change.add_session(&twin)
        })
        .unwrap_err();
    group.apply(|change| change.add_session(&api)).unwrap();
    group.apply(|change| change.announce_session(api.id)).unwrap();
    let events = group.commit().unwrap();

    assert!(matches!(refused, StoreError::SessionNameTaken { name, .. } if name == web.name));
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].seq, 1);
    let names = store.change(|change| change.sessions()).unwrap();
    assert_eq!(names.iter().map(|row| row.record.id).collect::<Vec<_>>(), [web.id, api.id]);
}

#[test]
fn uncommitted_group_is_rolled_back() {
    let (_dir, root) = root();
    let mut store = open(&root);

    let mut group = store.begin(Durability::ProcessCrash).unwrap();
    group.apply(|change| change.add_session(&session(1, "web", false))).unwrap();
    drop(group);

    assert_eq!(store.change(|change| change.sessions()).unwrap(), []);
}

#[test]
fn old_events_are_deleted_and_numbers_increase() {
    let (_dir, root) = root();
    let mut store = open(&root);
    let closed = EventBody::SessionClosed { session: session(1, "web", false).id };

    for _ in 0..3 {
        let mut group = store.begin(Durability::ProcessCrash).unwrap();
        for _ in 0..EVENTS_KEPT / 2 {
            group.apply(|change| change.emit(closed.clone())).unwrap();
        }
        group.commit().unwrap();
    }
    drop(store);

    let mut store = open(&root);
    let (kept, last) = store
        .change(|change| Ok::<_, StoreError>((change.events(0, u32::MAX)?, change.last_event()?)))
        .unwrap();
    assert_eq!(kept.len() as u64, EVENTS_KEPT);
    assert_eq!(kept[0].seq, EVENTS_KEPT / 2 + 1);
    assert_eq!(last, EVENTS_KEPT / 2 * 3);
}

#[test]
fn damaged_database_is_set_aside_and_event_numbers_are_not_reused() {
    let (_dir, root) = root();
    let damages: [fn(&Path); 3] = [
        |path| file::write_atomic(path, &[b'x'; 9000], Durability::ProcessCrash).unwrap(),
        |path| {
            // A page in the middle, so that the header is still valid.
            let mut bytes = fs::read(path).unwrap();
            bytes[4096..12_288].fill(0xee);
            file::write_atomic(path, &bytes, Durability::ProcessCrash).unwrap();
        },
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
    ];
    file::make_dir(&root.session(session(1, "web", false).id)).unwrap();
    let mut last = 0;
    for damage in damages {
        let mut store = open(&root);
        let web = session(1, "web", false);
        store
            .change(|change| {
                change.add_session(&web)?;
                change.announce_session(web.id)
            })
            .unwrap();
        let before = store.change(|change| change.last_event()).unwrap();
        assert!(before > last);
        drop(store);
        damage(&root.database());

        let mut opened = Store::open(&root).unwrap();

        let aside = opened.set_aside.unwrap();
        assert_eq!(aside.path, root.database());
        assert!(aside.kept_as.exists(), "{aside:?}");
        assert_eq!(opened.store.change(|change| change.sessions()).unwrap(), []);
        last = opened.store.change(|change| change.last_event()).unwrap();
        assert!(last > before, "{last} after {before}");
    }
}

#[test]
fn database_of_newer_release_is_refused_and_unchanged() {
    let (_dir, root) = root();
    let store = open(&root);
    store.db.execute("UPDATE meta SET value = '9' WHERE key = 'format'", []).unwrap();
    drop(store);

    let error = Store::open(&root).unwrap_err();

    assert!(matches!(error, StoreError::TooNew { found: 9, .. }), "{error}");
    let entries = fs::read_dir(root.path()).unwrap().flatten();
    assert!(entries.into_iter().all(|e| !e.file_name().to_string_lossy().contains("damaged")));
}

#[test]
fn database_of_older_release_is_migrated() {
    const THIRD: &str = "ALTER TABLE sessions DROP COLUMN template; \
                         ALTER TABLE sessions DROP COLUMN project;";
    let older = [
        "UPDATE meta SET value = '3'",
        "ALTER TABLE sessions DROP COLUMN env; UPDATE meta SET value = '2'",
        "ALTER TABLE sessions DROP COLUMN env; ALTER TABLE sessions DROP COLUMN isolation; \
         UPDATE meta SET value = '1'",
    ];
    for older in older {
        let (_dir, root) = root();
        let web = session(1, "web", false);
        let mut store = open(&root);
        store.change(|change| change.add_session(&web)).unwrap();
        store
            .db
            .execute_batch(&format!("DROP TABLE keys; DROP TABLE pending; {THIRD} {older}"))
            .unwrap();
        drop(store);

        let mut store = open(&root);
        let added = std::collections::BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let all = added.clone();
        store.change(|change| change.add_session_env(web.id, &added)).unwrap();

        let found = store.change(|change| change.session(web.id)).unwrap().record;
        assert_eq!(found, SessionRecord { env: all, ..web }, "{older}");
    }
}

#[test]
fn check_detects_damage_while_database_is_open() {
    use std::io::{Seek as _, SeekFrom, Write as _};
    let (_dir, root) = root();
    open(&root).change(|change| change.add_session(&session(1, "web", false))).unwrap();
    // After reopening, everything is in one file, and the writer has read it.
    let mut store = open(&root);
    store.change(|change| change.sessions()).unwrap();
    check(&root).unwrap();

    let mut file = fs::File::options().write(true).open(root.database()).unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&[0xaa; 4096]).unwrap();

    assert!(store.change(|change| change.sessions()).is_ok(), "the writer has cached pages");
    let why = check(&root).unwrap_err().to_string();
    assert!(!why.is_empty(), "{why}");
}

/// B7: a key exists exactly as long as the object created with it.
#[test]
fn key_is_removed_with_the_object_it_created() {
    let (_dir, root) = root();
    let mut store = open(&root);
    let (web, key) = (session(1, "web", false), "run 7".parse().unwrap());
    let dev = pane(2, &web, "dev");
    let other = "pane 7".parse().unwrap();
    store
        .change(|change| {
            change.add_session(&web)?;
            change.add_pane(&dev)?;
            change.mark_pending(web.id)?;
            change.add_key(&key, Created::Session(web.id), "a")?;
            change.add_key(&other, Created::Pane(dev.id), "b")
        })
        .unwrap();
    drop(store);

    let mut store = open(&root);
    let (made, pending) = store
        .change(|change| Ok::<_, StoreError>((change.made_by(&key)?, change.pending()?)))
        .unwrap();
    assert_eq!(made, Some(KeyRow { made: Created::Session(web.id), digest: "a".to_owned() }));
    assert_eq!(pending, [web.id]);
    let twice = store.change(|change| change.add_key(&key, Created::Pane(dev.id), "c"));
    assert!(matches!(twice, Err(StoreError::Sqlite(_))), "{twice:?}");
    store.change(|change| change.complete(web.id)).unwrap();
    assert_eq!(store.change(|change| change.pending()).unwrap(), []);

    store
        .change(|change| {
            change.mark_pending(web.id)?;
            change.remove_pane(dev.id).map(drop)
        })
        .unwrap();

    // The session was never announced, so it was removed with its only pane.
    for key in [&key, &other] {
        assert_eq!(store.change(|change| change.made_by(key)).unwrap(), None);
    }
    assert_eq!(store.change(|change| change.pending()).unwrap(), []);
    let gone = store.change(|change| change.complete(web.id));
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
}

#[test]
fn ended_pane_gives_up_its_name_but_a_live_one_does_not() {
    let (_dir, root) = root();
    let mut store = open(&root);
    let web = session(1, "web", false);
    let dev = pane(2, &web, "dev");
    store
        .change(|change| {
            change.add_session(&web)?;
            change.add_pane(&dev)
        })
        .unwrap();
    let vacate = |store: &mut Store, is_live: bool| {
        store.change(|change| change.vacate_pane_name(web.id, &dev.name, |_| is_live))
    };

    let live = vacate(&mut store, false).unwrap_err();
    store.change(|change| change.end(dev.id, &exited(), 0)).unwrap();
    let restored = vacate(&mut store, true).unwrap_err();
    let ended = vacate(&mut store, false).unwrap();

    for refused in [live, restored] {
        let StoreError::PaneNameTaken { name, free } = refused else { panic!("{refused}") };
        assert_eq!((name.as_str(), free.as_str()), ("dev", "dev-2"));
    }
    let expected = RenamedPane { id: dev.id, name: "dev-old".parse().unwrap() };
    assert_eq!(ended, Some(expected));
    assert_eq!(vacate(&mut store, false).unwrap(), None);
}

#[test]
fn live_panes_of_implicit_sessions_share_their_names() {
    let (_dir, root) = root();
    let mut store = open(&root);
    let (first, second) = (session(1, "ccmux-1", true), session(2, "ccmux-2", true));
    let web = session(3, "web", false);
    let dev = pane(4, &first, "dev");
    store
        .change(|change| {
            for session in [&first, &second, &web] {
                change.add_session(session)?;
            }
            change.add_pane(&dev)
        })
        .unwrap();
    let mut is_taken = |session: SessionId| {
        store.change(|change| change.taken_pane_names(session)).unwrap().contains(&dev.name)
    };

    let taken = [first.id, second.id, web.id].map(&mut is_taken);
    store.change(|change| change.end(dev.id, &exited(), 0)).unwrap();
    let taken_by_ended =
        store.change(|change| change.taken_pane_names(second.id)).unwrap().contains(&dev.name);

    assert_eq!(taken, [true, true, false]);
    assert!(!taken_by_ended);
}
