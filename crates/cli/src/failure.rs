//! Command failures and their exit codes.

use std::io;

use client::ConnectionError;
use protocol::{ErrorBody, ErrorCode};

/// The reason why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error that has not been printed yet.
    Error(ErrorBody),
    /// Errors that have been printed already; carries the code of the first.
    Reported(ErrorCode),
    /// The reader of standard output closed it. Counts as success, as with `ccmux ls | head`.
    StdoutClosed,
    /// A signal ended the command after the terminal was restored.
    Signal(i32),
}

impl Failure {
    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Error(body) => body.code.exit_code(),
            Self::Reported(code) => code.exit_code(),
            Self::StdoutClosed => 0,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }

    /// Returns a failed system operation; `action` completes "cannot …".
    pub(crate) fn io(action: &str, error: &io::Error) -> Self {
        ErrorBody::new(ErrorCode::Failed, format!("cannot {action}: {error}")).into()
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        Self::Error(body)
    }
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Self {
        Self::Error(error.into_body())
    }
}

/// Returns the error for a response of the wrong type, which indicates a bug or a daemon of another
/// version.
pub(crate) fn unexpected(response: &impl std::fmt::Debug) -> ErrorBody {
    let text = format!("{response:?}");
    let variant = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ErrorBody::new(ErrorCode::Failed, format!("unexpected response from the daemon: {variant}"))
        .hint(VERSION_MISMATCH)
}

/// Hint for protocol errors.
pub(crate) const VERSION_MISMATCH: &str = "the daemon may be a different version: check with \
     `ccmux daemon status`, restart with `ccmux daemon stop`";

/// Returns a usage error.
pub(crate) fn usage(message: impl Into<String>) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_is_documented_for_every_failure() {
        let cases = [
            (usage("x").into(), 2),
            (Failure::Reported(ErrorCode::NotFound), 3),
            (Failure::StdoutClosed, 0),
            (Failure::Signal(15), 143),
            (Failure::io("read", &io::ErrorKind::NotFound.into()), 1),
        ];
        for (failure, code) in cases {
            assert_eq!(failure.exit_code(), code, "{failure:?}");
        }
    }
}
