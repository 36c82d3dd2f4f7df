//! The real agents: their programs and a user's configuration.
//!
//! The configuration is that of a user before ccmux: variables and files, just enough that each
//! agent starts without a dialog and reaches only the [`ApiStub`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::stub::ApiStub;

/// The API key of all agents. The stub accepts any.
pub const API_KEY: &str = "dummy-test-key-that-is-not-valid";

/// Number of trailing characters of an approved key that claude stores.
const APPROVED_SUFFIX: usize = 20;

/// A real agent.
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
    /// All agents.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// Returns the name of its program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Returns arguments with which it prints the answer to one prompt and exits.
    #[must_use]
    pub fn print_args(self, prompt: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Claude | Self::Gemini => &["-p", prompt],
            Self::Codex => &["exec", "--skip-git-repo-check", prompt],
            Self::Opencode => &["run", prompt],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// Returns a text that its screen shows when it is ready for a prompt, and in no dialog before.
    #[must_use]
    pub fn ready_text(self) -> &'static str {
        match self {
            Self::Claude => "shift+tab to cycle",
            Self::Codex => "Ask Codex to do anything",
            Self::Gemini => "Type your message",
            // The next word wraps to another line when the workspace path is long.
            Self::Opencode => "ctrl+p",
        }
    }
}

/// Returns the agent's program, at the version that `tests/agents` pins.
///
/// # Panics
///
/// When it is not installed.
#[must_use]
#[track_caller]
pub fn installed(agent: Agent) -> PathBuf {
    program_in("agents", agent.name())
}

/// Returns an older claude, which loses updates of a shared configuration.
///
/// # Panics
///
/// When it is not installed.
#[must_use]
#[track_caller]
pub fn installed_old_claude() -> PathBuf {
    program_in("agents/claude-old", Agent::Claude.name())
}

/// Returns the user's environment for the agent with this stub: the key, the address, and a proxy
/// that refuses other hosts.
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

/// Writes the agent's configuration files into `home`.
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

/// Records that the user trusts `project`, as the agent does after its dialog.
///
/// # Panics
///
/// When [`user_files`] was not called before.
#[track_caller]
pub fn trust(agent: Agent, home: &Path, project: &Path) {
    let key = project.canonicalize().expect("a project that exists");
    let key = key.to_str().expect("the path is UTF-8");
    match agent {
        Agent::Claude => change_json(&home.join(CLAUDE_CONFIG), |config| {
            config["projects"][key]["hasTrustDialogAccepted"] = json!(true);
        }),
        Agent::Codex => {
            let file = home.join(CODEX_CONFIG);
            let mut config = fs::read_to_string(&file).expect("the user's files were written");
            // JSON and TOML quote strings alike.
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
        // It has no trust dialog.
        Agent::Opencode => {}
    }
}

const CLAUDE_CONFIG: &str = ".claude.json";

const CODEX_CONFIG: &str = ".codex/config.toml";

/// By default codex copies itself into its home and starts daemons from there, hundreds of
/// megabytes each time.
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
    // Canonical, so that it can be found in a list of processes; but the program itself is not
    // resolved, because its target has another name.
    let dir = program.parent().and_then(|dir| dir.canonicalize().ok());
    dir.expect("the program is in a directory").join(name)
}

fn change_json(file: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(file).expect("the user's files were written");
    let mut value = serde_json::from_str(&text).expect("the file is JSON");
    change(&mut value);
    write(file, &value.to_string());
}

fn write(file: &Path, text: &str) {
    let dir = file.parent().expect("the file has a parent directory");
    fs::create_dir_all(dir).expect("the directory can be created");
    let mut file = File::create(file).expect("the file can be created");
    file.write_all(text.as_bytes()).expect("the file can be written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_keeps_other_settings() {
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
