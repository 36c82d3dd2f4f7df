//! What a project wants done in every new workspace: `.ccmux.toml` in its root.
//!
//! Whoever can change that file could have anything run, so nothing of it is until the user trusted
//! exactly these contents. What was trusted is remembered in the state root by the path and the
//! digest of the file; a file that is changed is not trusted any more.

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
use crate::file::{FileError, Survive};
use crate::git::{GitError, Turn, end_within};
use crate::record::{self, RecordError};

/// The file, in the root of a project.
pub const FILE: &str = ".ccmux.toml";

/// What was trusted, in the state root.
const TRUSTED: &str = "trust.json";

/// More than anybody writes by hand.
const LARGEST: u64 = 1 << 16;

/// How long one command may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// How much of what a command said last is told.
const LAST_WORDS: u64 = 2000;

/// A project's wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The file.
    pub path: PathBuf,
    /// The digest of its contents.
    pub digest: String,
    /// Commands to run in a new workspace, before the agent starts.
    pub setup: Vec<Vec<String>>,
    /// Commands to run in a workspace that goes.
    pub teardown: Vec<Vec<String>>,
}

/// Why a project's wishes are not known, or not trusted.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The system refused something.
    #[error(transparent)]
    File(#[from] FileError),
    /// What was trusted is not readable.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Somebody else is at it for too long.
    #[error(transparent)]
    Lock(#[from] GitError),
    /// There is no such file.
    #[error("there is no `{}`", .0.display())]
    Missing(PathBuf),
    /// It says something else.
    #[error("`{}`: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// A file that was trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The digest of what it contained then.
    pub digest: String,
    /// When.
    pub at: Timestamp,
}

/// Everything that was trusted, by path.
pub type Trust = BTreeMap<String, Trusted>;

/// The wishes of the project with this root, if it has any.
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
        return Err(invalid("it is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(FileError::when("read", &path))?;
    if bytes.len() as u64 > LARGEST {
        return Err(invalid(format!("it is larger than {LARGEST} bytes")));
    }
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let text = String::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    let (setup, teardown) = parse(&text).map_err(invalid)?;
    Ok(Some(Project { path, digest, setup, teardown }))
}

type Commands = Vec<Vec<String>>;

fn parse(text: &str) -> Result<(Commands, Commands), String> {
    let (mut setup, mut teardown) = (Vec::new(), Vec::new());
    let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    for (name, value) in document.get_ref() {
        // Other tables are for other releases.
        let DeValue::Table(table) = value.get_ref() else {
            return Err(format!("{:?} is unknown", name.get_ref()));
        };
        if name.get_ref() != "workspace" {
            return Err(format!("[{}] is unknown; there is [workspace]", name.get_ref()));
        }
        for (key, value) in table {
            match &**key.get_ref() {
                "setup" => setup = commands("setup", value.get_ref())?,
                "teardown" => teardown = commands("teardown", value.get_ref())?,
                other => {
                    return Err(format!("workspace.{other} is unknown; there are setup, teardown"));
                }
            }
        }
    }
    Ok((setup, teardown))
}

/// Argument vectors: no shell takes them apart.
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

/// What was trusted.
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

/// Changes what is trusted, alone.
///
/// # Errors
///
/// [`ProjectError`]; nothing is changed then.
pub fn change_trust(
    root: &StateRoot,
    change: impl FnOnce(&mut Trust),
) -> Result<Trust, ProjectError> {
    crate::file::make_dir(&root.locks())?;
    let _alone = Turn::of_file(&root.locks().join("trust.lock"))?;
    let mut known = trust(root)?;
    change(&mut known);
    record::write(&root.path().join(TRUSTED), &known, Survive::PowerLoss)?;
    Ok(known)
}

impl Project {
    /// Whether exactly this was trusted.
    #[must_use]
    pub fn is_trusted(&self, trust: &Trust) -> bool {
        let path = self.path.to_string_lossy();
        trust.get(&*path).is_some_and(|trusted| trusted.digest == self.digest)
    }
}

/// Runs commands one after the other in `dir`, until one fails. What they say goes to `log`. Blocks.
///
/// # Errors
///
/// Which one failed, how, and what it said last.
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
        let told = |why: String| format!("`{line}` {why}");
        let open = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(log);
        let mut output = open.map_err(|error| told(format!("has no log: {error}")))?;
        // Whoever reads the log later wants to know whose words these are.
        let _unseen = writeln!(output, "$ {line}");
        let begin = output.seek(SeekFrom::End(0)).unwrap_or_default();
        let copies = output.try_clone().and_then(|out| Ok((out, output.try_clone()?)));
        let (out, err) = copies.map_err(|error| told(format!("has no log: {error}")))?;
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
        let mut child = spawned.map_err(|error| told(format!("does not start: {error}")))?;
        let ended = end_within(&mut child, PATIENCE);
        let why = match ended {
            Ok(Some(status)) if status.success() => continue,
            Ok(Some(status)) => format!("failed: {status}"),
            Ok(None) => format!("did not end within {PATIENCE:?}"),
            Err(error) => format!("cannot be waited for: {error}"),
        };
        let mut said = String::new();
        let last = begin.max(output.metadata().map_or(0, |m| m.len()).saturating_sub(LAST_WORDS));
        let mut bytes = Vec::new();
        if output.seek(SeekFrom::Start(last)).is_ok() {
            // What cannot be read back is still in the log.
            let _partial = output.read_to_end(&mut bytes);
            said = String::from_utf8_lossy(&bytes).trim().replace('\n', "\n  ");
        }
        return Err(told(format!("{why}\n  {said}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_argument_vectors_and_nothing_else() {
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
    fn what_is_trusted_is_this_text_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("root")).unwrap();
        let project = dir.path().join("project");
        fs::create_dir(&project).unwrap();
        let write = |text: &str| {
            crate::file::write_atomic(&project.join(FILE), text.as_bytes(), Survive::Kill).unwrap();
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
    fn a_command_that_fails_is_told_with_its_last_words() {
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
