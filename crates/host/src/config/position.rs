//! Conversion of byte offsets to line and column.

/// The line starts of a text.
#[derive(Debug)]
pub(crate) struct Positions<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Positions<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let after_feeds = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: [0].into_iter().chain(after_feeds).collect() }
    }

    /// Returns the line, and the column in characters, of a byte; both start at 1. Offsets beyond
    /// the end are at the end.
    pub(crate) fn of_byte(&self, at: usize) -> (usize, usize) {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|&start| start <= at);
        let before = self.text.get(self.starts[line - 1]..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_byte_returns_editor_positions() {
        let text = "é = 1\r\n\nb = 2";
        let cases = [(0, (1, 1)), (3, (1, 3)), (8, (2, 1)), (9, (3, 1)), (13, (3, 5))];
        for (at, expected) in cases.into_iter().chain([(14, (3, 6)), (99, (3, 6))]) {
            assert_eq!(Positions::of(text).of_byte(at), expected, "byte {at}");
        }
        assert_eq!(Positions::of("").of_byte(0), (1, 1));
    }
}
