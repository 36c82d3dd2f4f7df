//! Sessions, their templates and their migration.

use model::{Name, PaneId, SessionId, SessionMode, SessionStatus, Timestamp, WorkspaceKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A session. Its status is determined when the request is handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionInfo)]
pub struct SessionView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: SessionId,
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Whether its panes have their own directories.
    #[schema(value_type = schema::SessionMode)]
    pub mode: SessionMode,
    /// Its status.
    #[serde(default = "stopped")]
    #[schema(value_type = schema::SessionStatus)]
    pub status: SessionStatus,
    /// Its directory.
    pub dir: String,
    /// The template it was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The directory shared by the panes of a legacy session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The directory with the descriptions of its units (a legacy session uses its project's, if
    /// there is one).
    #[serde(default)]
    pub unit_dir: String,
    /// The directory with its workflows (a legacy session uses its project's, if there is one).
    #[serde(default)]
    pub workflows_dir: String,
    /// The directory for results its panes want to keep.
    #[serde(default)]
    pub logs_dir: String,
    /// When it was created, in milliseconds since the Unix epoch.
    #[schema(value_type = i64)]
    pub created: Timestamp,
    /// A problem with the session and its remedy, as text for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The status assumed for sessions reported by releases that do not send one.
fn stopped() -> SessionStatus {
    SessionStatus::Stopped
}

/// A change to, or a query of, the templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TemplateRequest {
    /// List every template.
    List,
    /// Show one template with its files.
    Show {
        /// Its name.
        name: String,
    },
    /// Add a copy of a directory, replacing a template of the same name.
    Add {
        /// Absolute path of the directory.
        path: String,
        /// The template's name (default: the name in its description, or the directory's name).
        name: Option<Name>,
    },
    /// Remove a template.
    Remove {
        /// Its name.
        name: String,
    },
}

impl TemplateRequest {
    /// Returns whether the request changes state.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        matches!(self, Self::Add { .. } | Self::Remove { .. })
    }
}

/// The reply to `template`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplatesAnswer {
    /// The requested templates, sorted by name.
    pub templates: Vec<TemplateView>,
}

/// A template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateView {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Whether it is built into ccmux.
    pub shipped: bool,
    /// Its directory (none if it is built in).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The size of its files.
    pub bytes: u64,
    /// Its files.
    pub files: Vec<String>,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A request to convert a legacy session to isolated workspaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrateRequest {
    /// The session: name, id or unique prefix of an id.
    pub target: String,
    /// The kind of workspace for each pane (default: chosen per pane).
    #[serde(default)]
    pub workspace: Option<WorkspaceKind>,
    /// Report the plan without applying it.
    #[serde(default)]
    pub dry_run: bool,
}

/// The reply to `migrate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// The session after the request.
    pub session: SessionView,
    /// Whether this is only a plan.
    pub dry_run: bool,
    /// The workspace of each pane, oldest pane first.
    pub panes: Vec<PaneMigration>,
    /// The project directories copied into the session.
    pub copied: Vec<String>,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The migration of one pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneMigration {
    /// The pane.
    pub id: PaneId,
    /// Its name.
    pub name: Name,
    /// Whether it already had its own workspace.
    pub already: bool,
    /// The directory it worked in.
    pub from: String,
    /// The directory it works in after the migration.
    pub to: String,
    /// The kind of workspace.
    pub workspace_kind: WorkspaceKind,
    /// The branch created for the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}
