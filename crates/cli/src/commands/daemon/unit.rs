//! `ccmux daemon install` and `uninstall`: the daemon as a systemd user service.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

use crate::args::DaemonInstallArgs;
use crate::context::Context;
use crate::failure::{Failure, usage};

/// The name of the unit.
const UNIT: &str = "ccmux.service";

/// Output of `daemon install --json` and `daemon uninstall --json`.
#[derive(Serialize)]
struct Unit {
    /// The path of the unit file.
    unit: PathBuf,
    /// Whether it is installed.
    installed: bool,
}

/// Writes and enables the unit, or prints it.
///
/// # Errors
///
/// If systemd is missing, or the unit cannot be written or enabled.
pub(super) fn install(context: &Context, args: &DaemonInstallArgs) -> Result<(), Failure> {
    let exe = context.exe()?;
    let text = unit(&exe, &context.home).map_err(|path| {
        usage(format!("cannot write `{path}` into a unit: the path has a control character"))
    })?;
    if args.print {
        return context.out.text(&text);
    }
    let path = unit_path(context)?;
    // Before writing a unit that nothing would read.
    systemctl(&["--version"])?;
    write(&path, &text)
        .map_err(|error| Failure::io(&format!("write `{}`", path.display()), &error))?;
    systemctl(&["--user", "daemon-reload"])?;
    systemctl(&["--user", "enable", UNIT])?;
    context.out.answer(&Unit { unit: path, installed: true }, |unit, _| {
        format!(
            "installed {}\n\
             systemd starts the daemon at your next login; to start it now: \
             `ccmux daemon stop; systemctl --user start ccmux`\n\
             to start it at boot, without a login: `loginctl enable-linger`\n",
            unit.unit.display()
        )
    })
}

/// Disables and removes the unit. Succeeds if it is not installed.
///
/// # Errors
///
/// If the unit cannot be disabled or removed.
pub(super) fn uninstall(context: &Context) -> Result<(), Failure> {
    let path = unit_path(context)?;
    if path.exists() {
        systemctl(&["--user", "disable", UNIT])?;
        fs::remove_file(&path)
            .map_err(|error| Failure::io(&format!("remove `{}`", path.display()), &error))?;
        systemctl(&["--user", "daemon-reload"])?;
    }
    context.out.answer(&Unit { unit: path, installed: false }, |unit, _| {
        format!("{} is not installed\n", unit.unit.display())
    })
}

/// Returns the text of the unit.
///
/// # Errors
///
/// The path that a unit cannot contain.
fn unit(exe: &Path, home: &Path) -> Result<String, String> {
    let (exe, home) = (quoted(exe)?, quoted(home)?);
    Ok(format!(
        "[Unit]\n\
         Description=ccmux daemon\n\
         Documentation=man:ccmux(1)\n\
         \n\
         [Service]\n\
         ExecStart={exe} daemon run --home {home}\n\
         Restart=on-failure\n\
         # Panes continue to run while the daemon is stopped or replaced.\n\
         KillMode=process\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    ))
}

/// Quotes a path for a unit file.
fn quoted(path: &Path) -> Result<String, String> {
    let text = path.display().to_string();
    if text.chars().any(char::is_control) {
        return Err(text.escape_default().to_string());
    }
    let text = text.replace('\\', r"\\").replace('"', "\\\"");
    // Specifiers and variables.
    Ok(format!("\"{}\"", text.replace('%', "%%").replace('$', "$$")))
}

fn unit_path(context: &Context) -> Result<PathBuf, ErrorBody> {
    let config = context.env.get("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config
        .or_else(|| context.env.get("HOME").map(|home| Path::new(home).join(".config")))
        .ok_or_else(|| usage("no directory for the unit: HOME is not set"))?;
    Ok(config.join("systemd/user").join(UNIT))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let new = path.with_extension("service.new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// Runs systemctl.
fn systemctl(words: &[&str]) -> Result<(), ErrorBody> {
    let line = format!("systemctl {}", words.join(" "));
    let failed = |why: String| {
        ErrorBody::new(ErrorCode::Failed, format!("cannot run `{line}`: {why}")).hint(
            "without systemd, other commands start the daemon when they need it; \
             `ccmux daemon install --print` prints the unit",
        )
    };
    match Command::new("systemctl").args(words).output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(failed("systemd is not installed".to_owned()))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_quotes_paths() {
        let text = unit(Path::new("/opt/my tools/ccmux"), Path::new("/home/50%/$x")).unwrap();

        let start = text.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert_eq!(start, r#"ExecStart="/opt/my tools/ccmux" daemon run --home "/home/50%%/$$x""#);
        assert!(unit(Path::new("/a\nb"), Path::new("/home")).is_err());
    }
}
