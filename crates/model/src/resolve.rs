//! Resolution of user input to a session or pane.

use crate::ids::{PaneId, SessionId};
use crate::name::Name;

/// The minimum length of an id prefix. Shorter ones are more likely typing errors.
pub const SHORTEST_PREFIX: usize = 4;

/// A session or pane that can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub target: Target,
    /// Its id, as text.
    pub id: String,
    /// Its name.
    pub name: Name,
    /// For a pane, the name of its session.
    pub session: Option<Name>,
    /// Whether it is a pane that has not ended.
    pub live: bool,
}

/// A session or a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A session.
    Session(SessionId),
    /// A pane.
    Pane(PaneId),
}

/// A failed resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// No candidate has this id, name or prefix.
    NotFound,
    /// Several candidates match.
    Ambiguous(Vec<Candidate>),
}

/// Returns the one candidate that `text` identifies.
///
/// An exact id wins, then `SESSION/PANE` names, then an exact name, then a prefix of an id. A name
/// that several panes share means the only live one among them; otherwise it is ambiguous, even if
/// one of them also matches as a prefix.
///
/// # Errors
///
/// [`Unresolved`].
pub fn resolve(text: &str, candidates: &[Candidate]) -> Result<Candidate, Unresolved> {
    let by = |fits: &dyn Fn(&Candidate) -> bool| -> Vec<Candidate> {
        candidates.iter().filter(|c| fits(c)).cloned().collect()
    };
    let qualified = |c: &Candidate| {
        c.session.as_ref().is_some_and(|session| {
            text.split_once('/') == Some((session.as_str(), c.name.as_str()))
        })
    };
    let is_prefix = |c: &Candidate| text.len() >= SHORTEST_PREFIX && c.id.starts_with(text);
    let tiers: [&dyn Fn(&Candidate) -> bool; 4] =
        [&|c| c.id == text, &qualified, &|c| c.name.as_str() == text, &is_prefix];
    for fits in tiers {
        let mut found = by(fits);
        match found.len() {
            0 => {}
            1 => return Ok(found.remove(0)),
            _ => {
                return only_live(text, &found).cloned().ok_or(Unresolved::Ambiguous(found));
            }
        }
    }
    Err(Unresolved::NotFound)
}

/// Returns the only live one of several panes with the same name. A session of that name, and a
/// prefix of several ids, stay ambiguous.
fn only_live<'a>(text: &str, found: &'a [Candidate]) -> Option<&'a Candidate> {
    let name = text.rsplit('/').next().unwrap_or(text);
    let is_named_pane =
        |c: &Candidate| matches!(c.target, Target::Pane(_)) && c.name.as_str() == name;
    let mut live = found.iter().filter(|c| c.live);
    let one = live.next().filter(|_| live.next().is_none());
    one.filter(|_| found.iter().all(is_named_pane))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane(first: u8, name: &str, session: &str) -> Candidate {
        let id = PaneId::from_random([first; 16]);
        Candidate {
            target: Target::Pane(id),
            id: id.to_string(),
            name: name.parse().unwrap(),
            session: Some(session.parse().unwrap()),
            live: true,
        }
    }

    fn ended(pane: Candidate) -> Candidate {
        Candidate { live: false, ..pane }
    }

    #[test]
    fn shared_name_resolves_to_the_only_live_pane() {
        let (web, api) = (pane(0xaa, "dev1", "web"), pane(0xab, "dev1", "api"));
        let session = Candidate {
            target: Target::Session(SessionId::from_random([1; 16])),
            session: None,
            live: false,
            ..pane(0xac, "dev1", "x")
        };
        let ambiguous = |all: &[Candidate]| Err(Unresolved::Ambiguous(all.to_vec()));

        let one_live = [ended(web.clone()), api.clone()];
        assert_eq!(resolve("dev1", &one_live), Ok(api.clone()));
        assert_eq!(resolve("web/dev1", &one_live), Ok(ended(web.clone())));
        assert_eq!(resolve(&web.id, &one_live), Ok(ended(web.clone())));

        let both_ended = [ended(web.clone()), ended(api.clone())];
        assert_eq!(resolve("dev1", &both_ended), ambiguous(&both_ended));
        let with_session = [ended(web.clone()), api.clone(), session];
        assert_eq!(resolve("dev1", &with_session), ambiguous(&with_session));
        let prefixes = [ended(pane(0xaa, "a", "web")), pane(0xaa, "b", "api")];
        assert_eq!(resolve("aaaa", &prefixes), ambiguous(&prefixes));
    }

    #[test]
    fn ambiguous_name_is_never_guessed() {
        let all = [pane(0xaa, "dev1", "web"), pane(0xab, "dev1", "api"), pane(0xac, "qa", "api")];

        assert_eq!(resolve("qa", &all).unwrap(), all[2]);
        assert_eq!(resolve("api/dev1", &all).unwrap(), all[1]);
        assert_eq!(resolve("aaaa", &all).unwrap(), all[0]);
        assert_eq!(resolve(&all[1].id, &all).unwrap(), all[1]);
        assert_eq!(resolve("dev1", &all), Err(Unresolved::Ambiguous(all[..2].to_vec())));
        for unknown in ["", "aa", "dev", "api/qa2", "../dev1"] {
            assert_eq!(resolve(unknown, &all), Err(Unresolved::NotFound), "input: {unknown:?}");
        }
    }
}
