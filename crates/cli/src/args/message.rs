//! The arguments of `message`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use model::IdempotencyKey;
use model::message::MessageState;
use protocol::message::Awaited;

use super::values::seconds;

/// Arguments of `message`.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct MessageArgs {
    /// What else to do than to send one.
    #[command(subcommand)]
    pub(crate) command: Option<MessageCommand>,

    /// What to send.
    #[command(flatten)]
    pub(crate) send: MessageSendArgs,
}

/// The verbs of `message`.
#[derive(Debug, Subcommand)]
pub(crate) enum MessageCommand {
    /// List messages and what became of them
    Ls(MessageLsArgs),
    /// Show a message and what became of it, step by step
    Show(MessageShowArgs),
}

/// Arguments of `message` itself.
#[derive(Debug, Args)]
pub(crate) struct MessageSendArgs {
    /// For whom: a pane by name, id or the beginning of its id; role:ROLE, unit:UNIT, managers,
    /// workers, or all (everybody else)
    #[arg(long, value_name = "WHOM")]
    pub(crate) to: Option<String>,

    /// What to say; `-` reads it from standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,

    /// Look for the receivers in this session; in that of the pane we run in otherwise
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Send it once, however often this is run with the same key in the session
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<IdempotencyKey>,

    /// Leave out the line that says who it is from
    #[arg(long)]
    pub(crate) raw: bool,

    /// Wait until everybody has it, or has ended the turn that it led to
    #[arg(long, value_name = "STATE")]
    pub(crate) wait: Option<WaitFor>,

    /// Wait no longer than this many seconds (exit code 5)
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
}

/// Arguments of `message ls`.
#[derive(Debug, Args)]
#[command(after_help = LS)]
pub(crate) struct MessageLsArgs {
    /// Only those of this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Only those to this pane
    #[arg(long, value_name = "PANE")]
    pub(crate) pane: Option<String>,

    /// Only those that are queued, typing, sent, unsure, delivered, answered or failed
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<MessageState>,
}

/// Arguments of `message show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
pub(crate) struct MessageShowArgs {
    /// The message, by its id or the beginning of it
    pub(crate) id: String,
}

/// How far to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// Everybody has it
    Delivered,
    /// Everybody has ended the turn that it led to
    Answered,
}

impl From<WaitFor> for Awaited {
    fn from(wait: WaitFor) -> Self {
        match wait {
            WaitFor::Delivered => Self::Delivered,
            WaitFor::Answered => Self::Answered,
        }
    }
}

const EXAMPLES: &str = "\
A message waits until its receiver can take it: an agent when it waits for a prompt and nobody is
composing one, a shell at its prompt, a pane that has ended when it is restored. Agents of a pane
send messages with the same command.

Examples:
  ccmux message --to qa 'the build is green, please test'
  ccmux message --to role:dev --session web 'rebase on main'
  ccmux message --to managers --wait answered --timeout 600 'which of the two?'
  git diff | ccmux message --to reviewer --key \"review-$(git rev-parse HEAD)\" -
  ccmux message ls --state queued
  ccmux message show 1a2b3c4d";

const LS: &str = "\
Examples:
  ccmux message ls
  ccmux message ls --pane qa --state queued --json | jq -r '.messages[].id'";

const SHOW: &str = "\
Examples:
  ccmux message show 1a2b3c4d
  ccmux message show 1a2b3c4d --json | jq .message.state";
