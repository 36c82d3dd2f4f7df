//! What a pane may take and takes, as text for people.

use model::limits::{Amount, Frozen, Means, Resource};
use protocol::limits::{LimitView, LimitsView, PaneLimits};

use super::moment;
use crate::output::{Style, printable};
use crate::table::Table;

/// `limit PANE`.
pub(crate) fn limits(limits: &PaneLimits, style: Style) -> String {
    let mut table = Table::new(&["LIMIT", "VALUE", "USED", "MEANS", "HOW EXACT"]);
    for view in &limits.view.limits {
        let limit = view.limit.map_or_else(|| "none".to_owned(), |limit| view.resource.text(limit));
        let used = view.used.map_or_else(|| "-".to_owned(), |used| number(view.resource, used));
        table.push(vec![
            view.resource.as_str().into(),
            limit.into(),
            used.into(),
            view.means.as_str().into(),
            exactness(view).into(),
        ]);
    }
    let table = table.render(style.colour, style.width);
    let still = limits.view.frozen.as_ref();
    let still = still.map(|why| format!("frozen: {}\n", printable(&frozen(why, style))));
    format!("{table}policy: {}\n{}", limits.view.policy, still.unwrap_or_default())
}

/// Why processes stand still, and what to do.
pub(super) fn frozen(frozen: &Frozen, style: Style) -> String {
    let since = moment(frozen.at, style.now);
    format!("{}; since {since}; go on with `ccmux thaw`", frozen.why)
}

/// Lines of `show`: everything that is limited.
pub(super) fn facts(view: &LimitsView) -> impl Iterator<Item = (&'static str, String)> {
    let limited = view.limits.iter().filter(|view| view.means != Means::None);
    limited.filter_map(|view| {
        let limit = view.limit?;
        let used = view.used.map(|used| format!("{} of ", number(view.resource, used)));
        let (used, limit) = (used.unwrap_or_default(), view.resource.text(limit));
        let fact = format!("{used}{limit}, by {} ({})", view.means, exactness(view));
        Some((label(view.resource), fact))
    })
}

fn label(resource: Resource) -> &'static str {
    match resource {
        Resource::Disk => "disk limit",
        Resource::Memory => "memory limit",
        Resource::Processes => "process limit",
        Resource::Cpu => "cpu share",
        Resource::Files => "file limit",
    }
}

fn exactness(view: &LimitView) -> String {
    match view.refused {
        0 => view.exactness.clone(),
        times => format!("{}; kept {times} times", view.exactness),
    }
}

/// How much is taken of how much.
pub(super) fn of(resource: Resource, used: u64, limit: u64) -> String {
    format!("{} of {} {resource}", number(resource, used), resource.text(limit))
}

fn number(resource: Resource, number: u64) -> String {
    match resource {
        Resource::Disk | Resource::Memory => Amount(number).about(),
        Resource::Processes | Resource::Cpu | Resource::Files => number.to_string(),
    }
}
