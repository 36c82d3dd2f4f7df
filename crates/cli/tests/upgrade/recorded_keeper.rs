//! A stand-in for the keeper of an earlier release, which answers as the recorded one did.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use testkit::pane::read_record;
use testkit::{Home, process, put};

use crate::frames::{
    self, ATTACH, ATTACHED, Conversation, ENDED, Frame, HELLO, REPLY, REQUEST, WELCOME,
};
use crate::recording::{KEEPER, Recording, record};

/// A keeper that the daemon takes for the one on record.
pub(crate) struct RecordedKeeper {
    state: Arc<State>,
}

struct State {
    dir: PathBuf,
    welcome: Value,
    /// Replies by the name of the request.
    replies: BTreeMap<String, Frame>,
    /// Frames that follow a request to attach, by view.
    attached: BTreeMap<String, Vec<Frame>>,
    /// How a pane that was stopped ended.
    ending: String,
    /// The keeper and the program of the pane, as processes; none after the pane was stopped.
    processes: Mutex<Vec<Child>>,
    /// The pane's directory, locked as by every keeper.
    _lock: fs::File,
    unknown: Mutex<Vec<String>>,
}

impl RecordedKeeper {
    /// Takes the place of the keeper of `pane`; `stopped` is a recorded pane that was stopped.
    pub(crate) fn start(recording: &Recording, home: &Home, pane: &Path, stopped: &Path) -> Self {
        let conversations = recording.conversations(KEEPER, home);
        let sleep = || home.program("sleep", &["100000"]).spawn();
        let processes = vec![sleep(), sleep()];
        let identity = |at: usize| json!(process::identity(processes[at].id()).unwrap());
        let file = pane.join("keeper.json");
        let mut keeper = read_record(&file);
        keeper["keeper"] = identity(0);
        keeper["child"] = identity(1);
        put(&file, record("{\"format\":1", &keeper.to_string()));
        let greeting = |conversation: &Conversation| {
            let welcome = |line: &&frames::Line| line.frame.kind == WELCOME;
            conversation.lines.iter().find(welcome).map(|line| line.frame.value())
        };
        let mut welcome = conversations.iter().find_map(greeting).unwrap();
        welcome["pid"] = keeper["keeper"]["pid"].clone();
        let lock = fs::File::open(pane).unwrap();
        lock.try_lock().unwrap();
        let state = Arc::new(State {
            dir: pane.to_owned(),
            welcome,
            replies: conversations.iter().flat_map(replies).collect(),
            attached: conversations.iter().filter_map(attached).collect(),
            ending: fs::read_to_string(stopped.join("exit.json")).unwrap(),
            processes: Mutex::new(processes),
            _lock: lock,
            unknown: Mutex::default(),
        });
        let listener = frames::bind(pane, "keeper.sock");
        let keeper = Arc::clone(&state);
        // It ends with the process of the test.
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let keeper = Arc::clone(&keeper);
                thread::spawn(move || keeper.serve(client));
            }
        });
        Self { state }
    }

    /// Requests that the recorded keeper was never sent; it refuses them.
    pub(crate) fn unknown(&self) -> Vec<String> {
        self.state.unknown.lock().unwrap().clone()
    }
}

impl State {
    fn serve(&self, mut client: UnixStream) {
        while let Ok(Some(frame)) = Frame::read(&mut client) {
            let answers = match frame.kind {
                HELLO => vec![Frame::json(WELCOME, &self.welcome)],
                REQUEST => vec![self.answer(&frame.value())],
                ATTACH => self.attached.get(&view(&frame.value())).cloned().unwrap_or_default(),
                _ => Vec::new(),
            };
            // A client that has hung up needs no answer.
            if answers.iter().any(|answer| answer.write(&mut client).is_err()) {
                return;
            }
            if frame.kind == REQUEST && frame.value()["do"] == "stop" {
                return self.end();
            }
        }
    }

    fn answer(&self, request: &Value) -> Frame {
        let name = request["do"].as_str().unwrap_or_default();
        if let Some(reply) = self.replies.get(name) {
            return reply.clone();
        }
        self.unknown.lock().unwrap().push(request.to_string());
        let message = format!("a Request frame that cannot be read: unknown variant `{name}`");
        Frame::json(REPLY, &json!({"error": {"code": "usage", "message": message}}))
    }

    /// Writes the ending and leaves, as a keeper does.
    fn end(&self) {
        put(&self.dir.join("exit.json"), &self.ending);
        for mut process in self.processes.lock().unwrap().drain(..) {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

/// The last reply to each request of a conversation.
fn replies(conversation: &Conversation) -> Vec<(String, Frame)> {
    let mut asked = None;
    let mut replies = Vec::new();
    for line in &conversation.lines {
        match line.frame.kind {
            REQUEST => asked = line.frame.value()["do"].as_str().map(str::to_owned),
            REPLY => replies.extend(asked.take().map(|name| (name, line.frame.clone()))),
            _ => {}
        }
    }
    replies
}

/// What followed a request to attach.
fn attached(conversation: &Conversation) -> Option<(String, Vec<Frame>)> {
    let mut lines = conversation.lines.iter();
    let attach = lines.find(|line| line.frame.kind == ATTACH)?;
    let sent: Vec<Frame> = lines
        .filter(|line| !line.from_client && line.frame.kind >= ATTACHED)
        .map(|line| line.frame.clone())
        // The pane of the recording ended; this one still runs.
        .filter(|frame| frame.kind < ENDED)
        .collect();
    Some((view(&attach.frame.value()), sent))
}

/// The name of a view: `relay` of `"relay"`, `follow` of `{"follow":{"from":0}}`.
fn view(attach: &Value) -> String {
    let view = &attach["view"];
    let name = view.as_object().and_then(|view| view.keys().next()).map(String::as_str);
    name.or(view.as_str()).unwrap_or_default().to_owned()
}
