//! Queries that the emulator does not support: recognized in the stream, answered from the screen.

use crate::answers;
use crate::areas::parameters;
use crate::capability;
use crate::csi::Csi;
use crate::pen::{PROTECTED, Pen};
use crate::scan::SequenceKind;
use crate::screen::Screen;
use crate::snapshot::style_number;

/// A query that the emulator does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExtraQuery {
    /// XTVERSION.
    Version,
    /// DECXCPR.
    ExtendedPosition,
    /// DECRQSS, with the final characters of the setting.
    Setting(Vec<u8>),
    /// XTGETTCAP, with the names in hexadecimal.
    Capability(Vec<u8>),
    /// DECRQCRA: the checksum of a rectangle, under an id.
    Checksum(u16, [u16; 4]),
}

/// Tracks synchronized updates (mode 2026), which the emulator does not record.
pub(crate) fn track_synchronized(bytes: &[u8], kind: SequenceKind, synchronized: &mut bool) {
    if bytes == b"\x1bc" {
        *synchronized = false;
    }
    if kind != SequenceKind::Csi || !matches!(bytes.last(), Some(b'h' | b'l')) {
        return;
    }
    if let Some(csi) = Csi::parse(bytes)
        && csi.marker == Some(b'?')
        && csi.intermediates.is_empty()
        && csi.params().any(|mode| mode == 2026)
    {
        *synchronized = csi.last == b'h';
    }
}

impl ExtraQuery {
    /// Parses a query; `None` if the emulator answers it, or if it is not answered.
    pub(crate) fn parse(bytes: &[u8], kind: SequenceKind) -> Option<Self> {
        match kind {
            SequenceKind::Csi => {
                let csi = Csi::parse(bytes)?;
                match (csi.marker, csi.intermediates, csi.last, csi.first()) {
                    (Some(b'>'), b"", b'q', 0) => Some(Self::Version),
                    (Some(b'?'), b"", b'n', 6) => Some(Self::ExtendedPosition),
                    (None, b"*", b'y', id) => {
                        let [_, _, top, left, bottom, right] = parameters(&csi);
                        Some(Self::Checksum(id, [top, left, bottom, right]))
                    }
                    _ => None,
                }
            }
            SequenceKind::Dcs => {
                let body = bytes.strip_prefix(b"\x1bP")?;
                let body = body.strip_suffix(b"\x1b\\").or(body.strip_suffix(b"\x9c"));
                let body = body.unwrap_or(&bytes[2..]);
                let at = body.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
                let (head, data) = (&body[..=at], body[at + 1..].to_vec());
                if head.ends_with(b"$q") {
                    Some(Self::Setting(data))
                } else {
                    head.ends_with(b"+q").then_some(Self::Capability(data))
                }
            }
            SequenceKind::Esc | SequenceKind::Osc | SequenceKind::Other => None,
        }
    }
}

/// Returns the answer to a query.
pub(crate) fn answer(query: &ExtraQuery, screen: &Screen) -> String {
    match query {
        ExtraQuery::Version => answers::version(),
        ExtraQuery::ExtendedPosition => {
            let (row, column) = screen.reported_position();
            answers::extended_position(row, column)
        }
        ExtraQuery::Setting(name) => answers::setting(setting(name, screen).as_deref()),
        ExtraQuery::Capability(names) => capability::answer(names),
        ExtraQuery::Checksum(id, rectangle) => {
            let sum = screen.rectangle(*rectangle).map_or(0, |area| screen.checksum(area));
            answers::checksum(*id, sum)
        }
    }
}

fn setting(name: &[u8], screen: &Screen) -> Option<String> {
    match name {
        b"m" => {
            let mut sequence = Vec::new();
            let mut pen = Pen::default();
            pen.match_cell(&screen.grid().cursor.template, &mut sequence);
            // Only the attributes; a hyperlink may follow them.
            let end = sequence.iter().position(|&byte| byte == b'm').unwrap_or(0);
            let attributes = sequence.get(2..end).unwrap_or_default();
            let separator = if attributes.is_empty() { "" } else { ";" };
            Some(format!("0{separator}{}m", String::from_utf8_lossy(attributes)))
        }
        b"r" => {
            let (top, end) = screen.margins;
            Some(format!("{};{end}r", top + 1))
        }
        b"s" => {
            let (left, right) = screen.sides;
            Some(format!("{};{right}s", left + 1))
        }
        b"t" => Some(format!("{}t", screen.rows())),
        b"$|" => Some(format!("{}$|", screen.columns())),
        b"*|" => Some(format!("{}*|", screen.rows())),
        b"\"p" => Some("64;1\"p".to_owned()),
        b"\"q" => {
            let on = screen.grid().cursor.template.flags.contains(PROTECTED);
            Some(format!("{}\"q", u8::from(on)))
        }
        b" q" => Some(format!("{} q", style_number(screen.cursor_style()))),
        _ => None,
    }
}
