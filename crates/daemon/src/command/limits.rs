//! What panes may take: showing and changing it, thawing, and telling what keepers found.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::{cgroup, record};
use model::PaneId;
use model::event::Happening;
use model::limits::{LimitNews, LimitWishes, Limits};
use protocol::control::Response;
use protocol::limits::{LimitsView, PaneLimits};
use protocol::pane::{GROUPS, NEWS, Request as KeeperRequest, Response as KeeperResponse};
use protocol::{ErrorBody, ErrorCode};
use tracing::warn;

use super::Failure;
use crate::keeper::{self, Silent};
use crate::pane::Pane;
use crate::supervisor::{Supervisor, run_blocking};

/// How long a keeper may take to change the limits of its pane: every process is gone through.
const PATIENCE: Duration = Duration::from_secs(10);

impl Supervisor {
    /// What a pane may take and takes, after `wishes` have been granted.
    pub(super) async fn limit(
        self: &Arc<Self>,
        target: &str,
        wishes: &LimitWishes,
    ) -> Result<Response, Failure> {
        let row = self.rows().await?.find_pane(target)?;
        let lost = || {
            let message = format!("the limits of pane {} are not known", row.name);
            ErrorBody::new(ErrorCode::Failed, message).hint("its launch record is lost")
        };
        let pane = self.pane(row.id).ok_or_else(lost)?;
        let limits = pane.launch().ok_or_else(lost)?.limits.with(wishes);
        let view = if pane.look().state.is_live() {
            ask_limits(&pane, limits, !wishes.0.is_empty()).await?
        } else {
            LimitsView::at_rest(&limits)
        };
        if !wishes.0.is_empty() {
            let changed = Arc::clone(&pane);
            let wishes = wishes.clone();
            // Whatever else was changed meanwhile stays.
            let changed = run_blocking(move || {
                changed.change_launch(|launch| launch.limits = launch.limits.with(&wishes))
            });
            changed.await.map_err(|error| ErrorBody::new(ErrorCode::Failed, error.to_string()))?;
        }
        Ok(Response::Limits(PaneLimits { pane: row.id, name: row.name, view }))
    }

    /// Lets the processes of a frozen pane go on.
    pub(super) async fn thaw(self: &Arc<Self>, target: &str) -> Result<Response, Failure> {
        let row = self.rows().await?.find_pane(target)?;
        let (pane, _) = self.live_pane(&row)?;
        match keeper::ask(&pane.dir, &KeeperRequest::Thaw, PATIENCE).await {
            Ok(_) => {}
            Err(Silent::Answer(body)) if body.code == ErrorCode::Conflict => {
                let message = format!("pane {} is not frozen", row.name);
                return Err(ErrorBody::new(ErrorCode::Conflict, message).into());
            }
            Err(silent) => return Err(no_answer(&silent).into()),
        }
        self.tell_limit_news(&pane).await;
        Ok(Response::Pane(Box::new(self.pane_answer(row.id).await?)))
    }

    /// A keeper says that there are news.
    pub(super) async fn limit_news(self: &Arc<Self>, pane: PaneId) -> Result<Response, Failure> {
        if let Some(pane) = self.pane(pane) {
            self.tell_limit_news(&pane).await;
        }
        Ok(Response::Done)
    }

    /// Tells, in a task of its own, what the keeper of an adopted pane found while nobody was
    /// there to be told.
    pub(crate) fn heed_limits(self: &Arc<Self>, pane: &Arc<Pane>) {
        let (this, pane) = (Arc::clone(self), Arc::clone(pane));
        self.tasks.spawn(async move { this.tell_limit_news(&pane).await });
    }

    /// Makes events of the news that a keeper has left, and removes them.
    pub(crate) async fn tell_limit_news(&self, pane: &Pane) {
        let _turn = self.limit_news.lock().await;
        let (id, dir) = (pane.id, pane.dir.clone());
        let news = run_blocking(move || left_news(&dir)).await;
        for (path, news) in news {
            let told = Happening::of_limits(id, news);
            if let Err(error) = self.registry.change(move |change| change.emit(told)).await {
                // They stay where they are, for another time.
                return warn!(%error, "an event is not recorded");
            }
            let _missing = fs::remove_file(path);
        }
    }
}

/// What a live pane may take and takes.
async fn ask_limits(pane: &Pane, limits: Limits, change: bool) -> Result<LimitsView, ErrorBody> {
    let request = if change { KeeperRequest::SetLimits(limits) } else { KeeperRequest::Status };
    match keeper::ask(&pane.dir, &request, PATIENCE).await {
        Ok(KeeperResponse::Limits(view)) => Ok(view),
        Ok(KeeperResponse::Status(live)) => {
            Ok(live.limits.unwrap_or_else(|| LimitsView::at_rest(&limits)))
        }
        Ok(KeeperResponse::Screen(_) | KeeperResponse::WasTyped { .. } | KeeperResponse::Done) => {
            Err(ErrorBody::new(ErrorCode::Failed, "its keeper answered something else"))
        }
        Err(silent) => Err(no_answer(&silent)),
    }
}

fn no_answer(silent: &Silent) -> ErrorBody {
    ErrorBody::new(ErrorCode::Failed, silent.to_string())
}

/// The news in a pane's directory, oldest first.
fn left_news(dir: &Path) -> Vec<(PathBuf, LimitNews)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_news = |name: &str| name.starts_with(NEWS) && name.ends_with(".json");
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_news))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .filter_map(|path| Some((record::read(&path).ok()?, path)))
        .map(|(news, path)| (path, news))
        .collect()
}

/// Removes the groups of a pane whose keeper is gone. Blocks.
pub(crate) fn remove_groups(dir: &Path) {
    let Ok(groups) = record::read::<Vec<String>>(&dir.join(GROUPS)) else { return };
    for group in groups {
        if !cgroup::remove(Path::new(&group)) {
            warn!(group, "is still there");
        }
    }
    let _missing = fs::remove_file(dir.join(GROUPS));
}
