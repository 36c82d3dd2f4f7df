//! Private modes that the emulator does not know.

/// Reverse video (DECSCNM).
const REVERSE_VIDEO: u16 = 5;
/// Mouse buttons are reported on press only (X10).
pub(crate) const X10_MOUSE: u16 = 9;
/// Backspace at the left edge moves to the end of the row above.
pub(crate) const REVERSE_WRAP: u16 = 45;
/// Left and right margins can be set (DECLRMM).
pub(crate) const SIDE_MARGINS: u16 = 69;
/// Mouse reports in the encoding of urxvt.
const URXVT_MOUSE: u16 = 1015;
/// Mouse reports in pixels.
const PIXEL_MOUSE: u16 = 1016;
/// Grapheme clusters occupy the columns of one character.
pub(crate) const CLUSTERS: u16 = 2027;
/// Changes of the color scheme are reported.
const COLOR_SCHEME: u16 = 2031;

const NUMBERS: [u16; 8] = [
    REVERSE_VIDEO,
    X10_MOUSE,
    REVERSE_WRAP,
    SIDE_MARGINS,
    URXVT_MOUSE,
    PIXEL_MOUSE,
    CLUSTERS,
    COLOR_SCHEME,
];

/// Modes of which a client's terminal is informed by a frame. The others affect only how the pane
/// interprets output.
pub(crate) const OUTER: [u16; 5] =
    [REVERSE_VIDEO, X10_MOUSE, URXVT_MOUSE, PIXEL_MOUSE, COLOR_SCHEME];

/// Mouse encodings of which at most one is set.
pub(crate) const MOUSE_ENCODINGS: [u16; 2] = [URXVT_MOUSE, PIXEL_MOUSE];

/// The set of these modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackedModes(u8);

impl Default for TrackedModes {
    fn default() -> Self {
        let mut modes = Self(0);
        modes.set(CLUSTERS, true);
        modes
    }
}

impl TrackedModes {
    /// Returns whether a mode is set; `None` if it is not one of these.
    pub(crate) fn get(self, number: u16) -> Option<bool> {
        bit(number).map(|bit| self.0 & bit != 0)
    }

    pub(crate) fn contains(self, number: u16) -> bool {
        self.get(number) == Some(true)
    }

    /// Changes a mode; has no effect if it is not one of these.
    pub(crate) fn set(&mut self, number: u16, on: bool) {
        let bit = bit(number).unwrap_or(0);
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    pub(crate) fn reset_mouse_encodings(&mut self) {
        for number in MOUSE_ENCODINGS {
            self.set(number, false);
        }
    }

    /// Returns the modes that differ from those of a new terminal.
    pub(crate) fn changed(self) -> impl Iterator<Item = (u16, bool)> {
        let fresh = Self::default();
        NUMBERS
            .into_iter()
            .map(move |number| (number, self.contains(number)))
            .filter(move |&(number, on)| on != fresh.contains(number))
    }
}

fn bit(number: u16) -> Option<u8> {
    NUMBERS.iter().position(|&known| known == number).map(|at| 1 << at)
}
