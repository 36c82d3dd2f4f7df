//! Skipping of output that has scrolled away before the screen is read.
//!
//! In a run of text and SGR sequences, text followed by more lines than screen and scrollback hold
//! leaves no trace except the SGR state. The run is split after a line end, with enough lines before
//! it that the cursor is certainly in the last row, and enough lines after it that everything drawn
//! before is certainly gone.

use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Attr, Handler, Processor, Timeout};
use memchr::{memchr_iter, memrchr_iter};

use crate::coordinates::line_at;
use crate::screen::Screen;

/// Returns whether a sequence is SGR: `CSI … m` without a marker.
pub(crate) fn is_sgr(sequence: &[u8]) -> bool {
    match sequence {
        [0x1b, b'[', params @ .., b'm'] => {
            params.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        }
        _ => false,
    }
}

/// Returns the length of the prefix of `plain` that need not be drawn on a screen of `rows`.
///
/// The whole screen must scroll, and `plain` must consist of text and SGR sequences only.
pub(crate) fn skippable_len(plain: &[u8], rows: usize, history: usize) -> usize {
    // A shorter text cannot contain enough lines.
    if plain.len() < 4 * rows + history {
        return 0;
    }
    let mut ends = memrchr_iter(b'\n', plain);
    // The tail must contain this many line ends.
    let Some(_) = ends.nth(rows + history - 1) else { return 0 };
    let Some(end) = ends.find(|&end| end > 0 && plain[end - 1] == b'\r') else { return 0 };
    if memchr_iter(b'\n', &plain[..=end]).take(rows).count() < rows {
        return 0;
    }
    // REP repeats the last printed character, which must therefore be in the tail.
    let tail = &plain[end + 1..];
    let prints = tail.rsplit(|&byte| byte == b'\n').take(rows).any(has_visible_text);
    if prints { end + 1 } else { 0 }
}

/// Returns whether a line certainly prints a character.
fn has_visible_text(line: &[u8]) -> bool {
    let mut parts = line.split(|&byte| byte == 0x1b);
    let is_visible = |text: &[u8]| text.iter().any(u8::is_ascii_graphic);
    // Every sequence in such a run ends at its first `m`.
    let after = |part: &[u8]| match part.iter().position(|&byte| byte == b'm') {
        Some(end) => is_visible(&part[end + 1..]),
        None => false,
    };
    parts.next().is_some_and(is_visible) || parts.any(after)
}

/// Updates SGR state and cursor as drawing `skipped` would.
pub(crate) fn skip_text<T: Timeout>(
    skipped: &[u8],
    screen: &mut Screen,
    parser: &mut Processor<T>,
) {
    // Sequences before the last SGR reset have no effect on the SGR state.
    let is_reset =
        |at: usize| skipped[at..].starts_with(b"\x1b[m") || skipped[at..].starts_with(b"\x1b[0m");
    let mut from = skipped.len();
    for at in memrchr_iter(0x1b, skipped) {
        from = at;
        if is_reset(at) {
            break;
        }
    }
    parser.advance(&mut SgrOnly(screen), &skipped[from..]);

    let bottom = screen.rows() - 1;
    let cursor = &mut screen.grid_mut().cursor;
    cursor.point.line = line_at(bottom);
    cursor.point.column.0 = 0;
    cursor.input_needs_wrap = false;
}

/// A handler that applies SGR and ignores text.
struct SgrOnly<'a>(&'a mut Screen);

impl Handler for SgrOnly<'_> {
    fn terminal_attribute(&mut self, attribute: Attr) {
        self.0.terminal_attribute(attribute);
    }
}

impl Screen {
    /// Returns whether the position of text depends only on the text: the whole screen scrolls, and
    /// insert mode is off.
    pub(crate) fn scrolls_whole_screen(&self) -> bool {
        self.margins == (0, self.rows())
            && !self.narrowed
            && !self.mode().contains(TermMode::INSERT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terminal::Terminal;
    use crate::testing::{Step, assert_same, piece, run, size, state};

    /// Mostly output that can be skipped, interspersed with other output.
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
        fn deferred_output_has_the_same_result_as_immediate_output(
            (cols, rows) in (2u16..24, 2u16..8),
            history in prop_oneof![Just(0usize), 1usize..12],
            steps in output(),
        ) {
            let mut deferred = Terminal::new(size(cols, rows), history);
            let mut immediate = Terminal::new(size(cols, rows), history);
            immediate.eager = true;

            run(&mut deferred, &steps);
            run(&mut immediate, &steps);

            prop_assert_eq!(deferred.take_answers(), immediate.take_answers());
            assert_same(&state(&mut deferred), &state(&mut immediate), "deferred and immediate");
        }
    }

    #[test]
    fn lines_that_scrolled_away_are_skipped() {
        let lines = b"0123456789\r\n".repeat(100);

        let cut = skippable_len(&lines, 10, 5);

        assert_eq!(memchr_iter(b'\n', &lines[cut..]).count(), 15);
    }

    #[test]
    fn string_ended_by_sgr_is_not_skipped() {
        let mut terminal = Terminal::new(size(2, 2), 0);

        terminal.feed(b"\x1b]2;t\x1b[0m\r\n\r\n\t\r\na\r\nb\r\nc\r\n");

        assert_eq!(terminal.title(), "t");
    }
}
