//! The command line of the scripted agent.

use std::path::PathBuf;
use std::str::FromStr;

pub(crate) const USAGE: &str = "\
usage: fake-agent [behaviour]...
  --ignore hup,term,int      ignore these signals (with hup: also stay when the input ends)
  --title T                  set the window's title
  --alt-screen               use the alternate screen
  --fork-daemons N --pids F  leave N daemons behind that ignore signals, each in its own session; pids go to F
  --keep-tty                 the daemons keep the terminal open
  --config DIR --write-hz X  rewrite DIR/.fake.json X times a second: read, count up, write in place
  --lines N|endless          print `line 00000001 ...` and so on
  --interval-us U            wait that long between lines
  --flood BYTES              print that much as fast as possible
  --crash segv|abort|exit=N  crash this way after the output
  --after-lines N            short for --lines N, for reading beside --crash
  --session-id ID, --resume ID   the conversation, as claude has it
  --settings FILE            ignored, as claude has it
  --keep-session             keep a file about itself in CLAUDE_CONFIG_DIR, as claude does
  --said                     leave a transcript of the conversation there
  --prompt TEXT              prompt, and answer every line with `answer: ...`
  --bracketed-paste          turn on mode 2004 and raw input, and print what is received
  --stay                     stay until killed";

/// All behaviours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) ignored: Vec<i32>,
    pub(crate) title: Option<String>,
    pub(crate) alt_screen: bool,
    pub(crate) daemons: usize,
    pub(crate) pids: Option<PathBuf>,
    pub(crate) keep_tty: bool,
    pub(crate) config: Option<PathBuf>,
    pub(crate) write_hz: Option<f64>,
    pub(crate) lines: u64,
    pub(crate) interval_us: u64,
    pub(crate) flood: u64,
    pub(crate) crash: Option<Crash>,
    pub(crate) conversation: Option<String>,
    pub(crate) keep_session: bool,
    pub(crate) said: bool,
    pub(crate) prompt: Option<String>,
    pub(crate) bracketed_paste: bool,
    pub(crate) stay: bool,
}

/// Ways to crash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crash {
    Segv,
    Abort,
    Exit(u8),
}

impl Args {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self::default();
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--ignore" => args.ignored = signals(&value()?)?,
                "--title" => args.title = Some(value()?),
                "--alt-screen" => args.alt_screen = true,
                "--fork-daemons" => args.daemons = number(&value()?)?,
                "--pids" => args.pids = Some(value()?.into()),
                "--keep-tty" => args.keep_tty = true,
                "--config" => args.config = Some(value()?.into()),
                "--write-hz" => args.write_hz = Some(number(&value()?)?),
                "--lines" | "--after-lines" => args.lines = lines(&value()?)?,
                "--interval-us" => args.interval_us = number(&value()?)?,
                "--flood" => args.flood = number(&value()?)?,
                "--crash" => args.crash = Some(crash(&value()?)?),
                "--session-id" | "--resume" => args.conversation = Some(value()?),
                "--settings" => drop(value()?),
                "--keep-session" => args.keep_session = true,
                "--said" => args.said = true,
                "--prompt" => args.prompt = Some(value()?),
                "--bracketed-paste" => args.bracketed_paste = true,
                "--stay" => args.stay = true,
                _ => return Err(format!("unknown behaviour {word}")),
            }
        }
        if args.daemons > 0 && args.pids.is_none() {
            return Err("--fork-daemons needs --pids FILE".to_owned());
        }
        if (args.keep_session || args.said) && args.conversation.is_none() {
            return Err("--keep-session and --said need a conversation".to_owned());
        }
        if args.config.is_some() != args.write_hz.is_some() {
            return Err("--config and --write-hz need each other".to_owned());
        }
        Ok(args)
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number that fits here"))
}

fn lines(text: &str) -> Result<u64, String> {
    if text == "endless" { Ok(u64::MAX) } else { number(text) }
}

fn signals(names: &str) -> Result<Vec<i32>, String> {
    names.split(',').map(signal).collect()
}

fn signal(name: &str) -> Result<i32, String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    match name {
        "hup" => Ok(SIGHUP),
        "term" => Ok(SIGTERM),
        "int" => Ok(SIGINT),
        "quit" => Ok(SIGQUIT),
        _ => Err(format!("unknown signal {name}")),
    }
}

fn crash(text: &str) -> Result<Crash, String> {
    match (text, text.strip_prefix("exit=")) {
        ("segv", _) => Ok(Crash::Segv),
        ("abort", _) => Ok(Crash::Abort),
        (_, Some(code)) => Ok(Crash::Exit(number(code)?)),
        _ => Err(format!("unknown way to crash: {text}")),
    }
}
