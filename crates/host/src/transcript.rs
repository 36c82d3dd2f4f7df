//! Conversation transcripts of agents.
//!
//! Patterns are relative and come from the agent definitions; `*` matches any part of one file name
//! and never a slash.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::ConversationId;
use model::agent::{Agent, Liveness};
use rusqlite::{Connection, OpenFlags};

/// How much of a transcript is read to find its conversation id.
const HEAD_SIZE: u64 = 4096;

/// How long to wait for the lock on an agent's database.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// Size limit of the status file of a running agent.
const MAX_STATUS_SIZE: u64 = 64 << 10;

/// Returns the files in `dir` that match a pattern, sorted by name. Links are skipped.
#[must_use]
pub fn matching(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = found.iter().flat_map(|dir| entries(dir, part)).collect();
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file()));
    found.sort();
    found
}

fn entries(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    if !pattern.contains('*') {
        let path = dir.join(pattern);
        return if path.symlink_metadata().is_ok() { vec![path] } else { Vec::new() };
    }
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| matches(name, pattern)).map(|name| dir.join(name)).collect()
}

fn matches(name: &OsStr, pattern: &str) -> bool {
    let Some(mut rest) = name.to_str() else { return false };
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns the transcript of a conversation in an agent's directory.
#[must_use]
pub fn find(agent: &Agent, dir: &Path, id: &ConversationId) -> Option<PathBuf> {
    if let Some(database) = agent.conversations.database {
        let path = dir.join(database.path);
        let count: u32 = query(&path, database.count, &[id.as_str()])?;
        return (count > 0).then_some(path);
    }
    let pattern = agent.transcript_of(id)?;
    let all = matching(dir, &pattern);
    if pattern.contains(id.as_str()) {
        return all.into_iter().next();
    }
    // The id is in the file and not in its name.
    all.into_iter().find(|path| identify(agent, path).as_ref() == Some(id))
}

/// Returns the most recently written conversation in an agent's directory.
#[must_use]
pub fn latest(agent: &Agent, dir: &Path) -> Option<ConversationId> {
    if let Some(database) = agent.conversations.database {
        let id: String = query(&dir.join(database.path), database.latest, &[])?;
        return id.parse().ok();
    }
    let pattern = agent.conversations.transcript.as_ref()?.replace("{id}", "*");
    let mut all: Vec<(SystemTime, PathBuf)> = matching(dir, &pattern)
        .into_iter()
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    all.sort();
    all.into_iter().rev().find_map(|(_, path)| identify(agent, &path))
}

/// Queries one value from an agent's database, which may be in use; `None` on any error.
fn query<T: rusqlite::types::FromSql>(path: &Path, sql: &str, parameters: &[&str]) -> Option<T> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let database = Connection::open_with_flags(path, flags).ok()?;
    database.busy_timeout(BUSY_TIMEOUT).ok()?;
    let parameters = rusqlite::params_from_iter(parameters);
    database.query_row(sql, parameters, |row| row.get(0)).ok()
}

fn identify(agent: &Agent, path: &Path) -> Option<ConversationId> {
    let mut head = Vec::new();
    fs::File::open(path).ok()?.take(HEAD_SIZE).read_to_end(&mut head).ok()?;
    (agent.conversations.identify?)(path.file_name()?.to_str()?, &head)
}

/// Returns the status of the running agents in a directory. Incomplete files are skipped.
#[must_use]
pub fn live(agent: &Agent, dir: &Path) -> Vec<Liveness> {
    live_files(agent, dir).into_iter().map(|(_, status)| status).collect()
}

/// Returns the status of the running agents in a directory, with the files.
#[must_use]
pub fn live_files(agent: &Agent, dir: &Path) -> Vec<(PathBuf, Liveness)> {
    let Some(live) = agent.conversations.live else { return Vec::new() };
    let read = |path: PathBuf| -> Option<(PathBuf, Liveness)> {
        let mut bytes = Vec::new();
        fs::File::open(&path).ok()?.take(MAX_STATUS_SIZE).read_to_end(&mut bytes).ok()?;
        Some((path, (live.read)(&bytes)?))
    };
    matching(&dir.join(live.dir), "*.json").into_iter().filter_map(read).collect()
}

/// Copies a transcript from one directory of an agent to the same relative path in another.
///
/// # Errors
///
/// Any error of the operating system.
pub fn copy_between(transcript: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let inside = transcript.strip_prefix(from).map_err(io::Error::other)?;
    let place = to.join(inside);
    if let Some(parent) = inside.parent() {
        let mut made = to.to_owned();
        for part in parent.components() {
            made.push(part);
            crate::file::make_dir(&made).map_err(io::Error::other)?;
        }
    }
    let bytes = fs::read(transcript)?;
    crate::file::write_atomic(&place, &bytes, crate::file::Durability::ProcessCrash)
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> Agent {
        Agent::named(name, &std::collections::BTreeMap::new()).unwrap()
    }

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        crate::file::write_atomic(path, text.as_bytes(), crate::file::Durability::ProcessCrash)
            .unwrap();
    }

    #[test]
    fn transcript_is_found_by_conversation_id() {
        let base = tempfile::tempdir().unwrap();
        let id: ConversationId = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
        let other = base.path().join("projects/-src/11111111-e29b-41d4-a716-446655440000.jsonl");
        let path = base.path().join(format!("projects/-src-deep/{id}.jsonl"));
        put(&other, "{}\n");
        put(&path, "{}\n");

        let claude = agent("claude");

        assert_eq!(find(&claude, base.path(), &id), Some(path.clone()));
        assert_eq!(latest(&claude, base.path()), Some(id.clone()));
        let to = base.path().join("other");
        fs::create_dir(&to).unwrap();
        copy_between(&path, base.path(), &to).unwrap();
        assert!(find(&claude, &to, &id).is_some());
    }

    #[test]
    fn conversations_in_database_are_found() {
        let base = tempfile::tempdir().unwrap();
        let opencode = agent("opencode");
        let path = base.path().join(opencode.conversations.database.unwrap().path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert_eq!(latest(&opencode, base.path()), None);
        let database = Connection::open(&path).unwrap();
        let sql = "CREATE TABLE session (id TEXT, parent_id TEXT, time_updated INTEGER);
                   INSERT INTO session VALUES
                   ('ses_1', NULL, 1), ('ses_2', NULL, 2), ('ses_3', 'ses_1', 3);";
        database.execute_batch(sql).unwrap();

        let found = latest(&opencode, base.path()).unwrap();

        assert_eq!(found.as_str(), "ses_2");
        assert!(find(&opencode, base.path(), &found).is_some());
        assert!(find(&opencode, base.path(), &"ses_9".parse().unwrap()).is_none());
    }

    #[test]
    fn star_matches_part_of_one_name() {
        let cases = [
            ("rollout-*-x.jsonl", "rollout-2026-x.jsonl", true),
            ("rollout-*-x.jsonl", "rollout-2026-y.jsonl", false),
            ("*", "anything", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("plain", "plain", true),
            ("plain", "plainer", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(OsStr::new(name), pattern), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn matching_skips_symbolic_links() {
        let base = tempfile::tempdir().unwrap();
        put(&base.path().join("real.jsonl"), "{}");
        std::os::unix::fs::symlink("real.jsonl", base.path().join("link.jsonl")).unwrap();

        assert_eq!(matching(base.path(), "*.jsonl"), [base.path().join("real.jsonl")]);
    }
}
