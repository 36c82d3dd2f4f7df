//! An agent for tests: does exactly what its arguments say, like a real one on a bad day.
//!
//! In this order: it goes deaf, dresses the terminal, forks daemons, leaves the traces of a
//! conversation, rewrites its configuration in the background, prints, crashes, and at last talks. Several behaviours combine. It waits for
//! nothing but its input and the intervals it is given.

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
        // The terminal is gone: nobody is left to perform for.
        Err(_) => ExitCode::from(1),
    }
}

fn run(args: &Args) -> std::io::Result<ExitCode> {
    go_deaf(&args.ignored)?;
    output::dress(args)?;
    if let Some(file) = &args.pids {
        daemons::start(args.daemons, file, args.keep_tty)?;
        println!("daemons: {}", args.daemons);
    }
    session::keep(args)?;
    if let (Some(dir), Some(hz)) = (args.config.clone(), args.write_hz) {
        thread::spawn(move || config::rewrite_forever(&dir, hz));
    }
    // A real agent listens while it prints.
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

/// Takes note of these signals and does nothing about them.
fn go_deaf(signals: &[i32]) -> std::io::Result<()> {
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
    // The core of a crash on purpose is of no use to anybody.
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    // If it is refused, the crash happens all the same.
    let _refused = setrlimit(Resource::Core, no_core);
    match crash {
        Crash::Exit(code) => ExitCode::from(code),
        Crash::Abort => std::process::abort(),
        Crash::Segv => {
            // A plain signal would be taken by the standard library's guard against overflowing
            // stacks.
            let _dead = signal_hook::low_level::emulate_default_handler(SIGSEGV);
            stay_forever();
        }
    }
}
