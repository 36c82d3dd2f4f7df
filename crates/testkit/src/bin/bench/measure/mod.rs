//! The measures, one file per topic.

mod attach;
mod echo;
mod flow;
mod hooks;
mod http;
mod locks;
mod panes;
mod runaway;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use testkit::Home;

use crate::args::Args;
use crate::contender::Contender;
use crate::payload::Stream;
use crate::report::Report;

/// A measure: runs all rounds of all contenders and adds its rows.
pub(crate) type Measure = fn(&Setup, &mut [Box<dyn Contender>], &mut Report);

/// All measures by name, in the order of the table.
pub(crate) const ALL: [(&str, Measure); 20] = [
    ("log", flow::log),
    ("log-attached", flow::log_attached),
    ("ink", flow::ink),
    ("ink-20", flow::ink_in_twenty_panes),
    ("colour", flow::colour),
    ("tui", flow::tui),
    ("unicode", flow::unicode),
    ("echo", echo::quiet),
    ("echo-flood", echo::flooded),
    ("runaway", runaway::runaway),
    ("attach", attach::attach),
    ("create", panes::create),
    ("create-tmpfs", panes::create_on_tmpfs),
    ("create-churn", panes::create_after_churn),
    ("isolation", panes::isolation),
    ("memory", panes::memory),
    ("idle", panes::idle),
    ("locks", locks::locks),
    ("hooks", hooks::hooks),
    ("http", http::http),
];

/// Settings of all measures.
#[derive(Debug)]
pub(crate) struct Setup {
    home: Arc<Home>,
    quick: bool,
    rounds: Option<usize>,
}

impl Setup {
    pub(crate) fn new(args: &Args, home: &Arc<Home>) -> Self {
        Self { home: Arc::clone(home), quick: args.quick, rounds: args.rounds }
    }

    /// Returns the directory for files of a measure.
    fn dir(&self) -> &Path {
        self.home.dir()
    }

    /// Returns the full amount, or the one for `--quick`.
    fn amount(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    fn rounds(&self, full: usize) -> usize {
        self.rounds.unwrap_or_else(|| self.amount(full, 1))
    }

    /// Returns a file with that much of the stream; created once.
    fn payload(&self, stream: Stream, bytes: usize) -> Result<PathBuf> {
        let file = self.dir().join(format!("{}-{bytes}", stream.name()));
        if !file.exists() {
            File::create(&file)?.write_all(&stream.bytes(bytes))?;
        }
        Ok(file)
    }

    /// Writes a user configuration: settings, instructions, and a state file of a megabyte.
    fn write_user_config(&self) -> Result<()> {
        let dir = self.dir().join("home/.claude");
        std::fs::create_dir_all(dir.join("commands"))?;
        for name in ["settings.json", "CLAUDE.md"] {
            File::create(dir.join(name))?.write_all(b"{}")?;
        }
        let project = |n: u32| {
            let history = "x".repeat(10_000);
            format!(r#""/src/{n}":{{"mcpServers":{{}},"history":["{history}"]}}"#)
        };
        let projects: Vec<String> = (0..100).map(project).collect();
        let state = format!(r#"{{"theme":"dark","projects":{{{}}}}}"#, projects.join(","));
        Ok(File::create(self.dir().join("home/.claude.json"))?.write_all(state.as_bytes())?)
    }

    /// Runs `measure` for every contender in turn, `rounds` times, each on a fresh server. A
    /// contender that fails is skipped in later rounds.
    fn interleave(
        &self,
        name: &'static str,
        (rounds, history): (usize, Option<u32>),
        contenders: &mut [Box<dyn Contender>],
        report: &mut Report,
        mut measure: impl FnMut(&mut dyn Contender) -> Result<()>,
    ) {
        let mut failed = Vec::new();
        for _ in 0..rounds {
            for contender in &mut *contenders {
                let who = contender.kind();
                if failed.contains(&who) {
                    continue;
                }
                let measured = contender.start(history).and_then(|()| measure(contender.as_mut()));
                if let Err(error) = measured.and(contender.stop()) {
                    report.fail(name, who, &error);
                    failed.push(who);
                    // One contender runs at a time, so all remaining processes are of the failed
                    // one.
                    self.home.kill_everything();
                }
            }
        }
    }
}
