//! Checks of how the agent of a pane logs in (B1).

use super::{Finding, FindingKind, Severity, Subject};
use crate::agent::probe::{Program, Verdict};
use crate::isolation::Login;

/// The present state of a pane's login.
#[derive(Clone, Debug)]
pub struct LoginEvidence<'a> {
    /// The planned login.
    pub login: &'a Login,
    /// The program of the agent, if found and probed.
    pub program: Option<&'a Program>,
    /// Whether the shared store contains a login.
    pub store_has_login: bool,
    /// Whether the pane's directory contains a login.
    pub own_login: bool,
    /// Whether the pane runs the agent itself, and not a shell from which it may be started.
    pub is_own_agent: bool,
    /// The hint for a version that does not support the shared login.
    pub otherwise: &'a str,
}

/// Returns the result of probing the shared login as a short text; none if it is not used.
#[must_use]
pub fn note(login: &Login, program: Option<&Program>) -> Option<String> {
    match login {
        Login::Store { .. } | Login::Asks { store: Some(_) } => {}
        Login::Variable { .. } | Login::Asks { store: None } | Login::Users => return None,
    }
    let verdict = program.and_then(|program| Some((program, program.verdict.as_ref()?)));
    Some(match verdict {
        None => "not checked yet".to_owned(),
        Some((program, Verdict::Honoured)) => {
            format!("supported by {}", program.title())
        }
        Some((program, Verdict::Ignored)) => {
            format!("not supported by {}: this pane will ask for a login", program.title())
        }
        Some((program, Verdict::Unclear { why })) => {
            format!("{} could not be probed: {why}", program.title())
        }
    })
}

/// Reports how a pane's agent logs in, or that it will ask.
#[must_use]
pub fn judge(pane: &Subject, evidence: &LoginEvidence<'_>) -> Finding {
    let info =
        |evidence: String| Finding::new(Severity::Info, pane, FindingKind::Login, evidence, "");
    match evidence.login {
        Login::Users => info("your own login, without isolation".to_owned()),
        Login::Variable { name } => info(format!("{name} in its environment")),
        Login::Store { dir, .. } | Login::Asks { store: Some(dir) } => stored(pane, evidence, dir),
        Login::Asks { store: None } if evidence.own_login => {
            info("a login in the pane's directory".to_owned())
        }
        Login::Asks { store: None } => {
            let remedy = "log in inside the pane, or start it with a key in its environment; no \
                          action is needed if its provider requires no login";
            let seen = "no key in its environment, and no login in its directory";
            Finding::new(Severity::Info, pane, FindingKind::WillAsk, seen, remedy)
        }
    }
}

/// Reports the state of the shared login.
fn stored(pane: &Subject, evidence: &LoginEvidence<'_>, dir: &str) -> Finding {
    let info =
        |evidence: String| Finding::new(Severity::Info, pane, FindingKind::Login, evidence, "");
    let verdict = evidence.program.and_then(|program| program.verdict.as_ref());
    let ignored = verdict == Some(&Verdict::Ignored);
    // Only a running agent is waiting for a login.
    let matters = pane.live && evidence.is_own_agent;
    let severity = if matters { Severity::Warning } else { Severity::Info };
    if evidence.own_login && (ignored || !evidence.store_has_login) {
        return info("a login in the pane's directory".to_owned());
    }
    if ignored {
        let title = evidence.program.map(Program::title).unwrap_or_default();
        let seen = format!("{title} did not find a test login in a store");
        return Finding::new(severity, pane, FindingKind::LoginIgnored, seen, evidence.otherwise);
    }
    if !evidence.store_has_login {
        let seen = format!("no key in its environment, and no login in `{dir}`");
        let remedy = "log in inside this pane (all panes share that login), or start it with a key \
                      in its environment";
        return Finding::new(severity, pane, FindingKind::WillAsk, seen, remedy);
    }
    let note = note(evidence.login, evidence.program).unwrap_or_default();
    info(format!("your login in `{dir}`, shared by all panes ({note})"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::pane;
    use super::*;
    use crate::agent::probe::Identity;

    fn program(verdict: Option<Verdict>) -> Program {
        let (agent, path) = ("claude".to_owned(), "/usr/bin/claude".to_owned());
        let identity = Identity { agent, path, size: 1, modified: (1, 0), inode: 1 };
        Program { identity, version: Some("2.1.325".to_owned()), verdict }
    }

    fn store() -> Login {
        Login::Store { variable: "V".to_owned(), dir: "/home/me/.claude".to_owned() }
    }

    fn asks() -> Login {
        Login::Asks { store: Some("/home/me/.claude".to_owned()) }
    }

    #[test]
    fn note_describes_the_result_of_the_probe() {
        let unclear = Verdict::unclear("it did not end within 15s");
        let cases = [
            (None, "not checked yet"),
            (Some(program(None)), "not checked yet"),
            (Some(program(Some(Verdict::Honoured))), "supported by claude 2.1.325"),
            (
                Some(program(Some(Verdict::Ignored))),
                "not supported by claude 2.1.325: this pane will ask for a login",
            ),
            (
                Some(program(Some(unclear))),
                "claude 2.1.325 could not be probed: it did not end within 15s",
            ),
        ];
        for (program, expected) in cases {
            assert_eq!(note(&store(), program.as_ref()).as_deref(), Some(expected));
            assert_eq!(note(&Login::Users, program.as_ref()), None);
        }
    }

    #[test]
    fn missing_login_is_a_warning_only_for_a_running_agent() {
        let honoured = Some(program(Some(Verdict::Honoured)));
        let ignored = Some(program(Some(Verdict::Ignored)));
        let variable = Login::Variable { name: "ANTHROPIC_API_KEY".to_owned() };
        let nothing = Login::Asks { store: None };
        let (info, warning) = (Severity::Info, Severity::Warning);
        #[rustfmt::skip]
        let table = [
            // login     program    stored  own    agent  live   what follows
            (&variable,  &ignored,  false,  false, true,  true,  info,    FindingKind::Login),
            (&store(),   &honoured, true,   false, true,  true,  info,    FindingKind::Login),
            (&store(),   &None,     true,   false, true,  true,  info,    FindingKind::Login),
            (&asks(),    &honoured, true,   false, true,  true,  info,    FindingKind::Login),
            (&store(),   &honoured, false,  false, true,  true,  warning, FindingKind::WillAsk),
            (&asks(),    &None,     false,  false, true,  true,  warning, FindingKind::WillAsk),
            (&asks(),    &None,     false,  false, false, true,  info,    FindingKind::WillAsk),
            (&asks(),    &None,     false,  false, true,  false, info,    FindingKind::WillAsk),
            (&asks(),    &None,     false,  true,  true,  true,  info,    FindingKind::Login),
            (&store(),   &ignored,  true,   false, true,  true,  warning, FindingKind::LoginIgnored),
            (&store(),   &ignored,  true,   false, false, true,  info,    FindingKind::LoginIgnored),
            (&store(),   &ignored,  true,   true,  true,  true,  info,    FindingKind::Login),
            (&nothing,   &None,     false,  false, true,  true,  info,    FindingKind::WillAsk),
            (&nothing,   &None,     false,  true,  true,  true,  info,    FindingKind::Login),
            (&Login::Users, &None,  false,  false, true,  true,  info,    FindingKind::Login),
        ];
        for (login, program, stored, own, agent, live, severity, kind) in table {
            let evidence = LoginEvidence {
                login,
                program: program.as_ref(),
                store_has_login: stored,
                own_login: own,
                is_own_agent: agent,
                otherwise: "log in in the pane",
            };
            let finding = judge(&pane(1, live), &evidence);
            let found = (finding.severity, finding.what.as_str());
            assert_eq!(found, (severity, kind.as_str()), "{evidence:?}, live: {live}");
        }
    }
}
