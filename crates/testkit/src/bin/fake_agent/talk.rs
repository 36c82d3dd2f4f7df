//! The agent's input and answers.

use std::io::{self, BufRead as _, Read as _, Write as _};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::args::Args;

/// Answers until its input ends. Without `--prompt` or `--bracketed-paste` it reads nothing.
pub(crate) fn talk(args: &Args) {
    let talked = if args.bracketed_paste {
        show_received()
    } else if let Some(prompt) = &args.prompt {
        answer_lines(prompt)
    } else {
        Ok(())
    };
    // A closed terminal ends the conversation.
    let _over = talked;
}

fn answer_lines(prompt: &str) -> io::Result<()> {
    say(prompt)?;
    for line in io::stdin().lock().lines() {
        say(&format!("answer: {}\n{prompt}", line?))?;
    }
    Ok(())
}

/// Prints the input of each read: `received "\u{1b}[200~text\u{1b}[201~"`. Ends at ctrl-d.
fn show_received() -> io::Result<()> {
    let terminal = rustix::stdio::stdin();
    let cooked = tcgetattr(terminal)?;
    let mut raw = cooked.clone();
    raw.make_raw();
    tcsetattr(terminal, OptionalActions::Now, &raw)?;
    say("\x1b[?2004hready for paste\r\n")?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = io::stdin().read(&mut buffer)?;
        let received = buffer.get(..count).unwrap_or_default();
        if count == 0 || received == b"\x04" {
            break;
        }
        say(&format!("received {:?}\r\n", String::from_utf8_lossy(received)))?;
    }
    say("\x1b[?2004l")?;
    Ok(tcsetattr(terminal, OptionalActions::Now, &cooked)?)
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
