//! Disk usage of panes.

use std::sync::Arc;

use host::StateRoot;
use host::disk_usage;
use protocol::workspace::PaneUsage;

use super::pane::Pane;
use super::removal::{self, RemovalScope};
use super::workspace::WORKSPACE;
use crate::runtime::run_blocking;

/// Returns the disk usage of every pane, and how much closing it would free.
pub(crate) async fn of_panes(root: StateRoot, mut panes: Vec<Arc<Pane>>) -> Vec<PaneUsage> {
    panes.sort_by_key(|pane| {
        let created = pane.launch().map(|launch| launch.created);
        (created, pane.id)
    });
    run_blocking(move || panes.iter().filter_map(|pane| usage_of(&root, pane)).collect()).await
}

fn usage_of(root: &StateRoot, pane: &Pane) -> Option<PaneUsage> {
    let launch = pane.launch()?;
    let part = |name: &str| disk_usage::bytes(&pane.dir.join(name));
    let [workspace, temp, output, log] = [WORKSPACE, "temp", "output", "log"].map(part);
    let config = root.isolated_dirs(pane.id).iter().map(|path| disk_usage::bytes(path)).sum();
    let work = if pane.status().state.is_live() {
        vec!["the pane is running".to_owned()]
    } else {
        let scope = RemovalScope { home: true, ..RemovalScope::default() };
        removal::examine(root, &pane.dir, &pane.dir, pane.id, &scope).lines
    };
    let all = disk_usage::bytes(&pane.dir) + config;
    let frees = if work.is_empty() { all } else { 0 };
    let name = launch.name.clone();
    Some(PaneUsage { pane: pane.id, name, workspace, temp, output, config, log, frees, work })
}
