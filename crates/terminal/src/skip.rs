//! Output that needs not be drawn, because it has scrolled away by the time anybody looks.
//!
//! In a run of text and colours, text that is followed by more lines than screen and history hold
//! leaves nothing behind but the pen. The run is cut after a line end, with enough lines before it
//! that the cursor is certainly in the last row, and enough after it that everything drawn before
//! is certainly gone.

use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Attr, Handler, Processor, Timeout};
use memchr::{memchr_iter, memrchr_iter};

use crate::screen::{Screen, line_at};

/// Whether a sequence only changes the pen: `CSI … m` without a marker.
pub(crate) fn is_plain(sequence: &[u8]) -> bool {
    match sequence {
        [0x1b, b'[', params @ .., b'm'] => {
            params.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        }
        _ => false,
    }
}

/// How much of the front of `plain` need not be drawn on a screen of `rows`.
///
/// The screen must scroll as a whole, and `plain` must consist of text and pen changes only.
pub(crate) fn cut(plain: &[u8], rows: usize, history: usize) -> usize {
    // The shortest text that can be cut; nothing is gained by looking at less.
    if plain.len() < 4 * rows + history {
        return 0;
    }
    let mut ends = memrchr_iter(b'\n', plain);
    // The line end after which the tail has all the lines it needs.
    let Some(_) = ends.nth(rows + history - 1) else { return 0 };
    let Some(end) = ends.find(|&end| end > 0 && plain[end - 1] == b'\r') else { return 0 };
    if memchr_iter(b'\n', &plain[..=end]).take(rows).count() < rows {
        return 0;
    }
    // REP repeats the last character printed: it has to be in the tail.
    let tail = &plain[end + 1..];
    let prints = tail.rsplit(|&byte| byte == b'\n').take(rows).any(has_visible_text);
    if prints { end + 1 } else { 0 }
}

/// Whether a line certainly prints something.
fn has_visible_text(line: &[u8]) -> bool {
    let mut parts = line.split(|&byte| byte == 0x1b);
    let is_visible = |text: &[u8]| text.iter().any(u8::is_ascii_graphic);
    // Every sequence in a plain run has ended where the first `m` is.
    let after = |part: &[u8]| match part.iter().position(|&byte| byte == b'm') {
        Some(end) => is_visible(&part[end + 1..]),
        None => false,
    };
    parts.next().is_some_and(is_visible) || parts.any(after)
}

/// Leaves the screen as drawing `skipped` would, as far as that still matters.
pub(crate) fn pass_over<T: Timeout>(
    skipped: &[u8],
    screen: &mut Screen,
    parser: &mut Processor<T>,
) {
    // Whatever came before the last reset of the pen does not matter to the pen.
    let is_reset =
        |at: usize| skipped[at..].starts_with(b"\x1b[m") || skipped[at..].starts_with(b"\x1b[0m");
    let mut from = skipped.len();
    for at in memrchr_iter(0x1b, skipped) {
        from = at;
        if is_reset(at) {
            break;
        }
    }
    let pens = &skipped[from..];
    parser.advance(&mut PenOnly(screen), pens);

    let bottom = screen.rows() - 1;
    let cursor = &mut screen.grid_mut().cursor;
    cursor.point.line = line_at(bottom);
    cursor.point.column.0 = 0;
    cursor.input_needs_wrap = false;
}

/// Takes over the pen from a text and ignores the text.
struct PenOnly<'a>(&'a mut Screen);

impl Handler for PenOnly<'_> {
    fn terminal_attribute(&mut self, attribute: Attr) {
        self.0.terminal_attribute(attribute);
    }
}

impl Screen {
    /// Whether nothing but the text itself decides where it goes: the whole screen scrolls and
    /// nothing is shifted aside.
    pub(crate) fn scrolls_plainly(&self) -> bool {
        self.margins == (0, self.rows()) && !self.mode().contains(TermMode::INSERT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terminal::Terminal;
    use crate::testing::{Step, assert_same, piece, run, size, state};

    /// Output of the kind that can be cut, with something else in between now and then.
    fn output() -> impl Strategy<Value = Vec<Step>> {
        let line = prop_oneof![
            10 => "[a-z ]{0,30}\r\n",
            2 => "\x1b\\[[0-9]{1,2}m[a-z]{0,9}\r\n",
            2 => "\x1b\\[0?m[a-z]{0,3}\n",
            1 => "[a-z日é]{0,9}\r\n\t",
            1 => "[a-z]{0,9}\x08\r\n\n\n",
            1 => "\r\n|\n|\r",
        ];
        let lines = proptest::collection::vec(line, 0..40).prop_map(|lines| lines.concat());
        let step = prop_oneof![
            4 => lines.prop_map(|lines| Step::Feed(lines.into_bytes())),
            1 => piece().prop_map(Step::Feed),
            1 => (2u16..24, 2u16..10).prop_map(|(cols, rows)| Step::Resize(cols, rows)),
        ];
        proptest::collection::vec(step, 0..10)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn output_applied_late_leaves_what_output_applied_at_once_leaves(
            (cols, rows) in (2u16..24, 2u16..8),
            history in prop_oneof![Just(0usize), 1usize..12],
            steps in output(),
        ) {
            let mut late = Terminal::new(size(cols, rows), history);
            let mut at_once = Terminal::new(size(cols, rows), history);
            at_once.eager = true;

            run(&mut late, &steps);
            run(&mut at_once, &steps);

            prop_assert_eq!(late.take_answers(), at_once.take_answers());
            prop_assert_eq!(late.take_bell(), at_once.take_bell());
            assert_same(&state(&mut late), &state(&mut at_once), "late and at once");
        }
    }

    #[test]
    fn lines_that_have_scrolled_away_are_cut_off() {
        let lines = b"0123456789\r\n".repeat(100);

        let cut = cut(&lines, 10, 5);

        assert_eq!(memchr_iter(b'\n', &lines[cut..]).count(), 15);
    }

    #[test]
    fn a_string_that_a_colour_ends_is_not_passed_over() {
        let mut terminal = Terminal::new(size(2, 2), 0);

        terminal.feed(b"\x1b]2;t\x1b[0m\r\n\r\n\t\r\na\r\nb\r\nc\r\n");

        assert_eq!(terminal.title(), "t");
    }
}
