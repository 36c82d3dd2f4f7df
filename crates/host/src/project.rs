//! Workspace setup of a project: `.ccmux.toml` in its root.
//!
//! The file can make ccmux run any command, so it is ignored until the user trusts exactly these
//! contents. Trust is stored in the state root by the path and the digest of the file; a changed file
//! is no longer trusted.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use model::Timestamp;
use model::environment::Environment;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::StateRoot;
use crate::file::{Durability, FileError};
use crate::git::{GitError, RepositoryLock, wait_timeout};
use crate::record::{self, RecordError};

/// The file name, in the root of a project.
pub const FILE: &str = ".ccmux.toml";

/// The file with the trusted digests, in the state root.
const TRUSTED: &str = "trust.json";

/// Size limit of the project file.
const MAX_SIZE: u64 = 1 << 16;

/// Timeout of one command.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How much of the output of a failed command is reported.
const OUTPUT_TAIL: u64 = 2000;

/// The contents of a project file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The file.
    pub path: PathBuf,
    /// The digest of its contents.
    pub digest: String,
    /// Commands to run in a new workspace, before the agent starts.
    pub setup: Vec<Vec<String>>,
    /// Commands to run in a workspace before it is removed.
    pub teardown: Vec<Vec<String>>,
}

/// Failure to read or trust a project file.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// Error of the operating system.
    #[error(transparent)]
    File(#[from] FileError),
    /// The trust record is not readable.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The trust lock was not released in time.
    #[error(transparent)]
    Lock(#[from] GitError),
    /// The file does not exist.
    #[error("`{}` does not exist", .0.display())]
    Missing(PathBuf),
    /// The contents are invalid.
    #[error("`{}`: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
}

/// A trusted version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The digest of the contents.
    pub digest: String,
    /// When the user trusted it.
    pub at: Timestamp,
}

/// All trusted files, by path.
pub type Trust = BTreeMap<String, Trusted>;

/// Reads the project file in a root; `None` if there is none.
///
/// # Errors
///
/// [`ProjectError`].
pub fn read(root: &Path) -> Result<Option<Project>, ProjectError> {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let path = root.join(FILE);
    let invalid = |why: String| ProjectError::Invalid { path: path.clone(), why };
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::when("read", &path)(error).into()),
    };
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(invalid("not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_SIZE + 1).read_to_end(&mut bytes);
    read.map_err(FileError::when("read", &path))?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(invalid(format!("larger than {MAX_SIZE} bytes")));
    }
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let text = String::from_utf8(bytes).map_err(|_| invalid("not UTF-8".to_owned()))?;
    let (setup, teardown) = parse(&text).map_err(invalid)?;
    Ok(Some(Project { path, digest, setup, teardown }))
}

type Commands = Vec<Vec<String>>;

fn parse(text: &str) -> Result<(Commands, Commands), String> {
    let (mut setup, mut teardown) = (Vec::new(), Vec::new());
    let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    for (name, value) in document.get_ref() {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(format!("unknown key {:?}", name.get_ref()));
        };
        if name.get_ref() != "workspace" {
            return Err(format!("unknown table [{}]; expected [workspace]", name.get_ref()));
        }
        for (key, value) in table {
            match &**key.get_ref() {
                "setup" => setup = commands("setup", value.get_ref())?,
                "teardown" => teardown = commands("teardown", value.get_ref())?,
                other => {
                    return Err(format!(
                        "unknown key workspace.{other}; expected setup or teardown"
                    ));
                }
            }
        }
    }
    Ok((setup, teardown))
}

/// Parses a list of argument vectors, which are not passed to a shell.
fn commands(key: &str, value: &DeValue<'_>) -> Result<Commands, String> {
    let wrong =
        || format!("workspace.{key} takes a list of commands such as [[\"make\", \"deps\"]]");
    let DeValue::Array(list) = value else { return Err(wrong()) };
    let command = |value: &DeValue<'_>| -> Option<Vec<String>> {
        let DeValue::Array(words) = value else { return None };
        let word = |word: &DeValue<'_>| {
            let DeValue::String(text) = word else { return None };
            (!text.contains('\0')).then(|| text.to_string())
        };
        let words: Option<Vec<String>> = words.iter().map(|value| word(value.get_ref())).collect();
        words.filter(|words| words.first().is_some_and(|program| !program.is_empty()))
    };
    let read: Option<Commands> = list.iter().map(|value| command(value.get_ref())).collect();
    read.ok_or_else(wrong)
}

/// Returns all trusted files.
///
/// # Errors
///
/// [`RecordError`].
pub fn trust(root: &StateRoot) -> Result<Trust, RecordError> {
    match record::read(&root.path().join(TRUSTED)) {
        Err(RecordError::Missing(_)) => Ok(Trust::new()),
        read => read,
    }
}

/// Changes the trusted files under a lock.
///
/// # Errors
///
/// [`ProjectError`]; nothing was changed.
pub fn change_trust(
    root: &StateRoot,
    change: impl FnOnce(&mut Trust),
) -> Result<Trust, ProjectError> {
    crate::file::make_dir(&root.locks())?;
    let _lock = RepositoryLock::on_file(&root.locks().join("trust.lock"))?;
    let mut known = trust(root)?;
    change(&mut known);
    record::write(&root.path().join(TRUSTED), &known, Durability::PowerLoss)?;
    Ok(known)
}

impl Project {
    /// Returns whether exactly these contents are trusted.
    #[must_use]
    pub fn is_trusted(&self, trust: &Trust) -> bool {
        let path = self.path.to_string_lossy();
        trust.get(&*path).is_some_and(|trusted| trusted.digest == self.digest)
    }
}

/// Runs commands in order in `dir` until one fails. Their output is appended to `log`. Blocks.
///
/// # Errors
///
/// The failed command, the reason, and the end of its output.
pub fn run(
    commands: &[Vec<String>],
    dir: &Path,
    environment: &Environment,
    log: &Path,
) -> Result<(), String> {
    for words in commands {
        let (Some((program, arguments)), line) = (words.split_first(), words.join(" ")) else {
            continue;
        };
        let message = |why: String| format!("`{line}` {why}");
        let open = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(log);
        let mut output = open.map_err(|error| message(format!("cannot write its log: {error}")))?;
        // Separates the output of the commands in the log.
        let _unseen = writeln!(output, "$ {line}");
        let begin = output.seek(SeekFrom::End(0)).unwrap_or_default();
        let copies = output.try_clone().and_then(|out| Ok((out, output.try_clone()?)));
        let (out, err) =
            copies.map_err(|error| message(format!("cannot write its log: {error}")))?;
        let spawned = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment.iter())
            .current_dir(dir)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn();
        let mut child = spawned.map_err(|error| message(format!("cannot be started: {error}")))?;
        let ended = wait_timeout(&mut child, TIMEOUT);
        let why = match ended {
            Ok(Some(status)) if status.success() => continue,
            Ok(Some(status)) => format!("failed: {status}"),
            Ok(None) => format!("timed out after {TIMEOUT:?}"),
            Err(error) => format!("cannot be waited for: {error}"),
        };
        let mut tail = String::new();
        let last = begin.max(output.metadata().map_or(0, |m| m.len()).saturating_sub(OUTPUT_TAIL));
        let mut bytes = Vec::new();
        if output.seek(SeekFrom::Start(last)).is_ok() {
            // The output is still in the log.
            let _partial = output.read_to_end(&mut bytes);
            tail = String::from_utf8_lossy(&bytes).trim().replace('\n', "\n  ");
        }
        return Err(message(format!("{why}\n  {tail}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_argument_vectors_only() {
        let text = "[workspace]\nsetup = [[\"make\", \"a b\"], [\"true\"]]\n";
        let (setup, teardown) = parse(text).unwrap();
        assert_eq!(setup, [vec!["make".to_owned(), "a b".to_owned()], vec!["true".to_owned()]]);
        assert!(teardown.is_empty());
        for wrong in [
            "[workspace]\nsetup = \"make deps\"\n",
            "[workspace]\nsetup = [\"make\"]\n",
            "[workspace]\nsetup = [[]]\n",
            "[workspace]\nsetup = [[\"\"]]\n",
            "[workspace]\nset_up = [[\"make\"]]\n",
            "[hooks]\n",
            "setup = 1\n",
            "[workspace",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn trust_applies_to_exact_contents() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("root")).unwrap();
        let project = dir.path().join("project");
        fs::create_dir(&project).unwrap();
        let write = |text: &str| {
            crate::file::write_atomic(
                &project.join(FILE),
                text.as_bytes(),
                Durability::ProcessCrash,
            )
            .unwrap();
            read(&project).unwrap().unwrap()
        };

        assert_eq!(read(dir.path()).unwrap(), None);
        let first = write("[workspace]\nsetup = [[\"true\"]]\n");
        let at = Timestamp(1);
        let trusted = Trusted { digest: first.digest.clone(), at };
        let path = first.path.to_string_lossy().into_owned();
        assert!(!first.is_trusted(&trust(&root).unwrap()));
        change_trust(&root, |trust| drop(trust.insert(path, trusted))).unwrap();

        let trust = trust(&root).unwrap();
        assert!(first.is_trusted(&trust));
        assert!(!write("[workspace]\nsetup = [[\"false\"]]\n").is_trusted(&trust));
        assert!(write("[workspace]\nsetup = [[\"true\"]]\n").is_trusted(&trust));
    }

    #[test]
    fn run_failed_command_reports_end_of_its_output() {
        let dir = tempfile::tempdir().unwrap();
        let mut environment = Environment::default();
        environment.set("PATH", "/usr/bin:/bin").unwrap();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let commands: Commands = vec![
            words(&["sh", "-c", "echo first"]),
            words(&["sh", "-c", "echo why >&2; exit 3"]),
            words(&["sh", "-c", "echo never"]),
        ];
        let log = dir.path().join("log");

        let failed = run(&commands, dir.path(), &environment, &log).unwrap_err();

        assert!(failed.contains("exit status: 3") && failed.contains("why"), "{failed}");
        assert!(!failed.contains("first"), "{failed}");
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains("first") && !log.contains("never"), "{log}");
    }
}
