//! The agent's output.

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use crate::args::Args;

const FILLER: &str = "the quick brown agent jumps over the lazy reviewer";

/// Sets the title and the alternate screen.
pub(crate) fn set_up_terminal(args: &Args) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.alt_screen {
        out.write_all(b"\x1b[?1049h\x1b[2J\x1b[H")?;
    }
    if let Some(title) = &args.title {
        write!(out, "\x1b]2;{title}\x07")?;
    }
    out.flush()
}

/// Prints the numbered lines, then the flood.
pub(crate) fn print(args: &Args) -> io::Result<()> {
    let interval = Duration::from_micros(args.interval_us);
    for number in 1..=args.lines {
        // One lock per line: answers to input come between lines, never within one.
        let mut out = io::stdout().lock();
        out.write_all(format!("line {number:08} {FILLER}\n").as_bytes())?;
        if !interval.is_zero() {
            out.flush()?;
            drop(out);
            thread::sleep(interval);
        }
    }
    flood(args.flood)
}

fn flood(bytes: u64) -> io::Result<()> {
    let block = format!("{FILLER}\n").repeat(1000).into_bytes();
    let mut left = bytes;
    let mut out = io::stdout().lock();
    while left > 0 {
        let count = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        out.write_all(block.get(..count).unwrap_or_default())?;
        left -= count as u64;
    }
    out.flush()
}
