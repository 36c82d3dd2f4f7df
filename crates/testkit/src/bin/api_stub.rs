//! A stub to try an agent by hand: prints shell commands that set it up, and serves until its input
//! ends.
//!
//! `cargo run -p ccmux-testkit --bin api-stub -- claude DIR` prepares `DIR` as the home of a user
//! of claude who trusts it.

use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;

use clap::Parser;
use testkit::{Agent, ApiStub, agents};

/// Serve one agent from loopback
#[derive(Debug, Parser)]
struct Args {
    /// Agent to serve
    agent: Agent,
    /// Home directory to prepare for it
    home: PathBuf,
}

#[expect(clippy::print_stdout, reason = "a program with output")]
fn main() -> anyhow::Result<()> {
    let Args { agent, home } = Args::parse();
    fs::create_dir_all(&home)?;
    let home = home.canonicalize()?;
    let stub = ApiStub::start();
    agents::user_files(agent, &home, &stub);
    agents::trust(agent, &home, &home);

    println!("export HOME='{}'", home.display());
    for (name, value) in agents::environment(agent, &stub) {
        println!("export {name}='{value}'");
    }
    println!("'{}'", agents::installed(agent).display());
    io::stdin().read_to_end(&mut Vec::new())?;
    for seen in stub.requests() {
        println!("# {seen}");
    }
    Ok(())
}
