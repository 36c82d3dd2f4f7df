//! What is said about sessions, their templates and their migration.

use model::{Name, PaneId, SessionId, SessionMode, SessionStatus, Timestamp, WorkspaceKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A session, as everybody sees it. Its status is derived at the moment of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionInfo)]
pub struct SessionView {
    /// Its identity.
    #[schema(value_type = String)]
    pub id: SessionId,
    /// What people call it.
    #[schema(value_type = String)]
    pub name: Name,
    /// Whose directories its panes work in.
    #[schema(value_type = crate::http::ModeWord)]
    pub mode: SessionMode,
    /// How it is.
    #[serde(default = "stopped")]
    #[schema(value_type = crate::http::StatusWord)]
    pub status: SessionStatus,
    /// Its directory.
    pub dir: String,
    /// The template that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The directory that its panes share, where it is a legacy session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Where the descriptions of its units are: of a legacy session, its project's if there are any.
    #[serde(default)]
    pub unit_dir: String,
    /// Where its workflows are: of a legacy session, its project's if there are any.
    #[serde(default)]
    pub workflows_dir: String,
    /// Where its panes may put what should be kept of their work.
    #[serde(default)]
    pub logs_dir: String,
    /// When it was made.
    #[schema(value_type = i64)]
    pub created: Timestamp,
    /// What is wrong with it and what can be done about that, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What older releases say nothing about.
fn stopped() -> SessionStatus {
    SessionStatus::Stopped
}

/// Something about templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TemplateRequest {
    /// Every one.
    List,
    /// One with its files.
    Show {
        /// Its name.
        name: String,
    },
    /// Copy a directory in, in the place of the one that had its name.
    Add {
        /// Absolute path of the directory.
        path: String,
        /// What it will be called; as it says itself, or as its directory, otherwise.
        name: Option<Name>,
    },
    /// Take one out.
    Remove {
        /// Its name.
        name: String,
    },
}

impl TemplateRequest {
    /// Whether it does more than look.
    #[must_use]
    pub fn changes_something(&self) -> bool {
        matches!(self, Self::Add { .. } | Self::Remove { .. })
    }
}

/// `template`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplatesAnswer {
    /// Those that were asked for, by name.
    pub templates: Vec<TemplateView>,
}

/// A template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateView {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// It comes with ccmux.
    pub shipped: bool,
    /// Where it is, unless it comes with ccmux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What its files take.
    pub bytes: u64,
    /// Its files.
    pub files: Vec<String>,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A legacy session is to have directories of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrateRequest {
    /// The session: name, id or unique beginning of an id.
    pub target: String,
    /// What tree each pane gets; chosen for each if not said.
    #[serde(default)]
    pub workspace: Option<WorkspaceKind>,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// `migrate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// The session, as it is now.
    pub session: SessionView,
    /// Nothing was changed.
    pub dry_run: bool,
    /// What each pane gets, oldest first.
    pub panes: Vec<PaneMigration>,
    /// Directories of the project that the session gets copies of.
    pub copied: Vec<String>,
    /// What somebody may have expected and is not so, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What a pane gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneMigration {
    /// The pane.
    pub id: PaneId,
    /// What people call it.
    pub name: Name,
    /// It had a tree of its own before.
    pub already: bool,
    /// The directory that it worked in.
    pub from: String,
    /// The directory that it works in, or will.
    pub to: String,
    /// What kind of tree that is.
    pub workspace_kind: WorkspaceKind,
    /// The branch that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}
