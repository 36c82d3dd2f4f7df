//! The command line of the bench.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measure ccmux beside tmux and a bare pseudo-terminal
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) args: Args,
    #[command(subcommand)]
    pub(crate) in_pane: Option<Program>,
}

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The binary to measure; without it only tmux and the bare terminal are measured
    #[arg(long, value_name = "FILE")]
    pub(crate) ccmux: Option<PathBuf>,

    /// Few rounds and small sizes: shows that it works, not how fast it is
    #[arg(long)]
    pub(crate) quick: bool,

    /// How many rounds, instead of each measure's own choice
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,

    /// Write every sample to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Only these measures, by name
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// What the bench itself does when it runs inside of a pane.
#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    /// Take part in a measure from inside of a pane
    #[command(hide = true, subcommand)]
    InPane(InPane),
}

/// The programs inside of panes.
#[derive(Debug, Subcommand)]
pub(crate) enum InPane {
    /// Print a file, ask the terminal a question, and note when it is answered
    Cat {
        file: PathBuf,
        /// Waits until somebody has opened and closed the other end of this pipe
        #[arg(long)]
        go: PathBuf,
        /// Where to write when printing began and ended
        #[arg(long)]
        result: PathBuf,
    },
    /// Say that it is ready, wait for a key, print a file and a last line
    Show {
        file: PathBuf,
        #[arg(long)]
        ready: String,
        #[arg(long)]
        last: String,
    },
    /// Send every key back
    Echo {
        #[arg(long)]
        ready: String,
    },
    /// Print lines as fast as possible, each with the last key pressed
    Flood {
        #[arg(long)]
        ready: String,
    },
    /// Fill the screen, with a marker in the last row
    Fill {
        #[arg(long)]
        marker: String,
    },
}
