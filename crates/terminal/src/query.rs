//! Recognition of queries: sequences that ask the terminal for an answer.
//!
//! A pane may have any number of clients, so the pane's own terminal answers queries, and no outer
//! terminal may see them. The list is longer than the set of queries this terminal answers: an
//! unanswered query is better than several outer terminals answering into the program's input.

use crate::csi::Csi;
use crate::scan::SequenceKind;

/// Returns whether a sequence asks the terminal for an answer.
///
/// ENQ, the only query that is a control character, is not covered here.
pub(crate) fn is_query(bytes: &[u8], kind: SequenceKind) -> bool {
    match kind {
        // DECID, the predecessor of DA1.
        SequenceKind::Esc => bytes == b"\x1bZ",
        SequenceKind::Csi => Csi::parse(bytes).is_some_and(|csi| csi_query(&csi)),
        SequenceKind::Osc | SequenceKind::Dcs | SequenceKind::Other => {
            string_query(bytes, kind, true) == Some(true)
        }
    }
}

fn csi_query(csi: &Csi<'_>) -> bool {
    match (csi.marker, csi.intermediates, csi.last) {
        // DA1, DA2, DA3.
        (None | Some(b'>' | b'='), b"", b'c') => true,
        // DSR and its private variants: status, cursor position, color scheme, …
        (None | Some(b'?'), b"", b'n') => true,
        // XTVERSION, kitty keyboard flags, XTQMODKEYS, XTSMGRAPHICS.
        (Some(b'>'), b"", b'q') | (Some(b'?'), b"", b'u' | b'm' | b'S') => true,
        // DECRQM.
        (None | Some(b'?'), b"$", b'p') => true,
        // Window reports.
        (None, b"", b't') => matches!(csi.first(), 11 | 13..=16 | 18..=21),
        // DECRQCRA, DECREQTPARM.
        (None, b"*", b'y') | (None, b"", b'x') => true,
        // DECRQPSR, DECRQTSR, DECRQUPSS, DECRQDE, DECRQLP, XTREPORTSGR, XTREPORTCOLORS.
        (None, b"$", b'w' | b'u') | (None, b"&", b'u') | (None, b"\"", b'v') => true,
        (None, b"'", b'|') | (None, b"#", b'|' | b'R') => true,
        _ => false,
    }
}

/// Returns whether a control string is a query. `bytes` is the whole string if `complete`, otherwise
/// its beginning. `None` means undecided, or "no" for a complete string.
///
/// Decides as early as possible, so that images and clipboard contents are not buffered.
pub(crate) fn string_query(bytes: &[u8], kind: SequenceKind, complete: bool) -> Option<bool> {
    let body = bytes.get(2..).unwrap_or_default();
    match kind {
        SequenceKind::Osc => osc_query(body, complete),
        SequenceKind::Dcs => dcs_query(body),
        SequenceKind::Other if bytes.get(1) == Some(&b'_') => graphics_query(body, complete),
        SequenceKind::Other | SequenceKind::Esc | SequenceKind::Csi => Some(false),
    }
}

/// The body is `number ; fields`, usually followed by a terminator if complete.
fn osc_query(body: &[u8], complete: bool) -> Option<bool> {
    let body = body.strip_suffix(b"\x07").or(body.strip_suffix(b"\x1b\\")).unwrap_or(body);
    let digits = body.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(body.len());
    let (number, rest) = body.split_at(digits);
    let fields = match rest {
        [] if complete => return Some(matches!(number, b"60" | b"61")),
        [] => return None,
        [b';', fields @ ..] => fields,
        _ => return Some(false),
    };
    match number {
        // Clipboard: selection, then `?` or the data.
        b"52" => {
            let data = fields.iter().position(|&byte| byte == b';').map(|at| &fields[at + 1..]);
            match data {
                Some(b"?") if complete => Some(true),
                None | Some(b"" | b"?") if !complete => None,
                _ => Some(false),
            }
        }
        // Colors and fonts: a list in which each entry is set or queried.
        b"4" | b"5" | b"10" | b"11" | b"12" | b"13" | b"14" | b"15" | b"16" | b"17" | b"18"
        | b"19" | b"21" | b"50" | b"702" => {
            let asks = |field: &[u8]| field == b"?" || field.ends_with(b"=?");
            complete.then(|| fields.split(|&byte| byte == b';').any(asks))
        }
        // Pointer shape; allowed window operations.
        b"22" if fields.is_empty() && !complete => None,
        b"22" => Some(fields.first() == Some(&b'?')),
        b"60" | b"61" => Some(true),
        b"1337" => prefix_query(fields, &[b"Report", b"Capabilities", b"RequestUpload"]),
        // Titles, directories, links and notifications are free text, which may be `?`.
        b"0" | b"1" | b"2" | b"7" | b"8" | b"9" | b"133" | b"777" => Some(false),
        // Unknown numbers follow the same convention (claude queries 7501).
        _ => match fields {
            b"" | b"?" if !complete => None,
            _ => Some(fields == b"?"),
        },
    }
}

/// Returns whether `text` starts with one of `queries`; `None` while it is too short to decide.
fn prefix_query(text: &[u8], queries: &[&[u8]]) -> Option<bool> {
    if queries.iter().any(|query| text.starts_with(query)) {
        return Some(true);
    }
    let undecided = queries.iter().any(|query| query.starts_with(text));
    if undecided { None } else { Some(false) }
}

/// DECRQSS (`$ q`) and XTGETTCAP (`+ q`); decided at the final byte.
fn dcs_query(body: &[u8]) -> Option<bool> {
    let head = body.iter().position(|byte| !(0x20..=0x3f).contains(byte))?;
    let intermediates = body[..head].iter().position(|&byte| byte < 0x30).unwrap_or(head);
    Some(matches!(&body[intermediates..=head], b"$q" | b"+q"))
}

/// Kitty graphics: `G`, then key-value pairs up to `;`; a query contains `a=q`.
fn graphics_query(body: &[u8], complete: bool) -> Option<bool> {
    let Some(keys) = body.strip_prefix(b"G") else {
        return if body.is_empty() { None } else { Some(false) };
    };
    let end = keys.iter().position(|&byte| matches!(byte, b';' | 0x1b));
    let end = end.or(complete.then_some(keys.len()))?;
    Some(keys[..end].split(|&byte| byte == b',').any(|pair| pair == b"a=q"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{Scanner, Token};

    fn scans_as_query(bytes: &[u8]) -> bool {
        let mut rest = bytes;
        match Scanner::new().next(&mut rest) {
            Some(Token::Sequence { bytes, kind, .. }) => is_query(bytes, kind),
            other => panic!("{other:?} in {:?}", bytes.escape_ascii().to_string()),
        }
    }

    #[test]
    fn queries_are_recognized() {
        let queries: [&[u8]; 61] = [
            b"\x1b[c",
            b"\x1b[0c",
            b"\x1b[>c",
            b"\x1b[>0c",
            b"\x1b[=c",
            b"\x1b[=0c",
            b"\x1bZ",
            b"\x1b[5n",
            b"\x1b[6n",
            b"\x1b[?6n",
            b"\x1b[?15n",
            b"\x1b[?996n",
            b"\x1b[>q",
            b"\x1b[>0q",
            b"\x1b[?u",
            b"\x1b[?2026$p",
            b"\x1b[4$p",
            b"\x1b[11t",
            b"\x1b[13t",
            b"\x1b[13;2t",
            b"\x1b[14t",
            b"\x1b[15t",
            b"\x1b[16t",
            b"\x1b[18t",
            b"\x1b[19t",
            b"\x1b[20t",
            b"\x1b[21t",
            b"\x1b[1;1;1;1;24;80*y",
            b"\x1b[x",
            b"\x1b[1x",
            b"\x1b[?4m",
            b"\x1b[?1;1;0S",
            b"\x1b[1$w",
            b"\x1b[&u",
            b"\x1b[#|",
            b"\x1bP$qm\x1b\\",
            b"\x1bP+q544e\x1b\\",
            b"\x1bP0+q544e\x1b\\",
            b"\x1b]4;1;?\x07",
            b"\x1b]4;1;#fff;2;?\x1b\\",
            b"\x1b]5;0;?\x07",
            b"\x1b]10;?\x07",
            b"\x1b]11;?\x1b\\",
            b"\x1b]10;#fff;?\x07",
            b"\x1b]12;?\x07",
            b"\x1b]17;?\x07",
            b"\x1b]19;?\x07",
            b"\x1b]21;foreground=?\x07",
            b"\x1b]22;?pointer\x07",
            b"\x1b]50;?\x07",
            b"\x1b]52;c;?\x07",
            b"\x1b]52;;?\x1b\\",
            b"\x1b]7501;?\x1b\\",
            b"\x1b]60\x1b\\",
            b"\x1b]61;x\x07",
            b"\x1b]1337;ReportCellSize\x07",
            b"\x1b_Gi=1,a=q;AAAA\x1b\\",
            b"\x1b_Ga=q\x1b\\",
            // Terminals also answer strings that are aborted or contain control characters.
            b"\x1b]11;?\x18",
            b"\x1b]11;?\x1b[m",
            b"\x1b]1\x011;?\x07",
        ];
        for bytes in queries {
            assert!(scans_as_query(bytes), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn other_sequences_are_not_queries() {
        let others: [&[u8]; 41] = [
            b"\x1bc",
            b"\x1b7",
            b"\x1b(B",
            b"\x1b[m",
            b"\x1b[38:2::1:2:3m",
            b"\x1b[2J",
            b"\x1b[?25h",
            b"\x1b[?1;6c",
            b"\x1b[>4;2m",
            b"\x1b[>4n",
            b"\x1b[2 q",
            b"\x1b[u",
            b"\x1b[>1u",
            b"\x1b[<u",
            b"\x1b[=1;1u",
            b"\x1b[!p",
            b"\x1b[62;1\"p",
            b"\x1b[8;24;80t",
            b"\x1b[22;0t",
            b"\x1b[1;1;2;2$x",
            b"\x1b[2*x",
            b"\x1b[3S",
            b"\x1b]0;what?\x07",
            b"\x1b]0;?\x07",
            b"\x1b]4;1;#ffffff\x07",
            b"\x1b]8;;http://x/?\x1b\\",
            b"\x1b]10;#fff\x07",
            b"\x1b]52;c;Pw==\x07",
            b"\x1b]52;c;?Pw==\x07",
            b"\x1b]7501;?x\x07",
            b"\x1b]104\x07",
            b"\x1b]133;A\x07",
            b"\x1b]22;pointer\x07",
            b"\x1b]1337;File=name=x:AAAA\x07",
            b"\x1bPq#0\x1b\\",
            b"\x1bP$tx\x1b\\",
            b"\x1bP>|x\x1b\\",
            b"\x1b_Ga=T,f=100;a=q\x1b\\",
            b"\x1b_x\x1b\\",
            b"\x1b^a=q\x1b\\",
            b"\x1bXG\x1b\\",
        ];
        for bytes in others {
            assert!(!scans_as_query(bytes), "{}", bytes.escape_ascii());
        }
    }
}
