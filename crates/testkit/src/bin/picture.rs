//! Writes the picture of README.md: a terminal in which the real program runs, as SVG.
//!
//! usage: picture CCMUX FILE

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use anyhow::Context as _;
use model::Size;
use testkit::{Home, Screen, put};

/// Commands to type.
const COMMANDS: [&str; 4] = [
    "ccmux up --preset seven --agent claude",
    "ccmux new -d --session seven -n tests -- sh -c 'echo 214 passed; exec cat'",
    "ccmux ls",
    "ccmux read tests",
];

/// The scripted agent that stands in for claude.
const AGENT: &str = "#!/bin/sh
case $1 in --version | auth) exec AGENT \"$@\" ;; esac
exec AGENT --prompt '> ' --stay \"$@\"
";

/// The prompt of the shell in the picture.
const PROMPT: &str = "~/app $ ";

/// Width and height of a character, in pixels.
const CELL: (f32, f32) = (8.4, 18.0);

/// Distance of the text from the border.
const MARGIN: f32 = 16.0;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let ccmux: PathBuf = words.next().context("usage: picture CCMUX FILE")?.into();
    let file: PathBuf = words.next().context("usage: picture CCMUX FILE")?.into();
    let ccmux = fs::canonicalize(&ccmux).with_context(|| ccmux.display().to_string())?;
    let mut home = Home::new(&ccmux);
    let bin = home.dir().join("bin");
    let agent = home.fake_agent().display().to_string();
    put(&bin.join("claude"), AGENT.replace("AGENT", &agent));
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755))?;
    symlink(&ccmux, bin.join("ccmux"))?;
    home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    let app = home.dir().join("home/app");
    fs::create_dir_all(&app)?;
    let script = "git init -q && echo text >file && git add -A && \
                  git -c user.name=me -c user.email=me@localhost commit -qm first";
    home.program("sh", &["-c", script]).dir(&app).ok();
    let size = Size::new(92, 34).context("a size")?;
    let screen = home.program("sh", &["-i"]).dir(&app).env("PS1", PROMPT).screen(size);
    for (number, command) in COMMANDS.iter().enumerate() {
        wait_for_prompts(&screen, number + 1);
        screen.send(format!("{command}\r"));
    }
    wait_for_prompts(&screen, COMMANDS.len() + 1);
    let text = screen.text();
    let text = text.trim_end().trim_end_matches(PROMPT.trim_end());
    put(&file, svg(text, size));
    Ok(())
}

/// Waits until there are this many prompts, the last one without a command.
fn wait_for_prompts(screen: &Screen, count: usize) {
    screen.wait_until("the prompt is shown", |view| {
        let text = view.text();
        let prompts = text.lines().filter(|line| line.starts_with(PROMPT.trim_end())).count();
        prompts == count && text.trim_end().ends_with(PROMPT.trim_end())
    });
}

/// Renders lines of text in a window.
fn svg(text: &str, size: Size) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let width = f32::from(size.cols()) * CELL.0 + 2.0 * MARGIN;
    let height = f32::from(count) * CELL.1 + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f27\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\" \
         fill=\"#d5d9e0\" xml:space=\"preserve\">\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let row = f32::from(u16::try_from(row).unwrap_or(u16::MAX));
        let y = MARGIN + (row + 0.75) * CELL.1;
        let color = if line.starts_with(PROMPT) { " fill=\"#8fd0a4\"" } else { "" };
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let line = line.trim_end();
        // Writing to a string does not fail.
        let _ok = writeln!(out, "<text x=\"{MARGIN}\" y=\"{y}\"{color}>{line}</text>");
    }
    out + "</g>\n</svg>\n"
}
