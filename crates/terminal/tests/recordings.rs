//! Recordings of real programs: the resulting screens, and copies that continue from any point.
//!
//! `*.screen` contains the reviewed screens after each quarter of `*.bytes` at 80x24 (at the end,
//! most programs have cleared theirs). `CCMUX_BLESS=1` rewrites these files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use terminal::{Filter, Modes, Painter, Passed, Terminal, outer};

/// Number of parts into which a recording is split.
const PARTS: usize = 16;
/// Size of one read from a terminal; larger chunks would split fewer sequences.
const CHUNK: usize = 1000;

fn recordings() -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bytes"))
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

fn size() -> model::Size {
    model::Size::new(80, 24).unwrap()
}

/// Returns the public state of a terminal.
fn state(terminal: &mut Terminal) -> (String, String, terminal::Cursor, Modes) {
    (terminal.screen_text(), terminal.title(), terminal.cursor(), terminal.modes())
}

#[test]
fn recordings_produce_the_reviewed_screens() {
    for (path, bytes) in recordings() {
        let mut terminal = Terminal::new(size(), 0);
        let mut text = String::new();

        for quarter in 0..4 {
            let (from, to) = (bytes.len() * quarter / 4, bytes.len() * (quarter + 1) / 4);
            for chunk in bytes[from..to].chunks(CHUNK) {
                terminal.feed(chunk);
            }
            writeln!(text, "=== after {to} bytes\n{}", terminal.screen_text()).unwrap();
        }

        let reviewed = path.with_extension("screen");
        let bless = std::env::vars().any(|(name, _)| name == "CCMUX_BLESS");
        if bless {
            let mut file = fs::File::create(&reviewed).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&reviewed).unwrap(), "{}", path.display());
    }
}

#[test]
fn copy_made_anywhere_in_a_recording_continues_like_the_original() {
    for (path, bytes) in recordings() {
        let mut whole = Terminal::new(size(), 0);
        whole.feed(&bytes);
        for part in 0..=PARTS {
            let (before, after) = bytes.split_at(bytes.len() * part / PARTS);
            let about = format!("{} at {}", path.display(), before.len());
            let mut original = Terminal::new(size(), 0);
            original.feed(before);

            let snapshot = original.snapshot();
            let mut copy = Terminal::new(size(), 0);
            copy.feed(&snapshot);

            assert_eq!(state(&mut copy), state(&mut original), "{about}");
            assert_eq!(copy.snapshot(), original.snapshot(), "{about}");
            copy.feed(&before[before.len() - original.unfinished()..]);
            copy.feed(after);
            assert_eq!(state(&mut copy), state(&mut whole), "{about}, then the rest");
            assert_eq!(copy.snapshot(), whole.snapshot(), "{about}, then the rest");
        }
    }
}

#[test]
fn client_attaching_anywhere_in_a_recording_sees_the_screen() {
    for (path, bytes) in recordings() {
        for part in 0..PARTS {
            let start = bytes.len() * part / PARTS;
            let about = format!("{} from {start}", path.display());
            let mut pane = Terminal::new(size(), 0);
            pane.feed(&bytes[..start]);
            let mut client = Terminal::new(size(), 0);
            client.feed(&outer::enter());
            let mut painter = Painter::new();
            client.feed(&painter.frame(&mut pane, size()));
            let mut filter = Filter::new();
            let mut fed = start;
            let mut next = &bytes[start - pane.unfinished()..start];

            loop {
                let mut passed = Vec::new();
                if filter.pass(next, &mut passed) == Passed::All {
                    client.feed(&passed);
                } else {
                    painter.invalidate();
                    client.feed(&painter.frame(&mut pane, size()));
                    assert_eq!(
                        pane.unfinished(),
                        0,
                        "{about}: a new filter must start between sequences"
                    );
                }
                if fed == bytes.len() {
                    break;
                }
                // Split between sequences, as required for repainting a client.
                let end = (fed + CHUNK).min(bytes.len());
                pane.feed(&bytes[fed..end]);
                let whole = end + completion(&mut pane, &bytes[end..]);
                next = &bytes[fed..whole];
                fed = whole;
            }

            let (text, _, cursor, mut modes) = state(&mut pane);
            modes.alternate_scroll &= modes.alternate_screen;
            modes.alternate_screen = true;
            let shown = state(&mut client);
            assert_eq!((shown.0, shown.2, shown.3), (text, cursor, modes), "{about}");
        }
    }
}

/// Feeds the bytes that complete the current sequence of `pane`; returns their number.
fn completion(pane: &mut Terminal, rest: &[u8]) -> usize {
    let mut used = 0;
    while pane.unfinished() > 0 && used < rest.len() {
        pane.feed(&rest[used..=used]);
        used += 1;
    }
    used
}
