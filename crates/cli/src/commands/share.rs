//! `ccmux share`: share read-only files with all panes.

use protocol::control::{Request, Response};
use protocol::workspace::{ShareAnswer, ShareRequest};

use super::gc::size;
use super::new::absolute;
use crate::args::ShareArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::printable;

pub(super) fn run(context: &Context, args: &ShareArgs) -> Result<(), Failure> {
    let request = if args.list {
        ShareRequest::List
    } else if args.remove {
        let names = args.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        ShareRequest::Remove { names }
    } else {
        let paths = args.paths.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
        ShareRequest::Add { paths, templates: args.templates }
    };

    let answer = Link::new(context).request_retry(|| Request::Share(request.clone()))?;

    let Response::Share(answer) = answer else { return Err(unexpected(&answer).into()) };
    context.out.answer(&answer, |answer, _| describe(answer))
}

fn describe(answer: &ShareAnswer) -> String {
    if answer.files.is_empty() {
        return format!("no shared files in {}\n", printable(&answer.dir));
    }
    let line = |path: &str, bytes| format!("{:>10}  {}\n", size(bytes), printable(path));
    answer.files.iter().map(|file| line(&file.path, file.bytes)).collect()
}
