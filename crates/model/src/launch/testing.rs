//! Sample launches for tests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Launch, LaunchContext, LaunchError, LaunchRequest, NewPane, PanePaths, Plan, plan};
use crate::config::IsolationConfig;
use crate::conversation::ConversationId;
use crate::ids::{PaneId, SessionId};
use crate::isolation::Method;
use crate::limits::Limits;
use crate::time::Timestamp;

pub(crate) fn context() -> LaunchContext<'static> {
    static ISOLATION: LazyLock<IsolationConfig> = LazyLock::new(IsolationConfig::default);
    LaunchContext {
        root: "/s",
        isolation: &ISOLATION,
        agents: const { &BTreeMap::new() },
        exists: &|_| false,
        hooks: None,
    }
}

pub(crate) fn pane() -> NewPane<'static> {
    let path = |name: &str| format!("/s/{name}");
    NewPane {
        pane: PaneId::from_random([1; 16]),
        session: SessionId::from_random([2; 16]),
        session_name: "web".parse().unwrap(),
        name: "dev1".parse().unwrap(),
        paths: PanePaths {
            socket: path("run/control.sock"),
            temp: path("temp"),
            output: path("output"),
            shared: path("shared"),
            unit: path("unit"),
            workflows: path("workflows"),
            logs: path("logs"),
        },
        place: None,
        owner: 1000,
        method: Method::ConfigDir,
        roles: const { &BTreeMap::new() },
        shared_env: const { &BTreeMap::new() },
        session_env: const { &BTreeMap::new() },
        ports: None,
        conversation: ConversationId::from_random([3; 16]),
        limits: Limits::default(),
        now: Timestamp(7),
        version: "0.1.0",
    }
}

/// Plans a requested pane.
pub(crate) fn plan_new(request: &LaunchRequest) -> Result<Plan, LaunchError> {
    plan(Launch::New(request, &pane()), &context())
}

/// A request of a client with the shell `/bin/zsh` in the directory `/src`.
pub(crate) fn request(command: &[&str]) -> LaunchRequest {
    LaunchRequest {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        cwd: "/src".to_owned(),
        client_env: BTreeMap::from([("SHELL".to_owned(), "/bin/zsh".to_owned())]),
        ..LaunchRequest::default()
    }
}
