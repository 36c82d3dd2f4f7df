//! Lists, shows, adds and removes templates.

use std::path::Path;
use std::sync::Arc;

use host::StateRoot;
use host::template::{self, Template, TemplateError};
use model::authority::{Access, Caller};
use protocol::session::{TemplateRequest, TemplateView, TemplatesAnswer};

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::any_of;
use crate::runtime::run_blocking;

any_of! {
    /// Why a template request failed.
    pub(crate) enum TemplateRequestError {
        Denied(AccessDenied),
        Template(TemplateError),
    }
}

/// Lists, shows, adds or removes templates.
pub(crate) async fn template(
    services: &Arc<Services>,
    caller: &Caller,
    request: TemplateRequest,
) -> Result<TemplatesAnswer, TemplateRequestError> {
    let access = if request.is_mutation() { Access::Administer } else { Access::List };
    authorize(services, caller, access, None).await?;
    // Not concurrently with other operations that move files in the state root.
    let _guard = if request.is_mutation() {
        Some(services.housekeeping.cleanup_lock.lock().await)
    } else {
        None
    };
    let root = services.runtime.root.clone();
    let templates = run_blocking(move || perform(&root, &request)).await?;
    Ok(TemplatesAnswer { templates })
}

fn perform(
    root: &StateRoot,
    request: &TemplateRequest,
) -> Result<Vec<TemplateView>, TemplateError> {
    match request {
        TemplateRequest::List => {
            let all = template::list(root).into_iter();
            Ok(all
                .map(|(name, found)| found.map_or_else(|why| unusable(name, &why), view))
                .collect())
        }
        TemplateRequest::Show { name } => Ok(vec![view(template::find(root, name)?)]),
        TemplateRequest::Add { path, name } => {
            Ok(vec![view(template::add(root, Path::new(path), name.clone())?)])
        }
        TemplateRequest::Remove { name } => template::remove(root, name).map(|()| Vec::new()),
    }
}

fn view(template: Template) -> TemplateView {
    TemplateView {
        name: template.name.to_string(),
        description: template.description,
        shipped: template.path.is_none(),
        path: template.path.map(|path| path.to_string_lossy().into_owned()),
        bytes: template.files.iter().map(|(_, bytes)| bytes).sum(),
        files: template.files.into_iter().map(|(name, _)| name).collect(),
        problem: None,
    }
}

fn unusable(name: String, why: &TemplateError) -> TemplateView {
    TemplateView {
        name,
        description: String::new(),
        shipped: false,
        path: None,
        bytes: 0,
        files: Vec::new(),
        problem: Some(why.to_string()),
    }
}
