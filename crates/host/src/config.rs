//! The user's configuration: `config/ccmux.toml` in the state root.
//!
//! No file means the defaults. A file with anything wrong in it is refused as a whole, with
//! everything that is wrong: half a configuration is one that nobody wrote.

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

/// More than anybody writes by hand; what is larger is another file.
const LARGEST: u64 = 1 << 20;

/// The most problems that are told at once. Whoever has more has another file, too.
const MOST_TOLD: usize = 50;

/// The configuration in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What was decided, by the user or by default.
    pub config: Config,
    /// Where the file is, or would be.
    pub path: PathBuf,
    /// Whether there is one.
    pub exists: bool,
    /// The lines of the keys that the file has.
    lines: BTreeMap<String, usize>,
}

/// One value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The name of the key, with dots.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Who said so.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody decided otherwise.
    Default,
    /// The file says so.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
}

/// Something that is wrong at one place of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted in characters from 1.
    pub column: usize,
    /// What is wrong, with the key concerned.
    pub message: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The operating system refused something.
    #[error(transparent)]
    File(#[from] FileError),
    /// A directory, or something that never ends.
    #[error("`{}` is not a file", .0.display())]
    NotAFile(PathBuf),
    /// Somebody else decides what is in it.
    #[error("`{}` belongs to user {owner}, not to us (user {us})", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Us.
        us: u32,
    },
    /// Others could decide what is in it, and it says which programs are started.
    #[error("`{}` is writable by others (mode {mode:04o})", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Not written by hand.
    #[error("`{}` is larger than {LARGEST} bytes", .0.display())]
    TooLarge(PathBuf),
    /// Not text.
    #[error("{}:{line}:{column}: not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line of the first byte that is no text.
        line: usize,
        /// Its column.
        column: usize,
    },
    /// Something is wrong with what it says. Never empty, in the order of the file.
    #[error("{}", told(.0))]
    Invalid(Vec<Problem>),
}

/// Reads the configuration of a state root. The names in `reserved` cannot be given to agents.
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

/// Where the configuration of a state root is, or would be.
#[must_use]
pub fn path(root: &StateRoot) -> PathBuf {
    root.config().join("ccmux.toml")
}

/// Makes a configuration of the text of the file at `path`, which is not looked at.
///
/// # Errors
///
/// [`ConfigError::Invalid`], with all problems of the text.
pub fn parse(text: &str, path: &Path, reserved: &[&str]) -> Result<Loaded, ConfigError> {
    let (config, lines) = reader::read(text, path, reserved).map_err(ConfigError::Invalid)?;
    Ok(Loaded { config, path: path.to_owned(), exists: true, lines })
}

impl Loaded {
    /// Every value in force, in the order in which keys are explained.
    #[must_use]
    pub fn values(&self) -> Vec<Effective> {
        let effective = |(key, value): (String, Value)| {
            let origin = self.origin(&key);
            Effective { key, value, origin }
        };
        entries(&self.config).into_iter().map(effective).collect()
    }

    /// Where the value of a key comes from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        match self.lines.get(key) {
            Some(&line) => Origin::File { path: self.path.clone(), line },
            None => Origin::Default,
        }
    }
}

impl ConfigError {
    /// Whether the file itself has to be changed, as opposed to the machine around it.
    #[must_use]
    pub fn is_of_the_file(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File(error) => format!("make `{}` readable, or remove it", error.path.display()),
            Self::NotAFile(path) => {
                format!("put a file where `{}` is, or remove it", path.display())
            }
            Self::Foreign { path, .. } => {
                format!("replace `{}` by a file of your own", path.display())
            }
            Self::Writable { path, .. } => format!("run `chmod go-w {}`", path.display()),
            Self::TooLarge(_) | Self::NotText { .. } => {
                "`ccmux config --defaults` prints a file to begin with".to_owned()
            }
            Self::Invalid(_) => {
                "`ccmux config --defaults` explains every key, `ccmux config --check` looks again"
                    .to_owned()
            }
        }
    }
}

/// `default`, or `file:line`.
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

/// Each problem on a line, under a heading if there are several.
fn told(problems: &[Problem]) -> String {
    let mut lines: Vec<String> = problems.iter().take(MOST_TOLD).map(ToString::to_string).collect();
    if problems.len() > 1 {
        lines.insert(0, format!("the configuration has {} problems:", problems.len()));
    }
    if problems.len() > MOST_TOLD {
        lines.push(format!("… and {} more", problems.len() - MOST_TOLD));
    }
    lines.join("\n")
}

/// The bytes of the file; none if there is no file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    let refused = |error| FileError::when("read", path)(error).into();
    let file = match open(path) {
        Ok(file) => file,
        // A link that leads nowhere is a mistake; no file at all is not.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_there(path) => {
            return Ok(None);
        }
        Err(error) => return Err(refused(error)),
    };
    // Asked of what was opened, which nobody can exchange for something else any more.
    let found = file.metadata().map_err(refused)?;
    if !found.is_file() {
        return Err(ConfigError::NotAFile(path.to_owned()));
    }
    let (owner, us) = (found.uid(), geteuid().as_raw());
    // A package or a configuration system may have put it there as root.
    if owner != us && owner != 0 {
        return Err(ConfigError::Foreign { path: path.to_owned(), owner, us });
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(ConfigError::Writable { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > LARGEST {
        return Err(ConfigError::TooLarge(path.to_owned()));
    }
    Ok(Some(bytes))
}

/// Opens for reading without waiting for anybody: a pipe must not hold up the daemon.
fn open(path: &Path) -> io::Result<File> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(nonblock).open(path)
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn decode(bytes: &[u8], path: &Path) -> Result<String, ConfigError> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let (line, column) = position::Positions::of(&before).of_byte(before.len());
        ConfigError::NotText { path: path.to_owned(), line, column }
    })?;
    // The mark with which some editors begin a file is not part of its first line.
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
    use crate::file::{Survive, write_atomic};

    fn parsed(text: &str) -> Result<Loaded, ConfigError> {
        parse(text, Path::new("c.toml"), &["built-in"])
    }

    /// Each problem as it is told.
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
        write_atomic(&path, bytes, Survive::Kill).unwrap();
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
    fn what_the_file_says_is_in_force_and_the_rest_is_default() {
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
    fn every_value_knows_where_it_comes_from() {
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
    fn an_unknown_key_is_answered_with_the_one_that_was_meant() {
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
    fn a_value_of_the_wrong_kind_is_told_with_what_the_key_takes() {
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
    fn all_problems_are_told_at_once_and_in_order() {
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
                "c.toml:2:19: `resume_fallback`: \"frehs\" is none of error, fresh, shell; did you \
                 mean `fresh`?",
                "c.toml:4:26: `claude.isolation.home_symlinks`: \"../..\" contains `..`",
                "c.toml:4:35: `claude.isolation.home_symlinks`: a number where a string should be",
                "c.toml:4:38: `claude.isolation.home_symlinks`: \".claude\" is the agent's own \
                 configuration, which every pane has for itself",
                "c.toml:5:10: `claude.isolation.share`: \"skill\" is none of settings.json, \
                 CLAUDE.md, commands, agents, skills, plugins, mcp_servers; did you mean `skills`?",
                "c.toml:6:10: `claude.isolation.method`: a method of isolation is config_dir, home \
                 or none, not \"vm\"",
                "c.toml:7:1: duplicate key: `method`",
                "c.toml:9:9: `cleanup.every`: \"0s\" is not between 1s and 3650d",
                "c.toml:10:9: \"built-in\" is built in and cannot be defined again",
                "c.toml:11:11: `agents.built-in.command`: is empty, and there is nothing to start",
                "c.toml:12:9: \"Mine\" cannot name an agent: 1 to 32 of a-z, 0-9, _ and -, \
                 beginning with a letter",
                "c.toml:14:25: `agents.Mine.seed`: \"../c\" contains `..`",
            ]
        );
    }

    #[test]
    fn what_must_fit_together_is_told_where_it_stands() {
        let cases = [
            (
                "[agents.mine]\nscrub = ['X']",
                "c.toml:1:9: `agents.mine.command`: is missing, and there is nothing to start",
            ),
            (
                "[agents.mine]\ncommand = ['m']\nshare = { a = '~/a' }\nseed = { 'a/b' = '~/b' }",
                "c.toml:4:10: `agents.mine.seed`: \"a/b\" lies inside \"a\", which is listed as \
                 well",
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
    fn a_line_that_cannot_be_read_is_told_once_and_nothing_is_made_up_for_it() {
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
    fn a_file_of_mistakes_does_not_fill_the_screen() {
        use std::fmt::Write as _;
        let mut text = String::new();
        for n in 0..1000 {
            writeln!(text, "{}-{n} = 1", "x".repeat(500)).unwrap();
        }

        let told = parsed(&text).unwrap_err().to_string();

        assert_eq!(told.lines().next(), Some("the configuration has 1000 problems:"));
        assert_eq!(told.lines().last(), Some("… and 950 more"));
        assert!(told.len() < 30_000, "{} bytes", told.len());
    }

    #[test]
    fn tables_within_tables_without_end_are_survived() {
        for text in ["[".repeat(100_000), format!("a = {}", "{a = ".repeat(100_000))] {
            assert!(matches!(parsed(&text), Err(ConfigError::Invalid(_))));
        }
    }

    #[test]
    fn the_sample_says_what_is_default() {
        let loaded = parsed(&sample()).unwrap();

        assert_eq!(loaded.config, Config::default());
        for effective in loaded.values() {
            assert_ne!(effective.origin, Origin::Default, "{} is not in it", effective.key);
        }
    }

    #[test]
    fn the_agent_in_the_sample_can_be_taken_as_it_is() {
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
    fn what_is_in_force_can_be_written_and_read_again() {
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
    fn no_file_means_the_defaults() {
        let (_dir, root) = root();

        let loaded = load(&root, &[]).unwrap();

        assert_eq!(loaded.config, Config::default());
        assert_eq!((loaded.exists, loaded.path), (false, root.config().join("ccmux.toml")));
    }

    #[test]
    fn a_mark_of_an_editor_and_a_link_to_elsewhere_are_fine() {
        let (dir, root) = root();
        let real = dir.path().join("dotfile");
        let text = "\u{feff}resume_fallbck = 'shell'\r\n".as_bytes();
        write_atomic(&real, text, Survive::Kill).unwrap();
        symlink(&real, path(&root)).unwrap();

        let ConfigError::Invalid(problems) = load(&root, &[]).unwrap_err() else { panic!() };

        assert_eq!((problems[0].line, problems[0].column), (1, 1));
    }

    #[test]
    fn files_that_cannot_be_trusted_or_read_are_refused() {
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
