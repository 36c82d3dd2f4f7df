//! `doctor`, as text for people: one block per finding, the worst first, and a closing line.

use std::fmt::Write as _;

use model::health::{Checked, Finding, Health, Severity};

use crate::output::{Style, printable};
use crate::table::{Colour, paint};

/// `doctor`.
pub(crate) fn health(health: &Health, style: Style) -> String {
    let mut text = String::new();
    for finding in &health.findings {
        block(&mut text, finding, style);
        text.push('\n');
    }
    closing(&mut text, health, style);
    text
}

fn block(text: &mut String, finding: &Finding, style: Style) {
    let (word, colour) = match finding.severity {
        Severity::Error => ("error", Colour::Red),
        Severity::Warning => ("warning", Colour::Yellow),
        Severity::Info => ("info", Colour::Dim),
    };
    paint(text, word, style.colour.then_some(colour));
    let (subject, what) = (printable(&finding.subject), printable(&finding.what));
    writeln!(text, ": {subject}: {what}").expect("a string takes everything");
    paragraph(text, "found", &finding.evidence);
    paragraph(text, "to do", &finding.remedy);
}

/// A labelled text, which may have several lines; nothing at all if it is empty.
fn paragraph(text: &mut String, label: &str, body: &str) {
    for (n, line) in body.lines().enumerate() {
        let label = if n == 0 { label } else { "" };
        writeln!(text, "  {label:<5}  {}", printable(line)).expect("a string takes everything");
    }
}

/// What came of it, and how much was looked at.
fn closing(text: &mut String, health: &Health, style: Style) {
    if health.ok {
        paint(text, "all is well", style.colour.then_some(Colour::Green));
    } else {
        let errors = counted(health.count(Severity::Error), "error", "errors");
        let warnings = counted(health.count(Severity::Warning), "warning", "warnings");
        let verdict = format!("{errors}, {warnings}");
        paint(text, &verdict, style.colour.then_some(Colour::Red));
    }
    let Checked { panes, places, processes, conversations, own_places, agents } = health.checked;
    let looked_at = [
        counted(panes, "pane", "panes"),
        counted(places, "file or directory", "files and directories"),
        counted(processes, "process", "processes"),
        counted(conversations, "conversation", "conversations"),
        counted(own_places, "directory of your own", "directories of your own"),
        counted(agents, "installed agent", "installed agents"),
    ];
    writeln!(text, "; looked at {}", looked_at.join(", ")).expect("a string takes everything");
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::health::Kind;

    use super::*;

    fn style() -> Style {
        Style { colour: false, width: None, now: Timestamp(0) }
    }

    #[test]
    fn every_finding_has_its_block_and_the_worst_comes_first() {
        let checked = Checked {
            panes: 2,
            places: 30,
            processes: 1,
            conversations: 1,
            own_places: 4,
            agents: 1,
        };
        let findings = vec![
            Finding::new(
                Severity::Info,
                "pane dev1 (aaaaaaaa)",
                Kind::Login,
                "by ANTHROPIC_API_KEY in its environment",
                "",
            ),
            Finding::new(
                Severity::Error,
                "pane dev1 (aaaaaaaa)",
                Kind::Open,
                "`/state/claude-configs/pane-1\x1b[2J` has mode 0755, not 0700",
                "`chmod 0700 /state/claude-configs/pane-1`",
            ),
            Finding::new(
                Severity::Error,
                "configuration",
                Kind::ConfigInvalid,
                "the configuration has 2 problems:\n1:1: one\n2:1: two",
                "correct it",
            ),
        ];

        let ill = health(&Health::of(findings, checked), style());
        let well = health(&Health::of(Vec::new(), checked), style());

        insta::assert_snapshot!([ill, well].join("--\n"));
    }
}
