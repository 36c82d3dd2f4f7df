//! Templates: what there is, one of them, one more, one less.

use std::path::Path;
use std::sync::Arc;

use host::StateRoot;
use host::template::{self, Template, TemplateError};
use protocol::control::Response;
use protocol::session::{TemplateRequest, TemplateView, TemplatesAnswer};

use super::Failure;
use crate::session::template_failed;
use crate::supervisor::{Supervisor, run_blocking};

impl Supervisor {
    /// Changes or shows templates.
    pub(super) async fn template(
        self: &Arc<Self>,
        request: TemplateRequest,
    ) -> Result<Response, Failure> {
        // One at a time, together with whoever else moves things about in the root.
        let _alone = match request.changes_something() {
            true => Some(self.tidying.lock().await),
            false => None,
        };
        let root = self.root.clone();
        let answer = run_blocking(move || perform(&root, &request)).await;
        let templates = answer.map_err(|error| template_failed(&error))?;
        Ok(Response::Templates(TemplatesAnswer { templates }))
    }
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
