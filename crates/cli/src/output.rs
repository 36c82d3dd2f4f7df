//! What the user sees: text or JSON on standard output, everything else on standard error.
//!
//! Nothing outside of this file writes to either, except an attached pane to its terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use model::Timestamp;
use protocol::ErrorBody;
use serde::Serialize;

use crate::environment::ClientEnv;
use crate::failure::Failure;

/// How long a verb may take before the user is told what it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// How to say things.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Say them to a program.
    pub(crate) json: bool,
    /// How text looks.
    pub(crate) style: Style,
    /// A person watches standard error.
    progress: bool,
}

/// How text looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// With colours.
    pub(crate) colour: bool,
    /// The columns of the terminal; none does not cut lines.
    pub(crate) width: Option<usize>,
    /// Now, for ages.
    pub(crate) now: Timestamp,
}

impl Output {
    /// As the streams of this process and its environment ask for.
    pub(crate) fn new(json: bool, env: &ClientEnv, now: Timestamp) -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let width = rustix::termios::tcgetwinsize(&stdout)
            .ok()
            .filter(|size| is_terminal && size.ws_col > 0)
            .map(|size| usize::from(size.ws_col));
        Self {
            json,
            style: Style { colour: is_terminal && env.allows_colour(), width, now },
            progress: !json && io::stderr().is_terminal(),
        }
    }

    /// Prints `value` for a program, or what `text` makes of it for a person.
    ///
    /// # Errors
    ///
    /// [`Failure`] if nobody takes it.
    pub(crate) fn answer<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), Failure> {
        if self.json { self.json_line(value) } else { self.text(&text(value, self.style)) }
    }

    /// Prints one JSON value on a line of its own.
    ///
    /// # Errors
    ///
    /// [`Failure`] if nobody takes it.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.text(&format!("{}\n", to_json(value)))
    }

    /// Prints text as it is.
    ///
    /// # Errors
    ///
    /// [`Failure`] if nobody takes it.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Prints bytes as they are, at once.
    ///
    /// # Errors
    ///
    /// [`Failure`] if nobody takes them.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::StdoutClosed),
            Err(error) => Err(Failure::io("write to standard output", &error)),
        }
    }

    /// Tells of something that is wrong without being this verb's failure.
    pub(crate) fn warn(&self, what: &str) {
        if !self.json {
            complain(&format!("warning: {}\n", printable(what)));
        }
    }

    /// Tells a person how far it has come, on a line of its own.
    pub(crate) fn note(&self, what: &str) {
        if !self.json {
            complain(&format!("{}\n", printable(what)));
        }
    }

    /// Says something to an agent that reads standard error.
    pub(crate) fn say_to_agent(&self, what: &str) {
        complain(&format!("{}\n", printable(what)));
    }

    /// Tells why the verb failed.
    pub(crate) fn error(&self, body: &ErrorBody) {
        complain(&if self.json { error_json(body) } else { error_text(body) });
    }

    /// Asks whoever sits at the terminal; none if nobody does. Only a yes is a yes.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the answer cannot be read.
    pub(crate) fn confirm(&self, question: &str) -> Result<Option<bool>, Failure> {
        let stdin = io::stdin();
        if self.json || !stdin.is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        complain(&format!("{question} [y/N] "));
        let mut answer = String::new();
        let read = stdin.read_line(&mut answer);
        read.map_err(|error| Failure::io("read the answer", &error))?;
        Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
    }

    /// Shows `what` while the returned value lives, if it lives long and somebody watches.
    pub(crate) fn progress(&self, what: impl Into<String>) -> Progress {
        if !self.progress {
            return Progress(None);
        }
        let what = what.into();
        let (done, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                complain(&what);
                // Ends with the sender.
                let _disconnected = ended.recv();
                complain("\r\x1b[K");
            }
        });
        Progress(Some((done, thread)))
    }
}

/// One line on standard error while something takes its time.
#[derive(Debug)]
pub(crate) struct Progress(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            // It only writes; if it could not, nobody watches.
            let _unwatched = thread.join();
        }
    }
}

/// The value as JSON on one line.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our views have string keys only")
}

/// `text` with every control character made visible, so that nothing that a program in a pane
/// chose can command the user's terminal.
pub(crate) fn printable(text: &str) -> String {
    let show = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(show).collect()
}

fn complain(text: &str) {
    // There is no further place to complain about a standard error that takes nothing.
    let _deaf = io::stderr().write_all(text.as_bytes());
}

fn error_text(body: &ErrorBody) -> String {
    let visible = |text: &str| text.lines().map(printable).collect::<Vec<_>>().join("\n  ");
    let mut text = format!("error: {}\n", visible(&body.message));
    if let Some(hint) = &body.hint {
        text.push_str("hint: ");
        text.push_str(&visible(hint));
        text.push('\n');
    }
    text
}

fn error_json(body: &ErrorBody) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        error: Error<'a>,
    }
    // Unlike on the socket, all three are always there: scripts should not have to look twice.
    #[derive(Serialize)]
    struct Error<'a> {
        code: protocol::ErrorCode,
        message: &'a str,
        hint: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<&'a serde_json::Value>,
    }
    let hint = body.hint.as_deref();
    let details = body.details.as_ref();
    let error = Error { code: body.code, message: &body.message, hint, details };
    format!("{}\n", to_json(&Line { error }))
}

#[cfg(test)]
mod tests {
    use protocol::ErrorCode;

    use super::*;

    #[test]
    fn errors_say_what_and_what_next() {
        let plain = ErrorBody::new(ErrorCode::Failed, "the disk is full");
        let hinted = ErrorBody::new(
            ErrorCode::Conflict,
            "\"dev1\" is ambiguous:\nweb/dev1 1a2b3c4d\napi/dev1 5e6f7a8b\x1b[2J",
        )
        .hint("use SESSION/PANE or an id");

        insta::assert_snapshot!(
            [&plain, &hinted].map(error_text).join("--\n")
                + "--\n"
                + &[&plain, &hinted].map(error_json).join("--\n")
        );
    }

    #[test]
    fn a_title_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b]0;x\x07\u{9b}é"), "a\\u{1b}]0;x\\u{7}\\u{9b}é");
    }
}
