//! Starting a pane: from what somebody asked for to exactly what is executed.
//!
//! [`plan`] is the only way from a [`LaunchRequest`] to a [`LaunchRecord`], and a keeper executes
//! nothing but a record. Every way to start a pane (command line, API, restore) makes a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::environment::{Environment, InvalidVariable};
use crate::ids::{PaneId, SessionId};
use crate::name::Name;
use crate::session::SessionMode;
use crate::size::Size;
use crate::time::Timestamp;

/// What somebody asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchRequest {
    /// What people will call the pane; its program's name if none is given.
    pub name: Option<Name>,
    /// The session to join, by name or id; made if the name is new. None: a session of its own.
    pub session: Option<String>,
    /// The mode of a session that has to be made.
    pub mode: Option<SessionMode>,
    /// Program and arguments. Empty: the user's shell.
    pub command: Vec<String>,
    /// Absolute path of the directory to start in.
    pub cwd: String,
    /// Variables for this pane.
    pub env: BTreeMap<String, String>,
    /// The size of the screen until a client attaches.
    pub size: Option<Size>,
    /// What the asking client's own environment was.
    pub client_env: BTreeMap<String, String>,
}

/// Everything needed to start a pane again exactly (`pane.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The pane.
    pub pane: PaneId,
    /// The session it belongs to.
    pub session: SessionId,
    /// What people call it.
    pub name: Name,
    /// The kind of program: `shell` for anything that is not a known agent.
    pub agent: String,
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// The directory it starts in.
    pub cwd: String,
    /// The complete environment.
    pub env: Environment,
    /// The first size of its screen.
    pub size: Size,
    /// When it was first planned.
    pub created: Timestamp,
}

/// The directories of a pane, as absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanePaths {
    /// The control socket of the daemon.
    pub socket: String,
    /// Where the pane may write what need not be kept (`TMPDIR`).
    pub temp: String,
    /// Where the pane may write what others should find.
    pub output: String,
}

/// What the plan takes from outside, so that it can be a function.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The new pane's id.
    pub pane: PaneId,
    /// Its session.
    pub session: SessionId,
    /// Its name, free within its session.
    pub name: Name,
    /// Its directories.
    pub paths: PanePaths,
    /// Now.
    pub now: Timestamp,
    /// The release that plans, for `TERM_PROGRAM_VERSION`.
    pub version: &'static str,
}

/// Why a request cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unplannable {
    /// There is no program to run.
    #[error("the command is empty")]
    EmptyCommand,
    /// The kernel would cut the text short.
    #[error("the command contains a NUL character")]
    NulInCommand,
    /// A relative path means nothing to a daemon that lives elsewhere.
    #[error("the working directory {0:?} is not an absolute path")]
    RelativeCwd(String),
    /// A variable that no process can have.
    #[error(transparent)]
    Variable(#[from] InvalidVariable),
}

/// What to start for `request`, and with which environment.
///
/// The environment is built in this order, later ones winning: what the client hands down by the
/// list of [`crate::environment::is_inherited`], what the request sets, and last what ccmux itself
/// says about the pane, which nobody can override.
///
/// # Errors
///
/// [`Unplannable`], naming what is wrong with the request.
pub fn plan(request: &LaunchRequest, setting: &Setting) -> Result<LaunchRecord, Unplannable> {
    let argv = argv(request)?;
    if !request.cwd.starts_with('/') || request.cwd.contains('\0') {
        return Err(Unplannable::RelativeCwd(request.cwd.clone()));
    }
    let mut env = Environment::inherited(&request.client_env);
    for (name, value) in &request.env {
        env.set(name, value)?;
    }
    for (name, value) in own_variables(request, setting) {
        env.set(name, &value)?;
    }
    Ok(LaunchRecord {
        pane: setting.pane,
        session: setting.session,
        name: setting.name.clone(),
        agent: "shell".to_owned(),
        argv,
        cwd: request.cwd.clone(),
        env,
        size: request.size.unwrap_or_default(),
        created: setting.now,
    })
}

/// The name of a pane that nobody named: its program's.
#[must_use]
pub fn default_name(request: &LaunchRequest) -> Name {
    let program = argv(request).ok().and_then(|argv| argv.into_iter().next()).unwrap_or_default();
    Name::near(program.rsplit('/').next().unwrap_or_default())
}

fn argv(request: &LaunchRequest) -> Result<Vec<String>, Unplannable> {
    let argv = if request.command.is_empty() {
        let shell = request.client_env.get("SHELL").filter(|shell| shell.starts_with('/'));
        vec![shell.cloned().unwrap_or_else(|| "/bin/sh".to_owned())]
    } else {
        request.command.clone()
    };
    if argv[0].is_empty() {
        return Err(Unplannable::EmptyCommand);
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(Unplannable::NulInCommand);
    }
    Ok(argv)
}

fn own_variables(request: &LaunchRequest, setting: &Setting) -> [(&'static str, String); 13] {
    [
        ("CCMUX", "1".to_owned()),
        ("CCMUX_SOCKET", setting.paths.socket.clone()),
        ("CCMUX_SESSION_ID", setting.session.to_string()),
        ("CCMUX_PANE_ID", setting.pane.to_string()),
        ("SESSION_ID", setting.session.to_string()),
        ("PANE_ID", setting.pane.to_string()),
        ("WORKING_DIR", request.cwd.clone()),
        ("TMPDIR", setting.paths.temp.clone()),
        ("OUTPUT_DIR", setting.paths.output.clone()),
        // What the emulator of a pane understands, whatever the outer terminal is.
        ("TERM", "xterm-256color".to_owned()),
        ("COLORTERM", "truecolor".to_owned()),
        ("TERM_PROGRAM", "ccmux".to_owned()),
        ("TERM_PROGRAM_VERSION", setting.version.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting {
            pane: PaneId::from_random([1; 16]),
            session: SessionId::from_random([2; 16]),
            name: "dev1".parse().unwrap(),
            paths: PanePaths {
                socket: "/s/run/control.sock".to_owned(),
                temp: "/s/temp".to_owned(),
                output: "/s/output".to_owned(),
            },
            now: Timestamp(7),
            version: "0.1.0",
        }
    }

    fn request(command: &[&str]) -> LaunchRequest {
        LaunchRequest {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            cwd: "/src".to_owned(),
            client_env: BTreeMap::from([("SHELL".to_owned(), "/bin/zsh".to_owned())]),
            ..LaunchRequest::default()
        }
    }

    #[test]
    fn without_a_command_the_users_shell_is_started() {
        let record = plan(&request(&[]), &setting()).unwrap();

        assert_eq!(record.argv, ["/bin/zsh"]);
        assert_eq!(default_name(&request(&[])).as_str(), "zsh");
    }

    #[test]
    fn nobody_can_override_what_ccmux_says_about_the_pane() {
        let mut request = request(&["bash"]);
        request.env.insert("CCMUX_PANE_ID".to_owned(), "another".to_owned());
        request.env.insert("EDITOR".to_owned(), "vi".to_owned());
        request.client_env.insert("TMPDIR".to_owned(), "/tmp".to_owned());

        let record = plan(&request, &setting()).unwrap();

        assert_eq!(record.env.get("CCMUX_PANE_ID"), Some(record.pane.to_string().as_str()));
        assert_eq!(record.env.get("TMPDIR"), Some("/s/temp"));
        assert_eq!(record.env.get("EDITOR"), Some("vi"));
    }

    #[test]
    fn requests_that_cannot_be_executed_are_refused() {
        let relative = LaunchRequest { cwd: "src".to_owned(), ..request(&["bash"]) };
        let cases = [
            (request(&[""]), Unplannable::EmptyCommand),
            (request(&["a\0b"]), Unplannable::NulInCommand),
            (relative, Unplannable::RelativeCwd("src".to_owned())),
        ];
        for (request, refused) in cases {
            assert_eq!(plan(&request, &setting()), Err(refused));
        }
    }
}
