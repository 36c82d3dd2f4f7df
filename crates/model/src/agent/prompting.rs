//! When an agent takes a prompt, as far as its screen tells.
//!
//! Every agent has a box at the bottom of its screen in which its user composes a prompt. What is
//! in the box says whether somebody else may write into it: a box with words in it is the user's,
//! and where there is no box the agent asks something, which nobody but its user should answer.

/// What an agent's screen looks like.
#[derive(Clone, Copy, Debug)]
pub struct Prompting {
    /// What is in its box, line by line; none where no box can be seen.
    pub composed: fn(&[&str]) -> Option<String>,
    /// What an empty box may begin with.
    pub hints: &'static [&'static str],
    /// On the screen while it works on a turn.
    pub busy: &'static str,
}

/// What an agent can do with a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is not there yet, or asks something.
    Away,
    /// It works on a turn.
    Busy,
    /// These words are in its box.
    Composing(String),
    /// Its box is empty, and it waits.
    Ready,
}

impl Prompting {
    /// What the agent whose screen this is can do with a prompt.
    #[must_use]
    pub fn readiness(&self, screen: &str) -> Readiness {
        let lines: Vec<&str> = screen.lines().collect();
        let Some(composed) = (self.composed)(&lines) else { return Readiness::Away };
        let words = composed.trim();
        if !words.is_empty() && !self.hints.iter().any(|hint| words.starts_with(hint)) {
            return Readiness::Composing(words.to_owned());
        }
        // Only near the box: the words may be in a conversation, too.
        let tail = lines.len().saturating_sub(BOTTOM);
        if lines[tail..].iter().any(|line| line.contains(self.busy)) {
            return Readiness::Busy;
        }
        Readiness::Ready
    }
}

/// What an agent shows in its box in place of a longer paste begins with this.
pub const FOLDED: &str = "[Pasted";

/// How many lines at the bottom of the screen belong to the agent itself.
const BOTTOM: usize = 12;

/// The lines of a box that begins with the last line that `begins` tells, up to the line that
/// `ends` tells.
pub(super) fn from_last(
    lines: &[&str],
    begins: impl Fn(usize, &str) -> Option<String>,
    ends: impl Fn(&str) -> bool,
) -> Option<String> {
    let found = lines.iter().enumerate().rev();
    let (at, first) = found.filter_map(|(at, line)| Some((at, begins(at, line.trim())?))).next()?;
    let more = lines[at + 1..].iter().map(|line| line.trim()).take_while(|line| !ends(line));
    let words: Vec<String> = std::iter::once(first).chain(more.map(str::to_owned)).collect();
    Some(words.join("\n"))
}

/// Whether a line is drawn with this character.
pub(super) fn is_drawn(line: &str, with: char) -> bool {
    let line = line.trim();
    line.chars().count() >= 10 && line.chars().all(|c| c == with)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::agent::Agent;

    fn seen(agent: &str, screen: &str) -> Readiness {
        let agent = Agent::named(agent, &BTreeMap::new()).unwrap();
        agent.prompting.expect("it has a box").readiness(screen)
    }

    fn composing(words: &str) -> Readiness {
        Readiness::Composing(words.to_owned())
    }

    #[test]
    fn the_box_of_claude_tells_whether_it_takes_a_prompt() {
        let bar = "─".repeat(40);
        let screen = |inside: &str, footer: &str| {
            format!("❯ said before\n● an answer\n\n{bar}\n❯ {inside}\n{bar}\n  {footer}\n")
        };
        let footer = "⏵⏵ auto mode on (shift+tab to cycle)";

        assert_eq!(seen("claude", &screen("", footer)), Readiness::Ready);
        assert_eq!(seen("claude", &screen("Try \"fix lint\"", footer)), Readiness::Ready);
        assert_eq!(seen("claude", &screen("half typed", footer)), composing("half typed"));
        assert_eq!(seen("claude", &screen("two\n  lines", footer)), composing("two\nlines"));
        let working = format!("{footer} · esc to interrupt");
        assert_eq!(seen("claude", &screen("", &working)), Readiness::Busy);
        let dialog = format!("{bar}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n");
        assert_eq!(seen("claude", &dialog), Readiness::Away);
        assert_eq!(seen("claude", ""), Readiness::Away);
    }

    #[test]
    fn the_box_of_codex_tells_whether_it_takes_a_prompt() {
        let screen = |inside: &str| {
            format!(
                "› said before\n• answer\n\n› {inside}\n\n  stub-model · /w\n  ? for shortcuts\n"
            )
        };

        assert_eq!(seen("codex", &screen("Ask Codex to do anything")), Readiness::Ready);
        assert_eq!(seen("codex", &screen("half typed")), composing("half typed"));
        let working = screen("Ask Codex to do anything")
            .replace("• answer", "• Working (3s • esc to interrupt)");
        assert_eq!(seen("codex", &working), Readiness::Busy);
        let dialog = "  Allow this command?\n\n› 1. Yes\n  2. No\n";
        assert!(matches!(seen("codex", dialog), Readiness::Composing(_)), "never ready");
    }

    #[test]
    fn the_box_of_gemini_tells_whether_it_takes_a_prompt() {
        let (top, bottom) = ("▄".repeat(40), "▀".repeat(40));
        let screen = |above: &str, inside: &str| {
            format!("✦ answer\n{above}\n{top}\n > {inside}\n{bottom}\n workspace (/directory)\n")
        };
        let hint = "  Type your message or @path/to/file";

        assert_eq!(seen("gemini", &screen("", hint)), Readiness::Ready);
        assert_eq!(seen("gemini", &screen("", "half typed")), composing("half typed"));
        let working = screen("⠋ Thinking... (esc to cancel, 0s)", hint);
        assert_eq!(seen("gemini", &working), Readiness::Busy);
        assert_eq!(seen("gemini", "Do you trust this folder?\n> 1. Yes\n"), Readiness::Away);
    }

    #[test]
    fn the_box_of_opencode_tells_whether_it_takes_a_prompt() {
        let bottom = format!("╹{}", "▀".repeat(40));
        let screen = |inside: &str, footer: &str| {
            format!(
                "  ┃  said before\n\n     ▣  Build · stub\n\n  ┃\n  ┃  {inside}\n  ┃\n  \
                 ┃  Build · stub-model\n  {bottom}\n  {footer}  ctrl+p commands\n"
            )
        };

        assert_eq!(seen("opencode", &screen("", "")), Readiness::Ready);
        assert_eq!(seen("opencode", &screen("Ask anything… \"x\"", "")), Readiness::Ready);
        assert_eq!(seen("opencode", &screen("half typed", "")), composing("half typed"));
        assert_eq!(seen("opencode", &screen("", "⬝⬝ esc interrupt")), Readiness::Busy);
        assert_eq!(seen("opencode", "△ Permission required\n"), Readiness::Away);
    }
}
