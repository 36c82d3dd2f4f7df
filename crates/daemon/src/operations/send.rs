//! Types input into a pane.

use std::time::Duration;

use host::store::StoreError;
use model::Name;
use model::authority::{Access, Caller};
use protocol::pane::{Request as KeeperRequest, Response as KeeperResponse};
use protocol::pane_io::Typing;

use super::Services;
use super::access::{AccessDenied, authorize};
use crate::fault::{Advice, Description, Fault, FaultKind, any_of};
use crate::panes::Pane;
use crate::panes::error::{KeeperFault, NotLive};
use crate::registry::TargetError;
use crate::wire::keeper::{self, KeeperError};

any_of! {
    /// Why input was not typed into a pane.
    pub(crate) enum SendError {
        Denied(AccessDenied),
        Target(TargetError),
        Store(StoreError),
        NotLive(NotLive),
        Frozen(PaneFrozen),
        Dialog(Dialog),
        Unread(InputNotRead),
        Keeper(KeeperFault),
    }
}

/// The program of a pane did not read its input in time.
#[derive(Debug, thiserror::Error)]
#[error("the program in pane {0} does not read its input")]
pub(crate) struct InputNotRead(Name);

impl Fault for InputNotRead {
    fn describe(&self) -> Description {
        FaultKind::TimedOut.advise(Advice::ReadScreen)
    }
}

/// The processes of the pane are suspended and cannot read input.
#[derive(Debug, thiserror::Error)]
#[error("pane {name} is frozen: {why}")]
pub(crate) struct PaneFrozen {
    name: Name,
    why: String,
}

impl Fault for PaneFrozen {
    fn describe(&self) -> Description {
        FaultKind::Conflict.advise(Advice::ThawPane { pane: self.name.to_string() })
    }
}

/// The agent of a pane is asking a question, which the input would answer.
#[derive(Debug, thiserror::Error)]
#[error("nothing was typed: the agent in pane {pane} asks: {question}")]
pub(crate) struct Dialog {
    pane: Name,
    question: String,
}

impl Fault for Dialog {
    fn describe(&self) -> Description {
        FaultKind::Conflict.advise(Advice::AnswerOrForce { pane: self.pane.to_string() })
    }
}

/// Input for a pane.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) typing: Typing,
    /// How long the pane may take to read it.
    pub(crate) timeout_ms: u64,
    /// Type even if the agent is asking a question.
    pub(crate) force: bool,
}

/// Types input into a pane and waits until its program has read it.
pub(crate) async fn send(
    services: &Services,
    caller: &Caller,
    target: &str,
    input: Input,
) -> Result<(), SendError> {
    let row = services.panes.rows().await?.find_pane(target)?;
    authorize(services, caller, Access::Control, Some(row.session)).await?;
    let (pane, status) = services.panes.live_pane(&row)?;
    if let Some(why) = status.keeper.as_ref().and_then(|keeper| keeper.incompatible()) {
        return Err(KeeperFault::Unusable { name: row.name, why }.into());
    }
    if let Some(frozen) = status.frozen {
        return Err(PaneFrozen { name: row.name, why: frozen.why }.into());
    }
    let timeout = Duration::from_millis(input.timeout_ms);
    if !input.force
        && let Some(question) = question(services, &pane, timeout).await
    {
        return Err(Dialog { pane: row.name, question }.into());
    }
    match keeper::ask(&pane.dir, &KeeperRequest::Type(input.typing), timeout).await {
        Ok(_) => {
            services.lifecycle.pane_changed(row.id);
            Ok(())
        }
        Err(KeeperError::TimedOut(_)) => Err(InputNotRead(row.name).into()),
        Err(KeeperError::Remote(body)) => Err(KeeperFault::Remote(body).into()),
        // The pane may have ended in the meantime.
        Err(error) => match services.panes.live_pane(&row) {
            Ok(_) => Err(KeeperFault::Unusable { name: row.name, why: error.to_string() }.into()),
            Err(ended) => Err(ended.into()),
        },
    }
}

/// Returns the question that the agent of a pane is asking, according to its screen.
async fn question(services: &Services, pane: &Pane, timeout: Duration) -> Option<String> {
    let (agent, _) = services.panes.conversations.agent_of(pane).await?;
    let prompting = agent.prompting?;
    match keeper::ask(&pane.dir, &KeeperRequest::Screen, timeout).await {
        Ok(KeeperResponse::Screen(view)) => prompting.dialog(&view.text),
        _ => None,
    }
}
