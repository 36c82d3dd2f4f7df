//! `ccmux lock`: acquire, renew, release, check and list locks.

use std::path::Path;
use std::time::Instant;

use model::lock::LockMode;
use protocol::ErrorBody;
use protocol::control::{Request, Response};
use protocol::locks::{Acquire, LockRequest, LockView, Locks};
use serde::Serialize;

use crate::args::{AcquireArgs, CheckArgs, LockCommand, LockLsArgs, ReleaseArgs, RenewArgs};
use crate::connect::{Link, millis};
use crate::context::Context;
use crate::describe;
use crate::failure::{Failure, unexpected, usage};
use crate::output::printable;
use crate::table::Table;

/// JSON output for one lock.
#[derive(Serialize)]
struct One<'a> {
    lock: &'a LockView,
}

pub(super) fn run(context: &Context, command: &LockCommand) -> Result<(), Failure> {
    match command {
        LockCommand::Acquire(args) => acquire(context, args),
        LockCommand::Renew(args) => renew(context, args),
        LockCommand::Release(args) => release(context, args),
        LockCommand::Check(args) => check(context, args),
        LockCommand::Ls(args) => ls(context, args),
    }
}

fn acquire(context: &Context, args: &AcquireArgs) -> Result<(), Failure> {
    let paths: Vec<String> =
        args.paths.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
    let (pane, process) = owner(context, args)?;
    let deadline = args.wait.and_then(|wait| Instant::now().checked_add(wait));
    let progress = context.out.progress("waiting for the lock…");
    // Acquiring a lock again returns the same lock, so the request may be repeated with the
    // remaining time.
    let request = || {
        // At least 1 ms: 0 would mean "do not wait" and change the error.
        let left = deadline.map(|at| millis(at.saturating_duration_since(Instant::now())).max(1));
        Request::Lock(LockRequest::Acquire(Acquire {
            paths: paths.clone(),
            mode: args.mode,
            tree: args.tree,
            scope: args.scope,
            pane: pane.clone(),
            process,
            ttl_ms: args.ttl.map(millis),
            wait_ms: left.unwrap_or(0),
            tag: args.tag.clone(),
        }))
    };
    let locks = answer(Link::new(context).request_retry(request)?)?;
    drop(progress);
    print(context, &locks, args.paths.len() == 1, |lock| {
        format!("{}  token {}  {}  {}\n", lock.id, lock.token, lock.mode, printable(&lock.path))
    })
}

/// Returns the owner: the given or current pane, or outside a pane the parent process.
fn owner(
    context: &Context,
    args: &AcquireArgs,
) -> Result<(Option<String>, Option<u32>), ErrorBody> {
    if args.process.is_some() {
        return Ok((None, args.process));
    }
    if let Some(pane) = args.pane.as_deref().or(context.env.pane()) {
        return Ok((Some(pane.to_owned()), None));
    }
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    match parent {
        Some(pid) if pid > 1 => Ok((None, Some(pid))),
        _ => Err(usage("the parent process has exited and cannot own the lock")
            .hint("set the owner with --process or --pane")),
    }
}

fn renew(context: &Context, args: &RenewArgs) -> Result<(), Failure> {
    let request = LockRequest::Renew { id: args.id, token: args.token };
    let locks = ask(context, &request)?;
    print(context, &locks, true, |lock| format!("renewed {}\n", printable(&lock.path)))
}

fn release(context: &Context, args: &ReleaseArgs) -> Result<(), Failure> {
    let ids: Vec<String> = args.ids.iter().map(ToString::to_string).collect();
    let mut link = Link::new(context);
    let released = args.ids.iter().map(|id| {
        let request = LockRequest::Release { id: *id, token: args.token };
        // Not repeatable: the second daemon would not find the lock.
        let doubt = "the lock may or may not have been released";
        let done = link.request_once(&Request::Lock(request), doubt);
        done.and_then(answer)
    });
    let released: Vec<_> = released.collect();
    let (done, result) = context.sort_out(&ids, released);
    let locks = Locks { locks: done.into_iter().flat_map(|(_, locks)| locks.locks).collect() };
    if !locks.locks.is_empty() {
        print(context, &locks, ids.len() == 1, |lock| {
            format!("released {}\n", printable(&lock.path))
        })?;
    }
    result
}

fn check(context: &Context, args: &CheckArgs) -> Result<(), Failure> {
    let request = LockRequest::Check { path: absolute(&args.path)?, token: args.token };
    let locks = ask(context, &request)?;
    print(context, &locks, true, |lock| format!("held: {}\n", printable(&lock.path)))
}

fn ls(context: &Context, args: &LockLsArgs) -> Result<(), Failure> {
    let path = args.path.as_deref().map(absolute).transpose()?;
    let locks = ask(context, &LockRequest::List { pane: args.pane.clone(), path })?;
    context.out.answer(&locks, |locks, style| {
        if locks.locks.is_empty() {
            return "no locks\n".to_owned();
        }
        let mut table = Table::new(&["PATH", "MODE", "HOLDER", "SINCE", "WAITING", "TOKEN", "ID"]);
        for lock in &locks.locks {
            let below = if lock.tree { "/**" } else { "" };
            table.push(vec![
                format!("{}{below}", printable(&lock.path)).into(),
                LockMode::as_str(lock.mode).into(),
                lock.holder().into(),
                describe::age(lock.acquired, style.now).into(),
                lock.waiting.to_string().into(),
                lock.token.to_string().into(),
                lock.id.to_string().into(),
            ]);
        }
        table.render(style.colour, style.width)
    })
}

fn ask(context: &Context, request: &LockRequest) -> Result<Locks, Failure> {
    Ok(answer(Link::new(context).request_retry(|| Request::Lock(request.clone()))?)?)
}

fn answer(response: Response) -> Result<Locks, ErrorBody> {
    let Response::Locks(locks) = response else { return Err(unexpected(&response)) };
    Ok(locks)
}

fn print(
    context: &Context,
    locks: &Locks,
    one: bool,
    line: impl Fn(&LockView) -> String,
) -> Result<(), Failure> {
    match locks.locks.as_slice() {
        [lock] if one => context.out.answer(&One { lock }, |one, _| line(one.lock)),
        _ => context.out.answer(locks, |locks, _| locks.locks.iter().map(line).collect()),
    }
}

/// Returns the absolute path as text.
fn absolute(path: &Path) -> Result<String, ErrorBody> {
    let shown = printable(&path.to_string_lossy());
    let refuse = |why: String| usage(format!("cannot lock `{shown}`: {why}"));
    let absolute = std::path::absolute(path).map_err(|error| refuse(error.to_string()))?;
    absolute.into_os_string().into_string().map_err(|_| {
        refuse("not valid UTF-8".to_owned()).hint("lock the parent directory with --tree")
    })
}
