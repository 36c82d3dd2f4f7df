//! The list of sequences that an attached terminal may receive from a program in a pane.
//!
//! Terminals execute more than they draw: sequences define function keys, write files, start programs
//! and answer into the input. The list therefore names what is known to be harmless and needed;
//! everything else is removed. Numbers are compared as integers, and only in their usual spelling:
//! terminals read `052` as 52, the pane's terminal does not.
//!
//! | kind | on the list |
//! |---|---|
//! | ESC | save and restore cursor, index, tab stop, keypad, ASCII and line drawing |
//! | CSI | cursor, erase, insert, delete, scroll, SGR, tabs, margins, cursor style, protection, kitty and xterm keys, modes in [`PRIVATE_MODES`] and [`ANSI_MODES`] |
//! | OSC | titles, colors, directory, links, notifications, progress, pointer, clipboard (write), cursor shape, prompt marks, inline images |
//! | DCS | sixel images |
//! | APC | kitty images |
//!
//! Queries are not on the list ([`crate::query`]).

use crate::csi::Csi;
use crate::scan::{ESC, SequenceKind};

/// DEC modes that a program may set: those of the pane's terminal, and those that only change the
/// input or the cursor.
const PRIVATE_MODES: [u16; 26] = [
    1, 5, 6, 7, 8, 9, 12, 25, 66, 80, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1042,
    1048, 1070, 2004, 2026, 2031, 8452,
];

/// ANSI modes that a program may set: insert, and newline.
const ANSI_MODES: [u16; 2] = [4, 20];

/// Returns whether a complete ESC sequence is on the list.
pub(crate) fn esc(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [ESC, b'7' | b'8' | b'D' | b'E' | b'H' | b'M' | b'=' | b'>' | b'\\']
            | [ESC, b'(' | b')' | b'*' | b'+', b'0' | b'A' | b'B']
    )
}

/// Returns whether a complete CSI sequence draws, judging by its first and last bytes. Fast: most
/// sequences of a program are among these.
pub(crate) fn draws(bytes: &[u8]) -> bool {
    let [ESC, b'[', params @ .., last] = bytes else { return false };
    is_drawing_final(*last) && params.iter().all(|byte| matches!(byte, b'0'..=b';'))
}

fn is_drawing_final(last: u8) -> bool {
    matches!(
        last,
        b'@'..=b'M'
            | b'P'
            | b'S'
            | b'T'
            | b'X'
            | b'Z'
            | b'`'
            | b'a'
            | b'b'
            | b'd'
            | b'f'
            | b'g'
            | b'm'
            | b'r'
            | b's'
            | b'u'
    )
}

/// The modes that a CSI sequence sets or resets, in relation to the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    All,
    Some,
    None,
}

/// Returns whether a complete CSI sequence is on the list; `Some` if only a part of its modes is.
pub(crate) fn csi(csi: &Csi<'_>) -> Listed {
    let modes = |list: &[u16]| {
        let (known, all) = csi.params().fold((0, 0), |(known, all), mode| {
            (known + usize::from(list.contains(&mode)), all + 1)
        });
        match known {
            0 => Listed::None,
            known if known == all => Listed::All,
            _ => Listed::Some,
        }
    };
    let is_listed = match (csi.marker, csi.intermediates, csi.last) {
        (None, b"", b'h' | b'l') => return modes(&ANSI_MODES),
        (Some(b'?'), b"", b'h' | b'l') => return modes(&PRIVATE_MODES),
        (None, b"", last) => is_drawing_final(last),
        // Default tab stops.
        (Some(b'?'), b"", b'W') => csi.params().eq([5]),
        // Key encodings of xterm and kitty.
        (Some(b'>'), b"", b'm' | b'n' | b'u') | (Some(b'<' | b'='), b"", b'u') => true,
        // Protection from selective erasure; cursor style.
        (None, b"\"" | b" ", b'q') => true,
        _ => false,
    };
    if is_listed { Listed::All } else { Listed::None }
}

/// Returns whether a control string is on the list. `bytes` is the whole string if `complete`,
/// otherwise its beginning. `None` means undecided, which a complete string never is.
pub(crate) fn string(bytes: &[u8], kind: SequenceKind, complete: bool) -> Option<bool> {
    let body = bytes.get(2..).unwrap_or_default();
    match kind {
        SequenceKind::Osc => {
            let body = body.strip_suffix(b"\x07").or(body.strip_suffix(b"\x1b\\")).unwrap_or(body);
            osc(body, complete)
        }
        SequenceKind::Dcs => sixel(body, complete),
        SequenceKind::Other if bytes.get(1) == Some(&b'_') => prefix(body, b"G", complete),
        SequenceKind::Other | SequenceKind::Esc | SequenceKind::Csi => Some(false),
    }
}

/// The body is `number ; fields`.
fn osc(body: &[u8], complete: bool) -> Option<bool> {
    let digits = body.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(body.len());
    let (number, rest) = body.split_at(digits);
    let fields = match rest {
        [] if !complete => return None,
        [] => rest,
        [b';', fields @ ..] => fields,
        _ => return Some(false),
    };
    let Some(number) = usual_number(number) else { return Some(false) };
    match number {
        // Titles, colors, directory, links, pointer shape, resets of colors, prompt marks.
        0..=2 | 4 | 5 | 7 | 8 | 10..=19 | 21 | 22 | 104 | 105 | 110..=119 | 133 => Some(true),
        9 => notification(fields, complete),
        // Not the font.
        50 => prefix(fields, b"CursorShape=", complete),
        52 => clipboard(fields, complete),
        99 => desktop_notification(fields, complete),
        777 => prefix(fields, b"notify", complete),
        1337 => inline_image(fields, complete),
        _ => Some(false),
    }
}

/// Returns the value of a number without leading zeros.
fn usual_number(digits: &[u8]) -> Option<u32> {
    let value: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (value.to_string().as_bytes() == digits).then_some(value)
}

fn prefix(text: &[u8], expected: &[u8], complete: bool) -> Option<bool> {
    match text.starts_with(expected) {
        true => Some(true),
        false if !complete && expected.starts_with(text) => None,
        false => Some(false),
    }
}

/// OSC 9: a text, or `command ; arguments` of ConEmu, of which only progress and the directory pass:
/// others start programs.
fn notification(fields: &[u8], complete: bool) -> Option<bool> {
    let digits = fields.iter().position(|byte| !byte.is_ascii_digit());
    match digits {
        None if !complete => None,
        Some(at) if at > 0 && fields[at] == b';' => Some(matches!(&fields[..at], b"4" | b"9")),
        _ => Some(true),
    }
}

/// OSC 52: selection, then the data; `?` asks for the contents.
fn clipboard(fields: &[u8], complete: bool) -> Option<bool> {
    let data = fields.iter().position(|&byte| byte == b';').map(|at| &fields[at + 1..]);
    match data {
        None | Some([]) if !complete => None,
        Some([b'?', ..]) => Some(false),
        _ => Some(true),
    }
}

/// OSC 99: keys, then the text; `p=?` asks for the abilities of the terminal.
fn desktop_notification(fields: &[u8], complete: bool) -> Option<bool> {
    let end = fields.iter().position(|&byte| byte == b';').or(complete.then_some(fields.len()))?;
    Some(!fields[..end].split(|&byte| byte == b':').any(|pair| pair == b"p=?"))
}

/// OSC 1337 of iTerm2: images to show. Files that are not shown inline would be saved, and other
/// commands change settings or the clipboard.
fn inline_image(fields: &[u8], complete: bool) -> Option<bool> {
    let later = [&b"FilePart="[..], b"FileEnd"].map(|word| prefix(fields, word, complete));
    let begin = [&b"File="[..], b"MultipartFile="].map(|word| prefix(fields, word, complete));
    if later.contains(&Some(true)) {
        return Some(true);
    }
    if begin.contains(&Some(true)) {
        let end = fields.iter().position(|&byte| byte == b':');
        let end = end.or(complete.then_some(fields.len()))?;
        let at = fields.iter().position(|&byte| byte == b'=').map_or(0, |at| at + 1);
        return Some(
            fields[at.min(end)..end].split(|&byte| byte == b';').any(|key| key == b"inline=1"),
        );
    }
    let undecided = later.contains(&None) || begin.contains(&None);
    if undecided { None } else { Some(false) }
}

/// Sixel: numbers, then `q`. Other device control strings define keys and fonts.
fn sixel(body: &[u8], complete: bool) -> Option<bool> {
    match body.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';')) {
        Some(at) => Some(body[at] == b'q'),
        None if complete => Some(false),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_is_listed_by_number_and_command() {
        let cases: [(&[u8], bool); 24] = [
            (b"\x1b]0;title\x07", true),
            (b"\x1b]00;title\x07", false),
            (b"\x1b]52;c;QQ==\x07", true),
            (b"\x1b]052;c;QQ==\x07", false),
            (b"\x1b]052;c;?\x07", false),
            (b"\x1b]4294967348;c;?\x07", false),
            (b"\x1b]52;c;?\x07", false),
            (b"\x1b];title\x07", false),
            (b"\x1b]P0ff0000\x07", false),
            (b"\x1b]9;done\x07", true),
            (b"\x1b]9;4;1;50\x07", true),
            (b"\x1b]9;7;cmd\x07", false),
            (b"\x1b]50;#1\x07", false),
            (b"\x1b]51;[\"call\",\"x\",[]]\x07", false),
            (b"\x1b]99;i=1:p=title;hello\x07", true),
            (b"\x1b]99;i=1:p=?;\x07", false),
            (b"\x1b]777;notify;a;b\x07", true),
            (b"\x1b]777;preexec\x07", false),
            (b"\x1b]1337;File=name=eA==;inline=1:AAAA\x07", true),
            (b"\x1b]1337;File=name=eA==;inline=0:AAAA\x07", false),
            (b"\x1b]1337;File=name=eA==:inline=1\x07", false),
            (b"\x1b]1337;CopyToClipboard=\x07", false),
            (b"\x1b]133;A\x1b\\", true),
            (b"\x1b]633;E;rm\x07", false),
        ];
        for (bytes, is_listed) in cases {
            let found = string(bytes, SequenceKind::Osc, true);
            assert_eq!(found, Some(is_listed), "{}", bytes.escape_ascii());
            for length in 2..bytes.len() {
                let early = string(&bytes[..length], SequenceKind::Osc, false);
                assert!(early.is_none() || early == found, "{length} of {}", bytes.escape_ascii());
            }
        }
        let dcs = |bytes: &[u8]| string(bytes, SequenceKind::Dcs, true) == Some(true);
        assert!(
            dcs(b"\x1bP0;1q~\x1b\\") && !dcs(b"\x1bP1;1|17/78\x1b\\") && !dcs(b"\x1bPtmux;\x1b\\")
        );
    }

    #[test]
    fn csi_lists_modes_by_number() {
        let cases: [(&[u8], Listed); 12] = [
            (b"\x1b[?25h", Listed::All),
            (b"\x1b[?1000;1006h", Listed::All),
            (b"\x1b[?9001h", Listed::None),
            (b"\x1b[?25;9001h", Listed::Some),
            (b"\x1b[4h", Listed::All),
            (b"\x1b[12l", Listed::None),
            (b"\x1b[3 q", Listed::All),
            (b"\x1b[>4;2m", Listed::All),
            (b"\x1b[?4m", Listed::None),
            (b"\x1b[9;1]", Listed::None),
            (b"\x1b[1;1;5;5;1$r", Listed::None),
            (b"\x1b[5i", Listed::None),
        ];
        for (bytes, listed) in cases {
            assert_eq!(csi(&Csi::parse(bytes).unwrap()), listed, "{}", bytes.escape_ascii());
        }
    }
}
