//! `read --log --follow`: the kept output, then the pane's own stream until it ends.
//!
//! The daemon gives what is in the log; from there on the keeper gives the exact bytes that
//! follow. When the keeper is gone, the log has the last word, so nothing is missing whichever of
//! the three ends first.

use std::path::{Path, PathBuf};

use protocol::client::Connection;
use protocol::control::{Request, Response};
use protocol::pane::{Attach, SOCKET, View};
use protocol::{ErrorCode, Frame, Kind};

use super::log::Log;
use crate::args::ReadArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};

pub(super) fn run(context: &Context, args: &ReadArgs) -> Result<(), Failure> {
    let mut link = Link::new(context);
    let live = locate(&mut link, &args.id)?;
    // A name may be given to another pane while we follow this one.
    let id = live.as_ref().map_or(args.id.as_str(), |(id, _)| id.as_str());
    let position = print_log(context, &mut link, id, args.from)?;
    let Some((id, dir)) = &live else { return Ok(()) };
    let position = follow(context, dir, position)?;
    print_log(context, &mut link, id, Some(position))?;
    Ok(())
}

/// The id and directory of a pane that is alive; none of one that has ended.
fn locate(link: &mut Link<'_>, id: &str) -> Result<Option<(String, PathBuf)>, Failure> {
    match link.ask_again(|| Request::Locate { target: Some(id.to_owned()) }) {
        Ok(Response::Located { pane, dir, .. }) => Ok(Some((pane.to_string(), dir.into()))),
        Ok(other) => Err(unexpected(&other).into()),
        // An ambiguous name is a conflict as well; reading the log says so again.
        Err(body) if body.code == ErrorCode::Conflict => Ok(None),
        Err(body) => Err(body.into()),
    }
}

/// Prints what is kept from `from` on, and gives the offset that follows it.
fn print_log(
    context: &Context,
    link: &mut Link<'_>,
    id: &str,
    from: Option<u64>,
) -> Result<u64, Failure> {
    let mut log = Log::new(id, from);
    while let Some(piece) = log.next(link)? {
        context.out.bytes(&piece)?;
    }
    Ok(log.position().unwrap_or(0))
}

/// Prints what the pane writes from `position` on until its keeper ends the stream, and gives the
/// offset reached.
fn follow(context: &Context, dir: &Path, mut position: u64) -> Result<u64, Failure> {
    // A keeper that cannot be reached has just left; the log knows the rest.
    let Ok(mut keeper) = Connection::open(dir, SOCKET) else { return Ok(position) };
    let view = View::Follow { from: Some(position) };
    let attach = Attach { view, size: None, read_only: true };
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
            // What we have already, if the keeper begins earlier than asked.
            let known = usize::try_from(position - offset).unwrap_or(usize::MAX).min(bytes.len());
            context.out.bytes(&bytes[known..])?;
            position += u64::try_from(bytes.len() - known).unwrap_or(0);
        }
    }
    Ok(position)
}

/// The offset and the bytes of a frame that has them.
fn located(frame: &Frame) -> Option<(u64, &[u8])> {
    if !matches!(frame.kind, Kind::Output | Kind::Snapshot) {
        return None;
    }
    let (offset, bytes) = frame.body.split_first_chunk()?;
    Some((u64::from_le_bytes(*offset), bytes))
}
