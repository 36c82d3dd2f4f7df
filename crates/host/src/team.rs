//! Team files. Problems are reported with file, line and key, as for the configuration.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use model::team::{Team, TeamFault, expand};

use crate::config::{Positions, Problem};
use crate::file::FileError;

/// Size limit of a team file.
const MAX_SIZE: u64 = 1 << 20;

/// Failure to load a team file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// Error of the operating system.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file exceeds the size limit.
    #[error("`{}` is larger than {MAX_SIZE} bytes", .0.display())]
    TooLarge(PathBuf),
    /// The contents are invalid. The list is not empty and in file order.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
}

/// Loads a team file.
///
/// # Errors
///
/// [`TeamError`].
pub fn load(path: &Path) -> Result<Team, TeamError> {
    let refused = FileError::when("read", path);
    let file = File::open(path);
    let mut bytes = Vec::new();
    match file.and_then(|file| file.take(MAX_SIZE + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 > MAX_SIZE => Err(TeamError::TooLarge(path.to_owned())),
        Ok(_) => {
            let text = String::from_utf8(bytes).map_err(|error| {
                let before = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let at = error.utf8_error().valid_up_to();
                TeamError::Invalid(vec![problem(&before, path, at, "not UTF-8".to_owned())])
            })?;
            parse(&text, path)
        }
        Err(error) => Err(refused(error).into()),
    }
}

/// Parses the text of the team file at `path`, which is used for messages only.
///
/// # Errors
///
/// [`TeamError::Invalid`].
pub fn parse(text: &str, path: &Path) -> Result<Team, TeamError> {
    let team: Team = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        TeamError::Invalid(vec![problem(text, path, at, error.message().to_owned())])
    })?;
    match expand(&team.panes, "/") {
        Ok(_) => Ok(team),
        Err(faults) => {
            let heads = headings(text);
            let place = |fault: TeamFault| {
                let at = fault.pane.and_then(|pane| heads.get(pane)).copied().unwrap_or(0);
                problem(text, path, at, fault.why)
            };
            Err(TeamError::Invalid(faults.into_iter().map(place).collect()))
        }
    }
}

/// Returns the byte offset of each pane's heading.
fn headings(text: &str) -> Vec<usize> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("[[pane]]") {
            found.push(at);
        }
        at += line.len();
    }
    found
}

fn problem(text: &str, path: &Path, at: usize, message: String) -> Problem {
    let (line, column) = Positions::of(text).of_byte(at);
    Problem { path: path.to_owned(), line, column, message, suggestion: None }
}

/// Lists each problem on a line, under a heading if there are several.
fn list(problems: &[Problem]) -> String {
    let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if problems.len() > 1 {
        lines.insert(0, format!("the team has {} problems:", problems.len()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use model::team::presets::PRESETS;

    use super::*;

    fn error_of(text: &str) -> String {
        parse(text, Path::new("team.toml")).unwrap_err().to_string()
    }

    #[test]
    fn parse_reports_problems_with_position_and_key() {
        let cases = [
            ("session = \"a b\"\n", "team.toml:1:11: a name may not contain ' '"),
            ("[[pane]]\nrol = \"qa\"\n", "team.toml:2:1: unknown field `rol`"),
            ("[[pane]]\nworkspace = \"tree\"\n", "team.toml:2:13: unknown variant `tree`"),
            ("[[pane]]\nlimits = [\"disk=many\"]\n", "team.toml:2:10: disk:"),
            ("[[pane]]\n\n[[pane]]\nafter = [\"db\"]\n", "team.toml:3:1: `after`: unknown pane"),
            ("session = \"web\"\n", "team.toml:1:1: the team has no panes"),
            ("[[pane]\n", "team.toml:1:"),
        ];
        for (text, message) in cases {
            let error_of = error_of(text);
            assert!(error_of.starts_with(message), "{text:?}: {error_of}");
        }
    }

    #[test]
    fn parse_reports_all_problems() {
        let message = error_of("[[pane]]\nname = \"a\"\n[[pane]]\nname = \"a\"\nargs = [\"x\"]\n");

        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], "the team has 2 problems:");
        assert!(lines[1..].iter().all(|line| line.starts_with("team.toml:3:1: ")), "{message}");
    }

    #[test]
    fn presets_are_valid_teams() {
        for preset in PRESETS {
            for agent in ["claude", "shell"] {
                let team = parse(&preset.file(agent), Path::new("preset")).unwrap();
                let panes = expand(&team.panes, "/src").unwrap();
                assert_eq!(panes.len(), 7, "{}", preset.name);
                assert!(panes.iter().all(|pane| pane.agent.as_deref() == Some(agent)));
                assert!(panes.iter().all(|pane| pane.prompt.is_some() == (agent != "shell")));
            }
        }
    }
}
