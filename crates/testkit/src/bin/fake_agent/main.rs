//! A scripted agent for tests.
//!
//! In this order it ignores signals, sets up the terminal, forks daemons, writes conversation
//! files, rewrites its configuration in the background, prints, crashes, and finally answers input.
//! Behaviours can be combined. It waits only for its input and the given intervals.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod args;
mod config;
mod daemons;
mod output;
mod session;
mod talk;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use args::{Args, Crash, USAGE};
use signal_hook::consts::{SIGHUP, SIGSEGV};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some(daemons::FORK) => return daemons::fork(&words.collect::<Vec<_>>()),
        Some(daemons::LIVE) => return daemons::live(&words.collect::<Vec<_>>()),
        Some("--version") => {
            println!("0.0.0 (Fake Agent)");
            return ExitCode::SUCCESS;
        }
        Some("auth") => return session::auth_status(),
        _ => {}
    }
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(fault) => {
            eprintln!("fake-agent: {fault}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(code) => code,
        // The terminal is closed.
        Err(_) => ExitCode::from(1),
    }
}

fn run(args: &Args) -> std::io::Result<ExitCode> {
    ignore_signals(&args.ignored)?;
    output::set_up_terminal(args)?;
    if let Some(file) = &args.pids {
        daemons::start(args.daemons, file, args.keep_tty)?;
        println!("daemons: {}", args.daemons);
    }
    session::keep(args)?;
    if let (Some(dir), Some(hz)) = (args.config.clone(), args.write_hz) {
        thread::spawn(move || config::rewrite_forever(&dir, hz));
    }
    // A real agent reads input while it prints.
    let talk = args.clone();
    let talking = thread::spawn(move || talk::talk(&talk));
    output::print(args)?;
    if let Some(crash) = args.crash {
        return Ok(crash_now(crash));
    }
    if talking.join().is_err() {
        return Ok(ExitCode::from(1));
    }
    if args.stay || args.ignored.contains(&SIGHUP) {
        stay_forever();
    }
    Ok(ExitCode::SUCCESS)
}

/// Ignores these signals.
fn ignore_signals(signals: &[i32]) -> std::io::Result<()> {
    for &signal in signals {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

fn stay_forever() -> ! {
    loop {
        thread::park();
    }
}

fn crash_now(crash: Crash) -> ExitCode {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // A core dump would be of no use.
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    // If this fails, the crash happens anyway.
    let _refused = setrlimit(Resource::Core, no_core);
    match crash {
        Crash::Exit(code) => ExitCode::from(code),
        Crash::Abort => std::process::abort(),
        Crash::Segv => {
            // The standard library's stack overflow handler would catch an ordinary signal.
            let _dead = signal_hook::low_level::emulate_default_handler(SIGSEGV);
            stay_forever();
        }
    }
}
