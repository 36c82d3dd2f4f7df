//! How the agent of a pane is logged in, and whether that works (B1).

use super::{Finding, Kind, Severity, Subject};
use crate::agent::probe::{Program, Verdict};
use crate::isolation::Login;

/// What is known of the login of a pane now.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// How it was to be logged in when it was planned.
    pub login: &'a Login,
    /// The program in it, as far as it was found and asked.
    pub program: Option<&'a Program>,
    /// There is a login in the shared store now.
    pub store_has_login: bool,
    /// There is a login in the pane's own directory.
    pub own_login: bool,
    /// The pane runs that agent itself, and not a shell in which it may be typed.
    pub is_own_agent: bool,
    /// What to do where a release does not use the shared login.
    pub otherwise: &'a str,
}

/// How a check of the shared login came out, in a few words; none where nothing depends on it.
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
            format!("checked with {}: honoured", program.title())
        }
        Some((program, Verdict::Ignored)) => {
            format!("not honoured by {}: this pane will ask", program.title())
        }
        Some((program, Verdict::Unclear { why })) => {
            format!("{} could not be checked: {why}", program.title())
        }
    })
}

/// How a pane's agent is logged in, or that it will ask.
#[must_use]
pub fn judge(pane: &Subject, evidence: &Evidence<'_>) -> Finding {
    let info = |evidence: String| Finding::new(Severity::Info, pane, Kind::Login, evidence, "");
    match evidence.login {
        Login::Users => info("by your own login: nothing is kept apart".to_owned()),
        Login::Variable { name } => info(format!("by {name} in its environment")),
        Login::Store { dir, .. } | Login::Asks { store: Some(dir) } => stored(pane, evidence, dir),
        Login::Asks { store: None } if evidence.own_login => {
            info("by a login of its own, in the pane's directory".to_owned())
        }
        Login::Asks { store: None } => {
            let remedy = "log in in the pane, or start it with a key in the environment; no \
                          action is needed if its configuration names a provider that needs none";
            let seen = "no key in its environment, and no login in its directory";
            Finding::new(Severity::Info, pane, Kind::WillAsk, seen, remedy)
        }
    }
}

/// How it is with the login that all panes share.
fn stored(pane: &Subject, evidence: &Evidence<'_>, dir: &str) -> Finding {
    let info = |evidence: String| Finding::new(Severity::Info, pane, Kind::Login, evidence, "");
    let verdict = evidence.program.and_then(|program| program.verdict.as_ref());
    let ignored = verdict == Some(&Verdict::Ignored);
    // Only a pane that stands at the question now needs somebody.
    let matters = pane.live && evidence.is_own_agent;
    let severity = if matters { Severity::Warning } else { Severity::Info };
    if evidence.own_login && (ignored || !evidence.store_has_login) {
        return info("by a login of its own, in the pane's directory".to_owned());
    }
    if ignored {
        let title = evidence.program.map(Program::title).unwrap_or_default();
        let seen = format!("{title} was asked with a made-up login in a store, and saw none");
        return Finding::new(severity, pane, Kind::LoginIgnored, seen, evidence.otherwise);
    }
    if !evidence.store_has_login {
        let seen = format!("no key in its environment, and no login in `{dir}`");
        let remedy = "log in in this pane: all panes share that login; or start it with a key in \
                      the environment";
        return Finding::new(severity, pane, Kind::WillAsk, seen, remedy);
    }
    let note = note(evidence.login, evidence.program).unwrap_or_default();
    info(format!("by your login in `{dir}`, which all panes share ({note})"))
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
    fn a_note_says_how_the_check_came_out() {
        let unclear = Verdict::unclear("it did not end within 15s");
        let cases = [
            (None, "not checked yet"),
            (Some(program(None)), "not checked yet"),
            (Some(program(Some(Verdict::Honoured))), "checked with claude 2.1.325: honoured"),
            (
                Some(program(Some(Verdict::Ignored))),
                "not honoured by claude 2.1.325: this pane will ask",
            ),
            (
                Some(program(Some(unclear))),
                "claude 2.1.325 could not be checked: it did not end within 15s",
            ),
        ];
        for (program, expected) in cases {
            assert_eq!(note(&store(), program.as_ref()).as_deref(), Some(expected));
            assert_eq!(note(&Login::Users, program.as_ref()), None);
        }
    }

    #[test]
    fn a_pane_that_will_ask_is_told_of_where_somebody_has_to_answer() {
        let honoured = Some(program(Some(Verdict::Honoured)));
        let ignored = Some(program(Some(Verdict::Ignored)));
        let variable = Login::Variable { name: "ANTHROPIC_API_KEY".to_owned() };
        let nothing = Login::Asks { store: None };
        let (info, warning) = (Severity::Info, Severity::Warning);
        #[rustfmt::skip]
        let table = [
            // login     program    stored  own    agent  live   what follows
            (&variable,  &ignored,  false,  false, true,  true,  info,    Kind::Login),
            (&store(),   &honoured, true,   false, true,  true,  info,    Kind::Login),
            (&store(),   &None,     true,   false, true,  true,  info,    Kind::Login),
            (&asks(),    &honoured, true,   false, true,  true,  info,    Kind::Login),
            (&store(),   &honoured, false,  false, true,  true,  warning, Kind::WillAsk),
            (&asks(),    &None,     false,  false, true,  true,  warning, Kind::WillAsk),
            (&asks(),    &None,     false,  false, false, true,  info,    Kind::WillAsk),
            (&asks(),    &None,     false,  false, true,  false, info,    Kind::WillAsk),
            (&asks(),    &None,     false,  true,  true,  true,  info,    Kind::Login),
            (&store(),   &ignored,  true,   false, true,  true,  warning, Kind::LoginIgnored),
            (&store(),   &ignored,  true,   false, false, true,  info,    Kind::LoginIgnored),
            (&store(),   &ignored,  true,   true,  true,  true,  info,    Kind::Login),
            (&nothing,   &None,     false,  false, true,  true,  info,    Kind::WillAsk),
            (&nothing,   &None,     false,  true,  true,  true,  info,    Kind::Login),
            (&Login::Users, &None,  false,  false, true,  true,  info,    Kind::Login),
        ];
        for (login, program, stored, own, agent, live, severity, kind) in table {
            let evidence = Evidence {
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
