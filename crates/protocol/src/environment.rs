//! What `env` answers.

use model::environment::layers::{Layer, Unused};
use model::ports::PortBlock;
use model::{Name, PaneId};
use serde::{Deserialize, Serialize};

/// `env`: the environment with which a pane was started. Nothing secret is in here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentView {
    /// The pane.
    pub pane: PaneId,
    /// What people call it.
    pub name: Name,
    /// What it is for, where somebody said so.
    pub role: Option<String>,
    /// The ports that are its own.
    pub ports: Option<PortBlock>,
    /// Every variable, in order of name.
    pub variables: Vec<VariableView>,
    /// What was to be set as well, and was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<Unused>,
}

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableView {
    /// Its name.
    pub name: String,
    /// Its value; of a secret, stars.
    pub value: String,
    /// The value is not shown.
    pub masked: bool,
    /// Who set it; not known of panes of older releases.
    pub source: Option<Layer>,
}
