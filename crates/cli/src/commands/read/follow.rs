//! `read --log --follow`: print the output log, then follow the pane until it exits.
//!
//! The daemon provides the log, the keeper streams from the end of the log, and after the keeper
//! exits, the rest is read from the log again. No output is lost in whichever order they exit.

use std::path::{Path, PathBuf};

use client::Connection;
use protocol::control::{Request, Response};
use protocol::pane::{Attach, KeyOptions, SOCKET, View};
use protocol::{ErrorCode, Frame, Kind};

use super::log::Log;
use crate::args::ReadArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::PaneOutput;

pub(super) fn run(context: &Context, args: &ReadArgs) -> Result<(), Failure> {
    let mut link = Link::new(context);
    let live = locate(&mut link, &args.id)?;
    // Use the ID from here on: the pane may be renamed, and its name reused.
    let id = live.as_ref().map_or(args.id.as_str(), |(id, _)| id.as_str());
    let mut output = context.out.pane_output();
    let position = print_log(&mut output, &mut link, id, args.from)?;
    let Some((id, dir)) = &live else { return Ok(()) };
    let position = follow(context, &mut output, dir, position)?;
    print_log(&mut output, &mut link, id, Some(position))?;
    Ok(())
}

/// Returns the ID and directory of a live pane, or `None` if the pane has exited.
fn locate(link: &mut Link<'_>, id: &str) -> Result<Option<(String, PathBuf)>, Failure> {
    match link.request_retry(|| Request::Locate { target: Some(id.to_owned()) }) {
        Ok(Response::Located { pane, dir, .. }) => Ok(Some((pane.to_string(), dir.into()))),
        Ok(other) => Err(unexpected(&other).into()),
        // An ambiguous name is also a conflict; reading the log will report it.
        Err(body) if body.code == ErrorCode::Conflict => Ok(None),
        Err(body) => Err(body.into()),
    }
}

/// Prints the log from `from` on, and returns the offset of its end.
fn print_log(
    output: &mut PaneOutput<'_>,
    link: &mut Link<'_>,
    id: &str,
    from: Option<u64>,
) -> Result<u64, Failure> {
    let mut log = Log::new(id, from);
    while let Some(chunk) = log.next(link)? {
        output.print(&chunk)?;
    }
    Ok(log.position().unwrap_or(0))
}

/// Prints the output from `position` on until the keeper ends the stream, and returns the offset of
/// its end.
fn follow(
    context: &Context,
    output: &mut PaneOutput<'_>,
    dir: &Path,
    mut position: u64,
) -> Result<u64, Failure> {
    // An unreachable keeper has just exited; the rest is in the log.
    let Ok(mut keeper) = Connection::open(dir, SOCKET) else { return Ok(position) };
    let view = View::Follow { from: Some(position) };
    let attach = Attach { view, size: None, read_only: true, keys: KeyOptions::default() };
    if keeper.send(&Frame::json(Kind::Attach, &attach)).is_err() {
        return Ok(position);
    }
    while let Ok(frame) = keeper.receive() {
        if frame.kind == Kind::Ended {
            break;
        }
        let Some((offset, bytes)) = located(&frame) else { continue };
        if offset > position {
            context.out.warn(&format!("output from byte {position} to {offset} is no longer kept"));
            position = offset;
        }
        if frame.kind == Kind::Output {
            // Skip bytes printed already if the keeper starts earlier than requested.
            let known = usize::try_from(position - offset).unwrap_or(usize::MAX).min(bytes.len());
            output.print(&bytes[known..])?;
            position += u64::try_from(bytes.len() - known).unwrap_or(0);
        }
    }
    Ok(position)
}

/// Returns the offset and the bytes of an output or snapshot frame.
fn located(frame: &Frame) -> Option<(u64, &[u8])> {
    if !matches!(frame.kind, Kind::Output | Kind::Snapshot) {
        return None;
    }
    let (offset, bytes) = frame.body.split_first_chunk()?;
    Some((u64::from_le_bytes(*offset), bytes))
}
