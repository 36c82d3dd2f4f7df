//! The machine of the measurement.

use std::fs;

use serde::Serialize;
use testkit::Home;

/// The machine and tmux's version.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    tmux: Option<String>,
    load_before: String,
}

pub(crate) fn describe(home: &Home) -> Machine {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned());
    let tmux = home.program("tmux", &["-V"]).command().output().ok();
    Machine {
        cpu,
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        tmux: tmux.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned()),
        load_before: read("/proc/loadavg").trim().to_owned(),
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tmux = self.tmux.as_deref().unwrap_or("no tmux");
        let load = self.load_before.split(' ').next().unwrap_or_default();
        let Self { cpu, cores, kernel, .. } = self;
        write!(f, "{cpu}, {cores} cores (load {load} before), Linux {kernel}, {tmux}")
    }
}
