//! Checks of a pane's first process: whether it really has the isolation variables (R6).

use std::collections::BTreeMap;

use super::{Finding, FindingKind, Severity, Subject};
use crate::environment::is_secret;

/// Checks the environment of a pane's first process; `environment` is none if the kernel does not
/// show it.
#[must_use]
pub fn judge(
    pane: &Subject,
    pid: u32,
    environment: Option<&BTreeMap<String, String>>,
    expected: &[(String, String)],
) -> Option<Finding> {
    let Some(found) = environment else {
        let evidence = format!("`/proc/{pid}/environ` cannot be read");
        let remedy = "no action is needed if the program runs as another user, as with sudo";
        return Some(Finding::new(Severity::Info, pane, FindingKind::Hidden, evidence, remedy));
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
        "the command removes its environment (`env -i`, a wrapper): change it, and restart the \
         pane with {}",
        pane.again()
    );
    Some(Finding::new(Severity::Error, pane, FindingKind::Unprotected, evidence, remedy))
}

/// The state of a root pane whose shared directory could not be mounted read-only (R18).
pub const SHARED_IS_OPEN: &str = "the pane runs as root, and the system does not allow ccmux to \
                                  mount the shared directory read-only: its permissions do not \
                                  restrict root";

/// Reports such a pane.
#[must_use]
pub fn shared_is_open(pane: &Subject) -> Finding {
    let remedy = "run ccmux as another user, or in a container with permission to mount";
    Finding::new(Severity::Info, pane, FindingKind::SharedOpen, SHARED_IS_OPEN, remedy)
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
    fn process_with_all_variables_has_no_finding() {
        let all = [("A_DIR", "/s/a"), ("A_KEY", "hunter2"), ("CCMUX_PANE_ID", "p1"), ("X", "y")];
        assert_eq!(judged(Some(&all)), None);
    }

    #[test]
    fn missing_and_different_variables_are_reported_without_secrets() {
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
    fn invisible_environment_is_not_an_error() {
        assert_eq!(judged(None).unwrap().severity, Severity::Info);
    }
}
