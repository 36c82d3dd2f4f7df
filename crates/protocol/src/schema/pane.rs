//! Objects within panes and messages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words::{EndingReason, IsolationMethod, MessageState};

/// How a pane's process ended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Ending)]
pub struct Ending {
    /// The exit code, or 128 plus the signal number (none if unknown).
    pub code: Option<i32>,
    /// The signal that ended the process, if one did.
    pub signal: Option<i32>,
    /// Why the process ended.
    pub reason: EndingReason,
    /// When the end was noticed, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The system's message, for reasons that have one.
    #[serde(default)]
    pub detail: Option<String>,
    /// Whether the pane was terminated by another program, as when the machine shuts down (default:
    /// false).
    #[serde(default)]
    pub interrupted: bool,
}

/// A contiguous range of ports.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PortBlock)]
pub struct PortBlock {
    /// The first port.
    pub base: u16,
    /// The number of ports.
    pub count: u16,
}

/// How a pane's agent is isolated and how it authenticates.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PaneIsolation)]
pub struct PaneIsolation {
    /// The method.
    pub method: IsolationMethod,
    /// The pane's own home directory, if it has one.
    pub home: Option<String>,
    /// The configuration directories of the agents in this pane.
    pub dirs: Vec<AgentDir>,
    /// The directory for temporary files and sockets of the agents.
    pub temp: Option<String>,
    /// How the agent authenticates.
    pub login: AgentLogin,
    /// Whether the directories are kept when the pane is closed.
    pub kept_on_close: bool,
}

/// The configuration directory of one agent in one pane.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentDir)]
pub struct AgentDir {
    /// The agent.
    pub agent: String,
    /// The directory.
    pub path: String,
}

/// How an agent authenticates. Contains no secrets.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "from", rename_all = "snake_case")]
#[schema(as = AgentLogin)]
pub enum AgentLogin {
    /// With a key or token from the user's environment.
    Variable {
        /// The name of the variable.
        name: String,
    },
    /// With the user's login in a shared credential store.
    Store {
        /// The variable that points to the store.
        variable: String,
        /// The directory of the store.
        dir: String,
    },
    /// The agent will ask for a login.
    Asks {
        /// Where the login will be stored, if it is shared by all panes.
        store: Option<String>,
    },
    /// With the user's own configuration.
    Users,
}

/// Why a pane's processes are frozen.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Frozen)]
pub struct Frozen {
    /// The reason, as one sentence.
    pub why: String,
    /// When they were frozen, in milliseconds since the Unix epoch.
    pub at: i64,
}

/// A state change of a message.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MessageReceipt)]
pub struct MessageReceipt {
    /// The message.
    pub id: String,
    /// Its new state.
    pub state: MessageState,
    /// When the state changed, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The reason, if the state needs one.
    #[serde(default)]
    pub why: Option<String>,
}

/// The size of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeBody {
    /// Columns.
    #[schema(minimum = 2, maximum = 1000)]
    pub cols: u16,
    /// Rows.
    #[schema(minimum = 2, maximum = 1000)]
    pub rows: u16,
}
