//! Attachments with the keeper and the user played by the test.

use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Size, Timestamp};
use protocol::greeting::Hello;
use protocol::pane::{Attach, Attached, DetachReason, Detached, Reply};
use protocol::{Decoder, Frame, Kind, frame};
use rustix::fs::{OFlags, fstat};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use signal_hook::consts::{SIGTERM, SIGWINCH};
use signal_hook::low_level::raise;

use super::terminal::tests::pty;
use super::*;

/// Serialises the tests, because signals are sent to the whole process.
fn exclusive() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The user's end of a terminal, the terminal, the keeper's end of a connection, and the client's.
struct Scene {
    user: std::fs::File,
    program: OwnedFd,
    terminal: Terminal,
    keeper: UnixStream,
    client: Connection,
}

fn scene() -> Scene {
    let (user, program) = pty(OFlags::RDWR);
    resize(&program, 100, 30);
    let terminal = Terminal::of(program.as_fd(), program.as_fd()).unwrap();
    let (mut keeper, client) = UnixStream::pair().unwrap();
    let welcome = Hello::current().answer(1, "keeper").unwrap();
    frame::write(&mut keeper, &Frame::json(Kind::Welcome, &welcome)).unwrap();
    let client = Connection::handshake(client).unwrap();
    frame::read(&mut keeper).unwrap().expect("a hello");
    Scene { user, program, terminal, keeper, client }
}

fn resize(terminal: &OwnedFd, cols: u16, rows: u16) {
    let size = Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

fn detached() -> Frame {
    Frame::json(Kind::Detached, &Detached { why: DetachReason::Asked, scrollback: false })
}

/// Returns the frames the keeper received until the client closed the connection.
fn received(keeper: &mut UnixStream) -> Vec<Frame> {
    let (mut bytes, mut decoder, mut frames) = (Vec::new(), Decoder::default(), Vec::new());
    keeper.read_to_end(&mut bytes).unwrap();
    decoder.push(&bytes);
    while let Some(frame) = decoder.next_frame().unwrap() {
        frames.push(frame);
    }
    frames
}

#[test]
fn terminal_is_passed_to_the_keeper_with_the_attach_frame() {
    let _exclusive = exclusive();
    let scene = scene();
    let signals = Signals::new().unwrap();

    let _watch = Watch::attach(
        scene.client,
        &scene.terminal,
        &signals,
        View::Terminal,
        true,
        KeyOptions::default(),
    )
    .unwrap();

    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        &scene.keeper,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .unwrap();
    let mut passed: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    assert_eq!(passed.len(), 1);
    let device = |descriptor: &OwnedFd| fstat(descriptor).unwrap().st_rdev;
    assert_eq!(device(&passed[0]), device(&scene.program));
    let mut decoder = Decoder::default();
    decoder.push(&bytes[..got.bytes]);
    let attach: Attach = decoder.next_frame().unwrap().unwrap().parse().unwrap();
    let size = Some(Size::new(100, 30).unwrap());
    assert_eq!(
        attach,
        Attach { view: View::Terminal, size, read_only: true, keys: KeyOptions::default() }
    );
}

#[test]
fn outcome_follows_from_the_last_frame_of_the_keeper() {
    let _exclusive = exclusive();
    let ending = Ending::of(Some(3), None, EndingReason::Exited, Timestamp(0));
    let refusal = ErrorBody::new(ErrorCode::Conflict, "no");
    let size = Size::new(100, 30).unwrap();
    let attached = Frame::json(Kind::Attached, &Attached { size, log_end: 0 }).encode();
    let cases = [
        (detached().encode(), Ok(Outcome::Detached)),
        (Frame::json(Kind::Ended, &ending).encode(), Ok(Outcome::Ended(ending))),
        (Vec::new(), Ok(Outcome::KeeperGone)),
        (b"garbage that is not a frame".to_vec(), Ok(Outcome::KeeperGone)),
        (Frame::json(Kind::Reply, &Reply::Error(refusal.clone())).encode(), Err(refusal)),
    ];
    for (bytes, expected) in cases {
        let mut scene = scene();
        let signals = Signals::new().unwrap();
        let (client, terminal) = (scene.client, &scene.terminal);
        let watch =
            Watch::attach(client, terminal, &signals, View::Terminal, false, KeyOptions::default())
                .unwrap();
        scene.keeper.write_all(&attached).unwrap();
        scene.keeper.write_all(&bytes).unwrap();
        drop(scene.keeper);

        assert_eq!(watch.run(), expected);
    }
}

#[test]
fn relay_forwards_input_and_output() {
    let _exclusive = exclusive();
    let mut scene = scene();
    let signals = Signals::new().unwrap();
    scene.terminal.make_raw().unwrap();
    let (client, terminal) = (scene.client, &scene.terminal);
    let watch =
        Watch::attach(client, terminal, &signals, View::Relay, false, KeyOptions::default())
            .unwrap();
    scene.user.write_all(b"ls\r\x02d").unwrap();
    let mut keeper = scene.keeper.try_clone().unwrap();
    // A keeper that paints, and detaches when it has received the detach key.
    let keeper = std::thread::spawn(move || {
        let mut decoder = Decoder::default();
        let mut keys = Vec::new();
        keeper.write_all(&Frame::new(Kind::Paint, b"picture".to_vec()).encode()).unwrap();
        while !keys.ends_with(b"\x02d") {
            let mut piece = [0; 4096];
            let read = keeper.read(&mut piece).unwrap();
            decoder.push(&piece[..read]);
            while let Some(frame) = decoder.next_frame().unwrap() {
                if frame.kind == Kind::Input {
                    keys.extend_from_slice(&frame.body);
                }
            }
        }
        keeper.write_all(&detached().encode()).unwrap();
        keys
    });

    let outcome = watch.run();

    assert_eq!(outcome, Ok(Outcome::Detached));
    assert_eq!(keeper.join().unwrap(), b"ls\r\x02d");
    let mut seen = [0; 7];
    scene.user.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"picture");
}

#[test]
fn resize_is_forwarded_to_the_keeper() {
    let _exclusive = exclusive();
    let mut scene = scene();
    let signals = Signals::new().unwrap();
    let (client, terminal) = (scene.client, &scene.terminal);
    let watch =
        Watch::attach(client, terminal, &signals, View::Relay, false, KeyOptions::default())
            .unwrap();
    resize(&scene.program, 120, 40);
    raise(SIGWINCH).unwrap();
    scene.keeper.write_all(&detached().encode()).unwrap();

    watch.run().unwrap();

    let frames = received(&mut scene.keeper);
    let resize = frames.iter().find(|frame| frame.kind == Kind::Resize).unwrap();
    assert_eq!(resize.parse::<Size>().unwrap(), Size::new(120, 40).unwrap());
}

#[test]
fn signal_detaches_even_if_the_keeper_does_not_confirm() {
    let _exclusive = exclusive();
    for keeper_confirms in [true, false] {
        let mut scene = scene();
        let signals = Signals::new().unwrap();
        let (client, terminal) = (scene.client, &scene.terminal);
        let watch =
            Watch::attach(client, terminal, &signals, View::Relay, false, KeyOptions::default())
                .unwrap();
        raise(SIGTERM).unwrap();
        if keeper_confirms {
            scene.keeper.write_all(&detached().encode()).unwrap();
        }

        let outcome = watch.run();

        assert_eq!(outcome, Ok(Outcome::Signal(SIGTERM)));
        assert!(received(&mut scene.keeper).iter().any(|frame| frame.kind == Kind::Detach));
    }
}

#[test]
fn terminal_is_restored_before_a_panic_message() {
    let _exclusive = exclusive();
    let scene = scene();
    let restore = Restore::later(&scene.terminal).unwrap();
    restore.also_on_panic();
    scene.terminal.make_raw().unwrap();

    let panicked = catch_unwind(AssertUnwindSafe(|| panic!("on purpose")));

    assert!(panicked.is_err());
    // The guard is still alive, so the panic hook restored the terminal.
    assert!(tcgetattr(&scene.program).unwrap().local_modes.contains(LocalModes::ICANON));
    drop(restore);
}

#[test]
fn attaching_a_pane_to_itself_is_refused() {
    let name = "dev1".parse().unwrap();
    let pane = PaneId::from_random([7; 16]);
    let target = Target { pane, name: &name, dir: Path::new("/nowhere") };

    let refused = refuse_own_pane(Some(&pane.to_string()), &target).unwrap_err();

    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refuse_own_pane(None, &target).is_ok());
    assert!(refuse_own_pane(Some("another"), &target).is_ok());
}
