//! Resolution of a message's address to panes (R30).
//!
//! An address is resolved within one session. It is the name, the id or an id prefix of a pane, or a
//! group: `role:R`, `unit:U`, `managers`, `workers` or `all`, which never includes the sender.

use std::fmt;

use crate::ids::PaneId;
use crate::name::Name;
use crate::resolve::SHORTEST_PREFIX;
use crate::team::is_manager;

/// A pane of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The pane.
    pub pane: PaneId,
    /// Its name.
    pub name: Name,
    /// Its role.
    pub role: Option<String>,
    /// Its unit.
    pub unit: Option<String>,
}

/// An address without a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No pane of the session matches.
    NotFound,
    /// Several panes match an id prefix.
    Ambiguous(Vec<Member>),
    /// Only the sender matches.
    OnlySender,
}

/// Returns the panes that `to` addresses, in the order of `members`.
///
/// # Errors
///
/// [`NoRoute`].
pub fn route(to: &str, sender: Option<PaneId>, members: &[Member]) -> Result<Vec<PaneId>, NoRoute> {
    if let Some(group) = Group::named(to) {
        let meant: Vec<PaneId> =
            members.iter().filter(|member| group.has(member)).map(|member| member.pane).collect();
        let others: Vec<PaneId> =
            meant.iter().copied().filter(|pane| Some(*pane) != sender).collect();
        return match (others.is_empty(), meant.is_empty()) {
            (false, _) => Ok(others),
            (true, true) => Err(NoRoute::NotFound),
            (true, false) => Err(NoRoute::OnlySender),
        };
    }
    let is_prefix =
        |member: &&Member| to.len() >= SHORTEST_PREFIX && member.pane.to_string().starts_with(to);
    let by_name = members.iter().find(|member| member.name.as_str() == to);
    let found: Vec<&Member> = match by_name {
        Some(named) => vec![named],
        None => members.iter().filter(is_prefix).collect(),
    };
    match found.as_slice() {
        [] => Err(NoRoute::NotFound),
        [one] if Some(one.pane) == sender => Err(NoRoute::OnlySender),
        [one] => Ok(vec![one.pane]),
        several => Err(NoRoute::Ambiguous(several.iter().map(|&member| member.clone()).collect())),
    }
}

/// A group of panes.
enum Group<'a> {
    All,
    Managers,
    Workers,
    Role(&'a str),
    Unit(&'a str),
}

impl<'a> Group<'a> {
    fn named(to: &'a str) -> Option<Self> {
        Some(match to {
            "all" => Self::All,
            "managers" => Self::Managers,
            "workers" => Self::Workers,
            _ => match to.split_once(':')? {
                ("role", role) => Self::Role(role),
                ("unit", unit) => Self::Unit(unit),
                _ => return None,
            },
        })
    }

    fn has(&self, member: &Member) -> bool {
        let manages = member.role.as_deref().is_some_and(is_manager);
        match self {
            Self::All => true,
            Self::Managers => manages,
            // A shell that was opened in addition to the team is not a worker.
            Self::Workers => !manages && (member.role.is_some() || member.unit.is_some()),
            Self::Role(role) => member.role.as_deref() == Some(*role),
            Self::Unit(unit) => member.unit.as_deref() == Some(*unit),
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.pane, self.name)?;
        if let Some(role) = &self.role {
            write!(f, "  role:{role}")?;
        }
        if let Some(unit) = &self.unit {
            write!(f, "  unit:{unit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u8, name: &str, role: Option<&str>, unit: Option<&str>) -> Member {
        Member {
            pane: PaneId::from_random([n; 16]),
            name: name.parse().unwrap(),
            role: role.map(str::to_owned),
            unit: unit.map(str::to_owned),
        }
    }

    fn team() -> Vec<Member> {
        vec![
            member(1, "pm", Some("pm"), None),
            member(2, "lead", Some("lead"), Some("web")),
            member(3, "dev1", Some("dev"), Some("web")),
            member(4, "dev2", Some("dev"), Some("api")),
            member(5, "qa", Some("qa"), Some("web")),
            member(6, "shell", None, None),
            member(7, "helper", None, Some("api")),
        ]
    }

    /// Returns the names of the recipients of a message from `from` (R30).
    fn routed(to: &str, from: Option<&str>) -> Result<String, NoRoute> {
        let team = team();
        let of_name = |name: &str| team.iter().find(|m| m.name.as_str() == name).unwrap().pane;
        let panes = route(to, from.map(of_name), &team)?;
        let names = panes
            .iter()
            .map(|pane| team.iter().find(|member| member.pane == *pane).unwrap().name.as_str());
        Ok(names.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn address_resolves_to_the_matching_panes() {
        let table = [
            ("dev1", Some("pm"), "dev1"),
            ("dev1", None, "dev1"),
            ("04040404-0404-4404-8404-040404040404", Some("pm"), "dev2"),
            ("0505", None, "qa"),
            ("role:dev", Some("pm"), "dev1 dev2"),
            ("role:dev", Some("dev1"), "dev2"),
            ("unit:web", Some("dev1"), "lead qa"),
            ("unit:api", None, "dev2 helper"),
            ("managers", Some("dev1"), "pm lead"),
            ("managers", Some("pm"), "lead"),
            ("workers", Some("pm"), "dev1 dev2 qa helper"),
            ("workers", Some("qa"), "dev1 dev2 helper"),
            ("all", Some("pm"), "lead dev1 dev2 qa shell helper"),
            ("all", None, "pm lead dev1 dev2 qa shell helper"),
        ];
        for (to, from, expected) in table {
            assert_eq!(routed(to, from).as_deref(), Ok(expected), "to {to} from {from:?}");
        }
    }

    #[test]
    fn address_without_a_recipient_is_rejected() {
        for unknown in ["", "dev", "dev3", "role:ops", "unit:", "role:", "team:web", "050", "9999"]
        {
            assert_eq!(routed(unknown, None), Err(NoRoute::NotFound), "to {unknown:?}");
        }
        for (to, from) in [("qa", "qa"), ("role:qa", "qa"), ("role:pm", "pm"), ("0505", "qa")] {
            assert_eq!(routed(to, Some(from)), Err(NoRoute::OnlySender), "to {to:?}");
        }
    }

    #[test]
    fn name_precedes_id_and_ambiguous_prefix_is_never_guessed() {
        let mut team = team();
        team.push(member(8, "0505", None, None));
        let (dup, twin) = (team[2].pane, member(3, "twin", None, None));
        team.push(Member { pane: dup, ..twin });

        assert_eq!(route("0505", None, &team), Ok(vec![team[7].pane]));
        assert!(
            matches!(route("0303", None, &team), Err(NoRoute::Ambiguous(two)) if two.len() == 2)
        );
    }
}
