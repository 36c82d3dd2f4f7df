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
/// that several candidates share is ambiguous, even if one of them also matches as a prefix.
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
            _ => return Err(Unresolved::Ambiguous(found)),
        }
    }
    Err(Unresolved::NotFound)
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
        }
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
