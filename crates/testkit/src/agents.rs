//! The real agents: where they are, and what their user has set up.
//!
//! What is written here is the user's own, as it was before ccmux came: variables in the shell and
//! files in the home, just enough that each agent starts without a question, finds the
//! [`ApiStub`] and reaches nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::stub::ApiStub;

/// The key that all of them come with. The stub takes anything.
pub const API_KEY: &str = "dummy-test-key-that-nobody-issued";

/// How much of the end of a key claude remembers when the user approves it.
const APPROVED_SUFFIX: usize = 20;

/// An agent that the tests run for real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Agent {
    /// Anthropic's claude.
    Claude,
    /// OpenAI's codex.
    Codex,
    /// Google's gemini.
    Gemini,
    /// opencode.
    Opencode,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// The name of its program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Arguments with which it answers one prompt on its standard output and ends.
    #[must_use]
    pub fn print_args(self, prompt: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Claude | Self::Gemini => &["-p", prompt],
            Self::Codex => &["exec", "--skip-git-repo-check", prompt],
            Self::Opencode => &["run", prompt],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// A text that its screen shows once it takes a prompt, and in no dialog before.
    #[must_use]
    pub fn ready_text(self) -> &'static str {
        match self {
            Self::Claude => "shift+tab to cycle",
            Self::Codex => "Ask Codex to do anything",
            Self::Gemini => "Type your message",
            // The next word is on another line when the path of the workspace is long.
            Self::Opencode => "ctrl+p",
        }
    }
}

/// The agent's program, at the version that `tests/agents` pins.
///
/// # Panics
///
/// When it is not installed.
#[must_use]
#[track_caller]
pub fn installed(agent: Agent) -> PathBuf {
    program_in("agents", agent.name())
}

/// An older claude, which loses updates of a configuration that it shares with others.
///
/// # Panics
///
/// When it is not installed.
#[must_use]
#[track_caller]
pub fn installed_old_claude() -> PathBuf {
    program_in("agents/claude-old", Agent::Claude.name())
}

/// What the user has in the environment to use the agent with this stub: the key, where to go, and
/// that nothing else is to be visited.
#[must_use]
pub fn environment(agent: Agent, stub: &ApiStub) -> BTreeMap<String, String> {
    let url = stub.url();
    let certificate = stub.certificate().to_string_lossy().into_owned();
    let own: &[(&str, &str)] = match agent {
        Agent::Claude => &[
            ("ANTHROPIC_API_KEY", API_KEY),
            ("ANTHROPIC_BASE_URL", &url),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("NODE_EXTRA_CA_CERTS", &certificate),
        ],
        Agent::Codex => &[("STUB_API_KEY", API_KEY)],
        Agent::Gemini => &[("GEMINI_API_KEY", API_KEY), ("GOOGLE_GEMINI_BASE_URL", &url)],
        Agent::Opencode => &[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("STUB_API_KEY", API_KEY),
        ],
    };
    let common: [(&str, &str); 3] =
        [("COLORTERM", "truecolor"), ("HTTPS_PROXY", &url), ("NO_PROXY", "127.0.0.1,localhost")];
    let all = common.iter().chain(own);
    all.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Writes the files that a user of the agent has in `home`.
///
/// # Panics
///
/// When they cannot be written.
#[track_caller]
pub fn user_files(agent: Agent, home: &Path, stub: &ApiStub) {
    match agent {
        Agent::Claude => {
            let approved = &API_KEY[API_KEY.len() - APPROVED_SUFFIX..];
            let config = json!({
                "hasCompletedOnboarding": true,
                "customApiKeyResponses": {"approved": [approved], "rejected": []},
            });
            write(&home.join(CLAUDE_CONFIG), &config.to_string());
        }
        Agent::Codex => write(&home.join(CODEX_CONFIG), &codex_config(stub)),
        Agent::Gemini => {
            let settings = json!({
                "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
                "privacy": {"usageStatisticsEnabled": false},
                "security": {"auth": {"selectedType": "gemini-api-key"}},
            });
            write(&home.join(".gemini/settings.json"), &settings.to_string());
        }
        Agent::Opencode => {
            write(&home.join(".config/opencode/opencode.json"), &opencode_config(stub).to_string());
        }
    }
}

/// Records that the user trusts `project`, as the agent itself would after its question.
///
/// # Panics
///
/// When [`user_files`] were not written before.
#[track_caller]
pub fn trust(agent: Agent, home: &Path, project: &Path) {
    let key = project.canonicalize().expect("a project that exists");
    let key = key.to_str().expect("a path that is text");
    match agent {
        Agent::Claude => change_json(&home.join(CLAUDE_CONFIG), |config| {
            config["projects"][key]["hasTrustDialogAccepted"] = json!(true);
        }),
        Agent::Codex => {
            let file = home.join(CODEX_CONFIG);
            let mut config = fs::read_to_string(&file).expect("the user's files were written");
            // A path in JSON's quotes is a path in TOML's.
            let entry = format!("\n[projects.{}]\ntrust_level = \"trusted\"\n", json!(key));
            config.push_str(&entry);
            write(&file, &config);
        }
        Agent::Gemini => {
            let file = home.join(".gemini/trustedFolders.json");
            if !file.exists() {
                write(&file, "{}");
            }
            change_json(&file, |folders| folders[key] = json!("TRUST_FOLDER"));
        }
        // It asks nobody.
        Agent::Opencode => {}
    }
}

const CLAUDE_CONFIG: &str = ".claude.json";

const CODEX_CONFIG: &str = ".codex/config.toml";

/// Codex copies itself into its home and starts daemons from there, hundreds of megabytes each
/// time, if it is not told otherwise.
fn codex_config(stub: &ApiStub) -> String {
    let url = stub.url();
    format!(
        r#"model = "stub-model"
model_provider = "stub"
check_for_update_on_startup = false

[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
env_key = "STUB_API_KEY"
wire_api = "responses"

[analytics]
enabled = false

[features]
apps = false
daemon_auto_start = false
plugins = false
"#
    )
}

fn opencode_config(stub: &ApiStub) -> Value {
    let options = json!({"baseURL": format!("{}/v1", stub.url()), "apiKey": "{env:STUB_API_KEY}"});
    json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "stub/stub-model",
        "small_model": "stub/stub-model",
        "enabled_providers": ["stub"],
        "provider": {"stub": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "stub",
            "options": options,
            "models": {"stub-model": {"name": "stub-model"}},
        }},
    })
}

#[track_caller]
fn program_in(dir: &str, name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = workspace.join("target").join(dir).join("node_modules/.bin").join(name);
    assert!(program.exists(), "{name} is not installed: run scripts/install-agents");
    // Without the dots, so that it can be recognised in a list of processes; but not what it links
    // to, which has another name.
    let dir = program.parent().and_then(|dir| dir.canonicalize().ok());
    dir.expect("the program is in a directory").join(name)
}

fn change_json(file: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(file).expect("the user's files were written");
    let mut value = serde_json::from_str(&text).expect("they are JSON");
    change(&mut value);
    write(file, &value.to_string());
}

fn write(file: &Path, text: &str) {
    let dir = file.parent().expect("a file is in a directory");
    fs::create_dir_all(dir).expect("a directory for the user's files");
    let mut file = File::create(file).expect("a file of the user");
    file.write_all(text.as_bytes()).expect("room for the user's files");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusting_a_project_leaves_the_rest_of_the_configuration_alone() {
        let stub = ApiStub::start();
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project \"x\"");
        fs::create_dir(&project).unwrap();

        for agent in Agent::ALL {
            user_files(agent, home.path(), &stub);
            trust(agent, home.path(), &project);
        }

        let read = |file: &str| fs::read_to_string(home.path().join(file)).unwrap();
        let claude: Value = serde_json::from_str(&read(".claude.json")).unwrap();
        assert_eq!(claude["hasCompletedOnboarding"], true);
        assert_eq!(claude["projects"].as_object().unwrap().len(), 1);
        assert!(read(".codex/config.toml").starts_with("model = "));
        assert!(read(".codex/config.toml").contains(r#"project \"x\""]"#));
        assert!(read(".gemini/trustedFolders.json").contains("TRUST_FOLDER"));
    }
}
