//! The arguments of `lock`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use model::LockId;
use model::lock::{LockMode, LockScope, Token};

use super::values::seconds;

/// The verbs of `lock`.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Lock files or directories, all of them or none
    Acquire(AcquireArgs),
    /// Begin the lease of a lock anew
    Renew(RenewArgs),
    /// Give locks back
    Release(ReleaseArgs),
    /// Check that a token still holds a path (exit code 4 if not)
    Check(CheckArgs),
    /// List locks
    Ls(LockLsArgs),
}

/// Arguments of `lock acquire`.
#[derive(Debug, Args)]
#[command(after_help = ACQUIRE)]
pub(crate) struct AcquireArgs {
    /// What to lock; it need not exist yet
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// How much of it: read (others may read), write or exclusive (nobody else may)
    #[arg(long, default_value = "write")]
    pub(crate) mode: LockMode,

    /// With everything below
    #[arg(long)]
    pub(crate) tree: bool,

    /// What makes two files the same: their path in the repository, or in this worktree alone
    #[arg(long, default_value = "repository")]
    pub(crate) scope: LockScope,

    /// For this pane: name, id, unique beginning of an id, or SESSION/PANE; the one we run in, or
    /// the process that started us, otherwise
    #[arg(long, value_name = "PANE", conflicts_with = "process")]
    pub(crate) pane: Option<String>,

    /// For this process
    #[arg(long, value_name = "PID")]
    pub(crate) process: Option<u32>,

    /// Let it lapse after this many seconds unless it is renewed; otherwise it is renewed by itself
    /// for as long as its owner lives and is not stopped
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) ttl: Option<Duration>,

    /// Wait this many seconds for others to give it back (exit code 5); not at all otherwise
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,

    /// A word by which to find it again in listings
    #[arg(long, value_name = "WORD")]
    pub(crate) tag: Option<String>,
}

/// Arguments of `lock renew`.
#[derive(Debug, Args)]
#[command(after_help = RENEW)]
pub(crate) struct RenewArgs {
    /// The lock, by its id
    pub(crate) id: LockId,

    /// Only if this is its token
    #[arg(long, value_name = "N")]
    pub(crate) token: Option<Token>,
}

/// Arguments of `lock release`.
#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
pub(crate) struct ReleaseArgs {
    /// The locks, by their ids
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<LockId>,

    /// Only if this is its token
    #[arg(long, value_name = "N")]
    pub(crate) token: Option<Token>,
}

/// Arguments of `lock check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK)]
pub(crate) struct CheckArgs {
    /// What is about to be written
    pub(crate) path: PathBuf,

    /// The token that came with the lock
    #[arg(long, value_name = "N")]
    pub(crate) token: Token,
}

/// Arguments of `lock ls`.
#[derive(Debug, Args)]
#[command(after_help = LS)]
pub(crate) struct LockLsArgs {
    /// Only those that stand for this path
    pub(crate) path: Option<PathBuf>,

    /// Only those of this pane
    #[arg(long, value_name = "PANE")]
    pub(crate) pane: Option<String>,
}

pub(super) const LOCK: &str = "\
A lock belongs to a pane, or to the process that ran ccmux, and ends with it. It is the same through
symbolic links, relative names and the worktrees of one repository. It binds whoever asks for it:
agents of panes do so before they edit, see docs/locks.md.

Examples:
  ccmux lock acquire src/main.rs
  ccmux lock acquire Cargo.toml Cargo.lock --wait 30
  ccmux lock ls";

const ACQUIRE: &str = "\
Examples:
  ccmux lock acquire src/main.rs                   for this pane, or for this shell
  ccmux lock acquire a b c --wait 30               all three at once, or none
  ccmux lock acquire src --tree --mode exclusive   a directory with everything in it
  ccmux lock acquire db.sqlite --ttl 10 --json | jq .lock.token";

const RENEW: &str = "\
Examples:
  ccmux lock renew 1a2b3c4d-0000-4000-8000-000000000000";

const RELEASE: &str = "\
Examples:
  ccmux lock release 1a2b3c4d-0000-4000-8000-000000000000";

const CHECK: &str = "\
Examples:
  ccmux lock check db.sqlite --token 42 && ./migrate";

const LS: &str = "\
Examples:
  ccmux lock ls
  ccmux lock ls src/main.rs
  ccmux lock ls --pane dev1 --json | jq -r '.locks[].path'";
