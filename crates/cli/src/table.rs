//! Tables of aligned columns.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Spaces between two columns.
const GAP: usize = 2;

/// A table whose columns are as wide as their widest cell. The last column is not padded.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

/// A cell of a [`Table`].
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

/// A text colour; the value is its SGR parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    /// Running, success.
    Green = 32,
    /// In transition, warning.
    Yellow = 33,
    /// Failed, destructive.
    Red = 31,
    /// Secondary information.
    Dim = 2,
}

impl Cell {
    /// Returns a cell that is shown in `colour` if colours are enabled.
    pub(crate) fn coloured(text: impl Into<String>, colour: Colour) -> Self {
        Self { text: text.into(), colour: Some(colour) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), colour: None }
    }
}

impl Table {
    /// Creates a table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let heading = |text: &&str| Cell::coloured(*text, Colour::Dim);
        Self { rows: vec![headings.iter().map(heading).collect()] }
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Renders the table as lines of at most `width` columns.
    pub(crate) fn render(&self, colour: bool, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let column_width = |n: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(n));
            cells.map(|cell| cell.text.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(column_width).collect();
        let mut lines = String::new();
        for row in &self.rows {
            let mut left = width.unwrap_or(usize::MAX);
            for (n, cell) in row.iter().enumerate() {
                let is_last = n + 1 == row.len();
                let text = truncated(&cell.text, left);
                paint(&mut lines, &text, cell.colour.filter(|_| colour));
                if !is_last {
                    let gap = (widths[n] + GAP).saturating_sub(text.width());
                    let gap = gap.min(left.saturating_sub(text.width()));
                    lines.extend(std::iter::repeat_n(' ', gap));
                    left = left.saturating_sub(widths[n] + GAP);
                }
            }
            lines.push('\n');
        }
        lines
    }
}

/// Returns `text`, shortened with an ellipsis if it is wider than `width` columns.
fn truncated(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(mut left) = width.checked_sub(1) else { return String::new() };
    let fits = |c: &char| {
        let rest = left.checked_sub(c.width().unwrap_or(0));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let mut truncated: String = text.chars().take_while(fits).collect();
    truncated.push('…');
    truncated
}

/// Appends `text` in `colour`, if any.
pub(crate) fn paint(lines: &mut String, text: &str, colour: Option<Colour>) {
    match colour {
        Some(colour) if !text.is_empty() => {
            write!(lines, "\x1b[{}m{text}\x1b[0m", colour as u8)
                .expect("writing to a string cannot fail");
        }
        _ => lines.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "COMMAND"]);
        table.push(vec!["dev1".into(), "make test".into()]);
        table.push(vec![Cell::coloured("frontend", Colour::Green), "sh".into()]);
        table
    }

    #[test]
    fn render_aligns_columns_without_trailing_spaces() {
        let text = table().render(false, None);
        assert_eq!(text, "NAME      COMMAND\ndev1      make test\nfrontend  sh\n");
    }

    #[test]
    fn render_ignores_colours_in_column_widths() {
        let text = table().render(true, None);
        assert!(text.ends_with("\x1b[32mfrontend\x1b[0m  sh\n"), "{text:?}");
    }

    #[test]
    fn render_counts_wide_and_combining_characters_in_terminal_columns() {
        let mut table = Table::new(&["N", "C"]);
        table.push(vec!["日本".into(), "x".into()]);
        table.push(vec!["e\u{301}".into(), "y".into()]);

        let text = table.render(false, None);

        assert_eq!(text, "N     C\n日本  x\ne\u{301}     y\n");
    }

    #[test]
    fn render_limits_every_line_to_the_width() {
        let mut table = table();
        table.push(vec!["日本語日本語".into(), "日本語".into()]);
        for width in 0..20 {
            for line in table.render(false, Some(width)).lines() {
                assert!(line.width() <= width, "{line:?} in {width} columns");
            }
        }
    }

    #[test]
    fn truncated_does_not_split_wide_characters() {
        let cases = [("日本", 4, "日本"), ("日本", 3, "日…"), ("日本", 2, "…"), ("日本", 0, "")];
        for (text, width, expected) in cases {
            assert_eq!(truncated(text, width), expected, "{text} in {width} columns");
        }
    }
}
