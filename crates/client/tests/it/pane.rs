//! Attachments to a keeper, and following its output.

use client::{ConnectionError, PaneEvent, PaneFollower, PaneStream};
use model::{Ending, EndingReason, Size, Timestamp};
use protocol::pane::{Attach, Attached, DetachReason, Detached, KeyOptions, Reply, SOCKET, View};
use protocol::{ErrorBody, ErrorCode, Frame, Kind};

use crate::fake::{Handler, Peer, Server};

fn output(kind: Kind, offset: u64, bytes: &[u8]) -> Frame {
    Frame::new(kind, [&offset.to_le_bytes()[..], bytes].concat())
}

fn ending() -> Ending {
    Ending::of(Some(0), None, EndingReason::Exited, Timestamp(5))
}

/// A keeper that expects a follower at `from`, and sends `frames`.
fn keeper(from: Option<u64>, frames: Vec<Frame>) -> Handler {
    Box::new(move |peer: Peer| {
        let mut peer = peer.greeted();
        let attach: Attach = peer.receive(Kind::Attach);
        assert_eq!(attach.view, View::Follow { from });
        for frame in &frames {
            peer.send_frame(frame);
        }
    })
}

#[test]
fn attachment_delivers_events_and_sends_input() {
    let size = Size::new(80, 24).unwrap();
    let server = Server::start(
        SOCKET,
        vec![Box::new(move |peer| {
            let mut peer = peer.greeted();
            let attach: Attach = peer.receive(Kind::Attach);
            assert_eq!((attach.view, attach.size), (View::Relay, Some(size)));
            peer.send(Kind::Attached, &Attached { size, log_end: 9 });
            assert_eq!(peer.frame().unwrap(), Frame::new(Kind::Input, b"ls\r".to_vec()));
            assert_eq!(peer.receive::<Size>(Kind::Resize), size);
            peer.send_frame(&Frame::new(Kind::Paint, b"hello".to_vec()));
            assert_eq!(peer.frame().unwrap().kind, Kind::Detach);
            peer.send(Kind::Detached, &Detached { why: DetachReason::Asked, scrollback: false });
        })],
    );
    let attach = Attach {
        view: View::Relay,
        size: Some(size),
        read_only: false,
        keys: KeyOptions::default(),
    };

    let mut stream = PaneStream::open(server.dir(), &attach).unwrap();
    let control = stream.control();
    let attached = stream.next_event().unwrap();
    control.input(b"ls\r").unwrap();
    control.resize(size).unwrap();
    let painted = stream.next_event().unwrap();
    control.detach().unwrap();
    let detached = stream.next_event().unwrap();

    assert_eq!(attached, PaneEvent::Attached(Attached { size, log_end: 9 }));
    assert_eq!(painted, PaneEvent::Paint(b"hello".to_vec()));
    assert_eq!(detached, PaneEvent::Detached(DetachReason::Asked));
    server.join();
}

#[test]
fn rejected_attachment_is_a_remote_error() {
    let server = Server::start(
        SOCKET,
        vec![Box::new(|peer| {
            let mut peer = peer.greeted();
            let _attach: Attach = peer.receive(Kind::Attach);
            let body = ErrorBody::new(ErrorCode::Conflict, "already attached");
            peer.send(Kind::Reply, &Reply::Error(body));
        })],
    );
    let attach =
        Attach { view: View::Relay, size: None, read_only: true, keys: KeyOptions::default() };

    let error = PaneStream::open(server.dir(), &attach).unwrap().next_event().unwrap_err();

    let ConnectionError::Remote(body) = error else { panic!("{error:?}") };
    assert_eq!(body.code, ErrorCode::Conflict);
    server.join();
}

#[test]
fn cut_output_resumes_at_the_last_offset_without_duplicates() {
    let server = Server::start(
        SOCKET,
        vec![
            keeper(None, vec![output(Kind::Snapshot, 10, b"S"), output(Kind::Output, 10, b"abc")]),
            // A keeper may start earlier than requested.
            keeper(Some(13), vec![output(Kind::Output, 11, b"bcde")]),
            keeper(Some(15), vec![Frame::json(Kind::Ended, &ending())]),
        ],
    );
    let mut follower = PaneFollower::new(server.dir(), None);

    let events: Vec<PaneEvent> = (0..4).map(|_| follower.next_event().unwrap()).collect();

    assert_eq!(
        events,
        [
            PaneEvent::Snapshot { offset: 10, bytes: b"S".to_vec() },
            PaneEvent::Output { offset: 10, bytes: b"abc".to_vec() },
            PaneEvent::Output { offset: 13, bytes: b"de".to_vec() },
            PaneEvent::Ended(ending()),
        ]
    );
    assert_eq!(follower.position(), Some(15));
    server.join();
}

#[test]
fn gap_in_the_log_is_visible_from_the_offset() {
    let server =
        Server::start(SOCKET, vec![keeper(Some(5), vec![output(Kind::Snapshot, 90, b"S")])]);
    let mut follower = PaneFollower::new(server.dir(), Some(5));

    let event = follower.next_event().unwrap();

    assert_eq!(event, PaneEvent::Snapshot { offset: 90, bytes: b"S".to_vec() });
    assert_eq!(follower.position(), Some(90));
    server.join();
}

#[test]
fn exited_keeper_is_a_connect_error() {
    let server = Server::start(SOCKET, vec![keeper(Some(0), vec![output(Kind::Output, 0, b"a")])]);
    let mut follower = PaneFollower::new(server.dir(), Some(0));

    let first = follower.next_event().unwrap();
    let error = follower.next_event().unwrap_err();

    assert_eq!(first, PaneEvent::Output { offset: 0, bytes: b"a".to_vec() });
    assert!(matches!(error, ConnectionError::Connect(_)), "{error:?}");
    server.join();
}

#[test]
fn frame_without_an_offset_is_a_protocol_error() {
    let server =
        Server::start(SOCKET, vec![keeper(None, vec![Frame::new(Kind::Output, b"abc".to_vec())])]);

    let error = PaneFollower::new(server.dir(), None).next_event().unwrap_err();

    assert!(matches!(error, ConnectionError::Protocol(_)), "{error:?}");
    server.join();
}
