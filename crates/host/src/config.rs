//! The user configuration: `config/ccmux.toml` in the state root.
//!
//! A missing file means the defaults. An invalid file is rejected as a whole, with all its problems,
//! so that a configuration is never applied in part.

mod position;
mod reader;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::config::Config;
use model::config::keys::entries;
use model::config::value::Value;
use rustix::fs::OFlags;
use rustix::process::geteuid;

pub(crate) use position::Positions;

use crate::file::FileError;
use crate::root::StateRoot;

/// Size limit of the file. A larger file was not written by hand.
const MAX_SIZE: u64 = 1 << 20;

/// Maximum number of problems that are reported.
const MAX_REPORTED: usize = 50;

/// The effective configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The values from the file and the defaults.
    pub config: Config,
    /// Path of the file, which may not exist.
    pub path: PathBuf,
    /// Whether the file exists.
    pub exists: bool,
    /// The line of each key in the file.
    lines: BTreeMap<String, usize>,
}

/// One effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The full name of the key, with dots.
    pub key: String,
    /// The value.
    pub value: Value,
    /// The source of the value.
    pub origin: Origin,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// The configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
}

/// A problem at a position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// The line, starting at 1.
    pub line: usize,
    /// The column in characters, starting at 1.
    pub column: usize,
    /// Description of the problem, with the key.
    pub message: String,
    /// The name that was probably intended.
    pub suggestion: Option<String>,
}

/// Failure to load the configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Error of the operating system.
    #[error(transparent)]
    File(#[from] FileError),
    /// The path is a directory or a special file.
    #[error("`{}` is not a file", .0.display())]
    NotAFile(PathBuf),
    /// The file is owned by another user.
    #[error("`{}` is owned by user {owner}, not by user {us}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The owner of the file.
        owner: u32,
        /// The current user.
        us: u32,
    },
    /// The file decides which programs are started, and other users can write to it.
    #[error("`{}` is writable by other users (mode {mode:04o})", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// The file exceeds the size limit.
    #[error("`{}` is larger than {MAX_SIZE} bytes", .0.display())]
    TooLarge(PathBuf),
    /// The file is not UTF-8.
    #[error("{}:{line}:{column}: not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line of the first invalid byte.
        line: usize,
        /// The column of the first invalid byte.
        column: usize,
    },
    /// The contents are invalid. The list is not empty and in file order.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
}

/// Loads the configuration of a state root. Agents cannot have a name in `reserved`.
///
/// # Errors
///
/// [`ConfigError`], with all problems of the file.
pub fn load(root: &StateRoot, reserved: &[&str]) -> Result<Loaded, ConfigError> {
    let path = path(root);
    match read(&path)? {
        Some(bytes) => parse(&decode(&bytes, &path)?, &path, reserved),
        None => {
            Ok(Loaded { config: Config::default(), path, exists: false, lines: BTreeMap::new() })
        }
    }
}

/// Returns the path of the configuration file, which may not exist.
#[must_use]
pub fn path(root: &StateRoot) -> PathBuf {
    root.config().join("ccmux.toml")
}

/// Parses the text of the configuration file at `path`, which is used for messages only.
///
/// # Errors
///
/// [`ConfigError::Invalid`], with all problems of the text.
pub fn parse(text: &str, path: &Path, reserved: &[&str]) -> Result<Loaded, ConfigError> {
    let (config, lines) = reader::read(text, path, reserved).map_err(ConfigError::Invalid)?;
    Ok(Loaded { config, path: path.to_owned(), exists: true, lines })
}

impl Loaded {
    /// Returns all effective values, in documentation order.
    #[must_use]
    pub fn values(&self) -> Vec<Effective> {
        let effective = |(key, value): (String, Value)| {
            let origin = self.origin(&key);
            Effective { key, value, origin }
        };
        entries(&self.config).into_iter().map(effective).collect()
    }

    /// Returns the source of the value of a key.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        match self.lines.get(key) {
            Some(&line) => Origin::File { path: self.path.clone(), line },
            None => Origin::Default,
        }
    }
}

impl ConfigError {
    /// Returns whether the error is fixed by changing the file.
    #[must_use]
    pub fn is_in_file(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File(error) => format!("make `{}` readable, or remove it", error.path.display()),
            Self::NotAFile(path) => {
                format!("put a file where `{}` is, or remove it", path.display())
            }
            Self::Foreign { path, .. } => {
                format!("replace `{}` by a file that you own", path.display())
            }
            Self::Writable { path, .. } => format!("run `chmod go-w {}`", path.display()),
            Self::TooLarge(_) | Self::NotText { .. } => {
                "`ccmux config --defaults` prints a file to start from".to_owned()
            }
            Self::Invalid(_) => {
                "`ccmux config --defaults` explains every key, `ccmux config --check` checks the file"
                    .to_owned()
            }
        }
    }
}

/// Formats as `default` or `file:line`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column, message, suggestion } = self;
        write!(f, "{}:{line}:{column}: {message}", path.display())?;
        match suggestion {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

/// Lists each problem on a line, under a heading if there are several.
fn list(problems: &[Problem]) -> String {
    let mut lines: Vec<String> =
        problems.iter().take(MAX_REPORTED).map(ToString::to_string).collect();
    if problems.len() > 1 {
        lines.insert(0, format!("the configuration has {} problems:", problems.len()));
    }
    if problems.len() > MAX_REPORTED {
        lines.push(format!("… and {} more", problems.len() - MAX_REPORTED));
    }
    lines.join("\n")
}

/// Reads the file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    let refused = |error| FileError::when("read", path)(error).into();
    let file = match open(path) {
        Ok(file) => file,
        // A dangling link is a mistake; a missing file is not.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !exists(path) => {
            return Ok(None);
        }
        Err(error) => return Err(refused(error)),
    };
    // The metadata of the open file, which cannot be replaced meanwhile.
    let found = file.metadata().map_err(refused)?;
    if !found.is_file() {
        return Err(ConfigError::NotAFile(path.to_owned()));
    }
    let (owner, us) = (found.uid(), geteuid().as_raw());
    // A package or a configuration management system may have installed it as root.
    if owner != us && owner != 0 {
        return Err(ConfigError::Foreign { path: path.to_owned(), owner, us });
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(ConfigError::Writable { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(ConfigError::TooLarge(path.to_owned()));
    }
    Ok(Some(bytes))
}

/// Opens for reading without blocking: a named pipe must not block the daemon.
fn open(path: &Path) -> io::Result<File> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(nonblock).open(path)
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn decode(bytes: &[u8], path: &Path) -> Result<String, ConfigError> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let (line, column) = position::Positions::of(&before).of_byte(before.len());
        ConfigError::NotText { path: path.to_owned(), line, column }
    })?;
    // The byte order mark is not part of the first line.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::Duration;

    use model::config::sample::{assignment, sample};
    use model::config::{AgentConfig, ResumeFallback, Share};
    use model::isolation::Method;

    use super::*;
    use crate::file::{Durability, write_atomic};

    fn parsed(text: &str) -> Result<Loaded, ConfigError> {
        parse(text, Path::new("c.toml"), &["built-in"])
    }

    /// Returns the messages of all problems.
    fn problems(text: &str) -> Vec<String> {
        match parsed(text) {
            Err(ConfigError::Invalid(problems)) => {
                problems.iter().map(ToString::to_string).collect()
            }
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    fn root() -> (tempfile::TempDir, StateRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = StateRoot::open(&dir.path().join("root")).unwrap();
        (dir, root)
    }

    fn write(root: &StateRoot, bytes: &[u8]) -> PathBuf {
        let path = path(root);
        write_atomic(&path, bytes, Durability::ProcessCrash).unwrap();
        path
    }

    const EVERYTHING: &str = r#"
resume_fallback = "fresh"
cleanup = { retention = "0s", every = "1s" }

[claude.isolation]
method = "home"
home_symlinks = [
  ".ssh",
]
share = ["CLAUDE.md"]

[agents.mine]
command = ["mine"]
resume = ["--resume", "{id}"]
transcript = "s/{id}.json"
[agents.mine.config_variables]
MINE_HOME = ""
"#;

    #[test]
    fn parse_applies_file_values_and_defaults() {
        let loaded = parsed(EVERYTHING).unwrap();

        let mut expected = Config { resume_fallback: ResumeFallback::Fresh, ..Config::default() };
        expected.cleanup.retention = Duration::ZERO;
        expected.cleanup.every = Duration::from_secs(1);
        expected.isolation.method = Method::Home;
        expected.isolation.home_symlinks = vec![".ssh".to_owned()];
        expected.isolation.share = vec![Share::ClaudeMd];
        let mine = AgentConfig {
            command: vec!["mine".to_owned()],
            config_variables: [("MINE_HOME".to_owned(), String::new())].into(),
            resume: ["--resume", "{id}"].map(str::to_owned).into(),
            transcript: Some("s/{id}.json".to_owned()),
            ..AgentConfig::default()
        };
        expected.agents.insert("mine".to_owned(), mine);
        assert_eq!(loaded.config, expected);
    }

    #[test]
    fn values_report_their_origin() {
        let origins: Vec<String> = parsed(EVERYTHING)
            .unwrap()
            .values()
            .iter()
            .filter(|effective| effective.origin != Origin::Default)
            .map(|effective| format!("{} {}", effective.key, effective.origin))
            .collect();

        assert_eq!(
            origins,
            [
                "resume_fallback c.toml:2",
                "claude.isolation.method c.toml:6",
                "claude.isolation.home_symlinks c.toml:7",
                "claude.isolation.share c.toml:10",
                "cleanup.retention c.toml:3",
                "cleanup.every c.toml:3",
                "agents.mine.command c.toml:13",
                "agents.mine.config_variables c.toml:16",
                "agents.mine.resume c.toml:14",
                "agents.mine.transcript c.toml:15",
            ]
        );
    }

    #[test]
    fn unknown_key_suggests_similar_key() {
        let cases = [
            ("nonsense = 1", "c.toml:1:1: unknown key `nonsense`"),
            (
                "\n[claude.isolation]\ncleanup_on_clos = true",
                "c.toml:3:1: unknown key `claude.isolation.cleanup_on_clos`; \
                 did you mean `cleanup_on_close`?",
            ),
            (
                "[claude.isolaton]\nmethod = 'home'",
                "c.toml:1:9: unknown key `claude.isolaton`; did you mean `isolation`?",
            ),
            (
                "method = 'home'",
                "c.toml:1:1: unknown key `method`; did you mean `claude.isolation.method`?",
            ),
            (
                "[isolation]\nmethod = 'home'",
                "c.toml:1:2: unknown key `isolation`; did you mean `claude.isolation`?",
            ),
            (
                "[agent.mine]\ncommand = ['mine']",
                "c.toml:1:2: unknown key `agent`; did you mean `agents`?",
            ),
            (
                "[agents.mine]\ncommand = ['mine']\nresum = []",
                "c.toml:3:1: unknown key `agents.mine.resum`; did you mean `resume`?",
            ),
            ("'claude.isolation' = {}", "c.toml:1:1: unknown key `\"claude.isolation\"`"),
            ("\"\\u001b[2J\" = 1", "c.toml:1:1: unknown key `\"\\u001B[2J\"`"),
        ];
        for (text, expected) in cases {
            assert_eq!(problems(text), [expected], "{text}");
        }
    }

    #[test]
    fn value_of_wrong_type_reports_accepted_type() {
        let cases = [
            ("restore_on_start = 'yes'", "`restore_on_start`: takes true or false, not a string"),
            (
                "cleanup.retention = 7",
                "`cleanup.retention`: takes a duration such as \"7d\", \"12h\", \"30m\" or \
                 \"45s\", not a number",
            ),
            (
                "claude.isolation.share = 'agents'",
                "`claude.isolation.share`: takes a list of words such as \"commands\", not a \
                 string",
            ),
            (
                "claude.isolation.method = 2026-11-15",
                "`claude.isolation.method`: takes \"config_dir\", \"home\" or \"none\", not a date",
            ),
            ("claude = true", "`claude` is a table, not a boolean"),
            ("cleanup = []", "`cleanup` is a table, not a list"),
            ("[[agents]]", "`agents` is a table, not a list"),
            ("agents.mine = ['mine']", "`agents.mine` is a table, not a list"),
        ];
        for (text, expected) in cases {
            let found = problems(text);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].ends_with(&format!(": {expected}")), "{found:?}");
        }
    }

    #[test]
    fn parse_reports_all_problems_in_file_order() {
        let text = r#"restore_on_start = yes
resume_fallback = "frehs"
[claude.isolation]
home_symlinks = [".ssh", "../..", 7, ".claude"]
share = ["skill", "agents"]
method = "vm"
method = "home"
[cleanup]
every = "0s"
[agents.built-in]
command = []
[agents.Mine]
command = ["x"]
seed = { "a/b" = "~/b", "../c" = "~/c" }
"#;

        assert_eq!(
            problems(text),
            [
                "c.toml:1:20: string values must be quoted, expected literal string: `yes`",
                "c.toml:2:19: `resume_fallback`: unknown value \"frehs\"; expected one of error, fresh, shell; did you \
                 mean `fresh`?",
                "c.toml:4:26: `claude.isolation.home_symlinks`: \"../..\" contains `..`",
                "c.toml:4:35: `claude.isolation.home_symlinks`: a number instead of a string",
                "c.toml:4:38: `claude.isolation.home_symlinks`: \".claude\" is part of the agent's configuration, which cannot be shared between panes",
                "c.toml:5:10: `claude.isolation.share`: unknown value \"skill\"; expected one of settings.json, \
                 CLAUDE.md, commands, agents, skills, plugins, mcp_servers; did you mean `skills`?",
                "c.toml:6:10: `claude.isolation.method`: unknown isolation method \"vm\"; expected config_dir, home or none",
                "c.toml:7:1: duplicate key: `method`",
                "c.toml:9:9: `cleanup.every`: \"0s\" is not between 1s and 3650d",
                "c.toml:10:9: \"built-in\" is a built-in agent and cannot be redefined",
                "c.toml:11:11: `agents.built-in.command`: must not be empty",
                "c.toml:12:9: \"Mine\" is not a valid agent name: use 1 to 32 of a-z, 0-9, _ and -, starting with a letter",
                "c.toml:14:25: `agents.Mine.seed`: \"../c\" contains `..`",
            ]
        );
    }

    #[test]
    fn conflicting_values_are_reported_at_their_position() {
        let cases = [
            ("[agents.mine]\nscrub = ['X']", "c.toml:1:9: `agents.mine.command`: is required"),
            (
                "[agents.mine]\ncommand = ['m']\nshare = { a = '~/a' }\nseed = { 'a/b' = '~/b' }",
                "c.toml:4:10: `agents.mine.seed`: \"a/b\" is inside \"a\", which is also listed",
            ),
            (
                "[agents.mine]\ncommand = ['m']\nscrub = ['A', 'B']\nconfig_variables = {B = ''}",
                "c.toml:3:15: `agents.mine.scrub`: \"B\" is set by config_variables",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(problems(text), [expected], "{text}");
        }
    }

    #[test]
    fn unreadable_line_is_reported_once() {
        let cases = [
            ("restore_on_start = ", 1),
            ("[claude.isolation\nmethod = 'home'\n[cleanup]\nevery = '1h'", 1),
            ("[agents.mine]\ncommand = [mine]", 2),
            ("= 1", 1),
            ("restore_on_start = true false", 1),
            ("cleanup.every = \"1h", 1),
        ];
        for (text, line) in cases {
            let found = problems(text);
            assert_eq!(found.len(), 1, "{text:?}: {found:?}");
            assert!(found[0].starts_with(&format!("c.toml:{line}:")), "{found:?}");
        }
    }

    #[test]
    fn error_text_is_limited() {
        use std::fmt::Write as _;
        let mut text = String::new();
        for n in 0..1000 {
            writeln!(text, "{}-{n} = 1", "x".repeat(500)).unwrap();
        }

        let message = parsed(&text).unwrap_err().to_string();

        assert_eq!(message.lines().next(), Some("the configuration has 1000 problems:"));
        assert_eq!(message.lines().last(), Some("… and 950 more"));
        assert!(message.len() < 30_000, "{} bytes", message.len());
    }

    #[test]
    fn deeply_nested_tables_are_rejected() {
        for text in ["[".repeat(100_000), format!("a = {}", "{a = ".repeat(100_000))] {
            assert!(matches!(parsed(&text), Err(ConfigError::Invalid(_))));
        }
    }

    #[test]
    fn sample_contains_all_keys_with_defaults() {
        let loaded = parsed(&sample()).unwrap();

        assert_eq!(loaded.config, Config::default());
        for effective in loaded.values() {
            assert_ne!(effective.origin, Origin::Default, "{} is missing", effective.key);
        }
    }

    #[test]
    fn sample_agent_is_valid_when_uncommented() {
        let sample = sample();
        let (_, agent) = sample.split_once("# [agents.mine]").unwrap();
        let (agent, _) = agent.split_once("\n\n").unwrap();
        let lines = agent.lines().map(|line| line.strip_prefix("# ").unwrap_or_default());
        let text = format!("[agents.mine]\n{}", lines.collect::<Vec<_>>().join("\n"));

        let loaded = parsed(&text).unwrap();

        assert_eq!(loaded.config.agents["mine"].command, ["mine", "--quiet"]);
        for effective in loaded.values() {
            let is_agents = effective.key.starts_with("agents.");
            assert_eq!(effective.origin != Origin::Default, is_agents, "{}", effective.key);
        }
    }

    #[test]
    fn written_values_are_read_back() {
        let mut config = parsed(EVERYTHING).unwrap().config;
        let odd = "a\"b\\c\u{7}\u{9b}'é\n{}".to_owned();
        let mine = config.agents.get_mut("mine").unwrap();
        mine.command = vec![odd.clone(); 20];
        mine.seed.insert("a \"b\".json".to_owned(), "~/x y".to_owned());

        let lines: Vec<String> = entries(&config)
            .iter()
            .filter(|(_, value)| *value != Value::Nothing)
            .flat_map(|(key, value)| assignment(key, value))
            .collect();

        assert_eq!(parsed(&lines.join("\n")).unwrap().config, config);
    }

    #[test]
    fn load_without_file_returns_defaults() {
        let (_dir, root) = root();

        let loaded = load(&root, &[]).unwrap();

        assert_eq!(loaded.config, Config::default());
        assert_eq!((loaded.exists, loaded.path), (false, root.config().join("ccmux.toml")));
    }

    #[test]
    fn load_accepts_byte_order_mark_and_symbolic_link() {
        let (dir, root) = root();
        let real = dir.path().join("dotfile");
        let text = "\u{feff}resume_fallbck = 'shell'\r\n".as_bytes();
        write_atomic(&real, text, Durability::ProcessCrash).unwrap();
        symlink(&real, path(&root)).unwrap();

        let ConfigError::Invalid(problems) = load(&root, &[]).unwrap_err() else { panic!() };

        assert_eq!((problems[0].line, problems[0].column), (1, 1));
    }

    #[test]
    fn load_rejects_untrusted_and_unreadable_files() {
        let (dir, root) = root();

        let path = write(&root, b"a = 1\nb = '\xc3\xa9\xff'\n");
        let error = load(&root, &[]).unwrap_err();
        assert!(matches!(error, ConfigError::NotText { line: 2, column: 7, .. }), "{error:?}");

        write(&root, &vec![b'#'; (1 << 20) + 1]);
        let error = load(&root, &[]).unwrap_err();
        assert!(matches!(error, ConfigError::TooLarge(_)), "{error:?}");
        write(&root, &vec![b'#'; 1 << 20]);
        assert!(load(&root, &[]).is_ok());

        for mode in [0o620, 0o602, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = load(&root, &[]).unwrap_err();
            assert!(error.hint().contains("chmod go-w"), "{error:?}");
        }

        fs::remove_file(&path).unwrap();
        symlink(dir.path().join("nowhere"), &path).unwrap();
        let error = load(&root, &[]).unwrap_err();
        assert!(matches!(error, ConfigError::File(_)), "{error:?}");

        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = load(&root, &[]).unwrap_err();
        assert!(matches!(error, ConfigError::NotAFile(_)), "{error:?}");

        fs::remove_dir(&path).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let error = load(&root, &[]).unwrap_err();
        assert!(matches!(error, ConfigError::NotAFile(_)), "{error:?}");
    }
}
