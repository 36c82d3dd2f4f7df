//! `ccmux template`: what sessions can begin with.

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

/// What is printed of one template.
#[derive(Serialize)]
struct One<'a> {
    template: &'a TemplateView,
}

/// What is printed when one is gone.
#[derive(Serialize)]
struct Gone<'a> {
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
    let answer = Link::new(context).ask_again(|| Request::Template(request.clone()))?;
    let Response::Templates(answer) = answer else { return Err(unexpected(&answer).into()) };
    let out = &context.out;
    match (command, answer.templates.first()) {
        (TemplateCommand::Ls, _) => {
            out.answer(&answer, |answer, style| listed(answer, style.colour, style.width))
        }
        (TemplateCommand::Rm(args), _) => out.answer(&Gone { removed: &args.name }, |gone, _| {
            format!("removed the template {}\n", printable(gone.removed))
        }),
        (TemplateCommand::Show(_) | TemplateCommand::Add(_), Some(template)) => {
            out.answer(&One { template }, |one, _| described(one.template))
        }
        (TemplateCommand::Show(_) | TemplateCommand::Add(_), None) => Ok(()),
    }
}

fn listed(answer: &TemplatesAnswer, colour: bool, width: Option<usize>) -> String {
    let mut table = Table::new(&["NAME", "FROM", "SIZE", "DESCRIPTION"]);
    for template in &answer.templates {
        let from = if template.shipped { "ccmux" } else { "you" };
        let about = template.problem.as_ref().unwrap_or(&template.description);
        table.push(vec![
            printable(&template.name).into(),
            from.into(),
            size(template.bytes).into(),
            printable(about).into(),
        ]);
    }
    table.render(colour, width)
}

fn described(template: &TemplateView) -> String {
    let mut text = format!("{}: {}\n", printable(&template.name), printable(&template.description));
    if let Some(path) = &template.path {
        let _infallible = writeln!(text, "in {}", printable(path));
    }
    for file in &template.files {
        let _infallible = writeln!(text, "  {}", printable(file));
    }
    text
}
