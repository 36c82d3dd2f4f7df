//! The views of the control protocol, as text for people.

mod conflicts;
mod environment;
mod health;
mod limits;
mod messages;

use model::event::{Event, Happening};
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

/// `ls`.
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

/// `show PANE`.
pub(crate) fn pane(answer: &PaneAnswer, style: Style) -> String {
    let PaneAnswer { session, pane, .. } = answer;
    let mut facts = Facts::default();
    facts.add("pane", pane.name.as_str());
    facts.add("id", &pane.id.to_string());
    facts.add("session", &format!("{} ({}, {})", session.name, session.id, session.mode));
    facts.add("state", &pane_state(pane));
    let frozen = pane.frozen.as_ref().map(|frozen| limits::frozen(frozen, style));
    facts.add_some("frozen", frozen.as_deref());
    facts.add_some("problem", pane.problem.as_deref());
    facts.add_some("pid", pane.pid.map(|pid| pid.to_string()).as_deref());
    facts.add("agent", &pane.agent);
    facts.add_some("role", pane.role.as_deref());
    facts.add("command", &command(asked(pane)));
    facts.add("cwd", &pane.cwd);
    facts.add("created", &moment(pane.created, style.now));
    if let Some(ending) = &pane.ending {
        facts.add("ended", &format!("{} ({ending})", moment(ending.at, style.now)));
        facts.add_some("why", ending.detail.as_deref());
    }
    if let Some(isolation) = &pane.isolation {
        facts.add("isolation", isolation.method.as_str());
        let note = pane.login_note.as_ref().map(|note| format!(" ({note})"));
        let login = login(&isolation.login) + &note.unwrap_or_default();
        facts.add("login", &login);
    }
    facts.add_some("shared", pane.shared_note.as_deref());
    let ports = pane.ports.map(|ports| format!("{} to {}", ports.base, ports.last()));
    facts.add_some("ports", ports.as_deref());
    facts.add_some("config", pane.config_dir.as_deref());
    facts.add_some("conversation", pane.conversation.as_ref().map(ConversationId::as_str));
    if let Some(kind) = pane.workspace_kind {
        let branch = pane.branch.as_ref().map(|branch| format!(" on branch {branch}"));
        let branch = branch.unwrap_or_default();
        facts.add("workspace", &format!("{} ({kind}{branch})", pane.workspace));
    }
    facts.add("directory", &pane.dir);
    for conflict in &pane.conflicts {
        let line = conflicts::line(&conflict.what);
        facts.add("conflict", &format!("{line} ({})", moment(conflict.at, style.now)));
    }
    for lock in &pane.locks {
        facts.add("locked", &format!("{} ({})", lock.path, lock.mode));
    }
    if let Some(live) = &pane.live {
        facts.add("size", &live.size.to_string());
        facts.add_some("title", Some(live.title.as_str()).filter(|title| !title.is_empty()));
        facts.add("clients", &live.clients.to_string());
        let output = format!("{} bytes, kept from {}", live.log_end, live.log_start);
        facts.add("output", &output);
        facts.add_some("log problem", live.log_problem.as_deref());
        let last = live.last_output.map(|at| moment(at, style.now));
        facts.add_some("last output", last.as_deref());
        facts.add("keeper", &live.keeper_pid.to_string());
        for (label, fact) in live.limits.iter().flat_map(limits::facts) {
            facts.add(label, &fact);
        }
    }
    facts.render()
}

/// `show SESSION`.
pub(crate) fn session(answer: &SessionAnswer, style: Style) -> String {
    let SessionAnswer { session, panes } = answer;
    let mut facts = Facts::default();
    facts.add("session", session.name.as_str());
    facts.add("id", &session.id.to_string());
    facts.add("status", session.status.as_str());
    facts.add_some("problem", session.problem.as_deref());
    facts.add("mode", &session.mode.to_string());
    facts.add_some("template", session.template.as_deref());
    facts.add_some("project", session.project.as_deref());
    facts.add("created", &moment(session.created, style.now));
    facts.add("directory", &session.dir);
    facts.add("unit", &session.unit_dir);
    facts.add("workflows", &session.workflows_dir);
    let mut text = facts.render();
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

/// `daemon status`.
pub(crate) fn status(status: &DaemonStatus, _style: Style) -> String {
    let mut facts = Facts::default();
    facts.add("daemon", &format!("running, pid {}", status.pid));
    facts.add("version", &status.version);
    facts.add("home", &status.home);
    facts.add("panes", &status.panes.to_string());
    facts.add_some("http", status.http.as_deref());
    facts.add("last event", &status.last_event.to_string());
    facts.render()
}

/// One line of `events`.
pub(crate) fn event(event: &Event, _style: Style) -> String {
    let what = match &event.what {
        Happening::DaemonStarted { pid, adopted } => {
            format!("the daemon started (pid {pid}) and found {adopted} panes alive")
        }
        Happening::SessionCreated { session, name } => {
            format!("session {name} ({}) was created", session.short())
        }
        Happening::SessionClosed { session } => format!("session {} was closed", session.short()),
        Happening::SessionRenamed { session, name } => {
            format!("session {} is now called {name}", session.short())
        }
        Happening::SessionMigrated { session, panes } => {
            format!("session {} is isolated now, with {panes} panes", session.short())
        }
        Happening::PaneCreated { session, pane, name } => {
            format!("pane {name} ({}) was created in session {}", pane.short(), session.short())
        }
        Happening::PaneRenamed { pane, name } => {
            format!("pane {} is now called {name}", pane.short())
        }
        Happening::PaneRestored { pane, conversation } => {
            let id = conversation.as_ref().map(|id| format!(" with conversation {id}"));
            format!("pane {} was restored{}", pane.short(), id.unwrap_or_default())
        }
        Happening::ConversationChanged { pane, conversation } => {
            format!("pane {} has the conversation {conversation}", pane.short())
        }
        Happening::ResumeFailed { pane, conversation, why } => {
            format!("pane {} could not resume {conversation}: {why}", pane.short())
        }
        Happening::PortsTaken { pane, ports } => {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            let ports = ports.join(", ");
            format!("somebody else listens on ports of pane {}: {ports}", pane.short())
        }
        Happening::Retired { path, kept_as, why } => {
            format!("{path} was retired ({why}) and is kept as {kept_as}")
        }
        Happening::CleanupFailed { path, why } => format!("{path} is still there: {why}"),
        Happening::ApiCalled { who, method, path, status } => {
            format!("{who} called {method} {path} and was answered {status}")
        }
        Happening::PaneExited { pane, ending } => format!("pane {}: {ending}", pane.short()),
        Happening::PaneLost { pane, killed } => {
            let pane = pane.short();
            format!("pane {pane} lost its keeper; {killed} processes of it were ended")
        }
        Happening::LimitNear { pane, resource, used, limit } => {
            let (pane, what) = (pane.short(), limits::of(*resource, *used, *limit));
            format!("pane {pane} is near its limit: it takes {what}")
        }
        Happening::LimitExceeded { pane, resource, used, limit, policy } => {
            let (pane, what) = (pane.short(), limits::of(*resource, *used, *limit));
            format!("pane {pane} is over its limit: it takes {what}; policy: {policy}")
        }
        Happening::LimitKept { pane, resource, limit } => {
            let (pane, limit) = (pane.short(), resource.text(*limit));
            format!("pane {pane} wanted more than {limit} of {resource} and was refused")
        }
        Happening::PaneThawed { pane } => format!("pane {} was thawed", pane.short()),
        Happening::PaneClosed { pane } => format!("pane {} was closed", pane.short()),
        conflict @ Happening::Conflict { .. } => conflicts::line(conflict),
        message @ (Happening::MessageQueued { .. }
        | Happening::MessageDelivered { .. }
        | Happening::MessageAnswered { .. }
        | Happening::MessageFailed { .. }) => messages::line(message),
        Happening::Quarantined { path, kept_as, why } => {
            format!("{path} could not be read ({why}) and is kept as {kept_as}")
        }
    };
    format!("{:>6}  {}  {}\n", event.seq, event.at, printable(&what))
}

/// How the agent of a pane is logged in.
fn login(login: &Login) -> String {
    match login {
        Login::Variable { name } => format!("by {name} in its environment"),
        Login::Store { dir, .. } => format!("by your login in {dir}, which all panes share"),
        Login::Asks { store: Some(dir) } => {
            format!("none yet: it will ask once, and keep the login in {dir} for all panes")
        }
        Login::Asks { store: None } => "none: the agent will ask in this pane".to_owned(),
        Login::Users => "yours: nothing is kept apart".to_owned(),
    }
}

fn pane_table() -> Table {
    Table::new(&["ID", "NAME", "SESSION", "STATE", "PID", "AGE", "COMMAND"])
}

fn pane_row(session: &SessionView, pane: &PaneView, style: Style) -> Vec<Cell> {
    let colour = match pane.state {
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
        command(asked(pane)).into(),
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

/// The state, with the exit code where there is one.
fn pane_state(pane: &PaneView) -> String {
    match pane.ending.as_ref().and_then(|ending| ending.code) {
        Some(code) if pane.state == PaneState::Exited => format!("exited {code}"),
        _ => pane.state.to_string(),
    }
}

/// Program and arguments, as one would type them.
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

/// What somebody asked for; what is executed has more words in it.
fn asked(pane: &PaneView) -> &[String] {
    if pane.asked.is_empty() { &pane.command } else { &pane.asked }
}

/// How long ago, in the largest unit that fits.
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

/// Labelled values, one per line.
#[derive(Default)]
struct Facts(Vec<(&'static str, String)>);

impl Facts {
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
    use model::conflict::{Evidence, Outcome};
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
            live: None,
            locks: Vec::new(),
            conflicts: Vec::new(),
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
    fn a_listing_shows_what_runs_and_what_has_ended() {
        insta::assert_snapshot!(listing(&everything(), style()));
    }

    #[test]
    fn a_listing_for_programs_has_the_shape_of_the_contract() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&everything()).unwrap());
    }

    #[test]
    fn an_empty_listing_says_what_to_do() {
        let nothing = Listing { sessions: vec![], problems: vec![] };
        assert_eq!(listing(&nothing, style()), "no panes; start one with `ccmux new`\n");
    }

    #[test]
    fn a_pane_is_shown_with_what_its_keeper_knows() {
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
            repeated: false,
        };
        let ended =
            PaneAnswer { session: web(), pane: tests(), warnings: Vec::new(), repeated: false };

        insta::assert_snapshot!([alive, ended].map(|answer| pane(&answer, style())).join("--\n"));
    }

    #[test]
    fn a_session_is_shown_with_its_panes() {
        let answer = SessionAnswer { session: web(), panes: vec![dev1(), tests()] };
        insta::assert_snapshot!(session(&answer, style()));
    }

    #[test]
    fn events_are_one_line_each() {
        let (session, pane) = (web().id, dev1().id);
        let name = dev1().name;
        let ending = Ending::of(None, Some(9), EndingReason::Stopped, NOW);
        let conversation = ConversationId::from_random([0xcc; 16]);
        let path = "/state/pane.json".to_owned();
        let kept_as = "/state/pane.json.damaged".to_owned();
        let all = [
            Happening::DaemonStarted { pid: 7, adopted: 3 },
            Happening::SessionCreated { session, name: name.clone() },
            Happening::PaneCreated { session, pane, name: name.clone() },
            Happening::PaneRenamed { pane, name: name.clone() },
            Happening::SessionRenamed { session, name },
            Happening::SessionMigrated { session, panes: 2 },
            Happening::PaneExited { pane, ending },
            Happening::PaneRestored { pane, conversation: Some(conversation.clone()) },
            Happening::ConversationChanged { pane, conversation: conversation.clone() },
            Happening::ResumeFailed { pane, conversation, why: "no such one\x07".to_owned() },
            Happening::Retired {
                path: "/state/claude-configs/pane-1".to_owned(),
                kept_as: "/state/trash/1-claude-configs-1".to_owned(),
                why: "it belongs to no pane".to_owned(),
            },
            Happening::CleanupFailed {
                path: "/state/claude-configs/pane-2".to_owned(),
                why: "it is a symbolic link".to_owned(),
            },
            Happening::PaneLost { pane, killed: 2 },
            Happening::PaneClosed { pane },
            Happening::SessionClosed { session },
            Happening::Quarantined { path, kept_as, why: "checksum\n".to_owned() },
            Happening::Conflict {
                path: "/src/main.rs".to_owned(),
                pane: Some(pane),
                name: Some(dev1().name),
                holder: None,
                held_by: "pane qa1".to_owned(),
                outcome: Outcome::Refused,
                evidence: Evidence::Asked,
            },
            Happening::Conflict {
                path: "/src/main.rs".to_owned(),
                pane: None,
                name: None,
                holder: Some(pane),
                held_by: "pane qa1".to_owned(),
                outcome: Outcome::Changed,
                evidence: Evidence::Nothing,
            },
            Happening::Conflict {
                path: "/src/main.rs".to_owned(),
                pane: Some(pane),
                name: Some(dev1().name),
                holder: Some(pane),
                held_by: "pane qa1".to_owned(),
                outcome: Outcome::ChangedToo,
                evidence: Evidence::Kernel,
            },
        ];

        let lines = (1..).zip(all).map(|(seq, what)| event(&Event { seq, at: NOW, what }, style()));

        insta::assert_snapshot!(lines.collect::<String>());
    }

    #[test]
    fn the_daemon_says_who_it_is() {
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
    fn ages_use_the_largest_unit_that_fits() {
        let cases =
            [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (86_399, "23h"), (-5, "0s")];
        for (seconds, text) in cases {
            assert_eq!(age(ago(seconds), NOW), text);
        }
        assert_eq!(age(ago(200_000), NOW), "2d");
    }
}
