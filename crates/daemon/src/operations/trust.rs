//! Manages trust in the setup commands of projects.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::project::{self, Project, ProjectError, Trusted};
use host::{StateRoot, clock, git};
use model::authority::{Access, Caller};
use protocol::workspace::{TrustAnswer, TrustRequest, TrustedFile};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Advice, Description, Fault, FaultKind, any_of};
use crate::runtime::run_blocking;

any_of! {
    /// Why a trust request failed.
    pub(crate) enum TrustError {
        Denied(AccessDenied),
        Project(ProjectError),
    }
}

impl Fault for ProjectError {
    fn describe(&self) -> Description {
        match self {
            Self::Missing(_) => FaultKind::NotFound
                .advise(Advice::text("specify a directory of a project that contains this file")),
            Self::Invalid { .. } => FaultKind::Invalid.plain(),
            Self::File(_) | Self::Record(_) | Self::Lock(_) => FaultKind::Failed.plain(),
        }
    }
}

/// Adds, revokes or lists trusted project files.
pub(crate) async fn trust(
    services: &Arc<Services>,
    caller: &Caller,
    request: TrustRequest,
) -> Result<TrustAnswer, TrustError> {
    let access = if request == TrustRequest::List { Access::Read } else { Access::Administer };
    authorize(services, caller, access, None).await?;
    let root = services.runtime.root.clone();
    Ok(run_blocking(move || change_trust(&root, &request)).await?)
}

/// Returns the root of the project that contains `dir`: the root of its work tree, or `dir` itself.
fn project_root(dir: &Path) -> PathBuf {
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let is_root = |dir: &&Path| {
        dir.join(".git").symlink_metadata().is_ok() || dir.join(project::FILE).is_file()
    };
    let found = if git::is_in_work_tree(&real) { real.ancestors().find(is_root) } else { None };
    found.map_or_else(|| real.clone(), Path::to_owned)
}

fn change_trust(root: &StateRoot, request: &TrustRequest) -> Result<TrustAnswer, ProjectError> {
    let files = match request {
        TrustRequest::Add { dir } => {
            let dir = project_root(Path::new(dir));
            let project = project::read(&dir)?;
            let project = project.ok_or_else(|| ProjectError::Missing(dir.join(project::FILE)))?;
            let trusted = Trusted { digest: project.digest.clone(), at: clock::now() };
            let path = project.path.to_string_lossy().into_owned();
            let known = trusted.clone();
            project::change_trust(root, |trust| drop(trust.insert(path.clone(), known)))?;
            vec![view(path, Some(&trusted), Some(project))]
        }
        TrustRequest::Revoke { dir } => {
            let path = project_root(Path::new(dir)).join(project::FILE);
            let path = path.to_string_lossy().into_owned();
            let mut removed = None;
            project::change_trust(root, |trust| removed = trust.remove(&path))?;
            removed.map(|trusted| view(path, Some(&trusted), None)).into_iter().collect()
        }
        TrustRequest::List => {
            let known = project::trust(root)?;
            let files = known.into_iter().map(|(path, trusted)| {
                let dir = Path::new(&path).parent().unwrap_or(Path::new("/"));
                // A file that cannot be read or has changed is not trusted.
                let project = project::read(dir).ok().flatten();
                let project = project.filter(|project| project.digest == trusted.digest);
                view(path, Some(&trusted), project)
            });
            files.collect()
        }
    };
    Ok(TrustAnswer { files })
}

fn view(path: String, trusted: Option<&Trusted>, project: Option<Project>) -> TrustedFile {
    let is_trusted = project.is_some();
    let (setup, teardown) =
        project.map(|project| (project.setup, project.teardown)).unwrap_or_default();
    let at = trusted.map(|trusted| trusted.at);
    TrustedFile { path, at, trusted: is_trusted, setup, teardown }
}
