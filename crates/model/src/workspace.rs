//! Workspaces: the directory tree that a pane works in (R16).
//!
//! This module defines the kinds of workspace, chooses one for a directory ([`choose`]), and defines
//! the record of the choice. It does not create or remove trees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// The kind of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// Chosen by [`choose`] to suit the directory.
    #[default]
    Auto,
    /// A git work tree on its own branch.
    Worktree,
    /// A git clone on its own branch.
    Clone,
    /// A copy of the directory.
    Copy,
    /// The directory itself, shared with other panes and the user.
    Shared,
    /// An empty directory.
    Empty,
}

impl WorkspaceKind {
    /// All kinds, in the order in which they are documented.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Worktree, Self::Clone, Self::Copy, Self::Shared, Self::Empty];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Worktree => "worktree",
            Self::Clone => "clone",
            Self::Copy => "copy",
            Self::Shared => "shared",
            Self::Empty => "empty",
        }
    }
}

words!(WorkspaceKind);

/// The workspace of a pane, as chosen when the pane was created. Part of its launch record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The kind; never [`WorkspaceKind::Auto`].
    pub kind: WorkspaceKind,
    /// Its root, as an absolute path.
    pub path: String,
    /// The original: the root of the user's work tree, or the directory.
    pub source: String,
    /// The git directory that all work trees of the repository share, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch that was created for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that the branch started at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// A workspace and the directory in it where a pane starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspacePlace {
    /// The workspace.
    pub workspace: Workspace,
    /// The directory to start in, as an absolute path.
    pub cwd: String,
}

impl WorkspacePlace {
    /// Moves the workspace to another directory, which contains it under its present name.
    pub fn move_to(&mut self, dir: &str) {
        let name = self.workspace.path.rsplit('/').next().unwrap_or_default();
        let path = format!("{dir}/{name}");
        self.cwd = format!("{path}{}", &self.cwd[self.workspace.path.len()..]);
        self.workspace.path = path;
    }
}

/// Returns the name of a workspace that is made from the directory `source`: the name of the
/// directory, as people and tools such as docker compose and npm derive names from it.
#[must_use]
pub fn project_name(source: &str) -> String {
    let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let plain = |c: char| if c.is_control() { '-' } else { c };
    match name {
        "" => "root".to_owned(),
        // git would take the directory above for a work tree.
        ".git" => "git".to_owned(),
        name => name.chars().map(plain).collect(),
    }
}

impl Workspace {
    /// Returns true if it was created for the pane and is removed with it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.kind != WorkspaceKind::Shared
    }

    /// Returns true if it is a git work tree or clone.
    #[must_use]
    pub fn is_git(&self) -> bool {
        matches!(self.kind, WorkspaceKind::Worktree | WorkspaceKind::Clone)
    }
}

/// The state of the git repository that contains a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepositoryState {
    /// There is no repository.
    No,
    /// There seems to be one, but git is not installed.
    WithoutGit,
    /// The repository has no commit that a branch could start at.
    WithoutCommit,
    /// git refuses to use the repository, for this reason.
    Unusable(String),
    /// The repository has commits.
    Yes,
}

/// The program that a workspace is for, as far as [`WorkspaceKind::Auto`] depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// A shell, or any program that is not an agent.
    Command,
    /// An agent.
    Agent,
    /// Any program of a session with [`SessionMode::Legacy`](crate::SessionMode::Legacy).
    Legacy,
    /// An ended pane that is migrated from a shared directory to its own workspace.
    Migrated,
}

/// The facts about the directory from which a workspace is made.
pub struct SourceDirectory<'a> {
    /// The path.
    pub dir: &'a str,
    /// Whether it is the user's home directory or the root directory.
    pub is_home_or_root: bool,
    /// Whether it contains the panes' directories, so that a copy would contain itself.
    pub holds_panes: bool,
    /// The state of its repository.
    pub repository: RepositoryState,
    /// The maximum size of a copy, in bytes.
    pub limit: u64,
    /// Returns true if a copy would not exceed the limit. Walks the whole tree, so it is called
    /// last.
    pub fits: &'a dyn Fn() -> bool,
}

/// A workspace that cannot be made from a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceRefused {
    /// The directory must not be copied.
    #[error(
        "`{0}` is your home directory or the root directory; it cannot be copied into a workspace"
    )]
    HomeOrRoot(String),
    /// A copy would contain itself.
    #[error("`{0}` contains the state directory of ccmux; it cannot be copied into a workspace")]
    HoldsPanes(String),
    /// The directory exceeds the limit.
    #[error("`{dir}` is larger than {} MiB, the limit for a copy", limit >> 20)]
    TooLarge {
        /// The directory.
        dir: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// There is no repository.
    #[error("`{0}` is not in a git repository")]
    NoRepository(String),
    /// git is not installed.
    #[error("cannot use the git repository of `{0}`: git not found in PATH")]
    WithoutGit(String),
    /// The repository has no commit.
    #[error("the git repository of `{0}` has no commits yet")]
    WithoutCommit(String),
    /// git refuses to use the repository.
    #[error("cannot use the git repository of `{dir}`: {why}")]
    Unusable {
        /// The directory.
        dir: String,
        /// The message of git.
        why: String,
    },
}

impl WorkspaceRefused {
    /// The hint for the user.
    pub const HINT: &'static str = "choose with --workspace: `shared` uses the directory itself, \
                                    `empty` an empty directory, `worktree` or `clone` a branch of \
                                    a git repository, `copy` a copy; or choose another directory \
                                    with --cwd";
}

/// Returns the kind of workspace for a request for `asked`.
///
/// [`WorkspaceKind::Auto`] is refused only for [`Occupant::Migrated`]: a new pane that cannot have a
/// worktree shares the directory.
///
/// # Errors
///
/// [`WorkspaceRefused`] if the directory does not allow that kind.
pub fn choose(
    asked: WorkspaceKind,
    occupant: Occupant,
    site: &SourceDirectory<'_>,
) -> Result<WorkspaceKind, WorkspaceRefused> {
    let dir = || site.dir.to_owned();
    match asked {
        WorkspaceKind::Auto => match (occupant, &site.repository) {
            (Occupant::Command | Occupant::Legacy, _) => Ok(WorkspaceKind::Shared),
            (Occupant::Agent | Occupant::Migrated, RepositoryState::Yes) => {
                Ok(WorkspaceKind::Worktree)
            }
            (Occupant::Agent, _) => Ok(WorkspaceKind::Shared),
            (Occupant::Migrated, RepositoryState::Unusable(why)) => {
                Err(WorkspaceRefused::Unusable { dir: dir(), why: why.clone() })
            }
            (Occupant::Migrated, _) if site.is_home_or_root => {
                Err(WorkspaceRefused::HomeOrRoot(dir()))
            }
            (Occupant::Migrated, _) => copy(site),
        },
        WorkspaceKind::Shared | WorkspaceKind::Empty => Ok(asked),
        WorkspaceKind::Copy => copy(site),
        WorkspaceKind::Worktree | WorkspaceKind::Clone => match &site.repository {
            RepositoryState::Yes => Ok(asked),
            RepositoryState::No => Err(WorkspaceRefused::NoRepository(dir())),
            RepositoryState::WithoutGit => Err(WorkspaceRefused::WithoutGit(dir())),
            RepositoryState::WithoutCommit => Err(WorkspaceRefused::WithoutCommit(dir())),
            RepositoryState::Unusable(why) => {
                Err(WorkspaceRefused::Unusable { dir: dir(), why: why.clone() })
            }
        },
    }
}

fn copy(site: &SourceDirectory<'_>) -> Result<WorkspaceKind, WorkspaceRefused> {
    let dir = site.dir.to_owned();
    if site.holds_panes {
        return Err(WorkspaceRefused::HoldsPanes(dir));
    }
    if !(site.fits)() {
        return Err(WorkspaceRefused::TooLarge { dir, limit: site.limit });
    }
    Ok(WorkspaceKind::Copy)
}

/// Returns a branch name for a pane: `ccmux/SESSION/PANE`, or a similar one that is valid for git and
/// does not collide with any of `taken`.
#[must_use]
pub fn branch(session: &Name, pane: &Name, taken: &[String]) -> String {
    let (session, pane) = (branch_part(session.as_str()), branch_part(pane.as_str()));
    let nested = format!("ccmux/{session}");
    let blocked = |dir: &str| taken.iter().any(|branch| branch == dir);
    // git cannot have both a branch `a` and a branch `a/b`.
    let stem = if blocked("ccmux") || blocked(&nested) {
        format!("ccmux-{session}-{pane}")
    } else {
        format!("{nested}/{pane}")
    };
    let free = |name: &String| {
        let below = format!("{name}/");
        !taken.iter().any(|branch| branch == name || branch.starts_with(&below))
    };
    std::iter::once(stem.clone())
        .chain((2_u64..).map(|n| format!("{stem}-{n}")))
        .find(free)
        .expect("fewer branches are taken than there are numbers")
}

/// Makes a name valid as one component of a branch name; git has special rules for dots.
fn branch_part(name: &str) -> String {
    let mut part = String::with_capacity(name.len());
    for c in name.chars() {
        let plain = c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let c = if plain { c } else { '-' };
        let again = c == '.' && (part.is_empty() || part.ends_with('.'));
        part.push(if again { '-' } else { c });
    }
    let ends = part.strip_suffix('.').or_else(|| part.strip_suffix(".lock"));
    let Some(ends) = ends.map(str::to_owned) else { return part };
    let rest = part[ends.len()..].replace('.', "-");
    ends + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site<'a>(repository: RepositoryState, fits: &'a dyn Fn() -> bool) -> SourceDirectory<'a> {
        SourceDirectory {
            dir: "/src",
            is_home_or_root: false,
            holds_panes: false,
            repository,
            limit: 1 << 30,
            fits,
        }
    }

    /// R16, design.
    #[test]
    fn auto_of_new_pane_chooses_worktree_for_agents_in_usable_repositories_and_else_shared() {
        use WorkspaceKind::{Auto, Shared, Worktree};
        let unusable = RepositoryState::Unusable("dubious".to_owned());
        let table = [
            (RepositoryState::Yes, Worktree),
            (RepositoryState::No, Shared),
            (RepositoryState::WithoutGit, Shared),
            (RepositoryState::WithoutCommit, Shared),
            (unusable, Shared),
        ];
        for (repository, for_agent) in table {
            for (is_home_or_root, holds_panes) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let site = SourceDirectory {
                    is_home_or_root,
                    holds_panes,
                    ..site(repository.clone(), &|| panic!("the directory is not measured"))
                };
                assert_eq!(choose(Auto, Occupant::Agent, &site), Ok(for_agent), "{repository:?}");
                assert_eq!(choose(Auto, Occupant::Command, &site), Ok(Shared), "{repository:?}");
                assert_eq!(choose(Auto, Occupant::Legacy, &site), Ok(Shared), "{repository:?}");
            }
        }
    }

    #[test]
    fn auto_of_migrated_pane_chooses_worktree_or_copy_or_fails() {
        use WorkspaceKind::{Auto, Copy, Worktree};
        let (yes, no): (&dyn Fn() -> bool, &dyn Fn() -> bool) = (&|| true, &|| false);
        let auto = |site: &SourceDirectory<'_>| choose(Auto, Occupant::Migrated, site);

        assert_eq!(auto(&site(RepositoryState::Yes, no)), Ok(Worktree));
        assert_eq!(auto(&site(RepositoryState::No, yes)), Ok(Copy));
        assert_eq!(auto(&site(RepositoryState::WithoutCommit, yes)), Ok(Copy));
        let large = auto(&site(RepositoryState::No, no)).unwrap_err();
        assert!(large.to_string().contains("1024 MiB"), "{large}");
        let home = SourceDirectory { is_home_or_root: true, ..site(RepositoryState::No, yes) };
        assert_eq!(auto(&home), Err(WorkspaceRefused::HomeOrRoot("/src".to_owned())));
        let holder = SourceDirectory { holds_panes: true, ..site(RepositoryState::No, yes) };
        assert_eq!(auto(&holder), Err(WorkspaceRefused::HoldsPanes("/src".to_owned())));
        let strange = RepositoryState::Unusable("dubious".to_owned());
        assert!(matches!(auto(&site(strange, yes)), Err(WorkspaceRefused::Unusable { .. })));
    }

    #[test]
    fn requested_kind_does_not_depend_on_the_occupant() {
        use WorkspaceKind::{Copy, Empty, Shared, Worktree};
        let site = site(RepositoryState::No, &|| true);
        for occupant in [Occupant::Command, Occupant::Agent, Occupant::Legacy, Occupant::Migrated] {
            for kind in [Shared, Empty, Copy] {
                assert_eq!(choose(kind, occupant, &site), Ok(kind), "{occupant:?}");
            }
            assert_eq!(
                choose(Worktree, occupant, &site),
                Err(WorkspaceRefused::NoRepository("/src".to_owned()))
            );
        }
    }

    /// Follows the rules of `git check-ref-format`.
    fn git_takes(branch: &str) -> bool {
        let part = |part: &str| {
            !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with(".lock")
        };
        branch.split('/').all(part)
            && !branch.contains("..")
            && !branch.ends_with('.')
            && branch.chars().all(|c| c.is_ascii_alphanumeric() || "./_-".contains(c))
    }

    #[test]
    fn branch_is_valid_for_every_name() {
        let names = ["dev1", "a.lock", "a..b", "a.", "a.lock.lock", "x...", "A_b-c", "v1.2.lock."];
        let names = names.map(|text| text.parse::<Name>().unwrap());
        for session in &names {
            for pane in &names {
                let branch = branch(session, pane, &[]);
                assert!(git_takes(&branch), "{branch}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn branch_is_valid_and_does_not_collide(
            session in "[A-Za-z0-9][A-Za-z0-9._-]{0,12}",
            pane in "[A-Za-z0-9][A-Za-z0-9._-]{0,12}",
            others in proptest::collection::vec("ccmux(/[a-z]{1,3}){0,3}", 0..6),
        ) {
            let (session, pane) = (Name::near(&session), Name::near(&pane));
            let mut taken = others;
            for _ in 0..3 {
                let branch = branch(&session, &pane, &taken);
                proptest::prop_assert!(git_takes(&branch), "{branch}");
                for other in &taken {
                    let (below, above) = (format!("{other}/"), format!("{branch}/"));
                    proptest::prop_assert!(*other != branch && !branch.starts_with(&below));
                    proptest::prop_assert!(!other.starts_with(&above), "{other} {branch}");
                }
                taken.push(branch);
            }
        }
    }

    #[test]
    fn branch_avoids_taken_names_and_prefixes() {
        let (session, pane) = ("team".parse().unwrap(), "dev".parse().unwrap());
        let taken = |taken: &[&str]| {
            let taken: Vec<String> = taken.iter().map(|&text| text.to_owned()).collect();
            branch(&session, &pane, &taken)
        };

        assert_eq!(taken(&["main"]), "ccmux/team/dev");
        assert_eq!(taken(&["ccmux/team/dev", "ccmux/team/dev-2"]), "ccmux/team/dev-3");
        assert_eq!(taken(&["ccmux/team/dev/old"]), "ccmux/team/dev-2");
        assert_eq!(taken(&["ccmux"]), "ccmux-team-dev");
        assert_eq!(taken(&["ccmux/team", "ccmux-team-dev"]), "ccmux-team-dev-2");
    }

    #[test]
    fn project_name_is_the_last_component_without_control_characters() {
        for (source, name) in [
            ("/home/me/app", "app"),
            ("/home/me/my app/", "my app"),
            ("/", "root"),
            ("/src/.git", "git"),
            ("/src/.dotfiles", ".dotfiles"),
            ("/src/-rf", "-rf"),
            ("/src/a\nb\u{1b}", "a-b-"),
        ] {
            assert_eq!(project_name(source), name, "{source:?}");
        }
    }

    #[test]
    fn moved_place_keeps_project_and_subdirectory() {
        let workspace = Workspace {
            kind: WorkspaceKind::Worktree,
            path: "/work/web/dev1/app".to_owned(),
            source: "/src/app".to_owned(),
            repository: None,
            branch: None,
            base: None,
        };
        let mut place = WorkspacePlace { workspace, cwd: "/work/web/dev1/app/src".to_owned() };

        place.move_to("/work/web/dev1-2");

        assert_eq!(place.workspace.path, "/work/web/dev1-2/app");
        assert_eq!(place.cwd, "/work/web/dev1-2/app/src");
    }

    #[test]
    fn workspace_kind_round_trips() {
        for kind in WorkspaceKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let unknown = "branch".parse::<WorkspaceKind>().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown value \"branch\"; expected one of auto, worktree, clone, copy, shared, empty"
        );
    }
}
