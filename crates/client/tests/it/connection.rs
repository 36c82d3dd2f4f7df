//! Handshake, timeouts and errors of one connection.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use client::{Connection, ConnectionError};
use protocol::control::{Request, Response, SOCKET};
use protocol::greeting::{Hello, Refusal, SUPPORTED, Versions};
use protocol::{ErrorBody, ErrorCode, Frame, Kind};

use crate::fake::{Server, unsupported_version};

#[test]
fn handshake_negotiates_the_supported_version() {
    let server = Server::start(SOCKET, vec![Box::new(|peer| drop(peer.greeted()))]);

    let connection = Connection::open(server.dir(), SOCKET).unwrap();

    assert_eq!((connection.welcome.protocol, connection.welcome.pid), (SUPPORTED.max, 7));
    server.join();
}

#[test]
fn missing_and_stale_sockets_are_connect_errors() {
    let dir = tempfile::tempdir().unwrap();

    let missing = Connection::open(dir.path(), SOCKET).unwrap_err();
    drop(UnixListener::bind(dir.path().join(SOCKET)).unwrap());
    let stale = Connection::open(dir.path(), SOCKET).unwrap_err();
    let no_dir = Connection::open(Path::new("/nonexistent"), SOCKET).unwrap_err();

    for error in [missing, stale, no_dir] {
        assert!(matches!(error, ConnectionError::Connect(_)), "{error:?}");
        assert_eq!(error.into_body().code, ErrorCode::Unreachable);
    }
}

#[test]
fn refusal_of_newer_server_carries_its_message_and_versions() {
    let newer = Versions { min: 90, max: 99 };
    let server = Server::start(
        SOCKET,
        vec![Box::new(move |mut peer| {
            let hello: Hello = peer.receive(Kind::Hello);
            assert_eq!(hello.protocol.common(newer), None);
            let (version, message) = ("9.0.0".to_owned(), "too old".to_owned());
            peer.send(Kind::Refused, &Refusal { protocol: newer, version, message });
        })],
    );

    let error = Connection::open(server.dir(), SOCKET).unwrap_err();

    let ConnectionError::Refused(refusal) = error else { panic!("{error:?}") };
    assert_eq!((refusal.protocol, refusal.message.as_str()), (newer, "too old"));
    server.join();
}

#[test]
fn server_that_selects_an_unsupported_version_is_rejected() {
    let version = unsupported_version();
    let server = Server::start(SOCKET, vec![Box::new(move |mut peer| peer.welcome(version))]);

    let error = Connection::open(server.dir(), SOCKET).unwrap_err();

    assert!(matches!(error, ConnectionError::Protocol(_)), "{error:?}");
    server.join();
}

#[test]
fn stalled_server_times_out_in_handshake_and_in_request() {
    let server = Server::start(
        SOCKET,
        vec![
            // Neither handler replies; each waits until the client gives up.
            Box::new(|mut peer| while peer.frame().is_some() {}),
            Box::new(|peer| {
                let mut peer = peer.greeted();
                while peer.frame().is_some() {}
            }),
        ],
    );
    let timeout = Duration::from_millis(50);

    let handshake = Connection::open_timeout(server.dir(), SOCKET, timeout).unwrap_err();
    let mut connection = Connection::open(server.dir(), SOCKET).unwrap();
    connection.set_timeout(Some(timeout)).unwrap();
    let request = connection.ask(&Request::List).unwrap_err();

    drop(connection);
    assert!(matches!(handshake, ConnectionError::TimedOut), "{handshake:?}");
    assert!(matches!(request, ConnectionError::TimedOut), "{request:?}");
    server.join();
}

#[test]
fn error_reply_leaves_the_connection_usable() {
    let server = Server::start(
        SOCKET,
        vec![Box::new(|peer| {
            let mut peer = peer.greeted();
            peer.request();
            let body = ErrorBody::new(ErrorCode::NotFound, "no such pane");
            peer.send(Kind::Reply, &protocol::control::Reply::Error(body));
            peer.request();
            peer.done();
        })],
    );
    let mut connection = Connection::open(server.dir(), SOCKET).unwrap();

    let error = connection.ask(&Request::Show { target: "x".to_owned() }).unwrap_err();
    let next = connection.ask(&Request::List).unwrap();

    assert_eq!(error.into_body().code, ErrorCode::NotFound);
    assert_eq!(next, Response::Done);
    server.join();
}

#[test]
fn unexpected_and_unreadable_replies_are_protocol_errors() {
    let replies = [
        Frame::new(Kind::Event, b"{}".to_vec()),
        Frame::new(Kind::Reply, br#"{"ok":{"answer":"from_the_future"}}"#.to_vec()),
    ];
    for reply in replies {
        let server = Server::start(
            SOCKET,
            vec![Box::new(move |peer| {
                let mut peer = peer.greeted();
                peer.request();
                peer.send_frame(&reply);
            })],
        );
        let mut connection = Connection::open(server.dir(), SOCKET).unwrap();

        let error = connection.ask(&Request::List).unwrap_err();

        assert!(matches!(error, ConnectionError::Protocol(_)), "{error:?}");
        server.join();
    }
}

/// The bytes of the first release, which every later client must understand.
#[test]
fn server_of_the_first_release_is_understood() {
    let server = Server::start(
        SOCKET,
        vec![Box::new(|mut peer| {
            let hello = peer.frame().unwrap();
            let fields: serde_json::Value = serde_json::from_slice(&hello.body).unwrap();
            assert_eq!(fields["protocol"]["min"], 1);
            let welcome = br#"{"protocol":1,"version":"0.1.0","pid":7}"#;
            peer.send_frame(&Frame::new(Kind::Welcome, welcome.to_vec()));
            assert_eq!(peer.frame().unwrap().body, br#"{"do":"daemon_status"}"#);
            let unknown = br#"{"error":{"code":"usage","message":"unknown request"}}"#;
            peer.send_frame(&Frame::new(Kind::Reply, unknown.to_vec()));
            peer.request();
            let done = br#"{"ok":{"answer":"done"}}"#;
            peer.send_frame(&Frame::new(Kind::Reply, done.to_vec()));
        })],
    );
    let mut connection = Connection::open(server.dir(), SOCKET).unwrap();

    let error = connection.ask(&Request::DaemonStatus).unwrap_err();
    let done = connection.ask(&Request::List).unwrap();

    assert_eq!(error.into_body().code, ErrorCode::Usage);
    assert_eq!(done, Response::Done);
    server.join();
}
