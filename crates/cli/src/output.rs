//! Output of commands: text or JSON on standard output; errors, warnings and progress on standard
//! error.
//!
//! Only this file writes to the standard streams, except for an attached terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use model::Timestamp;
use protocol::ErrorBody;
use serde::Serialize;
use terminal::Filter;

use crate::environment::ClientEnv;
use crate::failure::Failure;

/// Time after which progress is shown.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// Output settings of this process.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Print JSON.
    pub(crate) json: bool,
    /// Format of text output.
    pub(crate) style: Style,
    /// Show progress: standard error is a terminal.
    progress: bool,
}

/// Format of text output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Use colours.
    pub(crate) colour: bool,
    /// Width of the terminal; `None` does not truncate lines.
    pub(crate) width: Option<usize>,
    /// Current time, for computing ages.
    pub(crate) now: Timestamp,
}

impl Output {
    /// Derives the settings from the standard streams and the environment.
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

    /// Prints `value` as JSON, or formatted by `text`.
    ///
    /// # Errors
    ///
    /// [`Failure`] if standard output cannot be written.
    pub(crate) fn answer<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), Failure> {
        if self.json { self.json_line(value) } else { self.text(&text(value, self.style)) }
    }

    /// Prints a JSON value on one line.
    ///
    /// # Errors
    ///
    /// [`Failure`] if standard output cannot be written.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.text(&format!("{}\n", to_json(value)))
    }

    /// Prints text unchanged.
    ///
    /// # Errors
    ///
    /// [`Failure`] if standard output cannot be written.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Prints bytes unchanged and flushes standard output.
    ///
    /// # Errors
    ///
    /// [`Failure`] if standard output cannot be written.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::StdoutClosed),
            Err(error) => Err(Failure::io("write to standard output", &error)),
        }
    }

    /// Returns a writer for output of a program in a pane.
    pub(crate) fn pane_output(&self) -> PaneOutput<'_> {
        let filter = io::stdout().is_terminal().then(Filter::without_repaint);
        PaneOutput { out: self, filter }
    }

    /// Prints a warning, unless the output is JSON.
    pub(crate) fn warn(&self, message: &str) {
        if !self.json {
            print_stderr(&format!("warning: {}\n", printable(message)));
        }
    }

    /// Prints a line of progress, unless the output is JSON.
    pub(crate) fn note(&self, message: &str) {
        if !self.json {
            print_stderr(&format!("{}\n", printable(message)));
        }
    }

    /// Prints a message for an agent that reads standard error.
    pub(crate) fn tell_agent(&self, message: &str) {
        print_stderr(&format!("{}\n", printable(message)));
    }

    /// Prints an error with its hint.
    pub(crate) fn error(&self, body: &ErrorBody) {
        print_stderr(&if self.json { error_json(body) } else { error_text(body) });
    }

    /// Asks a yes/no question on the terminal. Returns `None` if there is no terminal.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the answer cannot be read.
    pub(crate) fn confirm(&self, question: &str) -> Result<Option<bool>, Failure> {
        let answer = self.ask(&format!("{question} [y/N] "))?;
        Ok(answer.map(|line| matches!(line.trim(), "y" | "yes")))
    }

    /// Asks a yes/no question on the terminal, to which an empty line means yes. Returns `None` if
    /// there is no terminal.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the answer cannot be read.
    pub(crate) fn confirm_by_default(&self, question: &str) -> Result<Option<bool>, Failure> {
        let answer = self.ask(&format!("{question} [Y/n] "))?;
        // The end of the input is not an empty line.
        Ok(answer.map(|line| !line.is_empty() && matches!(line.trim(), "" | "y" | "yes")))
    }

    /// Asks for a line on the terminal and returns it in lower case.
    fn ask(&self, question: &str) -> Result<Option<String>, Failure> {
        let stdin = io::stdin();
        if self.json || !stdin.is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        print_stderr(question);
        let mut line = String::new();
        let read = stdin.read_line(&mut line);
        read.map_err(|error| Failure::io("read the answer", &error))?;
        Ok(Some(line.to_lowercase()))
    }

    /// Shows `message` on a terminal until the returned value is dropped, after a short delay.
    pub(crate) fn progress(&self, message: impl Into<String>) -> Progress {
        if !self.progress {
            return Progress(None);
        }
        let message = message.into();
        let (done, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(PROGRESS_DELAY) == Err(RecvTimeoutError::Timeout) {
                print_stderr(&message);
                // Returns when the sender is dropped.
                let _disconnected = ended.recv();
                print_stderr("\r\x1b[K");
            }
        });
        Progress(Some((done, thread)))
    }
}

/// Prints the output of a program in a pane: filtered on a terminal, as for an attached one, and
/// unchanged elsewhere.
#[derive(Debug)]
pub(crate) struct PaneOutput<'a> {
    out: &'a Output,
    filter: Option<Filter>,
}

impl PaneOutput<'_> {
    /// Prints the next bytes.
    ///
    /// # Errors
    ///
    /// [`Failure`] if standard output cannot be written.
    pub(crate) fn print(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(filter) = &mut self.filter else { return self.out.bytes(bytes) };
        let mut shown = Vec::with_capacity(bytes.len());
        // Never a request to repaint: there is no screen.
        let _all = filter.pass(bytes, &mut shown);
        self.out.bytes(&shown)
    }
}

/// A progress line on standard error; erased on drop.
#[derive(Debug)]
pub(crate) struct Progress(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            // The thread only writes to standard error.
            let _panicked = thread.join();
        }
    }
}

/// Returns the value as JSON on one line.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("every map in the output has string keys")
}

/// Escapes control characters, so that text chosen by a program in a pane cannot send escape
/// sequences to the user's terminal, and controls of the writing direction, which could make a text
/// look like another one.
pub(crate) fn printable(text: &str) -> String {
    let is_direction = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_hidden = |c: char| c.is_control() || is_direction(c);
    let show = |c: char| if is_hidden(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(show).collect()
}

fn print_stderr(text: &str) {
    // If standard error is closed, there is no place to report it.
    let _closed = io::stderr().write_all(text.as_bytes());
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
    // Unlike in the protocol, `hint` is always present, so that scripts can rely on it.
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
    fn errors_are_printed_with_hint_as_text_and_json() {
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
    fn printable_escapes_controls_of_the_writing_direction() {
        assert_eq!(printable("a\u{202e}b\u{2069}c\u{200f}"), "a\\u{202e}b\\u{2069}c\\u{200f}");
        assert_eq!(printable("שלום \u{200d}"), "שלום \u{200d}");
    }

    #[test]
    fn printable_escapes_control_characters() {
        assert_eq!(printable("a\x1b]0;x\x07\u{9b}é"), "a\\u{1b}]0;x\\u{7}\\u{9b}é");
    }
}
