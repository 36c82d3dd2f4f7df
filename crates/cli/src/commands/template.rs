//! `ccmux template`: list, show, add and remove session templates.

use std::fmt::Write as _;

use protocol::control::{Request, Response};
use protocol::session::{TemplateRequest, TemplateView, TemplatesAnswer};
use serde::Serialize;

use super::gc::size;
use super::new::absolute;
use crate::args::TemplateCommand;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::printable;
use crate::table::Table;

/// JSON output for one template.
#[derive(Serialize)]
struct One<'a> {
    template: &'a TemplateView,
}

/// JSON output of `template rm`.
#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

pub(super) fn run(context: &Context, command: &TemplateCommand) -> Result<(), Failure> {
    let request = match command {
        TemplateCommand::Ls => TemplateRequest::List,
        TemplateCommand::Show(args) => TemplateRequest::Show { name: args.name.clone() },
        TemplateCommand::Rm(args) => TemplateRequest::Remove { name: args.name.clone() },
        TemplateCommand::Add(args) => {
            TemplateRequest::Add { path: absolute(&args.dir)?, name: args.name.clone() }
        }
    };
    let answer = Link::new(context).request_retry(|| Request::Template(request.clone()))?;
    let Response::Templates(answer) = answer else { return Err(unexpected(&answer).into()) };
    let out = &context.out;
    match (command, answer.templates.first()) {
        (TemplateCommand::Ls, _) => {
            out.answer(&answer, |answer, style| list(answer, style.colour, style.width))
        }
        (TemplateCommand::Rm(args), _) => out
            .answer(&Removed { removed: &args.name }, |answer, _| {
                format!("removed template {}\n", printable(answer.removed))
            }),
        (TemplateCommand::Show(_) | TemplateCommand::Add(_), Some(template)) => {
            out.answer(&One { template }, |one, _| describe(one.template))
        }
        (TemplateCommand::Show(_) | TemplateCommand::Add(_), None) => Ok(()),
    }
}

fn list(answer: &TemplatesAnswer, colour: bool, width: Option<usize>) -> String {
    let mut table = Table::new(&["NAME", "SOURCE", "SIZE", "DESCRIPTION"]);
    for template in &answer.templates {
        let source = if template.shipped { "built-in" } else { "user" };
        let about = template.problem.as_ref().unwrap_or(&template.description);
        table.push(vec![
            printable(&template.name).into(),
            source.into(),
            size(template.bytes).into(),
            printable(about).into(),
        ]);
    }
    table.render(colour, width)
}

fn describe(template: &TemplateView) -> String {
    let mut text = format!("{}: {}\n", printable(&template.name), printable(&template.description));
    if let Some(path) = &template.path {
        let _infallible = writeln!(text, "directory: {}", printable(path));
    }
    for file in &template.files {
        let _infallible = writeln!(text, "  {}", printable(file));
    }
    text
}
