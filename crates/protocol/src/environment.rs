//! The reply to `env`.

use model::environment::layers::{Layer, UnusedVariable};
use model::ports::PortBlock;
use model::{Name, PaneId};
use serde::{Deserialize, Serialize};

/// The environment a pane was started with. Secret values are masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentView {
    /// The pane.
    pub pane: PaneId,
    /// Its name.
    pub name: Name,
    /// Its role, if it has one.
    pub role: Option<String>,
    /// Its ports.
    pub ports: Option<PortBlock>,
    /// Every variable, sorted by name.
    pub variables: Vec<VariableView>,
    /// Settings that were overridden or rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<UnusedVariable>,
}

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableView {
    /// Its name.
    pub name: String,
    /// Its value, or asterisks for a secret.
    pub value: String,
    /// Whether the value is masked.
    pub masked: bool,
    /// The layer that set it (none for panes started by a release that did not record it).
    pub source: Option<Layer>,
}
