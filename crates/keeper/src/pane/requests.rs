//! Requests and keys from clients.

use std::time::{Duration, Instant};

use model::Size;
use model::attach_keys::AttachCommand;
use protocol::control::LiveView;
use protocol::error::{ErrorBody, ErrorCode};
use protocol::frame::{Frame, Kind};
use protocol::pane::{
    Attach, Attached, DetachReason, Detached, KeyOptions, Reply, Request, Response, ScreenView,
    View,
};
use protocol::pane_io::Typing;

use super::Pane;
use crate::client::Role;
use crate::daemon;
use crate::display::{Display, Tty};
use crate::input::{Item, MAX_QUEUED};
use crate::prefix::{Command, Prefix};
use crate::typing;

/// Returns the reply to a request without a result.
pub(super) fn done() -> Frame {
    Frame::json(Kind::Reply, &Reply::Ok(Response::Done))
}

impl Pane {
    /// Handles the frames that a client sent.
    pub(super) fn receive_frames(&mut self, at: usize, now: Instant) {
        self.clients[at].receive();
        while let Some(frame) = self.clients[at].next_frame() {
            self.handle(at, &frame, now);
        }
    }

    fn handle(&mut self, at: usize, frame: &Frame, now: Instant) {
        let handled = match frame.kind {
            Kind::Request => frame.parse().map(|request| self.answer(at, request, now)),
            Kind::Attach => frame.parse().map(|attach| self.attach(at, &attach, now)),
            Kind::Resize => frame.parse().map(|size| self.client_resized(at, size)),
            Kind::Input => {
                self.handle_keys(at, &frame.body, now);
                Ok(())
            }
            Kind::Detach => {
                self.detach(at, DetachReason::Asked);
                Ok(())
            }
            Kind::Hello
            | Kind::Welcome
            | Kind::Refused
            | Kind::Reply
            | Kind::Event
            | Kind::Part
            | Kind::Attached
            | Kind::Snapshot
            | Kind::Output
            | Kind::Paint
            | Kind::Resized
            | Kind::Ended
            | Kind::Detached => {
                self.clients[at].refuse(format!("unexpected frame of kind {:?}", frame.kind));
                Ok(())
            }
        };
        if let Err(error) = handled {
            let body = ErrorBody::new(ErrorCode::Usage, error.to_string());
            self.clients[at].send(&Frame::json(Kind::Reply, &Reply::Error(body)));
        }
    }

    fn answer(&mut self, at: usize, request: Request, now: Instant) {
        let reply = match request {
            Request::Status => Reply::Ok(Response::Status(self.status())),
            Request::Screen => Reply::Ok(Response::Screen(self.screen())),
            Request::Type(typing) => match self.type_in(at, &typing) {
                Ok(()) => return,
                Err(body) => Reply::Error(body),
            },
            Request::TypeOnce { name, typing } => match self.type_once(at, name, &typing) {
                Ok(()) => return,
                Err(body) => Reply::Error(body),
            },
            Request::WasTyped { name } => {
                Reply::Ok(Response::WasTyped { typed: self.input.has_typed(&name) })
            }
            Request::Stop { grace_ms } => {
                self.stop(Duration::from_millis(grace_ms), now);
                Reply::Ok(Response::Done)
            }
            Request::SetLimits(limits) => self.set_limits(limits, now),
            Request::Thaw => self.thaw(now),
            Request::StartDaemon { version } => {
                match daemon::start(&version, self.clients[at].take_descriptor()) {
                    Ok(()) => Reply::Ok(Response::Done),
                    Err(body) => Reply::Error(body),
                }
            }
        };
        self.clients[at].send(&Frame::json(Kind::Reply, &reply));
    }

    /// Queues input; the client gets a reply once it is written to the terminal.
    fn type_in(&mut self, at: usize, typing: &Typing) -> Result<(), ErrorBody> {
        let queued = self.input.queued_bytes();
        if queued + typing.text.len() > MAX_QUEUED {
            let message = format!(
                "the input queue is full: the program has not read {queued} bytes of earlier input"
            );
            return Err(ErrorBody::new(ErrorCode::Conflict, message));
        }
        let modes = self.terminal.modes();
        typing::items(typing, &modes).into_iter().for_each(|item| self.queue(item));
        self.confirm(at);
        Ok(())
    }

    /// Queues input unless it was queued before under the same idempotency key. A repeated request
    /// gets its reply once the first is complete.
    fn type_once(&mut self, at: usize, key: String, typing: &Typing) -> Result<(), ErrorBody> {
        if self.input.has_typed(&key) {
            self.confirm(at);
            return Ok(());
        }
        self.type_in(at, typing)?;
        self.input.remember(key);
        Ok(())
    }

    fn confirm(&mut self, at: usize) {
        let id = self.clients[at].id;
        self.queue(Item::Confirm(id));
    }

    fn status(&mut self) -> LiveView {
        LiveView {
            keeper_pid: std::process::id(),
            size: self.terminal.size(),
            title: self.terminal.title(),
            log_start: self.log.start(),
            log_end: self.log.end(),
            clients: self.clients.iter().filter(|c| !matches!(c.role, Role::Detached)).count(),
            last_output: self.last_output,
            limits: Some(self.limits.view()),
            log_problem: self.log.problem().map(str::to_owned),
        }
    }

    fn screen(&mut self) -> ScreenView {
        let cursor = self.terminal.cursor();
        ScreenView {
            text: self.terminal.screen_text(),
            row: cursor.row,
            col: cursor.col,
            title: self.terminal.title(),
            log_end: self.log.end(),
        }
    }

    fn attach(&mut self, at: usize, attach: &Attach, now: Instant) {
        let role = match self.role(at, attach, now) {
            Ok(role) => role,
            Err(body) => {
                self.clients[at].send(&Frame::json(Kind::Reply, &Reply::Error(body)));
                return;
            }
        };
        self.clients[at].role = role;
        self.fit_size();
        let attached = Attached { size: self.terminal.size(), log_end: self.log.end() };
        self.clients[at].send(&Frame::json(Kind::Attached, &attached));
    }

    fn role(&mut self, at: usize, attach: &Attach, now: Instant) -> Result<Role, ErrorBody> {
        let usage = |message: &str| ErrorBody::new(ErrorCode::Usage, message);
        let client = &mut self.clients[at];
        if !matches!(client.role, Role::Detached) {
            return Err(usage("the connection is already attached"));
        }
        let passed = client.take_descriptor();
        let size = attach.size.unwrap_or(self.terminal.size());
        Ok(match attach.view {
            View::Terminal => {
                let passed =
                    passed.ok_or_else(|| usage("the attach message has no terminal descriptor"))?;
                let tty = Tty::open(&passed).map_err(|error| {
                    ErrorBody::new(
                        ErrorCode::Failed,
                        format!("cannot open the client's terminal: {error}"),
                    )
                })?;
                viewing(Some(tty), size, attach, now)
            }
            View::Relay => viewing(None, size, attach, now),
            View::Follow { from } => {
                let at = from.filter(|from| *from <= self.log.end());
                Role::Following { at, size: attach.size, read_only: attach.read_only }
            }
        })
    }

    fn client_resized(&mut self, at: usize, to: Size) {
        match &mut self.clients[at].role {
            Role::Detached => return,
            Role::Viewing(display) => {
                display.size = to;
                display.resized();
            }
            Role::Following { size, .. } => *size = Some(to),
        }
        self.fit_size();
    }

    /// Handles keys from a client's terminal or socket.
    pub(super) fn handle_keys(&mut self, at: usize, keys: &[u8], now: Instant) {
        let (keys, command) = match &mut self.clients[at].role {
            Role::Detached => return,
            Role::Viewing(display) => {
                display.note_key(now);
                display.clear_notice();
                let (keys, command) = display.prefix.read(keys);
                (if display.read_only { Vec::new() } else { keys }, command)
            }
            Role::Following { read_only: true, .. } => return,
            Role::Following { .. } => (keys.to_vec(), None),
        };
        if !keys.is_empty() {
            self.queue(Item::Bytes(keys));
        }
        if let Some(command) = command {
            self.run_command(at, &command, now);
        }
    }

    /// Runs a command that was entered with the prefix key.
    fn run_command(&mut self, at: usize, command: &Command, now: Instant) {
        let Role::Viewing(display) = &mut self.clients[at].role else { return };
        let prefix = display.prefix.key();
        match command {
            Command::Run(AttachCommand::Detach) => self.detach(at, DetachReason::Asked),
            Command::Run(AttachCommand::Scrollback) if display.scrollback => {
                self.detach_with(at, &Detached { why: DetachReason::Asked, scrollback: true });
            }
            Command::Run(AttachCommand::Scrollback) => {
                display.show_notice("this client cannot show the scrollback".to_owned(), now);
            }
            Command::Run(AttachCommand::Help) => display.show_notice(prefix.summary(), now),
            Command::Unknown(key) => {
                let text = format!("no command for {prefix} {key}; {prefix} ? shows the keys");
                display.show_notice(text, now);
            }
        }
    }

    /// Detaches a client, which then owns its terminal again, and closes the connection.
    pub(super) fn detach(&mut self, at: usize, why: DetachReason) {
        self.detach_with(at, &Detached { why, scrollback: false });
    }

    fn detach_with(&mut self, at: usize, detached: &Detached) {
        let client = &mut self.clients[at];
        if let Role::Viewing(display) = &client.role {
            display.undo(&mut self.terminal);
        }
        if !matches!(client.role, Role::Detached) {
            client.role = Role::Detached;
            client.send(&Frame::json(Kind::Detached, detached));
        }
        client.closing = true;
    }
}

fn viewing(tty: Option<Tty>, size: Size, attach: &Attach, now: Instant) -> Role {
    let KeyOptions { prefix, scrollback } = attach.keys;
    let mut display = Display::new(tty, size, attach.read_only, now);
    display.prefix = Prefix::new(prefix);
    display.scrollback = scrollback;
    Role::Viewing(Box::new(display))
}
