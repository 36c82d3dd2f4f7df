//! Support for property tests: random output, and comparison of complete terminal states.

use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::grid::{Cursor, Grid};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::ansi::{CharsetIndex, Color, CursorStyle, Rgb, StandardCharset};
use proptest::prelude::*;

use crate::coordinates::line_at;
use crate::screen::{Keyboard, SavedState};
use crate::terminal::Terminal;
use crate::tracked::TrackedModes;

/// Returns a size that is known to be valid.
pub(crate) fn size(cols: u16, rows: u16) -> model::Size {
    model::Size::new(cols, rows).unwrap()
}

/// All observable state of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellState {
    pub(crate) c: char,
    pub(crate) marks: Vec<char>,
    pub(crate) colors: (Color, Color, Option<Color>),
    pub(crate) flags: Flags,
    pub(crate) link: Option<Hyperlink>,
}

pub(crate) fn cell_state(cell: &Cell) -> CellState {
    CellState {
        c: cell.c,
        marks: cell.zerowidth().unwrap_or_default().to_vec(),
        colors: (cell.fg, cell.bg, cell.underline_color()),
        flags: cell.flags,
        link: cell.hyperlink(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CursorState {
    pub(crate) row: i32,
    pub(crate) column: usize,
    pub(crate) wraps: bool,
    pub(crate) pen: CellState,
    pub(crate) charsets: [StandardCharset; 4],
}

pub(crate) fn cursor_state(cursor: &Cursor<Cell>) -> CursorState {
    use CharsetIndex::{G0, G1, G2, G3};
    CursorState {
        row: cursor.point.line.0,
        column: cursor.point.column.0,
        wraps: cursor.input_needs_wrap,
        pen: cell_state(&cursor.template),
        charsets: [G0, G1, G2, G3].map(|index| cursor.charsets[index]),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GridState {
    pub(crate) cursor: CursorState,
    pub(crate) saved: CursorState,
    pub(crate) rows: Vec<Vec<CellState>>,
}

pub(crate) fn grid_state(grid: &Grid<Cell>) -> GridState {
    let rows = (0..grid.screen_lines())
        .map(|row| grid[line_at(row)][..].iter().map(cell_state).collect())
        .collect();
    GridState { cursor: cursor_state(&grid.cursor), saved: cursor_state(&grid.saved_cursor), rows }
}

/// All observable state of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) active: GridState,
    pub(crate) main: Option<GridState>,
    pub(crate) mode: TermMode,
    pub(crate) margins: (usize, usize),
    pub(crate) sides: (usize, usize),
    pub(crate) tracked: TrackedModes,
    pub(crate) saved: Option<SavedState>,
    /// While the main screen is active: what the alternate screen keeps.
    pub(crate) alternate_saved: Option<(CursorState, SavedState)>,
    pub(crate) tabs: Vec<bool>,
    pub(crate) charset: CharsetIndex,
    pub(crate) titles: (Option<String>, Vec<Option<String>>),
    pub(crate) keyboards: [Keyboard; 2],
    pub(crate) style: CursorStyle,
    pub(crate) modify_other_keys: u8,
    pub(crate) palette: Vec<Option<Rgb>>,
    pub(crate) synchronized: bool,
    pub(crate) repeats: Option<char>,
    pub(crate) history: Vec<Vec<CellState>>,
}

pub(crate) fn state(terminal: &mut Terminal) -> State {
    terminal.flush();
    let synchronized = terminal.in_synchronized_update();
    let screen = &mut terminal.screen;
    let active = grid_state(screen.grid());
    let main = screen.is_alternate().then(|| screen.with_main(|grid| grid_state(grid)));
    let grid = screen.grid();
    let history = (1..=i32::try_from(grid.history_size()).unwrap())
        .map(|above| {
            grid[alacritty_terminal::index::Line(-above)][..].iter().map(cell_state).collect()
        })
        .collect();
    State {
        active,
        main,
        mode: screen.mode(),
        margins: screen.margins,
        sides: screen.sides,
        tracked: screen.tracked,
        saved: Some(screen.saved[usize::from(screen.is_alternate())]),
        alternate_saved: (!screen.is_alternate())
            .then(|| (cursor_state(&screen.alternate_saved), screen.saved[1])),
        tabs: screen.tabs.clone(),
        charset: screen.active_charset,
        titles: (screen.title.clone(), screen.titles.clone()),
        keyboards: screen.keyboards.clone(),
        style: screen.cursor_style(),
        modify_other_keys: screen.modify_other_keys,
        palette: (0..259).map(|index| screen.term.colors()[index]).collect(),
        synchronized,
        repeats: screen.last_printed,
        history,
    }
}

/// Fails with the first difference, which is easier to read than two complete states.
pub(crate) fn assert_same(left: &State, right: &State, about: &str) {
    if left == right {
        return;
    }
    let grids = [
        ("active", Some(&left.active), Some(&right.active)),
        ("main", left.main.as_ref(), right.main.as_ref()),
    ];
    for (name, a, b) in grids {
        let (Some(a), Some(b)) = (a, b) else { continue };
        for (row, (x, y)) in a.rows.iter().zip(&b.rows).enumerate() {
            for (column, (x, y)) in x.iter().zip(y).enumerate() {
                assert_eq!(x, y, "{about}: {name} cell at row {row}, column {column}");
            }
        }
        assert_eq!(a.cursor, b.cursor, "{about}: {name} cursor");
        assert_eq!(a.saved, b.saved, "{about}: {name} saved cursor");
    }
    assert_eq!(left.mode, right.mode, "{about}: modes");
    assert_eq!(left.margins, right.margins, "{about}: margins");
    assert_eq!(left.sides, right.sides, "{about}: side margins");
    assert_eq!(left.saved, right.saved, "{about}: saved modes");
    assert_eq!(left.alternate_saved, right.alternate_saved, "{about}: alternate saved cursor");
    assert_eq!(left.tabs, right.tabs, "{about}: tab stops");
    assert_eq!(left.titles, right.titles, "{about}: titles");
    assert_eq!(left.keyboards, right.keyboards, "{about}: keyboards");
    assert_eq!(left.repeats, right.repeats, "{about}: repeated character");
    for (above, (x, y)) in left.history.iter().zip(&right.history).enumerate() {
        for (column, (x, y)) in x.iter().zip(y).enumerate() {
            assert_eq!(x, y, "{about}: history {above}, column {column}");
        }
    }
    assert_eq!(left, right, "{about}");
}

/// An operation on a terminal.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Feed(Vec<u8>),
    Resize(u16, u16),
}

pub(crate) fn run(terminal: &mut Terminal, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Feed(bytes) => terminal.feed(bytes),
            Step::Resize(cols, rows) => terminal.resize(size(*cols, *rows)),
        }
    }
}

fn fixed(choices: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    proptest::sample::select(choices).prop_map(|text| text.as_bytes().to_vec())
}

fn csi() -> impl Strategy<Value = Vec<u8>> {
    let finals: &'static [&'static str] = &[
        "@", "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "P", "S", "T", "X",
        "Z", "a", "b", "d", "e", "f", "g", "r", "s", "u", "`",
    ];
    let params = prop_oneof![
        2 => Just(String::new()),
        6 => (0u16..14).prop_map(|n| n.to_string()),
        6 => (0u16..14, 0u16..14).prop_map(|(a, b)| format!("{a};{b}")),
        1 => (0u16..70).prop_map(|n| n.to_string()),
    ];
    (params, proptest::sample::select(finals))
        .prop_map(|(params, last)| format!("\x1b[{params}{last}").into_bytes())
}

fn sgr() -> impl Strategy<Value = Vec<u8>> {
    let code = prop_oneof![
        8 => (0u8..110).prop_map(|n| n.to_string()),
        1 => Just("4:3".to_owned()),
        1 => Just("4:2".to_owned()),
        1 => Just("4:5".to_owned()),
        2 => Just("0".to_owned()),
        1 => Just("38;5;200".to_owned()),
        1 => Just("48;5;2".to_owned()),
        1 => Just("48;2;1;2;3".to_owned()),
        1 => Just("38:2::9:8:7".to_owned()),
        1 => Just("58;5;7".to_owned()),
        1 => Just("59".to_owned()),
    ];
    proptest::collection::vec(code, 0..4)
        .prop_map(|codes| format!("\x1b[{}m", codes.join(";")).into_bytes())
}

fn mode() -> impl Strategy<Value = Vec<u8>> {
    let number = proptest::sample::select(vec![
        "?1", "?3", "?6", "?7", "?12", "?25", "?1000", "?1002", "?1003", "?1004", "?1005", "?1006",
        "?1007", "?1042", "?1049", "?2004", "?2026", "4", "20", "?6", "?7", "4", "?1049", "?7",
        "?5", "?9", "?45", "?47", "?1047", "?1048", "?69", "?69", "?1015", "?1016", "?2027",
        "?2031",
    ]);
    (number, any::<bool>()).prop_map(|(number, on)| {
        format!("\x1b[{number}{}", if on { 'h' } else { 'l' }).into_bytes()
    })
}

/// A piece of program output, valid or not.
pub(crate) fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => "[ -~]{1,12}".prop_map(String::into_bytes),
        3 => fixed(&["日本", "語", "e\u{301}", "\u{301}", "👩‍🚀", "─│", "❤\u{fe0f}", "👍🏽",
            "🏽", "👩\u{200d}", "🚀", "\u{fe0f}", "한글 x", "ａ", "\u{200b}"]),
        4 => fixed(&["\r\n", "\n", "\r", "\t", "\t\t", "\x08", "\x08\x08", "\x0b"]),
        8 => csi(),
        5 => sgr(),
        4 => mode(),
        3 => fixed(&[
            "\x1b7", "\x1b8", "\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bH", "\x1bM", "\x1b=",
            "\x1b>", "\x1b#8", "\x1b(0", "\x1b(B", "\x1b)0", "\x1b)B", "\x1b*0", "\x0e", "\x0f",
        ]),
        3 => fixed(&[
            "\x1b[>1u", "\x1b[>5u", "\x1b[<u", "\x1b[<2u", "\x1b[=3u", "\x1b[=1;2u", "\x1b[=1;3u",
            "\x1b[22t", "\x1b[23t", "\x1b]2;a title\x07", "\x1b]0; b;c \x1b\\", "\x1b[>4;2m",
            "\x1b]8;;http://x\x1b\\", "\x1b]8;id=k;http://y;z\x07", "\x1b]8;;\x07", "\x1b[?5W",
            "\x1b]4;3;#123456\x07", "\x1b]10;#ffeedd\x07", "\x1b]104\x07", "\x1b]11;rgb:1/2/3\x07",
            "\x1b[1 q", "\x1b[4 q", "\x1b[6 q", "\x1b[0 q", "\x1b]50;CursorShape=1\x07", "\x1b[3g",
            "\x1b[c", "\x1b[6n", "\x07", "\x1b[200;300r", "\x1b[r", "\x1b[5;5r",
        ]),
        3 => fixed(&[
            "\x1b[2;5s", "\x1b[1;3s", "\x1b[3;9s", "\x1b[s", "\x1b[1\"q", "\x1b[\"q", "\x1b[?J", "\x1b[?1J",
            "\x1b[?2K", "\x1b[?K", "\x1b[ @", "\x1b[2 A", "\x1b['}", "\x1b[2'~", "\x1b6", "\x1b9",
            "\x1b[65;1;2;3;4$x", "\x1b[2;2;3;5$z", "\x1b[${", "\x1b[1;1;2;3;1;2;2;1$v", "\x1b[1;2*y",
        ]),
        1 => fixed(&["\x1bc", "\x1b[!p", "\x1bP$qm\x1b\\", "\x1b_x\x1b\\", "\x18", "\x1a", "\x00"]),
        2 => proptest::collection::vec(any::<u8>(), 1..5),
        1 => fixed(&["\x1b", "\x1b[", "\x1b[3", "\x1b]2;t", "\x1bP1$", "\x1b[1\n2"]),
        1 => fixed(&["日本語日本語日本語", "0123456789abcdefghijklmnop", "\r\n\r\n\r\n\r\n"]),
    ]
}

/// Random output with occasional resizes.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => piece().prop_map(Step::Feed),
        1 => (2u16..24, 2u16..10).prop_map(|(cols, rows)| Step::Resize(cols, rows)),
    ];
    proptest::collection::vec(step, 0..most)
}

/// Splits the fed bytes into chunks of `length`.
pub(crate) fn recut(steps: &[Step], length: usize) -> Vec<Step> {
    let mut cut = Vec::new();
    let mut run: Vec<u8> = Vec::new();
    for step in steps {
        match step {
            Step::Feed(bytes) => run.extend_from_slice(bytes),
            Step::Resize(..) => {
                cut.extend(run.chunks(length).map(|chunk| Step::Feed(chunk.to_vec())));
                run.clear();
                cut.push(step.clone());
            }
        }
    }
    cut.extend(run.chunks(length).map(|chunk| Step::Feed(chunk.to_vec())));
    cut
}
