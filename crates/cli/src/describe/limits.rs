//! Text output of resource limits and usage.

use model::event::EventBody;
use model::limits::{Amount, Enforcement, Frozen, OverLimit, Resource};
use protocol::limits::{LimitView, LimitsView, PaneLimits};

use super::moment;
use crate::output::{Style, printable};
use crate::table::Table;

/// Formats the output of `limit PANE`.
pub(crate) fn limits(limits: &PaneLimits, style: Style) -> String {
    let mut table = Table::new(&["LIMIT", "VALUE", "USED", "ENFORCED BY", "PRECISION"]);
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
    let frozen = limits.view.frozen.as_ref();
    let frozen = frozen.map(|why| format!("frozen: {}\n", printable(&frozen_text(why, style))));
    format!("{table}policy: {}\n{}", limits.view.policy, frozen.unwrap_or_default())
}

/// Returns the reason why a pane is frozen, and the command that resumes it.
pub(super) fn frozen_text(frozen: &Frozen, style: Style) -> String {
    let since = moment(frozen.at, style.now);
    format!("{}; since {since}; resume with `ccmux thaw`", frozen.why)
}

/// Returns which limits a pane exceeds and since when.
pub(super) fn over_text(over: &OverLimit, style: Style) -> String {
    format!("{}; since {}", over.why, moment(over.at, style.now))
}

/// Returns one labelled line of `show` for each enforced limit.
pub(super) fn fields(view: &LimitsView) -> impl Iterator<Item = (&'static str, String)> {
    let limited = view.limits.iter().filter(|view| view.means != Enforcement::None);
    limited.filter_map(|view| {
        let limit = view.limit?;
        let used = view.used.map(|used| format!("{} of ", number(view.resource, used)));
        let (used, limit) = (used.unwrap_or_default(), view.resource.text(limit));
        let value = format!("{used}{limit}, enforced by {} ({})", view.means, exactness(view));
        Some((label(view.resource), value))
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
        times => format!("{}; enforced {times} times", view.exactness),
    }
}

/// Returns one sentence for a limit event.
pub(super) fn line(what: &EventBody) -> String {
    if let EventBody::LimitNear { pane, resource, used, limit } = what {
        let what = used_of_limit(*resource, *used, *limit);
        format!("pane {} is near its limit: {what}", pane.short())
    } else if let EventBody::LimitExceeded { pane, resource, used, limit, policy } = what {
        let what = used_of_limit(*resource, *used, *limit);
        format!("pane {} exceeded its limit: {what}, policy {policy}", pane.short())
    } else if let EventBody::LimitKept { pane, resource, limit } = what {
        let (pane, limit) = (pane.short(), resource.text(*limit));
        format!("pane {pane} reached its {resource} limit of {limit}, enforced by the kernel")
    } else {
        String::new()
    }
}

/// Returns `USED of LIMIT RESOURCE`.
fn used_of_limit(resource: Resource, used: u64, limit: u64) -> String {
    format!("{} of {} {resource}", number(resource, used), resource.text(limit))
}

fn number(resource: Resource, number: u64) -> String {
    match resource {
        Resource::Disk | Resource::Memory => Amount(number).about(),
        Resource::Processes | Resource::Cpu | Resource::Files => number.to_string(),
    }
}
