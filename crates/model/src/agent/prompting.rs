//! Detection, from its screen, of whether an agent accepts a prompt.
//!
//! Each agent has an input box at the bottom of its screen. Text in the box was typed by the user
//! and must not be disturbed. Without a box, the agent is asking a question that only the user
//! should answer.

/// The layout of an agent's screen.
#[derive(Clone, Copy, Debug)]
pub struct Prompting {
    /// Returns the text in the input box; none if there is no box.
    pub composed: fn(&[&str]) -> Option<String>,
    /// Placeholders that an empty box may show.
    pub hints: &'static [&'static str],
    /// A text that is on the screen during a turn.
    pub busy: &'static str,
    /// How its dialogs look.
    pub dialogs: Dialogs,
}

/// The layout of the dialogs of an agent: a question, and numbered choices of which one is marked.
#[derive(Clone, Copy, Debug)]
pub struct Dialogs {
    /// The character in front of the marked choice.
    pub mark: char,
    /// Texts that are on the screen only in a dialog without numbered choices.
    pub texts: &'static [&'static str],
    /// Whether the mark is that of the input box too, so that a dialog looks like a box.
    pub looks_like_box: bool,
}

/// Whether an agent accepts a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// No: it is starting or asks a question.
    Away,
    /// No: it is working on a turn.
    Busy,
    /// No: the user is typing this text.
    Composing(String),
    /// Yes: the input box is empty.
    Ready,
}

impl Prompting {
    /// Returns whether the agent with this screen accepts a prompt.
    #[must_use]
    pub fn readiness(&self, screen: &str) -> Readiness {
        let lines: Vec<&str> = screen.lines().collect();
        let Some(composed) = (self.composed)(&lines) else { return Readiness::Away };
        let words = composed.trim();
        if !words.is_empty() && !self.hints.iter().any(|hint| words.starts_with(hint)) {
            return Readiness::Composing(words.to_owned());
        }
        // Only near the box, because the conversation may contain the text too.
        let tail = lines.len().saturating_sub(BOTTOM);
        if lines[tail..].iter().any(|line| line.contains(self.busy)) {
            return Readiness::Busy;
        }
        Readiness::Ready
    }
}

impl Prompting {
    /// Returns the question of the dialog on this screen, if there is one.
    #[must_use]
    pub fn dialog(&self, screen: &str) -> Option<String> {
        let lines: Vec<&str> = screen.lines().map(without_frame).collect();
        let has_box = || (self.composed)(&screen.lines().collect::<Vec<_>>()).is_some();
        if !self.dialogs.looks_like_box && has_box() {
            return None;
        }
        let marked = lines.iter().rposition(|line| line.starts_with(self.dialogs.mark));
        let choice = |at: usize| lines.get(at).is_some_and(|line| is_choice(line));
        let is_marked_choice = |&at: &usize| {
            is_choice(lines[at].trim_start_matches(self.dialogs.mark))
                && (choice(at + 1) || at > 0 && choice(at - 1))
        };
        let from_texts = || {
            let is_text = |line: &&str| self.dialogs.texts.iter().any(|text| line.contains(text));
            lines.iter().rposition(is_text)
        };
        let end = marked.filter(is_marked_choice).or_else(from_texts)?;
        Some(question(&lines, end))
    }
}

/// The number of lines above the marked choice that are searched for the question.
const QUESTION_REACH: usize = 20;

/// Returns the last line up to `end` that asks something, or the line at `end`.
fn question(lines: &[&str], end: usize) -> String {
    let reach = &lines[end.saturating_sub(QUESTION_REACH)..=end];
    let asks = reach.iter().rev().find(|line| line.ends_with('?'));
    asks.unwrap_or(&lines[end]).to_string()
}

/// Returns a line without the frame that is drawn around dialogs.
fn without_frame(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || "│┃|".contains(c))
}

/// Returns true if a line is a numbered choice.
fn is_choice(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with('.')
}

/// The beginning of the placeholder that agents show for a long paste.
pub const FOLDED: &str = "[Pasted";

/// The number of lines at the bottom of the screen that belong to the agent's own interface.
const BOTTOM: usize = 12;

/// Returns the lines of a box, from the last line for which `begins` returns its text up to the
/// line for which `ends` returns true.
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

/// Returns true if a line consists of this character.
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
        agent.prompting.expect("the agent has an input box").readiness(screen)
    }

    fn composing(words: &str) -> Readiness {
        Readiness::Composing(words.to_owned())
    }

    #[test]
    fn claude_readiness_follows_the_input_box() {
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

    fn question_of(agent: &str, screen: &str) -> Option<String> {
        let agent = Agent::named(agent, &BTreeMap::new()).unwrap();
        agent.prompting.expect("the agent has an input box").dialog(screen)
    }

    #[test]
    fn dialog_returns_the_question() {
        let bar = "─".repeat(40);
        let claude =
            format!("{bar}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel\n");
        let plain = "Use auto mode?\n\n❯ Yes\n  No\n\nEnter to confirm · Esc to cancel\n";
        let codex = "  Allow this command?\n\n› 1. Yes\n  2. No\n";
        let gemini = "│ Apply this change?\n│\n│ ● 1. Yes, allow once\n│   2. No (esc)\n";

        let asked = |text: &str| Some(text.to_owned());
        assert_eq!(question_of("claude", &claude), asked("Do you want to proceed?"));
        assert_eq!(question_of("claude", plain), asked("Use auto mode?"));
        assert_eq!(question_of("codex", codex), asked("Allow this command?"));
        assert_eq!(question_of("gemini", gemini), asked("Apply this change?"));
        let opencode = "△ Permission required\n";
        assert_eq!(question_of("opencode", opencode), asked("△ Permission required"));
    }

    #[test]
    fn input_box_and_conversation_are_no_dialog() {
        let bar = "─".repeat(40);
        let claude = format!("❯ 1. a\n  2. b\n● ok\n{bar}\n❯ 1. a\n  2. b\n{bar}\n  auto mode\n");
        let codex = "› 1. do this\n\n• answer\n\n› Ask Codex to do anything\n\n  model\n";

        assert_eq!(question_of("claude", &claude), None);
        assert_eq!(question_of("claude", "starting\n"), None);
        assert_eq!(question_of("codex", codex), None);
        assert_eq!(question_of("gemini", "starting\n"), None);
    }

    #[test]
    fn codex_readiness_follows_the_input_box() {
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
    fn gemini_readiness_follows_the_input_box() {
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
    fn opencode_readiness_follows_the_input_box() {
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
