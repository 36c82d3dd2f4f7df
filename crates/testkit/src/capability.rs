//! Capabilities that not every machine or user has, and a record of the tests skipped for them.
//!
//! A test that needs one starts with [`require!`](crate::require). Without the capability the test
//! is not run: it counts as passed for the test runner, so the skip is appended to the file that
//! `CCMUX_TEST_SKIPS` names, and `scripts/run-tests` lists and counts these at the end. In CI a
//! skip is a failure if any user on that machine has the capability.
//!
//! The probes here are independent of ccmux: a test must not be skipped because ccmux fails to use
//! a capability.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use rustix::process::geteuid;

use crate::crash_disk::CrashDisk;
use crate::mount::Mount;

/// The variable that names the file in which skipped tests are recorded.
pub const VARIABLE: &str = "CCMUX_TEST_SKIPS";

/// A property of the machine or the user that runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Capability {
    /// The user is root.
    Root,
    /// The user is not root, so file permissions apply.
    OrdinaryUser,
    /// File systems can be mounted.
    Mount,
    /// A file can be mounted as an ext4 file system.
    LoopMount,
    /// Control groups that limit memory and processes can be created.
    Cgroups,
    /// The kernel reports writes with the process that made them (fanotify with process ids).
    Fanotify,
    /// The kernel reports the bytes that a process has written (`/proc/PID/io`).
    ProcessIo,
    /// The kernel lists the children of a process (`/proc/PID/task/TID/children`).
    ProcessChildren,
    /// perl is installed.
    Perl,
    /// schemathesis is installed and this user can run it.
    Schemathesis,
}

impl Capability {
    /// The name in the record of skipped tests.
    ///
    /// # Panics
    ///
    /// Never: no variant is hidden from the command line.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().expect("no variant is skipped").get_name().to_owned()
    }

    /// Whether this process has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.probe().is_ok()
    }

    /// Checks whether this process has it.
    ///
    /// # Errors
    ///
    /// Why it is missing, as a clause.
    pub fn probe(self) -> Result<(), String> {
        let missing = |present: bool, reason: &str| present.then_some(()).ok_or(reason.to_owned());
        match self {
            Self::Root => missing(geteuid().is_root(), "the user is not root"),
            Self::OrdinaryUser => missing(!geteuid().is_root(), "the user is root"),
            Self::Mount => probe_mount(),
            Self::LoopMount => CrashDisk::mount(1 << 20).map(drop),
            Self::Cgroups => ["memory", "pids"].into_iter().try_for_each(probe_cgroup),
            Self::Fanotify => probe_fanotify(),
            Self::ProcessIo => probe_file("/proc/self/io"),
            Self::ProcessChildren => {
                probe_file(&format!("/proc/self/task/{pid}/children", pid = std::process::id()))
            }
            Self::Perl => probe_program(Path::new("perl")),
            Self::Schemathesis => probe_program(&schemathesis()),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Skips the calling test unless every capability is available.
///
/// Must be called in the test function itself: it returns from it.
#[macro_export]
macro_rules! require {
    ($($capability:ident),+) => {$(
        let capability = $crate::Capability::$capability;
        if let Err(reason) = capability.probe() {
            fn here() {}
            let name = ::std::any::type_name_of_val(&here);
            $crate::capability::record_skip(name.trim_end_matches("::here"), capability, &reason);
            return;
        }
    )+};
}

/// Records that `test`, a path from its crate's name on, was skipped. Use
/// [`require!`](crate::require).
///
/// # Panics
///
/// When the record cannot be written: a skip that is not reported must not pass.
pub fn record_skip(test: &str, missing: Capability, reason: &str) {
    #[expect(clippy::print_stdout, reason = "the test's own output names the reason, too")]
    {
        println!("skipped: needs {missing}: {reason}");
    }
    let variable = std::env::vars_os().find(|(name, _)| name == VARIABLE);
    let Some((_, file)) = variable.filter(|(_, file)| !file.is_empty()) else { return };
    // One write in append mode: tests run side by side.
    let line = format!("{test}\t{missing}\t{}\n", reason.replace(['\t', '\n'], " "));
    File::options()
        .create(true)
        .append(true)
        .open(&file)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot record a skip in {}: {error}", file.display()));
}

fn probe_mount() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    Mount::tmpfs(dir.path(), "64k")
        .map(drop)
        .map_err(|error| format!("cannot mount a file system: {error}"))
}

/// fanotify names the writing process only to a process with `CAP_SYS_ADMIN`.
fn probe_fanotify() -> Result<(), String> {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    if !Path::new("/proc/sys/fs/fanotify").exists() {
        return Err("the kernel has no fanotify".to_owned());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    if effective.unwrap_or(0) & CAP_SYS_ADMIN == 0 {
        return Err("the process has no CAP_SYS_ADMIN".to_owned());
    }
    Ok(())
}

/// Creates a control group below the one this process is in, and removes it.
fn probe_cgroup(controller: &str) -> Result<(), String> {
    let own =
        own_cgroup(controller).ok_or(format!("no {controller} control groups are mounted"))?;
    let probe = own.join(format!("ccmux-probe-{}", std::process::id()));
    let limit = probe.join(if controller == "pids" { "pids.max" } else { "cgroup.procs" });
    let result = fs::create_dir(&probe).map_err(|error| format!("{}: {error}", probe.display()));
    let limited = limit.exists();
    // Missing if it could not be created.
    let _absent = fs::remove_dir(&probe);
    result?;
    let missing = || format!("the {controller} controller is not delegated to {}", own.display());
    if limited { Ok(()) } else { Err(missing()) }
}

fn own_cgroup(controller: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let of = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            controllers.split(',').any(|name| name == wanted).then(|| path.trim_start_matches('/'))
        })
    };
    let roots = [
        // Version 1 has one hierarchy per controller, version 2 a single one without a name.
        of(controller).map(|path| (Path::new("/sys/fs/cgroup").join(controller), path)),
        of("").map(|path| (PathBuf::from("/sys/fs/cgroup"), path)),
    ];
    // In a container the mount may start at the own group.
    let candidates = roots.into_iter().flatten().flat_map(|(root, path)| [root.join(path), root]);
    candidates.into_iter().find(|dir| dir.join("cgroup.procs").exists())
}

/// schemathesis at the version that `tests/schemathesis` pins.
#[must_use]
pub fn schemathesis() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/st")
}

fn probe_file(path: &str) -> Result<(), String> {
    fs::read_to_string(path).map(drop).map_err(|error| format!("cannot read {path}: {error}"))
}

fn probe_program(program: &Path) -> Result<(), String> {
    match Command::new(program).arg("--version").stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ends with {status}", program.display())),
        Err(error) => Err(format!("cannot run {}: {error}", program.display())),
    }
}
