//! Text output of the views of the control protocol.

pub(crate) mod changes;
mod conflicts;
mod environment;
mod health;
mod limits;
mod messages;

use model::authority::Caller;
use model::event::{Event, EventBody};
use model::isolation::Login;
use model::{ConversationId, PaneState, SessionStatus, Timestamp};
use protocol::control::{DaemonStatus, Listing, PaneAnswer, PaneView, SessionAnswer};
use protocol::session::SessionView;

use crate::output::{Style, printable};
use crate::table::{Cell, Colour, Table};

pub(crate) use environment::environment;
pub(crate) use health::health;
pub(crate) use limits::limits;
pub(crate) use messages::{message, messages};

/// Formats the output of `ls`.
pub(crate) fn listing(listing: &Listing, style: Style) -> String {
    if listing.sessions.is_empty() {
        return "no panes; start one with `ccmux new`\n".to_owned();
    }
    let mut table = pane_table();
    for listed in &listing.sessions {
        for pane in &listed.panes {
            table.push(pane_row(&listed.session, pane, style));
        }
        if listed.panes.is_empty() {
            table.push(empty_row(&listed.session, style));
        }
    }
    table.render(style.colour, style.width)
}

/// Formats the output of `show PANE`.
pub(crate) fn pane(answer: &PaneAnswer, style: Style) -> String {
    let PaneAnswer { session, pane, .. } = answer;
    let mut fields = Fields::default();
    fields.add("pane", pane.name.as_str());
    fields.add("id", &pane.id.to_string());
    fields.add("session", &format!("{} ({}, {})", session.name, session.id, session.mode));
    fields.add("state", &pane_state(pane));
    let frozen = pane.frozen.as_ref().map(|frozen| limits::frozen_text(frozen, style));
    fields.add_some("frozen", frozen.as_deref());
    let over = pane.over_limit.as_ref().map(|over| limits::over_text(over, style));
    fields.add_some("over limit", over.as_deref());
    fields.add_some("problem", pane.problem.as_deref());
    fields.add_some("pid", pane.pid.map(|pid| pid.to_string()).as_deref());
    fields.add("agent", &pane.agent);
    fields.add_some("role", pane.role.as_deref());
    fields.add("command", &command(requested(pane)));
    fields.add("cwd", &pane.cwd);
    fields.add("created", &moment(pane.created, style.now));
    if let Some(ending) = &pane.ending {
        fields.add("ended", &format!("{} ({ending})", moment(ending.at, style.now)));
        fields.add_some("reason", ending.detail.as_deref());
    }
    if let Some(isolation) = &pane.isolation {
        fields.add("isolation", isolation.method.as_str());
        let note = pane.login_note.as_ref().map(|note| format!(" ({note})"));
        let login = login(&isolation.login) + &note.unwrap_or_default();
        fields.add("login", &login);
    }
    fields.add_some("shared", pane.shared_note.as_deref());
    let ports = pane.ports.map(|ports| format!("{} to {}", ports.base, ports.last()));
    fields.add_some("ports", ports.as_deref());
    fields.add_some("config", pane.config_dir.as_deref());
    fields.add_some("conversation", pane.conversation.as_ref().map(ConversationId::as_str));
    if let Some(kind) = pane.workspace_kind {
        let branch = pane.branch.as_ref().map(|branch| format!(" on branch {branch}"));
        let branch = branch.unwrap_or_default();
        fields.add("workspace", &format!("{} ({kind}{branch})", pane.workspace));
    }
    fields.add_some("changes", answer.changes.as_ref().map(changes::counts).as_deref());
    fields.add("directory", &pane.dir);
    for conflict in &pane.conflicts {
        let line = conflicts::line(&conflict.what);
        fields.add("conflict", &format!("{line} ({})", moment(conflict.at, style.now)));
    }
    for lock in &pane.locks {
        fields.add("locked", &format!("{} ({})", lock.path, lock.mode));
    }
    if let Some(live) = &pane.live {
        fields.add("size", &live.size.to_string());
        fields.add_some("title", Some(live.title.as_str()).filter(|title| !title.is_empty()));
        fields.add("clients", &live.clients.to_string());
        let output = format!("{} bytes, kept from byte {}", live.log_end, live.log_start);
        fields.add("output", &output);
        fields.add_some("log problem", live.log_problem.as_deref());
        let last = live.last_output.map(|at| moment(at, style.now));
        fields.add_some("last output", last.as_deref());
        fields.add("keeper", &live.keeper_pid.to_string());
        for (label, value) in live.limits.iter().flat_map(limits::fields) {
            fields.add(label, &value);
        }
    }
    fields.render()
}

/// Formats the output of `show SESSION`.
pub(crate) fn session(answer: &SessionAnswer, style: Style) -> String {
    let SessionAnswer { session, panes } = answer;
    let mut fields = Fields::default();
    fields.add("session", session.name.as_str());
    fields.add("id", &session.id.to_string());
    fields.add("status", session.status.as_str());
    fields.add_some("problem", session.problem.as_deref());
    fields.add("mode", &session.mode.to_string());
    fields.add_some("template", session.template.as_deref());
    fields.add_some("project", session.project.as_deref());
    fields.add("created", &moment(session.created, style.now));
    fields.add("directory", &session.dir);
    fields.add("unit", &session.unit_dir);
    fields.add("workflows", &session.workflows_dir);
    let mut text = fields.render();
    if !panes.is_empty() {
        let mut table = pane_table();
        for pane in panes {
            table.push(pane_row(session, pane, style));
        }
        text.push('\n');
        text.push_str(&table.render(style.colour, style.width));
    }
    text
}

/// Formats the output of `daemon status`.
pub(crate) fn status(status: &DaemonStatus, _style: Style) -> String {
    let mut fields = Fields::default();
    fields.add("daemon", &format!("running, pid {}", status.pid));
    fields.add("version", &status.version);
    fields.add("home", &status.home);
    fields.add("panes", &status.panes.to_string());
    fields.add_some("http", status.http.as_deref());
    fields.add("last event", &status.last_event.to_string());
    fields.render()
}

/// Formats one line of `events`.
pub(crate) fn event(event: &Event, _style: Style) -> String {
    let what = match &event.what {
        EventBody::DaemonStarted { pid, adopted } => {
            format!("daemon started (pid {pid}), {adopted} panes adopted")
        }
        EventBody::AccessDenied { why, .. } => why.clone(),
        EventBody::SessionCreated { session, name } => {
            format!("session {name} ({}) created", session.short())
        }
        EventBody::SessionClosed { session } => format!("session {} closed", session.short()),
        EventBody::SessionRenamed { session, name } => {
            format!("session {} renamed to {name}", session.short())
        }
        EventBody::SessionMigrated { session, panes } => {
            format!("session {} migrated to isolated mode, {panes} panes", session.short())
        }
        EventBody::PaneCreated { session, pane, name } => {
            format!("pane {name} ({}) created in session {}", pane.short(), session.short())
        }
        EventBody::PaneRenamed { pane, name } => {
            format!("pane {} renamed to {name}", pane.short())
        }
        EventBody::PaneRestored { pane, conversation } => {
            let id = conversation.as_ref().map(|id| format!(" with conversation {id}"));
            format!("pane {} restored{}", pane.short(), id.unwrap_or_default())
        }
        EventBody::ConversationChanged { pane, conversation } => {
            format!("pane {} switched to conversation {conversation}", pane.short())
        }
        EventBody::ResumeFailed { pane, conversation, why } => {
            format!("pane {} could not resume conversation {conversation}: {why}", pane.short())
        }
        EventBody::PortsTaken { pane, ports } => {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            let ports = ports.join(", ");
            format!("ports of pane {} used by another process: {ports}", pane.short())
        }
        EventBody::Retired { path, kept_as, why } => {
            format!("{path} moved to the trash as {kept_as}: {why}")
        }
        EventBody::CleanupFailed { path, why } => format!("cannot remove {path}: {why}"),
        EventBody::ApiCalled { who, method, path, status } => {
            format!("API call by {who}: {method} {path}, status {status}")
        }
        EventBody::ControlCalled { request, target } => match target {
            Some(target) => format!("{request} {target}"),
            None => request.clone(),
        },
        EventBody::PaneExited { pane, ending } => format!("pane {}: {ending}", pane.short()),
        EventBody::PaneLost { pane, killed } => {
            let pane = pane.short();
            format!("pane {pane} lost its keeper, {killed} processes killed")
        }
        limit @ (EventBody::LimitNear { .. }
        | EventBody::LimitExceeded { .. }
        | EventBody::LimitKept { .. }) => limits::line(limit),
        EventBody::PaneThawed { pane } => format!("pane {} thawed", pane.short()),
        EventBody::PaneClosed { pane } => format!("pane {} closed", pane.short()),
        conflict @ EventBody::Conflict { .. } => conflicts::line(conflict),
        message @ (EventBody::MessageQueued { .. }
        | EventBody::MessageDelivered { .. }
        | EventBody::MessageAnswered { .. }
        | EventBody::MessageFailed { .. }) => messages::line(message),
        EventBody::Quarantined { path, kept_as, why } => {
            format!("unreadable file {path} moved to {kept_as}: {why}")
        }
    };
    let by = match &event.caller {
        Some(caller @ (Caller::Pane { .. } | Caller::HttpToken { .. })) => {
            format!(" (by {caller})")
        }
        Some(Caller::Daemon | Caller::LocalUser) | None => String::new(),
    };
    format!("{:>6}  {}  {}{by}\n", event.seq, event.at, printable(&what))
}

/// Describes the login of the agent in a pane.
fn login(login: &Login) -> String {
    match login {
        Login::Variable { name } => format!("{name} in the environment"),
        Login::Store { dir, .. } => format!("your login in {dir}, shared by all panes"),
        Login::Asks { store: Some(dir) } => {
            format!("none yet: the agent will ask once and store the login in {dir} for all panes")
        }
        Login::Asks { store: None } => "none: the agent will ask in this pane".to_owned(),
        Login::Users => "your own: no isolation".to_owned(),
    }
}

fn pane_table() -> Table {
    Table::new(&["ID", "NAME", "SESSION", "STATE", "PID", "AGE", "COMMAND"])
}

fn pane_row(session: &SessionView, pane: &PaneView, style: Style) -> Vec<Cell> {
    let colour = match pane.state {
        PaneState::Running if pane.over_limit.is_some() => Colour::Yellow,
        PaneState::Running => Colour::Green,
        PaneState::Starting | PaneState::Stopping | PaneState::Frozen => Colour::Yellow,
        PaneState::Lost => Colour::Red,
        PaneState::Exited => Colour::Dim,
    };
    vec![
        pane.id.short().into(),
        pane.name.as_str().into(),
        session.name.as_str().into(),
        Cell::coloured(pane_state(pane), colour),
        pane.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()).into(),
        age(pane.created, style.now).into(),
        command(requested(pane)).into(),
    ]
}

fn empty_row(session: &SessionView, style: Style) -> Vec<Cell> {
    let (name, age) = (session.name.as_str(), age(session.created, style.now));
    let state = match session.status {
        status @ (SessionStatus::Missing | SessionStatus::Damaged) => status.as_str(),
        SessionStatus::Starting | SessionStatus::Running | SessionStatus::Stopped => "empty",
    };
    let state = Cell::coloured(state, Colour::Dim);
    vec![session.id.short().into(), "-".into(), name.into(), state, "-".into(), age.into()]
}

/// Returns the state, with the exit code if there is one.
fn pane_state(pane: &PaneView) -> String {
    match pane.ending.as_ref().and_then(|ending| ending.code) {
        Some(code) if pane.state == PaneState::Exited => format!("exited {code}"),
        _ if pane.over_limit.is_some() => format!("{}, over limit", pane.state),
        _ => pane.state.to_string(),
    }
}

/// Returns a command line, quoted for a shell.
fn command(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    printable(&words.iter().map(quote).collect::<Vec<_>>().join(" "))
}

/// Returns the command as requested, without the arguments that ccmux added.
fn requested(pane: &PaneView) -> &[String] {
    if pane.asked.is_empty() { &pane.command } else { &pane.asked }
}

/// Returns the time since `since` in the largest unit that fits.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.0.saturating_sub(since.0).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn moment(at: Timestamp, now: Timestamp) -> String {
    format!("{at}, {} ago", age(at, now))
}

/// Labelled values, printed one per line.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn add(&mut self, label: &'static str, value: &str) {
        self.0.push((label, printable(value)));
    }

    fn add_some(&mut self, label: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(label, value);
        }
    }

    fn render(&self) -> String {
        let width = self.0.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        self.0.iter().map(|(label, value)| format!("{label:<width$}  {value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::conflict::{Attribution, ConflictOutcome};
    use model::isolation::{AgentDir, Isolation, Method};
    use model::{Ending, EndingReason, PaneId, SessionId, SessionMode, Size, WorkspaceKind};
    use protocol::control::{ListedSession, LiveView};

    use super::*;

    const NOW: Timestamp = Timestamp(1_794_776_334_000);

    fn style() -> Style {
        Style { colour: false, width: None, now: NOW }
    }

    fn ago(seconds: i64) -> Timestamp {
        Timestamp(NOW.0 - seconds * 1000)
    }

    fn web() -> SessionView {
        SessionView {
            id: SessionId::from_random([0x11; 16]),
            name: "web".parse().unwrap(),
            mode: SessionMode::Isolated,
            status: SessionStatus::Running,
            template: None,
            project: None,
            unit_dir: "/state/sessions/web/unit".to_owned(),
            workflows_dir: "/state/sessions/web/workflows".to_owned(),
            logs_dir: "/state/sessions/web/logs".to_owned(),
            dir: "/state/sessions/web".to_owned(),
            created: ago(200_000),
            problem: None,
        }
    }

    fn dev1() -> PaneView {
        PaneView {
            id: PaneId::from_random([0xaa; 16]),
            name: "dev1".parse().unwrap(),
            agent: "shell".to_owned(),
            role: None,
            unit: None,
            pid: Some(4711),
            state: PaneState::Running,
            ending: None,
            config_dir: Some("/state/claude-configs/pane-1".to_owned()),
            isolation: Some(Isolation {
                method: Method::ConfigDir,
                home: None,
                dirs: vec![AgentDir {
                    agent: "claude".to_owned(),
                    path: "/state/claude-configs/pane-1".to_owned(),
                }],
                temp: Some("/state/tmp/pane-1".to_owned()),
                login: Login::Variable { name: "ANTHROPIC_API_KEY".to_owned() },
                kept_on_close: false,
            }),
            login_note: None,
            shared_note: None,
            workspace: "/src".to_owned(),
            workspace_kind: Some(WorkspaceKind::Shared),
            branch: None,
            temp: "/state/temp".to_owned(),
            output: "/state/output".to_owned(),
            ports: None,
            conversation: None,
            asked: Vec::new(),
            command: ["bash", "-c", "echo it's\x1b[2J"].map(str::to_owned).into(),
            cwd: "/src".to_owned(),
            created: ago(125),
            dir: "/state/panes/dev1".to_owned(),
            frozen: None,
            over_limit: None,
            live: None,
            locks: Vec::new(),
            conflicts: Vec::new(),
            interrupted: false,
            problem: None,
        }
    }

    fn tests() -> PaneView {
        let ending = Ending::of(Some(2), None, EndingReason::Exited, ago(30));
        PaneView {
            id: PaneId::from_random([0xbb; 16]),
            name: "tests".parse().unwrap(),
            pid: None,
            state: PaneState::Exited,
            ending: Some(ending),
            command: ["make", "test"].map(str::to_owned).into(),
            created: ago(7300),
            ..dev1()
        }
    }

    fn everything() -> Listing {
        let idle = SessionView {
            id: SessionId::from_random([0x22; 16]),
            name: "idle".parse().unwrap(),
            status: SessionStatus::Stopped,
            ..web()
        };
        let sessions = vec![
            ListedSession { session: web(), panes: vec![dev1(), tests()] },
            ListedSession { session: idle, panes: vec![] },
        ];
        Listing { sessions, problems: vec![] }
    }

    #[test]
    fn listing_shows_running_and_exited_panes() {
        insta::assert_snapshot!(listing(&everything(), style()));
    }

    #[test]
    fn listing_as_json_has_the_documented_fields() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&everything()).unwrap());
    }

    #[test]
    fn empty_listing_suggests_new() {
        let nothing = Listing { sessions: vec![], problems: vec![] };
        assert_eq!(listing(&nothing, style()), "no panes; start one with `ccmux new`\n");
    }

    #[test]
    fn pane_shows_live_data_of_its_keeper() {
        let live = LiveView {
            keeper_pid: 4710,
            size: Size::DEFAULT,
            title: "vim\x07".to_owned(),
            log_start: 0,
            log_end: 8192,
            clients: 1,
            last_output: Some(ago(3)),
            limits: None,
            log_problem: None,
        };
        let alive = PaneAnswer {
            session: web(),
            pane: PaneView { live: Some(live), ..dev1() },
            warnings: Vec::new(),
            uncommitted: None,
            absent: Vec::new(),
            changes: None,
            repeated: false,
        };
        let ended = PaneAnswer {
            session: web(),
            pane: tests(),
            warnings: Vec::new(),
            uncommitted: None,
            absent: Vec::new(),
            changes: None,
            repeated: false,
        };

        insta::assert_snapshot!([alive, ended].map(|answer| pane(&answer, style())).join("--\n"));
    }

    #[test]
    fn session_shows_its_panes() {
        let answer = SessionAnswer { session: web(), panes: vec![dev1(), tests()] };
        insta::assert_snapshot!(session(&answer, style()));
    }

    #[test]
    fn event_is_formatted_as_one_line() {
        let (session, pane) = (web().id, dev1().id);
        let name = dev1().name;
        let ending = Ending::of(None, Some(9), EndingReason::Stopped, NOW);
        let conversation = ConversationId::from_random([0xcc; 16]);
        let path = "/state/pane.json".to_owned();
        let kept_as = "/state/pane.json.damaged".to_owned();
        let all = [
            EventBody::DaemonStarted { pid: 7, adopted: 3 },
            EventBody::SessionCreated { session, name: name.clone() },
            EventBody::PaneCreated { session, pane, name: name.clone() },
            EventBody::PaneRenamed { pane, name: name.clone() },
            EventBody::SessionRenamed { session, name },
            EventBody::SessionMigrated { session, panes: 2 },
            EventBody::PaneExited { pane, ending },
            EventBody::PaneRestored { pane, conversation: Some(conversation.clone()) },
            EventBody::ConversationChanged { pane, conversation: conversation.clone() },
            EventBody::ResumeFailed {
                pane,
                conversation,
                why: "no such conversation\x07".to_owned(),
            },
            EventBody::Retired {
                path: "/state/claude-configs/pane-1".to_owned(),
                kept_as: "/state/trash/1-claude-configs-1".to_owned(),
                why: "it belongs to no pane".to_owned(),
            },
            EventBody::CleanupFailed {
                path: "/state/claude-configs/pane-2".to_owned(),
                why: "it is a symbolic link".to_owned(),
            },
            EventBody::PaneLost { pane, killed: 2 },
            EventBody::PaneClosed { pane },
            EventBody::SessionClosed { session },
            EventBody::Quarantined { path, kept_as, why: "checksum\n".to_owned() },
            EventBody::Conflict {
                path: "/src/main.rs".to_owned(),
                pane: Some(pane),
                name: Some(dev1().name),
                holder: None,
                held_by: "pane qa1".to_owned(),
                outcome: ConflictOutcome::Refused,
                evidence: Attribution::Asked,
            },
            EventBody::Conflict {
                path: "/src/main.rs".to_owned(),
                pane: None,
                name: None,
                holder: Some(pane),
                held_by: "pane qa1".to_owned(),
                outcome: ConflictOutcome::Changed,
                evidence: Attribution::Nothing,
            },
            EventBody::Conflict {
                path: "/src/main.rs".to_owned(),
                pane: Some(pane),
                name: Some(dev1().name),
                holder: Some(pane),
                held_by: "pane qa1".to_owned(),
                outcome: ConflictOutcome::ChangedToo,
                evidence: Attribution::Kernel,
            },
        ];

        let lines = (1..).zip(all).map(|(seq, what)| event(&Event::new(seq, NOW, what), style()));

        insta::assert_snapshot!(lines.collect::<String>());
    }

    #[test]
    fn status_as_text_and_json() {
        let daemon = DaemonStatus {
            pid: 99,
            version: "0.1.0".to_owned(),
            home: "/state".to_owned(),
            panes: 2,
            http: None,
            last_event: 17,
            problems: vec![],
        };
        insta::assert_snapshot!(
            status(&daemon, style()) + &serde_json::to_string(&daemon).unwrap()
        );
    }

    #[test]
    fn age_uses_the_largest_unit_that_fits() {
        let cases =
            [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (86_399, "23h"), (-5, "0s")];
        for (seconds, text) in cases {
            assert_eq!(age(ago(seconds), NOW), text);
        }
        assert_eq!(age(ago(200_000), NOW), "2d");
    }
}
