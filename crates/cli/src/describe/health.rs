//! Text output of `doctor`: one block per finding, most severe first, and a summary line.

use std::fmt::Write as _;

use model::health::{Checked, Finding, Health, Severity};

use crate::output::{Style, printable};
use crate::table::{Colour, paint};

/// Formats the output of `doctor`.
pub(crate) fn health(health: &Health, style: Style) -> String {
    let mut text = String::new();
    for finding in &health.findings {
        block(&mut text, finding, style);
        text.push('\n');
    }
    summary(&mut text, health, style);
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
    writeln!(text, ": {subject}: {what}").expect("writing to a string cannot fail");
    paragraph(text, "found", &finding.evidence);
    paragraph(text, "fix", &finding.remedy);
}

/// Appends labelled text of any number of lines.
fn paragraph(text: &mut String, label: &str, body: &str) {
    for (n, line) in body.lines().enumerate() {
        let label = if n == 0 { label } else { "" };
        writeln!(text, "  {label:<5}  {}", printable(line))
            .expect("writing to a string cannot fail");
    }
}

/// Appends the result and the number of checked items.
fn summary(text: &mut String, health: &Health, style: Style) {
    if health.ok {
        paint(text, "no problems found", style.colour.then_some(Colour::Green));
    } else {
        let errors = counted(health.count(Severity::Error), "error", "errors");
        let warnings = counted(health.count(Severity::Warning), "warning", "warnings");
        let verdict = format!("{errors}, {warnings}");
        paint(text, &verdict, style.colour.then_some(Colour::Red));
    }
    let Checked { panes, places, processes, conversations, own_places, agents } = health.checked;
    let items = [
        counted(panes, "pane", "panes"),
        counted(places, "file or directory", "files and directories"),
        counted(processes, "process", "processes"),
        counted(conversations, "conversation", "conversations"),
        counted(own_places, "directory in your home", "directories in your home"),
        counted(agents, "installed agent", "installed agents"),
    ];
    writeln!(text, "; checked {}", items.join(", ")).expect("writing to a string cannot fail");
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::health::FindingKind;

    use super::*;

    fn style() -> Style {
        Style { colour: false, width: None, now: Timestamp(0) }
    }

    #[test]
    fn health_lists_findings_by_severity_with_a_summary() {
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
                FindingKind::Login,
                "by ANTHROPIC_API_KEY in its environment",
                "",
            ),
            Finding::new(
                Severity::Error,
                "pane dev1 (aaaaaaaa)",
                FindingKind::Open,
                "`/state/claude-configs/pane-1\x1b[2J` has mode 0755, not 0700",
                "`chmod 0700 /state/claude-configs/pane-1`",
            ),
            Finding::new(
                Severity::Error,
                "configuration",
                FindingKind::ConfigInvalid,
                "the configuration has 2 problems:\n1:1: one\n2:1: two",
                "correct it",
            ),
        ];

        let unhealthy = health(&Health::of(findings, checked), style());
        let healthy = health(&Health::of(Vec::new(), checked), style());

        insta::assert_snapshot!([unhealthy, healthy].join("--\n"));
    }
}
