//! Arguments of `lock`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use model::LockId;
use model::lock::{LockMode, LockScope, Token};

use super::values::seconds;

/// The commands of `lock`.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Lock files or directories, either all of them or none
    Acquire(AcquireArgs),
    /// Renew the lease of a lock
    Renew(RenewArgs),
    /// Release locks
    Release(ReleaseArgs),
    /// Check that a token still holds the lock of a path (exit code 4 if not)
    Check(CheckArgs),
    /// List locks
    Ls(LockLsArgs),
}

/// Arguments of `lock acquire`.
#[derive(Debug, Args)]
#[command(after_help = ACQUIRE)]
pub(crate) struct AcquireArgs {
    /// Files or directories to lock; they need not exist
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Lock mode: read (allows other readers), write or exclusive
    #[arg(long, default_value = "write")]
    pub(crate) mode: LockMode,

    /// Lock a directory with everything below it
    #[arg(long)]
    pub(crate) tree: bool,

    /// Scope: repository (one lock for the file in all worktrees) or worktree (a lock per worktree)
    #[arg(long, default_value = "repository")]
    pub(crate) scope: LockScope,

    /// Pane that owns the lock: name, ID, unique ID prefix, or SESSION/PANE (default: the current
    /// pane, or outside a pane the parent process)
    #[arg(long, value_name = "PANE", conflicts_with = "process")]
    pub(crate) pane: Option<String>,

    /// Process that owns the lock
    #[arg(long, value_name = "PID")]
    pub(crate) process: Option<u32>,

    /// Expire after this many seconds unless renewed with `ccmux lock renew` (default: renewed
    /// automatically while the owner is running)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) ttl: Option<Duration>,

    /// Wait up to this many seconds for the lock (exit code 5 on timeout; default: do not wait)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,

    /// Label shown in JSON listings
    #[arg(long, value_name = "WORD")]
    pub(crate) tag: Option<String>,
}

/// Arguments of `lock renew`.
#[derive(Debug, Args)]
#[command(after_help = RENEW)]
pub(crate) struct RenewArgs {
    /// ID of the lock
    pub(crate) id: LockId,

    /// Renew only if the lock has this token
    #[arg(long, value_name = "N")]
    pub(crate) token: Option<Token>,
}

/// Arguments of `lock release`.
#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
pub(crate) struct ReleaseArgs {
    /// IDs of the locks
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<LockId>,

    /// Release only if the lock has this token
    #[arg(long, value_name = "N")]
    pub(crate) token: Option<Token>,
}

/// Arguments of `lock check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK)]
pub(crate) struct CheckArgs {
    /// Path about to be written
    pub(crate) path: PathBuf,

    /// Token returned by `ccmux lock acquire`
    #[arg(long, value_name = "N")]
    pub(crate) token: Token,
}

/// Arguments of `lock ls`.
#[derive(Debug, Args)]
#[command(after_help = LS)]
pub(crate) struct LockLsArgs {
    /// List only locks that cover this path
    pub(crate) path: Option<PathBuf>,

    /// List only locks of this pane
    #[arg(long, value_name = "PANE")]
    pub(crate) pane: Option<String>,
}

pub(super) const LOCK: &str = "\
A lock is owned by a pane, or by the process that ran ccmux, and is released when its owner exits.
Symbolic links, relative paths and the worktrees of one repository lead to the same lock. Locks are
advisory: agents with hooks acquire them before each edit (see docs/locks.md).

Examples:
  ccmux lock acquire src/main.rs
  ccmux lock acquire Cargo.toml Cargo.lock --wait 30
  ccmux lock ls";

const ACQUIRE: &str = "\
Examples:
  ccmux lock acquire src/main.rs                   for this pane or this shell
  ccmux lock acquire a b c --wait 30               all three or none
  ccmux lock acquire src --tree --mode exclusive   a directory and everything below it
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
