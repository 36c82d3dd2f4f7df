//! Trust in the wishes of projects, and files that all panes may read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::project::{self, Project, ProjectError, Trusted};
use host::{StateRoot, clock, git, shared, usage};
use protocol::control::Response;
use protocol::workspace::{
    ShareAnswer, ShareRequest, SharedFile, TrustAnswer, TrustRequest, TrustedFile,
};
use protocol::{ErrorBody, ErrorCode};

use super::Failure;
use crate::supervisor::{Supervisor, run_blocking};

/// What to do about a daemon that may only read what panes share.
const FROM_OUTSIDE: &str = "the daemon was started in a pane, which may only read this: stop it with \
                            `ccmux daemon stop`, and start it with any command outside";

impl Supervisor {
    /// Changes or shows what is trusted.
    pub(super) async fn trust(
        self: &Arc<Self>,
        request: TrustRequest,
    ) -> Result<Response, Failure> {
        let root = self.root.clone();
        let answer = run_blocking(move || trust(&root, &request)).await?;
        Ok(Response::Trust(answer))
    }

    /// Changes or shows what is shared.
    pub(super) async fn share(
        self: &Arc<Self>,
        request: ShareRequest,
    ) -> Result<Response, Failure> {
        // One at a time, together with whoever else moves things about in the root.
        let _alone = self.tidying.lock().await;
        let root = self.root.clone();
        let answer = run_blocking(move || share(&root, &request)).await?;
        Ok(Response::Share(answer))
    }
}

/// The root of the project that a directory is in: of its work tree, or the directory itself.
fn project_root(dir: &Path) -> PathBuf {
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let has = |dir: &&Path| {
        dir.join(".git").symlink_metadata().is_ok() || dir.join(project::FILE).is_file()
    };
    let found = if git::is_in_work_tree(&real) { real.ancestors().find(has) } else { None };
    found.map_or_else(|| real.clone(), Path::to_owned)
}

fn failed(error: &ProjectError) -> ErrorBody {
    match error {
        ProjectError::Missing(_) => ErrorBody::new(ErrorCode::NotFound, error.to_string()),
        ProjectError::Invalid { .. } => ErrorBody::new(ErrorCode::Usage, error.to_string()),
        ProjectError::File(_) | ProjectError::Record(_) | ProjectError::Lock(_) => {
            ErrorBody::new(ErrorCode::Failed, error.to_string())
        }
    }
}

fn trust(root: &StateRoot, request: &TrustRequest) -> Result<TrustAnswer, ErrorBody> {
    let told = |error: ProjectError| failed(&error);
    let files = match request {
        TrustRequest::Add { dir } => {
            let dir = project_root(Path::new(dir));
            let project = project::read(&dir).map_err(told)?;
            let project = project.ok_or_else(|| {
                failed(&ProjectError::Missing(dir.join(project::FILE)))
                    .hint("name a directory of the project that has one")
            })?;
            let trusted = Trusted { digest: project.digest.clone(), at: clock::now() };
            let path = project.path.to_string_lossy().into_owned();
            let known = trusted.clone();
            project::change_trust(root, |trust| drop(trust.insert(path.clone(), known)))
                .map_err(told)?;
            vec![view(path, Some(&trusted), Some(project))]
        }
        TrustRequest::Revoke { dir } => {
            let path = project_root(Path::new(dir)).join(project::FILE);
            let path = path.to_string_lossy().into_owned();
            let mut removed = None;
            project::change_trust(root, |trust| removed = trust.remove(&path)).map_err(told)?;
            removed.map(|trusted| view(path, Some(&trusted), None)).into_iter().collect()
        }
        TrustRequest::List => {
            let known = project::trust(root).map_err(|error| failed(&error.into()))?;
            let looked = known.into_iter().map(|(path, trusted)| {
                let dir = Path::new(&path).parent().unwrap_or(Path::new("/"));
                // One that cannot be read now is not what was trusted.
                let project = project::read(dir).ok().flatten();
                let project = project.filter(|project| project.digest == trusted.digest);
                view(path, Some(&trusted), project)
            });
            looked.collect()
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

fn share(root: &StateRoot, request: &ShareRequest) -> Result<ShareAnswer, ErrorBody> {
    let failed = |error: host::file::FileError| {
        let missing = error.source.kind() == std::io::ErrorKind::NotFound;
        let code = if missing { ErrorCode::NotFound } else { ErrorCode::Failed };
        let closed = error.source.kind() == std::io::ErrorKind::ReadOnlyFilesystem;
        let body = ErrorBody::new(code, error.to_string());
        if closed { body.hint(FROM_OUTSIDE) } else { body }
    };
    match request {
        ShareRequest::Add { paths, templates } => {
            let part = shared::PARTS[usize::from(*templates)];
            for path in paths {
                shared::add(root, part, Path::new(path)).map_err(failed)?;
            }
        }
        ShareRequest::Remove { names } => {
            for name in names {
                if !shared::take_out(root, name).map_err(failed)? {
                    let message = format!("nothing that is shared is called {name:?}");
                    return Err(ErrorBody::new(ErrorCode::NotFound, message)
                        .hint("see what there is with `ccmux share --list`"));
                }
            }
        }
        ShareRequest::List => {}
    }
    let file = |shared: shared::Shared| SharedFile {
        bytes: usage::bytes(&shared.path),
        path: shared.path.to_string_lossy().into_owned(),
        name: shared.name,
    };
    let files = shared::list(root).into_iter().map(file).collect();
    Ok(ShareAnswer { dir: root.shared().to_string_lossy().into_owned(), files })
}
