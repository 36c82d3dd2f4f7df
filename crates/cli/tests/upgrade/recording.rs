//! A recorded release: one directory with everything that the release wrote and said.
//!
//! | file             | content                                                                   |
//! |------------------|---------------------------------------------------------------------------|
//! | `files.jsonl`    | every directory, file and link of the home, one per line, with its mode   |
//! | `ccmux.db.sql`   | the registry, as SQL                                                      |
//! | `locks.db.sql`   | the locks, as SQL                                                         |
//! | `control.frames` | conversations of its clients with its daemon                              |
//! | `keeper.frames`  | conversations of its daemon with its keepers                              |
//!
//! The tree is one file because git keeps neither modes nor empty directories, and no `.git` but its
//! own. `{{DIR}}` stands for the directory of the home, which is another one in every test. Records
//! that name it get the checksum of their text with the real directory; all others keep the recorded
//! one.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::tree::Entry;
use testkit::{Home, put, tree};

use crate::frames::{self, Conversation, from_hex, to_hex};

/// Stands for the directory of the home.
const DIR: &str = "{{DIR}}";

const FILES: &str = "files.jsonl";

pub(crate) const CONTROL: &str = "control.frames";

pub(crate) const KEEPER: &str = "keeper.frames";

/// A recording in the repository.
pub(crate) struct Recording {
    dir: PathBuf,
}

impl Recording {
    /// Every recording there is.
    pub(crate) fn all() -> Vec<Self> {
        let entries = fs::read_dir(Self::place()).unwrap().map(|entry| entry.unwrap().path());
        let mut dirs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        dirs.sort();
        assert!(!dirs.is_empty(), "there are recordings in {}", Self::place().display());
        dirs.into_iter().map(|dir| Self { dir }).collect()
    }

    /// An empty recording of this name.
    pub(crate) fn create(name: &str) -> Self {
        let dir = Self::place().join(name);
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    fn place() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade/recorded")
    }

    /// Release and commit, such as `0.1.0-ea6c125`.
    pub(crate) fn name(&self) -> String {
        self.dir.file_name().unwrap().to_str().unwrap().to_owned()
    }

    fn read(&self, file: &str) -> String {
        let path = self.dir.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn write(&self, file: &str, home: &Home, text: &str) {
        let text = text.replace(home.dir().to_str().unwrap(), DIR);
        put(&self.dir.join(file), &text);
    }

    pub(crate) fn conversations(&self, file: &str, home: &Home) -> Vec<Conversation> {
        frames::parse(&self.read(file).replace(DIR, home.dir().to_str().unwrap()))
    }

    pub(crate) fn write_conversations(&self, file: &str, home: &Home, recorded: &[Conversation]) {
        self.write(file, home, &frames::print(recorded));
    }

    /// Records the home, in which nothing may run.
    pub(crate) fn save(&self, home: &Home) {
        let entries = tree(home.dir()).into_iter();
        let lines: String = entries
            .filter_map(|(path, entry)| self.entry(home, &path, entry))
            .map(|line| format!("{line}\n"))
            .collect();
        self.write(FILES, home, &lines);
    }

    fn entry(&self, home: &Home, path: &Path, entry: Entry) -> Option<Value> {
        let name = path.file_name().unwrap().to_str().unwrap();
        // The stand-ins for agents are links to this build, and a log is not read by any release.
        let skipped = path.starts_with("bin")
            || [".db-wal", ".db-shm", "daemon.log"].iter().any(|end| name.ends_with(end));
        if skipped {
            return None;
        }
        let full = home.dir().join(path);
        let path = path.to_str().unwrap();
        let (mode, mut line) = match entry {
            Entry::Directory(mode) => (mode, json!({ "path": path, "dir": true })),
            Entry::File(mode, _, _) if name.ends_with(".db") => {
                let file = format!("{name}.sql");
                self.write(&file, home, &dump(&full));
                (mode, json!({ "path": path, "database": file }))
            }
            Entry::File(mode, _, bytes) => match String::from_utf8(bytes) {
                Ok(text) => (mode, json!({ "path": path, "text": text })),
                Err(error) => (mode, json!({ "path": path, "hex": to_hex(error.as_bytes()) })),
            },
            Entry::Link(to) => return Some(json!({ "path": path, "link": to })),
            Entry::Other => return None,
        };
        let found = fs::metadata(&full).unwrap();
        line["mode"] = json!(format!("{mode:o}"));
        line["modified"] = json!([found.mtime(), found.mtime_nsec()]);
        Some(line)
    }

    /// Puts the recorded home in the place of an empty one.
    pub(crate) fn load(&self, home: &Home) {
        let dir = home.dir().to_str().unwrap();
        let entries: Vec<Value> =
            self.read(FILES).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for entry in &entries {
            self.restore(entry, dir);
        }
        // Directories that may not be written to, and times that a new entry changes.
        for entry in entries.iter().rev().filter(|entry| entry["link"].is_null()) {
            let path = Path::new(dir).join(entry["path"].as_str().unwrap());
            let mode = u32::from_str_radix(entry["mode"].as_str().unwrap(), 8).unwrap();
            let [seconds, nanoseconds] = [0, 1].map(|at| entry["modified"][at].as_u64().unwrap());
            let modified =
                UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
            File::open(&path).unwrap().set_modified(modified).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
    }

    fn restore(&self, entry: &Value, dir: &str) {
        let path = Path::new(dir).join(entry["path"].as_str().unwrap());
        let field = |name: &str| entry[name].as_str();
        if let Some(text) = field("text") {
            put(&path, with_dir(text, dir));
        } else if let Some(digits) = field("hex") {
            File::create(&path).unwrap().write_all(&from_hex(digits)).unwrap();
        } else if let Some(file) = field("database") {
            let database = Connection::open(&path).unwrap();
            database.execute_batch(&self.read(file).replace(DIR, dir)).unwrap();
        } else if let Some(to) = field("link") {
            symlink(to.replace(DIR, dir), &path).unwrap();
        } else {
            fs::create_dir_all(&path).unwrap();
        }
    }
}

/// The text of a file with the real directory, and the checksum that goes with it.
fn with_dir(text: &str, dir: &str) -> String {
    let real = text.replace(DIR, dir);
    let parts = || {
        let (head, record) = real.split_once(r#","record":"#)?;
        let (format, _) = head.split_once(r#","checksum":""#)?;
        Some((format, record.strip_suffix("}\n")?))
    };
    match parts() {
        Some((format, body)) if text.contains(DIR) => record(format, body),
        _ => real,
    }
}

/// A record with its checksum; `format` is the text before it, such as `{"format":1`.
pub(crate) fn record(format: &str, body: &str) -> String {
    let checksum = blake3::hash(body.as_bytes()).to_hex();
    format!("{format},\"checksum\":\"{checksum}\",\"record\":{body}}}\n")
}

/// A database as SQL that makes the same one.
fn dump(path: &Path) -> String {
    let database = Connection::open(path).unwrap();
    let rows = |sql: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let pragma = |name: &str| {
        let value = database.query_row(&format!("PRAGMA {name}"), [], |row| {
            row.get(0).or_else(|_| row.get(0).map(|number: i64| number.to_string()))
        });
        format!("PRAGMA {name} = {}", value.unwrap())
    };
    let mut statements: Vec<String> =
        ["page_size", "journal_mode", "application_id", "user_version"].map(pragma).into();
    let own = "FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'";
    statements.extend(rows(&format!("SELECT sql {own} ORDER BY rowid")));
    let mut tables = rows(&format!("SELECT name {own} AND type = 'table' ORDER BY rowid"));
    if !rows("SELECT name FROM sqlite_master WHERE name = 'sqlite_sequence'").is_empty() {
        tables.push("sqlite_sequence".to_owned());
    }
    for table in tables {
        if table == "sqlite_sequence" {
            // The rows above have made entries.
            statements.push(format!("DELETE FROM {table}"));
        }
        let columns =
            rows(&format!("SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')"));
        let values = columns.join(" || ', ' || ");
        let insert =
            format!("SELECT 'INSERT INTO {table} VALUES (' || {values} || ')' FROM {table}");
        statements.extend(rows(&insert));
    }
    statements.join(";\n") + ";\n"
}

#[test]
fn only_records_that_name_the_directory_get_another_checksum() {
    let checksum = |record: &str| blake3::hash(record.as_bytes()).to_hex().to_string();
    let record = |checksum: &str, record: &str| {
        format!("{{\"format\":1,\"checksum\":\"{checksum}\",\"record\":{record}}}\n")
    };

    let moved = with_dir(&record("x", r#"{"cwd":"{{DIR}}/work"}"#), "/tmp/h");
    let kept = with_dir(&record("x", r#"{"code":3}"#), "/tmp/h");

    let cwd = r#"{"cwd":"/tmp/h/work"}"#;
    assert_eq!(moved, record(&checksum(cwd), cwd));
    assert_eq!(kept, record("x", r#"{"code":3}"#));
}

#[test]
fn dumped_database_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one.db");
    let sql = "PRAGMA journal_mode = wal; PRAGMA user_version = 7;
        CREATE TABLE t (n INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, more BLOB) STRICT;
        INSERT INTO t VALUES (5, 'it''s {{DIR}}', x'00ff'), (9, NULL, NULL);
        DELETE FROM t WHERE n = 9;";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();

    let text = dump(&path);
    let again = dir.path().join("two.db");
    Connection::open(&again).unwrap().execute_batch(&text).unwrap();

    assert_eq!(dump(&again), text);
    assert!(text.contains("INSERT INTO sqlite_sequence VALUES ('t', 9)"), "{text}");
}
