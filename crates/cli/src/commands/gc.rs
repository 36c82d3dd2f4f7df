//! `ccmux gc`: delete expired trash and move orphaned directories to the trash.

use std::path::Path;

use protocol::ErrorCode;
use protocol::control::{Request, Response};
use protocol::gc::{GcAction, GcItem, GcKind, GcReport};
use protocol::workspace::PaneUsage;
use serde::Serialize;

use crate::args::GcArgs;
use crate::connect::Link;
use crate::context::Context;
use crate::failure::{Failure, unexpected};
use crate::output::{Style, printable};
use crate::table::{Cell, Colour, Table};

/// Output of `gc --json`.
#[derive(Serialize)]
struct Printed<'a> {
    items: &'a [GcItem],
    panes: &'a [PaneUsage],
}

pub(super) fn run(context: &Context, args: &GcArgs) -> Result<(), Failure> {
    let GcArgs { dry_run, empty_trash } = *args;
    let progress = context.out.progress("looking for orphaned directories…");
    let request = Request::Gc { dry_run, empty_trash };
    let mut link = Link::new(context);

    let answer = if dry_run {
        link.request_retry(|| request.clone())
    } else {
        // The answer of a second daemon would not list the work of the first.
        link.request_once(&request, "the cleanup may be partly done")
    };

    drop(progress);
    let answer = answer?;
    let Response::Gc(collected) = &answer else { return Err(unexpected(&answer).into()) };
    let tense = if dry_run { Tense::Would } else { Tense::Did };
    context
        .out
        .answer(&Printed { items: &collected.items, panes: &collected.panes }, |_, style| {
            describe(collected, tense, &context.home, style)
        })?;
    let failed = collected.items.iter().any(|item| item.action == GcAction::Failed);
    if failed { Err(Failure::Reported(ErrorCode::Failed)) } else { Ok(()) }
}

/// Whether the actions were only planned, or carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tense {
    Would,
    Did,
}

fn describe(collected: &GcReport, tense: Tense, home: &Path, style: Style) -> String {
    let panes = panes(&collected.panes, style);
    if collected.items.is_empty() {
        return panes + "nothing to clean up: no trash and no orphaned directories\n";
    }
    let mut table = Table::new(&["ACTION", "KIND", "SIZE", "PATH", "REASON"]);
    for item in &collected.items {
        table.push(row(item, home));
    }
    let table = table.render(style.colour, style.width);
    format!("{panes}{table}\n{}", summary(collected, tense))
}

/// Formats the disk usage of each pane, and the space that closing it would free.
fn panes(panes: &[PaneUsage], style: Style) -> String {
    if panes.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(&["PANE", "WORKSPACE", "TEMP", "OUTPUT", "CONFIG", "LOG", "CLOSING FREES"]);
    for pane in panes {
        let frees = match pane.work.first() {
            Some(why) => format!("none: {}", printable(why)),
            None => size(pane.frees),
        };
        let sizes = [pane.workspace, pane.temp, pane.output, pane.config, pane.log].map(size);
        let mut row: Vec<Cell> = vec![pane.name.as_str().into()];
        row.extend(sizes.map(Cell::from));
        row.push(frees.into());
        table.push(row);
    }
    format!("{}\n", table.render(style.colour, style.width))
}

fn row(item: &GcItem, home: &Path) -> Vec<Cell> {
    let (action, colour) = match item.action {
        GcAction::Delete => ("delete", Some(Colour::Red)),
        GcAction::Trash => ("trash", Some(Colour::Yellow)),
        GcAction::Keep => ("keep", None),
        GcAction::Failed => ("failed", Some(Colour::Red)),
    };
    let kind = match item.kind {
        GcKind::Trash => "trash",
        GcKind::Orphan => "orphan",
        GcKind::Unknown => "unknown",
        GcKind::Kept => "kept",
    };
    let path = Path::new(&item.path);
    let path = path.strip_prefix(home).unwrap_or(path).to_string_lossy();
    vec![
        colour.map_or_else(|| Cell::from(action), |colour| Cell::coloured(action, colour)),
        kind.into(),
        size(item.bytes).into(),
        printable(&path).into(),
        printable(&item.why).into(),
    ]
}

/// Returns one line with the totals and the next deletion.
fn summary(collected: &GcReport, tense: Tense) -> String {
    let total = |action: GcAction| {
        let those = collected.items.iter().filter(|item| item.action == action);
        let (count, bytes) =
            those.fold((0_usize, 0), |(count, bytes), item| (count + 1, bytes + item.bytes));
        (count, format!("{} in {count} {}", size(bytes), if count == 1 { "item" } else { "items" }))
    };
    let (deleted, freed) = total(GcAction::Delete);
    let (moved, retired) = total(GcAction::Trash);
    let (stayed, kept) = total(GcAction::Keep);
    let (failures, left) = total(GcAction::Failed);
    let (delete, moves, keep) = match tense {
        Tense::Would => ("would delete", "would move", "would keep"),
        Tense::Did => ("deleted", "moved", "kept"),
    };
    let freed = if deleted > 0 { freed } else { "nothing".to_owned() };
    let mut parts = vec![format!("{delete} {freed}")];
    if moved > 0 {
        parts.push(format!("{moves} {retired} to the trash"));
    }
    if failures > 0 {
        parts.push(format!("failed to remove {left}"));
    }
    if stayed > 0 {
        parts.push(format!("{keep} {kept}"));
    }
    if let Some(due) = collected.next_due {
        parts.push(format!("next deletion after {due}"));
    }
    format!("{}\n", parts.join("; "))
}

/// Returns a size in the largest unit that fits, with two to four significant digits.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Computed in tenths of the unit.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    match tenths {
        0..100 => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
        _ => format!("{} {}", tenths / 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    fn item(path: &str, kind: GcKind, bytes: u64, action: GcAction, why: &str) -> GcItem {
        let path = format!("/state/{path}");
        GcItem { path, kind, why: why.to_owned(), bytes, action }
    }

    fn everything() -> GcReport {
        let items = vec![
            item("trash/1-pane-a", GcKind::Trash, 3 << 30, GcAction::Delete, "retired long ago"),
            item("trash/2-pane-b", GcKind::Trash, 70_000, GcAction::Keep, "kept for 7d"),
            item("trash/notes\x1b[2J", GcKind::Unknown, 0, GcAction::Keep, "not created by ccmux"),
            item("tmp/pane-c", GcKind::Orphan, 4096, GcAction::Trash, "belongs to no pane"),
            item("tmp/pane-d", GcKind::Kept, 8192, GcAction::Keep, "kept by cleanup_on_close"),
        ];
        GcReport { items, panes: vec![], next_due: Some(Timestamp(1_794_776_334_000)) }
    }

    fn style() -> Style {
        Style { colour: false, width: None, now: Timestamp(0) }
    }

    #[test]
    fn describe_lists_items_with_sizes_and_reasons() {
        let would = describe(&everything(), Tense::Would, Path::new("/state"), style());
        let mut failed = everything();
        failed.items[0].action = GcAction::Failed;
        failed.items[0].why = "permission denied".to_owned();
        let did = describe(&failed, Tense::Did, Path::new("/state"), style());
        let nothing = describe(&GcReport::default(), Tense::Did, Path::new("/state"), style());

        insta::assert_snapshot!([would, did, nothing].join("--\n"));
    }

    #[test]
    fn json_has_the_documented_fields() {
        let collected = everything();

        let printed = crate::output::to_json(&Printed { items: &collected.items[..1], panes: &[] });

        assert_eq!(
            printed,
            r#"{"items":[{"path":"/state/trash/1-pane-a","kind":"trash","why":"retired long ago","bytes":3221225472,"action":"delete"}],"panes":[]}"#
        );
    }

    #[test]
    fn size_uses_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10_239, "9.9 KiB"),
            (10_240, "10 KiB"),
            (1 << 20, "1.0 MiB"),
            ((1 << 20) - 1, "1023 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16383 PiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }
}
