//! Manages the files that all panes can read.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use host::file::FileError;
use host::{StateRoot, disk_usage, shared};
use model::authority::{Access, Caller};
use protocol::workspace::{ShareAnswer, ShareRequest, SharedFile};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Advice, Description, Fault, FaultKind};
use crate::runtime::run_blocking;

/// Why shared files were not changed or listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShareError {
    #[error(transparent)]
    Denied(#[from] AccessDenied),
    #[error("no shared file {0:?}")]
    NotFound(String),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Fault for ShareError {
    fn describe(&self) -> Description {
        match self {
            Self::Denied(error) => error.describe(),
            Self::NotFound(_) => FaultKind::NotFound.advise(Advice::ListShared),
            Self::File(error) if error.source.kind() == ErrorKind::NotFound => {
                FaultKind::NotFound.plain()
            }
            Self::File(error) if error.source.kind() == ErrorKind::ReadOnlyFilesystem => {
                FaultKind::Failed.advise(Advice::text(STARTED_IN_PANE))
            }
            Self::File(error) => error.describe(),
        }
    }
}

/// The advice if the daemon was started in a pane, where shared files are mounted read-only.
const STARTED_IN_PANE: &str = "the daemon was started in a pane, where shared files are read-only: \
                               stop the daemon, and run any command outside of panes";

/// Adds, removes or lists shared files.
pub(crate) async fn share(
    services: &Arc<Services>,
    caller: &Caller,
    request: ShareRequest,
) -> Result<ShareAnswer, ShareError> {
    let access = if request == ShareRequest::List { Access::List } else { Access::Administer };
    authorize(services, caller, access, None).await?;
    // Not concurrently with other operations that move files in the state root.
    let _guard = services.housekeeping.cleanup_lock.lock().await;
    let root = services.runtime.root.clone();
    run_blocking(move || change_shared(&root, &request)).await
}

fn change_shared(root: &StateRoot, request: &ShareRequest) -> Result<ShareAnswer, ShareError> {
    match request {
        ShareRequest::Add { paths, templates } => {
            let part = shared::PARTS[usize::from(*templates)];
            for path in paths {
                shared::add(root, part, Path::new(path))?;
            }
        }
        ShareRequest::Remove { names } => {
            for name in names {
                if !shared::remove(root, name)? {
                    return Err(ShareError::NotFound(name.clone()));
                }
            }
        }
        ShareRequest::List => {}
    }
    let file = |shared: shared::Shared| SharedFile {
        bytes: disk_usage::bytes(&shared.path),
        path: shared.path.to_string_lossy().into_owned(),
        name: shared.name,
    };
    let files = shared::list(root).into_iter().map(file).collect();
    Ok(ShareAnswer { dir: root.shared().to_string_lossy().into_owned(), files })
}
