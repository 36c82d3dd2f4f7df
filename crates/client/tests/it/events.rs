//! The event stream across daemon restarts.

use client::{DaemonClient, DaemonError};
use protocol::control::{Request, SOCKET};
use protocol::{Frame, Kind};
use serde_json::json;

use crate::fake::{Handler, Peer, Server};

fn send_event(peer: &mut Peer, seq: u64) {
    peer.send(
        Kind::Event,
        &json!({"seq": seq, "at": 5, "event": "daemon_started", "pid": 1,
        "adopted": 0}),
    );
}

/// A daemon that expects a request for events after `after` and sends `seqs`. It then ends the
/// stream if `complete`, and dies otherwise.
fn daemon(after: Option<u64>, follow: bool, seqs: &'static [u64], complete: bool) -> Handler {
    Box::new(move |peer| {
        let mut peer = peer.greeted();
        let set = model::event::EVENT_SET;
        assert_eq!(peer.request(), Request::Events { after, follow, set });
        peer.done();
        for seq in seqs {
            send_event(&mut peer, *seq);
        }
        if complete {
            peer.done();
        }
    })
}

#[test]
fn recorded_events_end_with_the_second_reply() {
    let server = Server::start(SOCKET, vec![daemon(Some(3), false, &[4, 5], true)]);

    let mut events = DaemonClient::new(server.dir()).events(Some(3), false);

    let seqs: Vec<u64> = events.by_ref().map(|event| event.unwrap().seq).collect();
    assert_eq!(seqs, [4, 5]);
    assert_eq!(events.position(), Some(5));
    server.join();
}

#[test]
fn cut_stream_resumes_after_the_last_event_without_duplicates() {
    let server = Server::start(
        SOCKET,
        vec![
            daemon(None, true, &[1, 2], false),
            // A server that repeats an event does not produce a duplicate.
            daemon(Some(2), true, &[2, 3], false),
            daemon(Some(3), true, &[], false),
            daemon(Some(3), true, &[4], true),
        ],
    );

    let events = DaemonClient::new(server.dir()).events(None, true);

    let seqs: Vec<u64> = events.map(|event| event.unwrap().seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
    server.join();
}

#[test]
fn stream_ends_with_an_error_when_no_daemon_is_left() {
    let server = Server::start(SOCKET, vec![daemon(None, true, &[1], false)]);

    let mut events = DaemonClient::new(server.dir()).events(None, true);

    assert_eq!(events.next().unwrap().unwrap().seq, 1);
    let error = events.next().unwrap().unwrap_err();
    assert!(matches!(error, DaemonError::NotRunning { .. }), "{error:?}");
    assert!(events.next().is_none());
    server.join();
}

#[test]
fn unreadable_event_ends_the_stream_with_a_protocol_error() {
    let server = Server::start(
        SOCKET,
        vec![Box::new(|peer| {
            let mut peer = peer.greeted();
            peer.request();
            peer.done();
            peer.send_frame(&Frame::new(Kind::Event, b"{}".to_vec()));
        })],
    );

    let mut events = DaemonClient::new(server.dir()).events(None, true);

    let error = events.next().unwrap().unwrap_err();
    assert!(matches!(error, DaemonError::Protocol(_)), "{error:?}");
    server.join();
}
