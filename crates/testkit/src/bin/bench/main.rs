//! Compares ccmux with tmux and with a bare pseudo-terminal, the physical limit.
//!
//! Every measure runs in interleaved rounds on fresh servers, so that load on the machine affects
//! all contenders alike. The result is a table and, with `--json`, every sample. Times are not
//! asserted: the exit code tells only whether everything could be measured.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is what it is for")]

mod args;
mod client;
mod contender;
mod driver;
mod in_pane;
mod machine;
mod measure;
mod payload;
mod report;
mod script;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use args::{Args, Cli};
use clap::Parser as _;
use contender::{Bare, Ccmux, Contender, Tmux};
use report::Report;
use testkit::Home;

/// Exit code after an interrupt.
const INTERRUPTED: i32 = 130;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.in_pane {
        Some(program) => in_pane::run(program).map(|()| true),
        None => bench(&cli.args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the requested measures; returns `false` if one could not be measured.
fn bench(args: &Args) -> Result<bool> {
    // Commands run in another directory.
    let ccmux = args
        .ccmux
        .as_ref()
        .map(|ccmux| ccmux.canonicalize().with_context(|| format!("no {}", ccmux.display())));
    let home = Arc::new(Home::new(ccmux.transpose()?.unwrap_or_default()));
    clean_up_when_interrupted(&home)?;
    let mut contenders = contenders(args, &home)?;
    let mut report = Report::new(machine::describe(&home));
    let setup = measure::Setup::new(args, &home);
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    for (name, measure) in measure::ALL {
        if !wanted(name) {
            continue;
        }
        let began = Instant::now();
        measure(&setup, &mut contenders, &mut report);
        eprintln!("measured {name} in {:.1} s", began.elapsed().as_secs_f64());
        // After each measure, so that results survive a later failure.
        if let Some(file) = &args.json {
            report.write_json(file).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    print!("{}", report.table());
    if cfg!(debug_assertions) {
        println!(
            "\nThis was a debug build: it works, and the figures say nothing. See `make bench`."
        );
    } else if args.quick {
        println!(
            "\nThis was the quick form: few panes share the daemon, and few samples say little."
        );
    }
    home.kill_everything();
    Ok(report.is_complete())
}

fn contenders(args: &Args, home: &Arc<Home>) -> Result<Vec<Box<dyn Contender>>> {
    let mut contenders: Vec<Box<dyn Contender>> = Vec::new();
    if let Some(ccmux) = &args.ccmux {
        let ccmux = ccmux.canonicalize().with_context(|| format!("no {}", ccmux.display()))?;
        contenders.push(Box::new(Ccmux::new(home, ccmux)));
    }
    if home.program("tmux", &["-V"]).command().output().is_ok() {
        contenders.push(Box::new(Tmux::new(home)));
    } else {
        eprintln!(
            "bench: there is no tmux, so there are no ratios; try scripts/install-test-tools"
        );
    }
    contenders.push(Box::new(Bare::new(home)));
    Ok(contenders)
}

/// Kills all processes of the benchmark and removes its directory on an interrupt or termination.
fn clean_up_when_interrupted(home: &Arc<Home>) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    // A weak reference: the home is dropped when the benchmark ends.
    let home = Arc::downgrade(home);
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            eprintln!("bench: interrupted, cleaning up");
            if let Some(home) = home.upgrade() {
                home.kill_everything();
                // The remains are in the temporary directory.
                let _left = std::fs::remove_dir_all(home.dir());
            }
            leave();
        }
    });
    Ok(())
}

#[expect(clippy::exit, reason = "the main thread waits for processes that were just killed")]
fn leave() -> ! {
    std::process::exit(INTERRUPTED)
}
