//! Arguments of `message`.

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
    /// Command (default: send a message).
    #[command(subcommand)]
    pub(crate) command: Option<MessageCommand>,

    /// Message to send.
    #[command(flatten)]
    pub(crate) send: MessageSendArgs,
}

/// The commands of `message`.
#[derive(Debug, Subcommand)]
pub(crate) enum MessageCommand {
    /// List messages and their delivery state
    Ls(MessageLsArgs),
    /// Show a message and its delivery history
    Show(MessageShowArgs),
}

/// Arguments for sending a message.
#[derive(Debug, Args)]
pub(crate) struct MessageSendArgs {
    /// Recipient: a pane by name, ID, ID prefix or SESSION/PANE; role:ROLE, unit:UNIT, managers,
    /// workers or all
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) to: Option<String>,

    /// Text of the message; `-` reads standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,

    /// Session of the recipients (default: the session of the current pane)
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Idempotency key: send the message only once per session for the same key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<IdempotencyKey>,

    /// Omit the header line that names the sender
    #[arg(long)]
    pub(crate) raw: bool,

    /// Wait until every recipient has received or answered the message
    #[arg(long, value_name = "STATE")]
    pub(crate) wait: Option<WaitFor>,

    /// Wait at most this many seconds (exit code 5 on timeout; default: no limit)
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
}

/// Arguments of `message ls`.
#[derive(Debug, Args)]
#[command(after_help = LS)]
pub(crate) struct MessageLsArgs {
    /// List only messages of this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// List only messages to this pane
    #[arg(long, value_name = "PANE")]
    pub(crate) pane: Option<String>,

    /// List only messages in this state: queued, typing, sent, unsure, delivered, answered or failed
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<MessageState>,
}

/// Arguments of `message show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
pub(crate) struct MessageShowArgs {
    /// Message: ID or ID prefix
    pub(crate) id: String,
}

/// Delivery state to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// Every recipient has received the message
    Delivered,
    /// Every recipient has finished the turn that the message started
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
A message is queued until the recipient can accept it: an agent when its prompt is empty and no turn
is running, a shell at its prompt, an exited pane after it is restored. Agents in panes send messages
with the same command.

Examples:
  ccmux message --to qa --session web 'the build is green, please test'
  ccmux message --to role:dev --session web 'rebase on main'
  ccmux message --to managers --session web --wait delivered 'which of the two?'
  git diff | ccmux message --to reviewer --session web --key \"review-$(git rev-parse HEAD)\" -
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
