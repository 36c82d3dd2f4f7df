//! Why a verb did not finish, and the exit code that says so.

use std::io;

use protocol::client::ClientError;
use protocol::{ErrorBody, ErrorCode};

/// Why a verb did not finish.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell the user.
    Error(ErrorBody),
    /// Some of several things failed, and each was told already; the exit code is that of the
    /// first.
    Told(ErrorCode),
    /// Whoever read our output has heard enough. Nobody is left to tell.
    StdoutClosed,
    /// A signal ended us after the terminal was put in order.
    Signal(i32),
}

impl Failure {
    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Error(body) => body.code.exit_code(),
            Self::Told(code) => code.exit_code(),
            Self::StdoutClosed => 0,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }

    /// Something that the system refused, such as "read standard input".
    pub(crate) fn io(what: &str, error: &io::Error) -> Self {
        ErrorBody::new(ErrorCode::Failed, format!("cannot {what}: {error}")).into()
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        Self::Error(body)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Error(error.into_body())
    }
}

/// The answer to a question that nobody asked: a fault of ours, or of another release.
pub(crate) fn unexpected(answer: &impl std::fmt::Debug) -> ErrorBody {
    let what = format!("{answer:?}");
    let word = what.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ErrorBody::new(ErrorCode::Failed, format!("the daemon gave an answer of another kind: {word}"))
        .hint("is it of this release? `ccmux daemon status` tells, `ccmux daemon stop` ends it")
}

/// The request itself is wrong.
pub(crate) fn usage(message: impl Into<String>) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_the_exit_code_of_the_contract() {
        let cases = [
            (usage("x").into(), 2),
            (Failure::Told(ErrorCode::NotFound), 3),
            (Failure::StdoutClosed, 0),
            (Failure::Signal(15), 143),
            (Failure::io("read", &io::ErrorKind::NotFound.into()), 1),
        ];
        for (failure, code) in cases {
            assert_eq!(failure.exit_code(), code, "{failure:?}");
        }
    }
}
