//! The process at the head of a pane: whether it really has what keeps it apart (R6).

use std::collections::BTreeMap;

use super::{Finding, Kind, Severity, Subject};
use crate::environment::is_secret;

/// What is wrong with the environment of the process at the head of a pane. None stands for one
/// that the system does not show.
#[must_use]
pub fn judge(
    pane: &Subject,
    pid: u32,
    environment: Option<&BTreeMap<String, String>>,
    expected: &[(String, String)],
) -> Option<Finding> {
    let Some(found) = environment else {
        let evidence = format!("`/proc/{pid}/environ` cannot be read");
        let remedy = "none is needed if the program runs as another user, as sudo does";
        return Some(Finding::new(Severity::Info, pane, Kind::Hidden, evidence, remedy));
    };
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(name, value)| found.get(name) != Some(value))
        .map(|(name, value)| match found.get(name) {
            None => format!("{name} is not set"),
            Some(_) if is_secret(name) => format!("{name} has another value"),
            Some(other) => format!("{name}={other} instead of {value}"),
        })
        .collect();
    if wrong.is_empty() {
        return None;
    }
    let evidence = format!("process {pid}: {}", wrong.join("; "));
    let remedy = format!(
        "the command takes its environment away (`env -i`, a wrapper): change it; start the pane \
         again with {}",
        pane.again()
    );
    Some(Finding::new(Severity::Error, pane, Kind::Unprotected, evidence, remedy))
}

/// How it is with a pane of root's for which what panes share could not be closed (R18).
pub const SHARED_IS_OPEN: &str = "it is root's, and the system does not let ccmux mount what panes \
                                  share read-only for it: only modes protect it, and not from root";

/// Of such a pane.
#[must_use]
pub fn shared_is_open(pane: &Subject) -> Finding {
    let remedy = "run ccmux as another user, or in a container that may mount";
    Finding::new(Severity::Info, pane, Kind::SharedOpen, SHARED_IS_OPEN, remedy)
}

#[cfg(test)]
mod tests {
    use super::super::testing::pane;
    use super::*;

    fn judged(found: Option<&[(&str, &str)]>) -> Option<Finding> {
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let found = found.map(|pairs| owned(pairs).into_iter().collect());
        let expected = owned(&[("CCMUX_PANE_ID", "p1"), ("A_DIR", "/s/a"), ("A_KEY", "hunter2")]);
        judge(&pane(1, true), 7, found.as_ref(), &expected)
    }

    #[test]
    fn a_process_that_has_every_variable_is_well() {
        let all = [("A_DIR", "/s/a"), ("A_KEY", "hunter2"), ("CCMUX_PANE_ID", "p1"), ("X", "y")];
        assert_eq!(judged(Some(&all)), None);
    }

    #[test]
    fn what_is_missing_or_different_is_named_without_secrets() {
        let found = [("A_DIR", "/home/me"), ("A_KEY", "hunter3")];

        let finding = judged(Some(&found)).unwrap();

        assert_eq!(finding.severity, Severity::Error);
        assert_eq!(
            finding.evidence,
            "process 7: CCMUX_PANE_ID is not set; A_DIR=/home/me instead of /s/a; A_KEY has \
             another value"
        );
    }

    #[test]
    fn what_cannot_be_seen_is_not_taken_for_wrong() {
        assert_eq!(judged(None).unwrap().severity, Severity::Info);
    }
}
