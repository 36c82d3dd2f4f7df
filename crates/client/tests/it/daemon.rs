//! Requests through the daemon client: absence, autostart, retry and stop.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use client::{DaemonClient, DaemonCommand, DaemonError, StartError};
use protocol::control::{Request, Response, SOCKET};
use protocol::greeting::{Hello, Refusal, SUPPORTED};
use protocol::{ErrorCode, Kind};

use crate::fake::{Handler, Server};

/// Handlers of daemons that die of the request, except the last, which replies.
fn dying(deaths: usize) -> Vec<Handler> {
    let die = || -> Handler { Box::new(|peer| drop(peer.greeted().request())) };
    let reply: Handler = Box::new(|peer| {
        let mut peer = peer.greeted();
        peer.request();
        peer.done();
    });
    (0..deaths).map(|_| die()).chain([reply]).collect()
}

/// A command that runs `script` in a shell.
fn shell(dir: &Path, script: &str) -> DaemonCommand {
    let program = dir.join("daemon.sh");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    DaemonCommand { program, args: Vec::new(), env: vec![("PATH".into(), "/usr/bin:/bin".into())] }
}

#[test]
fn repeatable_request_goes_to_the_next_daemon() {
    let server = Server::start(SOCKET, dying(2));

    let response = DaemonClient::new(server.dir()).request_retry(|| Request::List).unwrap();

    assert_eq!(response, Response::Done);
    server.join();
}

#[test]
fn request_that_kills_every_daemon_is_given_up() {
    let mut handlers = dying(6);
    handlers.pop();
    let server = Server::start(SOCKET, handlers);

    let error = DaemonClient::new(server.dir()).request_retry(|| Request::List).unwrap_err();

    assert!(matches!(error, DaemonError::RepeatedDeath { deaths: 6, .. }), "{error:?}");
    server.join();
}

#[test]
fn unrepeatable_request_is_sent_once() {
    let mut handlers = dying(1);
    handlers.pop();
    let server = Server::start(SOCKET, handlers);

    let new = Request::New(Box::default());
    let error = DaemonClient::new(server.dir()).request_once(&new).unwrap_err();

    assert!(matches!(error, DaemonError::OutcomeUnknown(_)), "{error:?}");
    server.join();
}

#[test]
fn connection_is_reused_for_the_next_request() {
    let server = Server::start(
        SOCKET,
        vec![Box::new(|peer| {
            let mut peer = peer.greeted();
            for _ in 0..2 {
                peer.request();
                peer.done();
            }
        })],
    );
    let mut client = DaemonClient::new(server.dir());

    assert_eq!(client.connect().unwrap().pid, 7);
    client.request_once(&Request::List).unwrap();
    client.request_once(&Request::List).unwrap();

    server.join();
}

#[test]
fn missing_daemon_is_not_started_without_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = DaemonClient::new(dir.path());

    let error = client.request_retry(|| Request::List).unwrap_err();

    let DaemonError::NotRunning { run_dir } = error else { panic!("{error:?}") };
    assert_eq!(run_dir, dir.path());
    assert!(!client.stop_daemon().unwrap());
}

#[test]
fn failed_start_reports_the_message_of_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let report = r#"echo '{"code":"failed","message":"disk full","hint":"free some"}'"#;
    let start = |command| DaemonClient::new(dir.path()).autostart(command).connect().map(drop);

    let reported = start(shell(dir.path(), report)).unwrap_err();
    let silent = start(shell(dir.path(), "exit 1")).unwrap_err();
    let program = PathBuf::from("/nonexistent/ccmux");
    let missing = start(DaemonCommand { program, args: Vec::new(), env: Vec::new() }).unwrap_err();

    let DaemonError::Start(StartError::Reported(body)) = reported else { panic!("{reported:?}") };
    assert_eq!((body.code, body.hint.as_deref()), (ErrorCode::Failed, Some("free some")));
    assert!(matches!(silent, DaemonError::Start(StartError::Exited)), "{silent:?}");
    assert!(matches!(missing, DaemonError::Start(StartError::Execute { .. })), "{missing:?}");
}

#[test]
fn started_daemon_is_connected_to_when_it_is_ready() {
    // The "daemon" moves the socket of a listening server into place, then reports ready.
    let server = Server::start("waiting.sock", dying(0));
    let script = format!("mv waiting.sock {SOCKET}; echo ready; exec sleep 1");
    let command = shell(server.dir(), &format!("cd {}\n{script}", server.dir().display()));

    let response =
        DaemonClient::new(server.dir()).autostart(command).request_retry(|| Request::List);

    assert_eq!(response.unwrap(), Response::Done);
    server.join();
}

#[test]
fn refused_connection_is_reported_without_retry() {
    let server = Server::start(
        SOCKET,
        vec![Box::new(|mut peer| {
            let _hello: Hello = peer.receive(Kind::Hello);
            let (version, message) = ("0.1.0".to_owned(), "too many clients".to_owned());
            peer.send(Kind::Refused, &Refusal { protocol: SUPPORTED, version, message });
        })],
    );

    let error = DaemonClient::new(server.dir()).request_retry(|| Request::List).unwrap_err();

    assert!(matches!(error, DaemonError::Refused(_)), "{error:?}");
    server.join();
}

#[test]
fn stopped_daemon_has_exited_when_the_stream_ends() {
    let server = Server::start(
        SOCKET,
        vec![Box::new(|peer| {
            let mut peer = peer.greeted();
            assert_eq!(peer.request(), Request::DaemonStop);
            peer.done();
        })],
    );

    assert!(DaemonClient::new(server.dir()).stop_daemon().unwrap());

    server.join();
}

#[test]
fn wait_closed_returns_when_the_daemon_closes_the_connection() {
    let server = Server::start(SOCKET, dying(0));
    let mut client = DaemonClient::new(server.dir());
    client.request_once(&Request::List).unwrap();

    client.wait_closed().unwrap();

    server.join();
}
