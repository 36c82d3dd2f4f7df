//! HTTP in front of a multiplexer: ccmux has it; for tmux, a small server that runs `tmux` once per
//! request, as tools that drive it do.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::http::Answer;
use testkit::{Http, Invocation};

/// The program of every pane.
const PROGRAM: [&str; 2] = ["sleep", "1000000"];

/// An HTTP server.
#[derive(Clone)]
pub(crate) enum Served {
    Ccmux { http: Http, root: PathBuf },
    Tmux { http: Http },
}

impl Served {
    /// Creates a session with one pane, and returns the pane's name.
    pub(crate) fn create(&self, cwd: &str) -> Result<String> {
        match self {
            Self::Ccmux { http, .. } => {
                let agent = json!({"command": PROGRAM, "cwd": cwd, "workspace": "shared"});
                let made = good(&http.post("/v1/runs", &json!({"agents": [agent]})))?;
                text(&made["panes"][0]["id"])
            }
            Self::Tmux { http } => text(&good(&http.post("/new", &json!(PROGRAM)))?["pane"]),
        }
    }

    /// Sends input to a pane.
    pub(crate) fn input(&self, pane: &str) -> Result<()> {
        let (http, path) = self.path(pane, "input");
        good(&http.post(&path, &json!({"text": "x"}))).map(drop)
    }

    /// Reads the screen of a pane.
    pub(crate) fn screen(&self, pane: &str) -> Result<()> {
        let (http, path) = self.path(pane, "screen");
        good(&http.get(&path)).map(drop)
    }

    /// Lists sessions.
    pub(crate) fn list(&self) -> Result<()> {
        match self {
            Self::Ccmux { http, .. } => good(&http.get("/v1/sessions?limit=100")).map(drop),
            Self::Tmux { http } => good(&http.get("/list")).map(drop),
        }
    }

    fn path(&self, pane: &str, what: &str) -> (&Http, String) {
        match self {
            Self::Ccmux { http, .. } => (http, format!("/v1/panes/{pane}/{what}")),
            // tmux's pane names start with a character that is special in URLs.
            Self::Tmux { http } => (http, format!("/{what}/{}", pane.trim_start_matches('%'))),
        }
    }
}

fn good(answer: &Answer) -> Result<Value> {
    ensure!(answer.status < 300, "answered {}: {}", answer.status, answer.text());
    Ok(if answer.bytes.is_empty() { Value::Null } else { answer.json() })
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("{value} names no pane"))
}

/// Starts the server in front of tmux, which runs as long as the benchmark. `tmux` is the command
/// without arguments.
pub(crate) fn drive(tmux: Invocation) -> Result<Served> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tmux = tmux.clone();
            // A connection error means that the client has closed it.
            thread::spawn(move || converse(stream, &tmux).ok());
        }
    });
    Ok(Served::Tmux { http: Http::new(&url, None) })
}

/// Answers the requests of one connection.
fn converse(stream: TcpStream, tmux: &Invocation) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        if lines.read_line(&mut head)? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        let path = head.split(' ').nth(1).context("no path")?;
        let answer = answer(tmux, path)?.to_string();
        let length = answer.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n\
             {answer}"
        )?;
    }
}

/// Runs `tmux` once for a request.
fn answer(tmux: &Invocation, path: &str) -> Result<Value> {
    let run = |args: &[&str]| -> Result<String> {
        let mut command = tmux.command();
        let output = command.args(args).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{command:?} failed");
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    };
    let (what, pane) = path.trim_start_matches('/').split_once('/').unwrap_or((&path[1..], ""));
    let pane = format!("%{pane}");
    Ok(match what {
        "new" => {
            let new = ["new-window", "-d", "-P", "-F", "#{pane_id}", PROGRAM[0], PROGRAM[1]];
            json!({"pane": run(&new)?})
        }
        "input" => {
            run(&["send-keys", "-t", &pane, "-l", "x"])?;
            json!({})
        }
        "screen" => json!({"text": run(&["capture-pane", "-p", "-t", &pane])?}),
        _ => json!({"panes": run(&["list-panes", "-a"])?}),
    })
}
