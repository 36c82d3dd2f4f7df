//! Which sequences ask the terminal for an answer, and how a CSI sequence is taken apart.
//!
//! There may be no client or many, so the pane's own terminal answers and no outer terminal may
//! ever see the question. The list is therefore longer than what our terminal answers: a question
//! that nobody answers is better than one that three terminals answer into the program's input.

use crate::scan::Kind;

/// A CSI sequence, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Csi<'t> {
    /// `?`, `>`, `=` or `<` before the parameters.
    pub(crate) marker: Option<u8>,
    params: &'t [u8],
    /// The bytes between the parameters and the final byte; mostly none.
    pub(crate) intermediates: &'t [u8],
    /// What the sequence does.
    pub(crate) last: u8,
}

/// Takes a whole CSI sequence, as a token has it, apart; `None` if it is none.
pub(crate) fn csi(bytes: &[u8]) -> Option<Csi<'_>> {
    let (&last, body) = bytes.strip_prefix(b"\x1b[")?.split_last()?;
    if !(0x40..=0x7e).contains(&last) {
        return None;
    }
    let (marker, body) = match body {
        [marker @ 0x3c..=0x3f, rest @ ..] => (Some(*marker), rest),
        _ => (None, body),
    };
    let middle = body.iter().position(|byte| !(0x30..=0x3b).contains(byte)).unwrap_or(body.len());
    let (params, intermediates) = body.split_at(middle);
    Some(Csi { marker, params, intermediates, last })
}

impl<'t> Csi<'t> {
    /// The parameters, whether separated by `;` or `:`. One that was left out is 0, and so there is
    /// always at least one; what does not fit is 65535.
    pub(crate) fn params(&self) -> impl Iterator<Item = u16> + use<'t> {
        self.params.split(|byte| matches!(byte, b';' | b':')).map(|digits| {
            digits.iter().fold(0u16, |number, digit| {
                number.saturating_mul(10).saturating_add(u16::from(digit - b'0'))
            })
        })
    }

    /// The first parameter, 0 if there is none.
    pub(crate) fn first(&self) -> u16 {
        self.params().next().unwrap_or(0)
    }
}

/// Whether a sequence asks the terminal for an answer.
///
/// The one question that is not a sequence is the control ENQ.
pub(crate) fn query(bytes: &[u8], kind: Kind) -> bool {
    match kind {
        // DECID, the elder of DA1.
        Kind::Esc => bytes == b"\x1bZ",
        Kind::Csi => csi(bytes).is_some_and(|csi| csi_query(&csi)),
        Kind::Osc | Kind::Dcs | Kind::Other => string_query(bytes, kind, true) == Some(true),
    }
}

fn csi_query(csi: &Csi<'_>) -> bool {
    match (csi.marker, csi.intermediates, csi.last) {
        // DA1, DA2, DA3.
        (None | Some(b'>' | b'='), b"", b'c') => true,
        // DSR and its private kin: status, cursor, colour scheme, …
        (None | Some(b'?'), b"", b'n') => true,
        // XTVERSION, kitty keyboard flags, XTQMODKEYS, XTSMGRAPHICS.
        (Some(b'>'), b"", b'q') | (Some(b'?'), b"", b'u' | b'm' | b'S') => true,
        // DECRQM.
        (None | Some(b'?'), b"$", b'p') => true,
        // Reports about the window.
        (None, b"", b't') => matches!(csi.first(), 11 | 13..=16 | 18..=21),
        // DECRQCRA, DECREQTPARM.
        (None, b"*", b'y') | (None, b"", b'x') => true,
        // DECRQPSR, DECRQTSR, DECRQUPSS, DECRQDE, DECRQLP, XTREPORTSGR, XTREPORTCOLORS.
        (None, b"$", b'w' | b'u') | (None, b"&", b'u') | (None, b"\"", b'v') => true,
        (None, b"'", b'|') | (None, b"#", b'|' | b'R') => true,
        _ => false,
    }
}

/// Whether a string, of which `bytes` is the beginning or all (`complete`), is a query. `None` as
/// long as that depends on what follows; of a complete string that means no.
///
/// The answer comes early where it can, so that images and clipboards need not be held back.
pub(crate) fn string_query(bytes: &[u8], kind: Kind, complete: bool) -> Option<bool> {
    let body = bytes.get(2..).unwrap_or_default();
    match kind {
        Kind::Osc => osc_query(body, complete),
        Kind::Dcs => dcs_query(body),
        Kind::Other if bytes.get(1) == Some(&b'_') => graphics_query(body, complete),
        Kind::Other | Kind::Esc | Kind::Csi => Some(false),
    }
}

/// `number ; fields`, mostly with a terminator if it is complete.
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
        // The clipboard: which one, then `?` or the data.
        b"52" => {
            let data = fields.iter().position(|&byte| byte == b';').map(|at| &fields[at + 1..]);
            match data {
                Some(b"?") if complete => Some(true),
                None | Some(b"" | b"?") if !complete => None,
                _ => Some(false),
            }
        }
        // Colours and fonts, many at once; each may be set or asked for.
        b"4" | b"5" | b"10" | b"11" | b"12" | b"13" | b"14" | b"15" | b"16" | b"17" | b"18"
        | b"19" | b"21" | b"50" | b"702" => {
            let asks = |field: &[u8]| field == b"?" || field.ends_with(b"=?");
            complete.then(|| fields.split(|&byte| byte == b';').any(asks))
        }
        // The shape of the pointer; which window operations are allowed.
        b"22" if fields.is_empty() && !complete => None,
        b"22" => Some(fields.first() == Some(&b'?')),
        b"60" | b"61" => Some(true),
        b"1337" => prefix_query(fields, &[b"Report", b"Capabilities", b"RequestUpload"]),
        // Titles, directories, links and notifications are words of the user's, even this one.
        b"0" | b"1" | b"2" | b"7" | b"8" | b"9" | b"133" | b"777" => Some(false),
        // Whatever the future asks (claude asks for 7501), it asks like this.
        _ => match fields {
            b"" | b"?" if !complete => None,
            _ => Some(fields == b"?"),
        },
    }
}

/// Whether `text` begins with one of `queries`, `None` while it is still too short to say.
fn prefix_query(text: &[u8], queries: &[&[u8]]) -> Option<bool> {
    if queries.iter().any(|query| text.starts_with(query)) {
        return Some(true);
    }
    let undecided = queries.iter().any(|query| query.starts_with(text));
    if undecided { None } else { Some(false) }
}

/// DECRQSS `$ q` and XTGETTCAP `+ q`: decided at the final byte.
fn dcs_query(body: &[u8]) -> Option<bool> {
    let head = body.iter().position(|byte| !(0x20..=0x3f).contains(byte))?;
    let intermediates = body[..head].iter().position(|&byte| byte < 0x30).unwrap_or(head);
    Some(matches!(&body[intermediates..=head], b"$q" | b"+q"))
}

/// Kitty graphics: `G`, keys and values up to `;`, `a=q` among them.
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

    fn asks(bytes: &[u8]) -> bool {
        let mut rest = bytes;
        match Scanner::new().next(&mut rest) {
            Some(Token::Sequence { bytes, kind, .. }) => query(bytes, kind),
            other => panic!("{other:?} in {:?}", bytes.escape_ascii().to_string()),
        }
    }

    #[test]
    fn a_sequence_that_asks_for_an_answer_is_a_query() {
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
            // What ends a string otherwise does not make it less of a question to every terminal.
            b"\x1b]11;?\x18",
            b"\x1b]11;?\x1b[m",
            b"\x1b]1\x011;?\x07",
        ];
        for bytes in queries {
            assert!(asks(bytes), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_sequence_that_only_acts_is_no_query() {
        let acts: [&[u8]; 41] = [
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
        for bytes in acts {
            assert!(!asks(bytes), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_csi_sequence_is_taken_apart() {
        let parts = csi(b"\x1b[?12;;3:4$p").unwrap();
        assert_eq!((parts.marker, parts.intermediates, parts.last), (Some(b'?'), &b"$"[..], b'p'));
        assert_eq!(parts.params().collect::<Vec<_>>(), [12, 0, 3, 4]);

        let plain = csi(b"\x1b[m").unwrap();
        assert_eq!((plain.marker, plain.intermediates, plain.last), (None, &b""[..], b'm'));
        assert_eq!(plain.params().collect::<Vec<_>>(), [0]);

        assert_eq!(csi(b"\x1b[99999 q").unwrap().first(), u16::MAX);
        assert_eq!(csi(b"\x1b[12"), None);
        assert_eq!(csi(b"\x1bM"), None);
    }
}
