//! The command line of the benchmark.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measure ccmux, tmux and a bare pseudo-terminal
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) args: Args,
    #[command(subcommand)]
    pub(crate) in_pane: Option<Program>,
}

/// The measures to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Binary to measure (default: only tmux and the bare terminal)
    #[arg(long, value_name = "FILE")]
    pub(crate) ccmux: Option<PathBuf>,

    /// Use few rounds and small sizes: shows that it works, not how fast it is
    #[arg(long)]
    pub(crate) quick: bool,

    /// Number of rounds (default: depends on the measure)
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,

    /// Write every sample to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Run only these measures
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// Programs that the benchmark runs inside panes.
#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    /// Run a program of a measure inside a pane
    #[command(hide = true, subcommand)]
    InPane(InPane),
}

/// The programs inside panes.
#[derive(Debug, Subcommand)]
pub(crate) enum InPane {
    /// Print a file, query the terminal, and record when it answers
    Cat {
        file: PathBuf,
        /// Start when the other end of this pipe is opened and closed
        #[arg(long)]
        go: PathBuf,
        /// File for the times of start and end
        #[arg(long)]
        result: PathBuf,
    },
    /// Print a marker, wait for a key, print a file and a last line
    Show {
        file: PathBuf,
        #[arg(long)]
        ready: String,
        #[arg(long)]
        last: String,
    },
    /// Echo every key
    Echo {
        #[arg(long)]
        ready: String,
    },
    /// Print lines as fast as possible, each with the last key pressed
    Flood {
        #[arg(long)]
        ready: String,
    },
    /// Fill the screen with a marker in the last row
    Fill {
        #[arg(long)]
        marker: String,
    },
}
