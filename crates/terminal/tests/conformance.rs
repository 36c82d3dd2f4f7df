//! Conformance: bytes in, cells, cursor and answers out.
//!
//! Every case runs on all paths on which a screen reaches a reader: fed at once, fed byte by byte,
//! continued from a snapshot taken anywhere, and seen by a client that attached anywhere. The expected
//! results are those of xterm, except where a comment says otherwise.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use terminal::{Filter, Painter, Passed, Terminal, outer};

/// Name, columns and rows, output of the program, screen, cursor (row and column), answers.
type Case = (&'static str, (u16, u16), &'static str, &'static str, (u16, u16), &'static str);

/// Name, output of the program, and sizes after 80x24, of which the last is 80x24 again.
type ResizeCase = (&'static str, String, &'static [(u16, u16)]);

const SCREENS_AND_SAVED_CURSORS: &[Case] = &[
    ("1047 keeps the cursor", (9, 2), "ab\x1b[?1047hcd\x1b[?1047lx", "ab  x", (0, 5), ""),
    ("47 switches", (9, 2), "ab\x1b[?47h\x1b[Hcd", "cd", (0, 2), ""),
    ("47 returns", (9, 2), "ab\x1b[?47h\x1b[Hcd\x1b[?47l", "ab", (0, 2), ""),
    ("1049 restores", (9, 2), "ab\x1b[?1049h\x1b[2Hcd\x1b[?1049lx", "abx", (0, 3), ""),
    (
        "alternate screen keeps its saved cursor",
        (9, 3),
        "\x1b[?1049h\x1b[3;3H\x1b7\x1b[?1049lab\x1b[?1049h\x1b8x",
        "\n\n  x",
        (2, 3),
        "",
    ),
    ("1048 saves", (9, 2), "a\x1b[?1048hbc\x1b[?1048lx", "axc", (0, 2), ""),
    (
        "cursor restore sets origin mode",
        (9, 4),
        "\x1b[2;4r\x1b[?6h\x1b7\x1b[?6l\x1b8\x1b[1;1Hx",
        "\nx",
        (1, 1),
        "",
    ),
    (
        "cursor restore resets origin mode",
        (9, 4),
        "\x1b[2;4r\x1b7\x1b[?6h\x1b8\x1b[1;1Hx",
        "x",
        (0, 1),
        "",
    ),
    ("cursor restore selects the charset", (9, 1), "\x1b)0\x1b7\x0eq\x1b8q", "q", (0, 1), ""),
    ("leaving origin mode homes", (9, 3), "\x1b[2;3r\x1b[?6h\x1b[2;2H\x1b[?6lx", "x", (0, 1), ""),
    (
        "modes of screens are reported",
        (9, 1),
        "\x1b[?47h\x1b[?1047$p",
        "",
        (0, 0),
        "\x1b[?1047;1$y",
    ),
];

#[test]
fn screens_and_saved_cursors() {
    check(SCREENS_AND_SAVED_CURSORS);
}

const CURSOR_MOTION: &[Case] = &[
    ("VPR passes the bottom margin", (9, 5), "\x1b[1;2r\x1b[3ex", "\n\n\nx", (3, 1), ""),
    ("CUD stops at the bottom margin", (9, 5), "\x1b[1;2r\x1b[3Bx", "\nx", (1, 1), ""),
    ("VPR in origin mode", (9, 5), "\x1b[1;2r\x1b[?6h\x1b[9ex", "\nx", (1, 1), ""),
    ("VPR around a control", (9, 5), "\x1b[2\nex", "\n\n\nx", (3, 1), ""),
    ("IND cancels a pending wrap", (3, 2), "abc\x1bDx", "abc\n  x", (1, 2), ""),
    ("LF cancels a pending wrap", (3, 2), "abc\nx", "abc\n  x", (1, 2), ""),
    ("VT cancels a pending wrap", (3, 2), "abc\x0bx", "abc\n  x", (1, 2), ""),
    ("FF cancels a pending wrap", (3, 2), "abc\x0cx", "abc\n  x", (1, 2), ""),
    ("RI cancels a pending wrap", (3, 2), "\nabc\x1bMx", "  x\nabc", (0, 2), ""),
    ("LNM returns", (9, 2), "\x1b[20hab\ncd", "ab\ncd", (1, 2), ""),
    ("reverse wrap", (3, 2), "\x1b[?45habc\r\n\x08x", "abx", (0, 2), ""),
    ("no reverse wrap", (3, 2), "abc\r\n\x08x", "abc\nx", (1, 1), ""),
    ("reverse wrap by CUB", (3, 2), "\x1b[?45habc\r\n\x1b[3Dx", "xbc", (0, 1), ""),
    (
        "DECALN homes and clears margins",
        (3, 3),
        "\x1b[2;3r\x1b[2;2H\x1b#8x\x1b[3;1H\n",
        "EEE\nEEE",
        (2, 0),
        "",
    ),
    ("back index shifts", (5, 2), "abc\r\x1b6x", "xabc", (0, 1), ""),
    ("forward index shifts", (3, 2), "abc\x1b9x", "bcx", (0, 2), ""),
];

#[test]
fn cursor_motion() {
    check(CURSOR_MOTION);
}

const WIDE_CHARACTERS_AND_CLUSTERS: &[Case] = &[
    ("overwriting the second half", (9, 1), "日本\x1b[1;2HX", " X本", (0, 2), ""),
    ("overwriting the first half", (9, 1), "日本\x1b[1;3HX", "日X", (0, 3), ""),
    ("erasing a half", (9, 1), "日本\x1b[1;2H\x1b[X", "  本", (0, 1), ""),
    ("erasing two halves", (9, 1), "日本語\x1b[1;2H\x1b[2X", "    語", (0, 1), ""),
    ("erasing to the right of a half", (9, 1), "x日本\x1b[1;3H\x1b[K", "x", (0, 2), ""),
    ("erasing to the left of a half", (9, 1), "日本x\x1b[1;3H\x1b[1K", "    x", (0, 2), ""),
    ("deleting a half", (9, 1), "日本x\x1b[1;2H\x1b[P", " 本x", (0, 1), ""),
    ("inserting into a character", (9, 1), "日本\x1b[1;2H\x1b[@", "   本", (0, 1), ""),
    ("inserting pushes half out", (4, 1), "日本\x1b[H\x1b[@", " 日", (0, 0), ""),
    ("erasing below a half", (9, 2), "x日\r\ny\x1b[1;3H\x1b[J", "x", (0, 2), ""),
    ("joined emoji", (9, 1), "👩\u{200d}🚀x", "👩\u{200d}🚀x", (0, 3), ""),
    ("family", (9, 1), "👨\u{200d}👩\u{200d}👧x", "👨\u{200d}👩\u{200d}👧x", (0, 3), ""),
    ("skin tone", (9, 1), "👍🏽x", "👍🏽x", (0, 3), ""),
    ("emoji presentation", (9, 1), "❤\u{fe0f}x", "❤\u{fe0f}x", (0, 3), ""),
    (
        "joined with presentation",
        (9, 1),
        "❤\u{fe0f}\u{200d}🔥x",
        "❤\u{fe0f}\u{200d}🔥x",
        (0, 3),
        "",
    ),
    ("no emoji presentation of letters", (9, 1), "a\u{fe0f}x", "a\u{fe0f}x", (0, 2), ""),
    ("skin tone without emoji", (9, 1), "a🏽x", "a🏽x", (0, 4), ""),
    ("joiner without emoji", (9, 1), "a\u{200d}bx", "a\u{200d}bx", (0, 3), ""),
    ("cluster after a wrap", (3, 2), "ab👩\u{200d}🚀x", "ab\n👩\u{200d}🚀x", (1, 2), ""),
    ("cluster before a wrap", (4, 2), "ab👩\u{200d}🚀x", "ab👩\u{200d}🚀\nx", (1, 1), ""),
    (
        "mode 2027 is reported",
        (9, 1),
        "\x1b[?2027$p\x1b[?2027l\x1b[?2027$p",
        "",
        (0, 0),
        "\x1b[?2027;1$y\x1b[?2027;2$y",
    ),
    ("without clusters", (9, 1), "\x1b[?2027l👍🏽\x1b[2K", "", (0, 4), ""),
];

#[test]
fn wide_characters_and_clusters() {
    check(WIDE_CHARACTERS_AND_CLUSTERS);
}

const QUESTIONS: &[Case] = &[
    ("DECRQCRA of one cell", (9, 1), "A\x1b[7;1;1;1;1;1*y", "A", (0, 1), "\x1bP7!~FFBF\x1b\\"),
    ("DECRQCRA of a blank", (9, 1), "\x1b[1;1;1;1;1;1*y", "", (0, 0), "\x1bP1!~FFE0\x1b\\"),
    (
        "DECRQCRA in origin mode",
        (9, 3),
        "\n\nB\x1b[3;3r\x1b[2;3r\x1b[?6h\x1b[1;1;2;1;2;1*y",
        "\n\nB",
        (1, 0),
        "\x1bP1!~FFBE\x1b\\",
    ),
    (
        "XTGETTCAP",
        (9, 1),
        "\x1bP+q436f;58\x1b\\",
        "",
        (0, 0),
        "\x1bP1+r436f=323536\x1b\\\x1bP0+r58\x1b\\",
    ),
    (
        "DECRQSS of the side margins",
        (9, 2),
        "\x1b[?69h\x1b[2;5s\x1bP$qs\x1b\\",
        "",
        (0, 0),
        "\x1bP1$r2;5s\x1b\\",
    ),
    (
        "DECRQSS of the protection",
        (9, 1),
        "\x1b[1\"q\x1bP$q\"q\x1b\\",
        "",
        (0, 0),
        "\x1bP1$r1\"q\x1b\\",
    ),
    ("DECRQSS of the lines", (9, 4), "\x1bP$qt\x1b\\", "", (0, 0), "\x1bP1$r4t\x1b\\"),
    ("DECRQSS of something unknown", (9, 1), "\x1bP$qz\x1b\\", "", (0, 0), "\x1bP0$r\x1b\\"),
];

#[test]
fn questions() {
    check(QUESTIONS);
}

const COLUMNS_AND_RECTANGLES: &[Case] = &[
    ("SL", (5, 2), "abc\r\ndef\x1b[ @", "bc\nef", (1, 3), ""),
    ("SR", (5, 2), "abc\r\ndef\x1b[2 A", "  abc\n  def", (1, 3), ""),
    ("DECIC", (6, 2), "abc\r\ndef\x1b[1;2H\x1b['}", "a bc\nd ef", (0, 1), ""),
    ("DECDC", (6, 2), "abc\r\ndef\x1b[1;2H\x1b['~", "ac\ndf", (0, 1), ""),
    ("DECIC inside the rows", (6, 3), "ab\r\ncd\r\nef\x1b[1;2r\x1b['}", " ab\n cd\nef", (0, 0), ""),
    ("SL blanks a half", (6, 1), "日本\x1b[ @", " 本", (0, 4), ""),
    ("DECFRA", (5, 3), "\x1b[65;1;2;2;3$x", " AA\n AA", (0, 0), ""),
    ("DECFRA of everything", (3, 2), "\x1b[66$x", "BBB\nBBB", (0, 0), ""),
    ("DECERA", (5, 2), "abcd\r\nefgh\x1b[1;2;2;3$z", "a  d\ne  h", (1, 4), ""),
    ("DECCRA", (5, 3), "ab\r\ncd\x1b[1;1;2;2;1;2;3;1$v", "ab\ncdab\n  cd", (1, 2), ""),
    ("DECCRA cut at the edge", (3, 2), "ab\x1b[1;1;1;2;1;2;3$v", "ab\n  a", (0, 2), ""),
    ("DECSED", (5, 2), "\x1b[1\"qab\x1b[0\"qcd\x1b[?2J", "ab", (0, 4), ""),
    ("DECSED below", (5, 2), "\x1b[1\"qa\x1b[\"qbc\x1b[1;1H\x1b[?J", "a", (0, 0), ""),
    ("DECSEL", (5, 2), "\x1b[1\"qa\x1b[2\"qb\r\ncd\x1b[1;1H\x1b[?K", "a\ncd", (0, 0), ""),
    ("DECSERA", (5, 2), "\x1b[1\"qa\x1b[2\"qb\x1b[1;1;1;2${", "a", (0, 2), ""),
    ("SGR keeps the protection", (5, 1), "\x1b[1\"q\x1b[ma\x1b[?2K", "a", (0, 1), ""),
    ("ED erases protected cells", (5, 1), "\x1b[1\"qa\x1b[2J", "", (0, 1), ""),
    ("DECSTR", (5, 3), "\x1b[2;3r\x1b[4h\x1b[?6h\x1b[!p\x1b[1;1Hx", "x", (0, 1), ""),
];

#[test]
fn columns_and_rectangles() {
    check(COLUMNS_AND_RECTANGLES);
}

const SIDE_MARGINS: &[Case] = &[
    ("CSI s without mode 69 saves", (9, 2), "a\x1b[sbc\x1b[ux", "axc", (0, 2), ""),
    ("setting margins homes", (9, 3), "\x1b[2;2H\x1b[?69h\x1b[3;5s", "", (0, 0), ""),
    (
        "text wraps between margins",
        (9, 3),
        "\x1b[?69h\x1b[3;5s\x1b[1;3Habcd",
        "  abc\n  d",
        (1, 3),
        "",
    ),
    (
        "wide text wraps between margins",
        (9, 3),
        "\x1b[?69h\x1b[3;5s\x1b[1;3H日本",
        "  日\n  本",
        (1, 4),
        "",
    ),
    ("text before the margin", (9, 3), "\x1b[?69h\x1b[3;5sabcdef", "abcde\n  f", (1, 3), ""),
    ("CR to the margin", (9, 2), "\x1b[?69h\x1b[3;5s\x1b[1;4Ha\rb", "  ba", (0, 3), ""),
    ("CR left of the margin", (9, 2), "\x1b[?69h\x1b[3;5sa\rc", "c", (0, 1), ""),
    (
        "scrolling between margins",
        (6, 2),
        "abcdef\r\nghijkl\x1b[?69h\x1b[2;3s\x1b[2;2H\n",
        "ahidef\ng  jkl",
        (1, 1),
        "",
    ),
    (
        "RI between margins",
        (6, 2),
        "abcdef\r\nghijkl\x1b[?69h\x1b[2;3s\x1b[1;2H\x1bM",
        "a  def\ngbcjkl",
        (0, 1),
        "",
    ),
    (
        "no scrolling beside the margins",
        (6, 2),
        "abcdef\r\nghijkl\x1b[?69h\x1b[2;3s\x1b[2;5H\n",
        "abcdef\nghijkl",
        (1, 4),
        "",
    ),
    (
        "IL between margins",
        (6, 2),
        "abcdef\r\nghijkl\x1b[?69h\x1b[2;3s\x1b[1;2H\x1b[L",
        "a  def\ngbcjkl",
        (0, 1),
        "",
    ),
    (
        "DL between margins",
        (6, 2),
        "abcdef\r\nghijkl\x1b[?69h\x1b[2;3s\x1b[1;2H\x1b[M",
        "ahidef\ng  jkl",
        (0, 1),
        "",
    ),
    (
        "ICH between margins",
        (6, 1),
        "abcdef\x1b[?69h\x1b[2;4s\x1b[1;2H\x1b[@",
        "a bcef",
        (0, 1),
        "",
    ),
    (
        "DCH between margins",
        (6, 1),
        "abcdef\x1b[?69h\x1b[2;4s\x1b[1;2H\x1b[P",
        "acd ef",
        (0, 1),
        "",
    ),
    (
        "SU between margins",
        (6, 2),
        "abcdef\r\nghijkl\x1b[?69h\x1b[2;3s\x1b[S",
        "ahidef\ng  jkl",
        (0, 0),
        "",
    ),
    ("CUF stops at the margin", (9, 1), "\x1b[?69h\x1b[2;4s\x1b[9Cx", "   x", (0, 3), ""),
    ("CUB stops at the margin", (9, 1), "\x1b[?69h\x1b[2;4s\x1b[1;4H\x1b[9Dx", " x", (0, 2), ""),
    ("tab stops at the margin", (20, 1), "\x1b[?69h\x1b[2;5s\tx", "    x", (0, 4), ""),
    (
        "origin mode",
        (9, 4),
        "\x1b[?69h\x1b[3;6s\x1b[2;3r\x1b[?6h\x1b[2;2Hx\x1b[6n",
        "\n\n   x",
        (2, 4),
        "\x1b[2;3R",
    ),
    ("resetting mode 69", (6, 1), "\x1b[?69h\x1b[2;3s\x1b[?69l\x1b[1;3Habc", "  abc", (0, 5), ""),
    (
        "insert mode between margins",
        (6, 1),
        "abcdef\x1b[?69h\x1b[2;4s\x1b[4h\x1b[1;2Hx",
        "axbcef",
        (0, 2),
        "",
    ),
];

#[test]
fn side_margins() {
    check(SIDE_MARGINS);
}

#[test]
fn resize_keeps_content() {
    let lines = |from: usize, to: usize| -> String {
        (from..=to).map(|line| format!("line {line}\r\n")).collect()
    };
    let long = format!("{}\r\n", "0123456789".repeat(9)).repeat(20);
    let cases: [ResizeCase; 6] = [
        ("fewer rows", lines(1, 21), &[(80, 10), (80, 24)]),
        ("a small second client", lines(1, 23), &[(80, 5), (80, 24)]),
        ("small steps", lines(1, 23), &[(80, 20), (80, 6), (80, 3), (80, 15), (80, 24)]),
        ("fewer columns", long.clone(), &[(40, 24), (80, 24)]),
        ("both", long, &[(33, 7), (80, 24)]),
        ("alternate screen", format!("\x1b[?1049h\x1b[H{}", lines(1, 23)), &[(80, 10), (80, 24)]),
    ];
    for (name, bytes, sizes) in cases {
        let mut terminal = Terminal::new(model::Size::new(80, 24).unwrap(), 0);
        terminal.feed(bytes.as_bytes());
        let before = shown(&mut terminal);

        for &(columns, rows) in sizes {
            terminal.resize(model::Size::new(columns, rows).unwrap());
        }

        assert_eq!(shown(&mut terminal), before, "{name}");
        assert_eq!(terminal.history_len(), 0, "{name}");
    }
}

#[test]
fn main_screen_is_kept_while_the_alternate_screen_is_resized() {
    let mut terminal = Terminal::new(model::Size::new(80, 24).unwrap(), 0);
    let lines: String = (1..=20).map(|line| format!("line {line}\r\n")).collect();
    terminal.feed(lines.as_bytes());
    let before = shown(&mut terminal);

    terminal.feed(b"\x1b[?1049hediting");
    terminal.resize(model::Size::new(80, 5).unwrap());
    terminal.resize(model::Size::new(80, 24).unwrap());
    terminal.feed(b"\x1b[?1049l");

    assert_eq!(shown(&mut terminal), before);
}

#[test]
fn output_at_the_small_size_scrolls_the_lines_that_return() {
    let mut terminal = Terminal::new(model::Size::new(80, 6).unwrap(), 0);
    terminal.feed(b"1\r\n2\r\n3\r\n4\r\n5\r\n$ ");

    terminal.resize(model::Size::new(80, 3).unwrap());
    terminal.feed(b"ls\r\nfile\r\n$ ");
    assert_eq!(terminal.text(100), "$ ls\nfile\n$");
    terminal.resize(model::Size::new(80, 6).unwrap());

    assert_eq!(terminal.screen_text(), "3\n4\n5\n$ ls\nfile\n$");
}

#[test]
fn cleared_scrollback_does_not_return() {
    let mut terminal = Terminal::new(model::Size::new(80, 6).unwrap(), 0);
    terminal.feed(b"1\r\n2\r\n3\r\n4\r\n5\r\n$ ");

    terminal.resize(model::Size::new(80, 3).unwrap());
    terminal.feed(b"\x1b[H\x1b[2J\x1b[3J$ ");
    terminal.resize(model::Size::new(80, 6).unwrap());

    assert_eq!(terminal.screen_text(), "$");
}

fn check(cases: &[Case]) {
    for &(name, (columns, rows), bytes, screen, cursor, answers) in cases {
        let size = model::Size::new(columns, rows.max(2)).unwrap();
        let expected = (screen.to_owned(), cursor);
        let bytes = bytes.as_bytes();

        let mut whole = Terminal::new(size, 0);
        whole.feed(bytes);
        assert_eq!(shown(&mut whole), expected, "{name}");
        assert_eq!(String::from_utf8_lossy(&whole.take_answers()), answers, "{name}");

        let mut stepwise = Terminal::new(size, 0);
        for byte in bytes.chunks(1) {
            stepwise.feed(byte);
        }
        assert_eq!(shown(&mut stepwise), expected, "{name}, byte by byte");
        assert_eq!(String::from_utf8_lossy(&stepwise.take_answers()), answers, "{name}, by bytes");

        for at in 0..=bytes.len() {
            let mut original = Terminal::new(size, 0);
            original.feed(&bytes[..at]);
            let mut copy = Terminal::new(size, 0);
            copy.feed(&original.snapshot());
            copy.feed(&bytes[at - original.unfinished()..]);
            assert_eq!(shown(&mut copy), expected, "{name}, from a snapshot at {at}");
            assert_eq!(attached(size, bytes, at), expected, "{name}, seen by a client from {at}");
        }
    }
}

fn shown(terminal: &mut Terminal) -> (String, (u16, u16)) {
    let cursor = terminal.cursor();
    (terminal.screen_text(), (cursor.row, cursor.col))
}

/// Returns what a client of the same size shows that attaches after `at` bytes.
fn attached(size: model::Size, bytes: &[u8], at: usize) -> (String, (u16, u16)) {
    let mut pane = Terminal::new(size, 0);
    pane.feed(&bytes[..at]);
    let mut client = Terminal::new(size, 0);
    client.feed(&outer::enter());
    let mut painter = Painter::new();
    let mut filter: Option<Filter> = None;
    let mut stale = true;
    let mut fed = at;
    loop {
        if stale {
            painter.invalidate();
            client.feed(&painter.frame(&mut pane, size));
            filter = (!pane.needs_frames()).then(Filter::new);
            stale = filter.is_none();
            if let Some(filter) = &mut filter {
                let mut passed = Vec::new();
                let rest = &bytes[fed - pane.unfinished()..fed];
                assert_eq!(filter.pass(rest, &mut passed), Passed::All);
                client.feed(&passed);
            }
        }
        if fed == bytes.len() {
            return shown(&mut client);
        }
        pane.feed(&bytes[fed..=fed]);
        let mut passed = Vec::new();
        stale |= filter
            .as_mut()
            .is_none_or(|filter| filter.pass(&bytes[fed..=fed], &mut passed) == Passed::Resync);
        if !stale {
            client.feed(&passed);
        }
        fed += 1;
    }
}
