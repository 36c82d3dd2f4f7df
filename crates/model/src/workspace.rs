//! Where a pane works: a tree of its own, or one that it shares (R16).
//!
//! What there is to choose from, which of it follows from where a pane is asked for, and what is
//! remembered of the choice. Making and removing trees is somebody else's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// What kind of tree a pane works in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// Whatever fits the directory: see [`choose`].
    #[default]
    Auto,
    /// A git work tree on a branch of its own.
    Worktree,
    /// A git clone with a branch of its own.
    Clone,
    /// A copy of the directory.
    Copy,
    /// The directory itself, together with everybody else in it.
    Shared,
    /// A directory with nothing in it.
    Empty,
}

impl WorkspaceKind {
    /// All of them, in the order in which they are explained.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Worktree, Self::Clone, Self::Copy, Self::Shared, Self::Empty];

    /// The word for it, in files and on the command line.
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

/// Where a pane works, as it was decided when the pane was made. Part of its launch record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// What it is; never [`WorkspaceKind::Auto`].
    pub kind: WorkspaceKind,
    /// Its root, as an absolute path.
    pub path: String,
    /// What it was made from: the root of the user's work tree, or the directory.
    pub source: String,
    /// The directory that all work trees of the repository share, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that the branch began at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// A workspace, and where in it a pane starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The workspace.
    pub workspace: Workspace,
    /// The directory to start in, as an absolute path.
    pub cwd: String,
}

impl Workspace {
    /// Whether it was made for the pane, and goes with it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.kind != WorkspaceKind::Shared
    }

    /// Whether git knows of it.
    #[must_use]
    pub fn is_of_git(&self) -> bool {
        matches!(self.kind, WorkspaceKind::Worktree | WorkspaceKind::Clone)
    }
}

/// The repository that a directory is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InRepository {
    /// None.
    No,
    /// It looks so, and there is no git to ask.
    WithoutGit,
    /// One without a commit: there is nothing yet that a branch could begin at.
    WithoutCommit,
    /// One that git will not or cannot use, and why.
    Unusable(String),
    /// One with commits.
    Yes,
}

/// What is known of the directory that a pane was asked for in.
pub struct Site<'a> {
    /// The directory.
    pub dir: &'a str,
    /// It is the user's home, or the root of everything.
    pub is_home_or_root: bool,
    /// The directories of panes are below it: a copy of it would contain itself.
    pub holds_panes: bool,
    /// The repository.
    pub repository: InRepository,
    /// The most bytes that a copy may have.
    pub limit: u64,
    /// Whether a copy would have no more than that. Looks at all of it, so it is asked last.
    pub fits: &'a dyn Fn() -> bool,
}

/// Why a pane does not get the tree that it was asked for with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody wants a copy of these.
    #[error("`{0}` is nothing that a pane gets a copy of")]
    HomeOrRoot(String),
    /// A copy would contain itself.
    #[error("`{0}` contains the state of ccmux and cannot be copied for a pane")]
    HoldsPanes(String),
    /// Too much.
    #[error("`{dir}` takes more than {} MiB, the most that is copied for a pane", limit >> 20)]
    TooLarge {
        /// The directory.
        dir: String,
        /// The most bytes that are copied.
        limit: u64,
    },
    /// There is no repository.
    #[error("`{0}` is in no git repository")]
    NoRepository(String),
    /// There may be one, and nobody to ask.
    #[error("git, which the repository of `{0}` needs, is not on your PATH")]
    WithoutGit(String),
    /// There is nothing to begin at.
    #[error("the git repository of `{0}` has no commit yet")]
    WithoutCommit(String),
    /// Git does not want to.
    #[error("git cannot use the repository of `{dir}`: {why}")]
    Unusable {
        /// The directory.
        dir: String,
        /// What git said.
        why: String,
    },
}

impl Refused {
    /// What the user can do about it.
    pub const HINT: &'static str = "choose with --workspace: shared works in the directory itself, \
                                    empty in an empty one, worktree or clone on a branch of a git \
                                    repository, copy in a copy; or name a project with --cwd";
}

/// What kind of tree a pane gets that asks for `asked`.
///
/// # Errors
///
/// [`Refused`], if it can have none of that kind, or if nothing follows from the directory.
pub fn choose(
    asked: WorkspaceKind,
    legacy: bool,
    site: &Site<'_>,
) -> Result<WorkspaceKind, Refused> {
    let dir = || site.dir.to_owned();
    match asked {
        WorkspaceKind::Auto if legacy => Ok(WorkspaceKind::Shared),
        WorkspaceKind::Shared | WorkspaceKind::Empty => Ok(asked),
        WorkspaceKind::Auto => match &site.repository {
            InRepository::Yes => Ok(WorkspaceKind::Worktree),
            InRepository::Unusable(why) => Err(Refused::Unusable { dir: dir(), why: why.clone() }),
            InRepository::No | InRepository::WithoutGit | InRepository::WithoutCommit => {
                if site.is_home_or_root { Err(Refused::HomeOrRoot(dir())) } else { copy(site) }
            }
        },
        WorkspaceKind::Copy => copy(site),
        WorkspaceKind::Worktree | WorkspaceKind::Clone => match &site.repository {
            InRepository::Yes => Ok(asked),
            InRepository::No => Err(Refused::NoRepository(dir())),
            InRepository::WithoutGit => Err(Refused::WithoutGit(dir())),
            InRepository::WithoutCommit => Err(Refused::WithoutCommit(dir())),
            InRepository::Unusable(why) => Err(Refused::Unusable { dir: dir(), why: why.clone() }),
        },
    }
}

fn copy(site: &Site<'_>) -> Result<WorkspaceKind, Refused> {
    let dir = site.dir.to_owned();
    if site.holds_panes {
        return Err(Refused::HoldsPanes(dir));
    }
    if !(site.fits)() {
        return Err(Refused::TooLarge { dir, limit: site.limit });
    }
    Ok(WorkspaceKind::Copy)
}

/// The branch of a pane: `ccmux/SESSION/PANE`, or the nearest that git takes and that is not in the
/// way of one of `taken`, nor they in its.
#[must_use]
pub fn branch(session: &Name, pane: &Name, taken: &[String]) -> String {
    let (session, pane) = (branch_part(session.as_str()), branch_part(pane.as_str()));
    let nested = format!("ccmux/{session}");
    let blocked = |dir: &str| taken.iter().any(|branch| branch == dir);
    // A branch cannot be below another one.
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

/// A name as one part of the name of a branch. Most are; git is particular about dots.
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

    fn site<'a>(repository: InRepository, fits: &'a dyn Fn() -> bool) -> Site<'a> {
        Site {
            dir: "/src",
            is_home_or_root: false,
            holds_panes: false,
            repository,
            limit: 1 << 30,
            fits,
        }
    }

    /// R16, design: what `auto` comes to.
    #[test]
    fn what_follows_from_a_directory_is_a_work_tree_a_copy_or_a_question() {
        use WorkspaceKind::{Auto, Copy, Empty, Shared, Worktree};
        let (yes, no): (&dyn Fn() -> bool, &dyn Fn() -> bool) = (&|| true, &|| false);
        let auto = |site: &Site<'_>| choose(Auto, false, site);

        assert_eq!(auto(&site(InRepository::Yes, no)), Ok(Worktree));
        assert_eq!(auto(&site(InRepository::No, yes)), Ok(Copy));
        assert_eq!(auto(&site(InRepository::WithoutCommit, yes)), Ok(Copy));
        let large = auto(&site(InRepository::No, no)).unwrap_err();
        assert!(large.to_string().contains("1024 MiB"), "{large}");
        let home = Site { is_home_or_root: true, ..site(InRepository::No, yes) };
        assert_eq!(auto(&home), Err(Refused::HomeOrRoot("/src".to_owned())));
        let holder = Site { holds_panes: true, ..site(InRepository::No, yes) };
        assert_eq!(auto(&holder), Err(Refused::HoldsPanes("/src".to_owned())));
        let strange = InRepository::Unusable("dubious".to_owned());
        assert!(matches!(auto(&site(strange, yes)), Err(Refused::Unusable { .. })));
        for legacy in [&home, &holder, &site(InRepository::Yes, yes)] {
            assert_eq!(choose(Auto, true, legacy), Ok(Shared));
            assert_eq!(choose(Shared, false, legacy), Ok(Shared));
            assert_eq!(choose(Empty, false, legacy), Ok(Empty));
        }
        assert_eq!(
            choose(Worktree, true, &site(InRepository::No, yes)),
            Err(Refused::NoRepository("/src".to_owned()))
        );
    }

    /// What `git check-ref-format` says of a branch.
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
    fn git_takes_the_branch_of_every_name() {
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
        fn whatever_is_there_a_branch_is_found_that_git_takes_and_that_is_free(
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
    fn no_branch_is_in_the_way_of_another() {
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
    fn every_kind_is_read_back_as_what_it_was_written_for() {
        for kind in WorkspaceKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let unknown = "branch".parse::<WorkspaceKind>().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "\"branch\" is none of auto, worktree, clone, copy, shared, empty"
        );
    }
}
