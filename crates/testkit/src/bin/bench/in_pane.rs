//! The programs that the benchmark runs inside panes.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr,
};

use crate::args::{InPane, Program};
use crate::script::{Span, now, write_result};

const WRITE: usize = 64 * 1024;

/// Bytes that a flooding program writes before it polls for a key.
const FLOOD_WRITE: usize = 4096;

pub(crate) fn run(Program::InPane(program): Program) -> Result<()> {
    disable_line_mode().context("this part of the bench runs in a terminal")?;
    match program {
        InPane::Cat { file, go, result } => cat(&file, &go, &result),
        InPane::Show { file, ready, last } => show(&file, &ready, &last),
        InPane::Echo { ready } => echo(&ready),
        InPane::Flood { ready } => flood(&ready),
        InPane::Fill { marker } => fill(&marker),
    }
}

/// Disables echo and line mode; output is processed as usual.
fn disable_line_mode() -> Result<()> {
    let terminal = rustix::stdio::stdin();
    let mut settings = tcgetattr(terminal)?;
    settings.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    settings.input_modes -= InputModes::ICRNL;
    settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    Ok(tcsetattr(terminal, OptionalActions::Now, &settings)?)
}

fn cat(file: &Path, go: &Path, result: &Path) -> Result<()> {
    let mut payload = File::open(file)?;
    let mut out = io::stdout().lock();
    File::open(go)?.read_to_end(&mut Vec::new())?;
    let begin = now();
    copy(&mut payload, &mut out)?;
    out.write_all(b"\x1b[6n")?;
    out.flush()?;
    while read_key()? != b'R' {}
    write_result(result, Span { begin, end: now() })?;
    stay()
}

fn show(file: &Path, ready: &str, last: &str) -> Result<()> {
    let mut payload = File::open(file)?;
    say(ready)?;
    read_key()?;
    copy(&mut payload, &mut io::stdout().lock())?;
    say(&format!("\n{last}"))?;
    stay()
}

fn echo(ready: &str) -> Result<()> {
    say(&format!("{ready}\n"))?;
    let mut buffer = [0; 64];
    loop {
        let count = rustix::io::read(rustix::stdio::stdin(), &mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        rustix::io::write(rustix::stdio::stdout(), buffer.get(..count).unwrap_or_default())?;
    }
}

fn flood(ready: &str) -> Result<()> {
    say(ready)?;
    let mut key = char::from(read_key()?);
    let mut out = io::stdout().lock();
    for number in 0_u64.. {
        if key_waits()? {
            key = char::from(read_key()?);
        }
        let line = format!(
            "{number:08} key={key} a log line that is printed faster than anyone can read it\n"
        );
        let block = line.repeat(FLOOD_WRITE / line.len());
        out.write_all(block.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn fill(marker: &str) -> Result<()> {
    let rows: String =
        (1..50).map(|row| format!("{row:02} {}\n", "some text ".repeat(18))).collect();
    say(&format!("\x1b[2J\x1b[H{rows}{marker}"))?;
    stay()
}

/// Copies like `cat`: reads and writes blocks.
fn copy(from: &mut impl io::Read, to: &mut impl Write) -> Result<()> {
    let mut buffer = vec![0; WRITE];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(to.flush()?),
            count => to.write_all(buffer.get(..count).unwrap_or_default())?,
        }
    }
}

fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn read_key() -> Result<u8> {
    let mut key = [0];
    match rustix::io::read(rustix::stdio::stdin(), &mut key)? {
        0 => anyhow::bail!("the terminal is gone"),
        _ => Ok(key[0]),
    }
}

fn key_waits() -> Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
    Ok(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

/// Runs until the terminal is closed.
fn stay() -> Result<()> {
    loop {
        read_key()?;
    }
}
