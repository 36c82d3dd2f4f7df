//! Aligned columns of text.

use std::fmt::Write as _;

/// Columns that are as wide as their widest cell. The last one is never padded.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

/// The colours we use, as their SGR parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    /// Alive and well.
    Green = 32,
    /// On its way.
    Yellow = 33,
    /// Not as it should be.
    Red = 31,
    /// Of less interest.
    Dim = 2,
}

impl Cell {
    /// A cell in this colour, where there are colours.
    pub(crate) fn coloured(text: impl Into<String>, colour: Colour) -> Self {
        Self { text: text.into(), colour: Some(colour) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), colour: None }
    }
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let heading = |text: &&str| Cell::coloured(*text, Colour::Dim);
        Self { rows: vec![headings.iter().map(heading).collect()] }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// The table as lines, none of them longer than `width`.
    pub(crate) fn render(&self, colour: bool, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|n| self.rows.iter().filter_map(|row| row.get(n)).map(Cell::width).max())
            .map(Option::unwrap_or_default)
            .collect();
        let mut lines = String::new();
        for row in &self.rows {
            let mut left = width.unwrap_or(usize::MAX);
            for (n, cell) in row.iter().enumerate() {
                let is_last = n + 1 == row.len();
                let text = cut(&cell.text, left);
                paint(&mut lines, &text, cell.colour.filter(|_| colour));
                if !is_last {
                    let gap = (widths[n] + 2).saturating_sub(text.chars().count());
                    let gap = gap.min(left.saturating_sub(text.chars().count()));
                    lines.extend(std::iter::repeat_n(' ', gap));
                    left = left.saturating_sub(widths[n] + 2);
                }
            }
            lines.push('\n');
        }
        lines
    }
}

/// `text`, or as much of it as fits.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// Adds `text` in this colour, if any.
pub(crate) fn paint(lines: &mut String, text: &str, colour: Option<Colour>) {
    match colour {
        Some(colour) if !text.is_empty() => {
            write!(lines, "\x1b[{}m{text}\x1b[0m", colour as u8).expect("a string takes all");
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
    fn columns_are_aligned_and_lines_have_no_blanks_at_their_end() {
        let text = table().render(false, None);
        assert_eq!(text, "NAME      COMMAND\ndev1      make test\nfrontend  sh\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let text = table().render(true, None);
        assert!(text.ends_with("\x1b[32mfrontend\x1b[0m  sh\n"), "{text:?}");
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        for width in 0..20 {
            for line in table().render(false, Some(width)).lines() {
                assert!(line.chars().count() <= width, "{line:?} in {width} columns");
            }
        }
    }
}
