//! The daemon and keeper processes of ccmux, which belong to no pane even if they descend from one.
//!
//! A command typed in a pane starts the daemon if none is running. That daemon, and every keeper it
//! starts, then descends from the pane: the kernel hands orphans to the nearest child subreaper,
//! which is the pane's keeper. Ending the pane must not end them. They are recognised by their
//! command line and by the state root in their environment; programs in panes do not get that
//! variable.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::proc_file;

/// The environment variable that names the state root.
pub const VARIABLE: &str = "CCMUX_HOME";

/// The environment variable that names the control socket to the programs in panes.
const SOCKET_VARIABLE: &[u8] = b"CCMUX_SOCKET=";

/// The control socket in a state root.
const SOCKET: &str = "run/control.sock";

/// Recogniser of the daemon and the keepers of one state root.
#[derive(Clone, Debug, Default)]
pub struct OwnProcesses(Vec<String>);

impl OwnProcesses {
    /// Recognises the processes of the state root `home`, spelled as in their environment.
    #[must_use]
    pub fn of_root(home: &str) -> Self {
        Self(vec![home.to_owned()])
    }

    /// Recognises also the processes that were started when the state root was at these paths.
    #[must_use]
    pub fn and_former(mut self, paths: &[String]) -> Self {
        self.0.extend_from_slice(paths);
        self
    }

    /// Recognises no process: everything that descends from a pane belongs to it.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns whether this process is the daemon or a keeper.
    #[must_use]
    pub fn contains(&self, pid: u32) -> bool {
        let read = |file: &str| proc_file::read(pid, file).unwrap_or_default();
        let command_line = read("cmdline");
        let role = command_line.split(|&byte| byte == 0).nth(1);
        let is_role = role.is_some_and(|role| role == b"keeper" || role == b"daemon");
        let is_ours = |variable: &[u8]| {
            let home =
                variable.strip_prefix(VARIABLE.as_bytes()).and_then(|v| v.strip_prefix(b"="));
            home.is_some_and(|home| self.0.iter().any(|ours| ours.as_bytes() == home))
        };
        is_role && read("environ").split(|&byte| byte == 0).any(is_ours)
    }

    /// Returns whether this environment is of a process in a pane of another state root. The panes
    /// of a copied root have the same ids as those of the original.
    #[must_use]
    pub(crate) fn is_of_other_root(&self, environ: &[u8]) -> bool {
        let mut variables = environ.split(|&byte| byte == 0);
        let Some(socket) = variables.find_map(|var| var.strip_prefix(SOCKET_VARIABLE)) else {
            return false;
        };
        let socket = Path::new(OsStr::from_bytes(socket));
        !self.0.is_empty() && !self.0.iter().any(|home| socket == Path::new(home).join(SOCKET))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_of_other_root_is_recognised_by_its_socket() {
        let own = OwnProcesses::of_root("/new").and_former(&["/old".to_owned()]);
        let table: [(&[u8], bool); 5] = [
            (b"A=1\0CCMUX_SOCKET=/new/run/control.sock\0", false),
            (b"CCMUX_SOCKET=/old/run/control.sock", false),
            (b"A=1\0CCMUX_SOCKET=/other/run/control.sock\0", true),
            (b"A=1\0", false),
            (b"", false),
        ];

        for (environ, expected) in table {
            assert_eq!(own.is_of_other_root(environ), expected, "{environ:?}");
        }
        assert!(!OwnProcesses::none().is_of_other_root(table[2].0));
    }
}
