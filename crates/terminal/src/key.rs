//! Encoding of key presses and pastes for a program, given the modes it has set.
//!
//! The encodings are those of xterm. A program that enabled the kitty keyboard protocol gets keys
//! that are ambiguous in xterm (Escape, and letters and Enter with modifiers) in kitty's encoding.

use model::key::{Key, KeyCode};

use crate::modes::Modes;

/// Kitty flags that select `CSI … u` for ambiguous keys: 1 (disambiguate), and 8 (report all keys),
/// which implies it.
const KITTY_DISAMBIGUATE: u8 = 1 | 8;

/// Encodes a key press; empty for a key without an encoding (`F(13)`).
#[must_use]
pub fn encode(key: Key, modes: &Modes) -> Vec<u8> {
    let kitty = modes.kitty_flags & KITTY_DISAMBIGUATE != 0;
    match key.code {
        KeyCode::Char(c) => character_key(c, key, kitty),
        KeyCode::Enter => c0_key(key, kitty, 13, b"\r"),
        KeyCode::Tab if key.shift && !kitty => with_alt(key, b"\x1b[Z"),
        KeyCode::Tab => c0_key(key, kitty, 9, b"\t"),
        KeyCode::Backspace => c0_key(key, kitty, 127, if key.ctrl { b"\x08" } else { b"\x7f" }),
        KeyCode::Escape if kitty => csi_u(27, modifiers(key)),
        KeyCode::Escape => with_alt(key, b"\x1b"),
        KeyCode::Up => csi_letter(key, modes.application_cursor && !kitty, b'A'),
        KeyCode::Down => csi_letter(key, modes.application_cursor && !kitty, b'B'),
        KeyCode::Right => csi_letter(key, modes.application_cursor && !kitty, b'C'),
        KeyCode::Left => csi_letter(key, modes.application_cursor && !kitty, b'D'),
        KeyCode::Home => csi_letter(key, modes.application_cursor && !kitty, b'H'),
        KeyCode::End => csi_letter(key, modes.application_cursor && !kitty, b'F'),
        KeyCode::Insert => csi_tilde(key, 2),
        KeyCode::Delete => csi_tilde(key, 3),
        KeyCode::PageUp => csi_tilde(key, 5),
        KeyCode::PageDown => csi_tilde(key, 6),
        KeyCode::F(n) => function_key(key, n, kitty),
    }
}

/// Encodes a pasted text.
///
/// # Invariant
///
/// The text can neither end the paste nor press a key: the only control characters kept are TAB and
/// line ends (as CR), so the only ESC characters are those of the brackets.
#[must_use]
pub fn paste(text: &str, modes: &Modes) -> Vec<u8> {
    let (begin, end) = if modes.bracketed_paste { ("\x1b[200~", "\x1b[201~") } else { ("", "") };
    let mut bytes = Vec::with_capacity(begin.len() + text.len() + end.len());
    bytes.extend_from_slice(begin.as_bytes());
    let mut previous = ' ';
    for c in text.chars() {
        match c {
            '\n' if previous == '\r' => {}
            '\n' | '\r' => bytes.push(b'\r'),
            '\t' => bytes.push(b'\t'),
            _ if c.is_control() => {}
            _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        previous = c;
    }
    bytes.extend_from_slice(end.as_bytes());
    bytes
}

/// Returns the modifier parameter of xterm and kitty; 1 means no modifiers.
fn modifiers(key: Key) -> u8 {
    1 + u8::from(key.shift) + 2 * u8::from(key.alt) + 4 * u8::from(key.ctrl)
}

fn with_alt(key: Key, bytes: &[u8]) -> Vec<u8> {
    let prefix: &[u8] = if key.alt { b"\x1b" } else { b"" };
    [prefix, bytes].concat()
}

/// `CSI code ; modifiers u`.
fn csi_u(code: u32, modifiers: u8) -> Vec<u8> {
    match modifiers {
        1 => format!("\x1b[{code}u"),
        _ => format!("\x1b[{code};{modifiers}u"),
    }
    .into_bytes()
}

/// Encodes Enter, Tab or Backspace: a C0 control, which kitty keeps unless modified.
fn c0_key(key: Key, kitty: bool, code: u32, plain: &[u8]) -> Vec<u8> {
    match modifiers(key) {
        2.. if kitty => csi_u(code, modifiers(key)),
        _ => with_alt(key, plain),
    }
}

/// `CSI X`, `SS3 X` in application mode, or `CSI 1 ; modifiers X`.
fn csi_letter(key: Key, ss3: bool, last: u8) -> Vec<u8> {
    let last = char::from(last);
    match modifiers(key) {
        1 if ss3 => format!("\x1bO{last}"),
        1 => format!("\x1b[{last}"),
        modifiers => format!("\x1b[1;{modifiers}{last}"),
    }
    .into_bytes()
}

/// `CSI number ~`.
fn csi_tilde(key: Key, number: u8) -> Vec<u8> {
    match modifiers(key) {
        1 => format!("\x1b[{number}~"),
        modifiers => format!("\x1b[{number};{modifiers}~"),
    }
    .into_bytes()
}

fn function_key(key: Key, n: u8, kitty: bool) -> Vec<u8> {
    match n {
        // `CSI R` is also a cursor position report, so kitty uses another encoding for F3.
        3 if kitty => csi_tilde(key, 13),
        1..=4 => csi_letter(key, !kitty, b'P' + n - 1),
        5 => csi_tilde(key, 15),
        6..=10 => csi_tilde(key, 11 + n),
        11 | 12 => csi_tilde(key, 12 + n),
        _ => Vec::new(),
    }
}

fn character_key(c: char, key: Key, kitty: bool) -> Vec<u8> {
    if kitty && (key.ctrl || key.alt) {
        // The code is that of the unshifted key; a capital letter implies shift.
        let lower = c.to_lowercase().next().unwrap_or(c);
        let key = Key { shift: key.shift || lower != c, ..key };
        return csi_u(u32::from(lower), modifiers(key));
    }
    if let Some(control) = control_code(c).filter(|_| key.ctrl) {
        return with_alt(key, &[control]);
    }
    let c = if key.shift { c.to_uppercase().next().unwrap_or(c) } else { c };
    with_alt(key, c.encode_utf8(&mut [0; 4]).as_bytes())
}

/// Returns the control code of a character with ctrl, if there is one.
fn control_code(c: char) -> Option<u8> {
    Some(match c {
        'a'..='z' | 'A'..='Z' => u8::try_from(c).ok()? & 0x1f,
        ' ' | '@' | '2' => 0,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '~' | '6' => 0x1e,
        '_' | '/' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn press(name: &str, modes: &Modes) -> String {
        let bytes = encode(name.parse().unwrap(), modes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn keys_are_encoded_as_in_xterm() {
        let cases = [
            ("a", "a"),
            ("é", "é"),
            ("shift-a", "A"),
            ("alt-x", "\x1bx"),
            ("ctrl-c", "\x03"),
            ("ctrl-alt-c", "\x1b\x03"),
            ("ctrl-space", "\0"),
            ("ctrl-[", "\x1b"),
            ("ctrl-/", "\x1f"),
            ("ctrl-é", "é"),
            ("enter", "\r"),
            ("alt-enter", "\x1b\r"),
            ("tab", "\t"),
            ("shift-tab", "\x1b[Z"),
            ("backspace", "\x7f"),
            ("ctrl-backspace", "\x08"),
            ("alt-backspace", "\x1b\x7f"),
            ("esc", "\x1b"),
            ("alt-esc", "\x1b\x1b"),
            ("up", "\x1b[A"),
            ("shift-up", "\x1b[1;2A"),
            ("ctrl-left", "\x1b[1;5D"),
            ("home", "\x1b[H"),
            ("ctrl-alt-shift-end", "\x1b[1;8F"),
            ("insert", "\x1b[2~"),
            ("delete", "\x1b[3~"),
            ("alt-pgup", "\x1b[5;3~"),
            ("pgdn", "\x1b[6~"),
            ("f1", "\x1bOP"),
            ("f4", "\x1bOS"),
            ("shift-f3", "\x1b[1;2R"),
            ("f5", "\x1b[15~"),
            ("f6", "\x1b[17~"),
            ("f10", "\x1b[21~"),
            ("f11", "\x1b[23~"),
            ("ctrl-f12", "\x1b[24;5~"),
        ];
        for (name, expected) in cases {
            assert_eq!(press(name, &Modes::default()), expected, "{name}");
        }
    }

    #[test]
    fn application_cursor_mode_affects_unmodified_arrows_home_and_end() {
        let modes = Modes { application_cursor: true, ..Modes::default() };
        let cases = [
            ("up", "\x1bOA"),
            ("down", "\x1bOB"),
            ("right", "\x1bOC"),
            ("left", "\x1bOD"),
            ("home", "\x1bOH"),
            ("end", "\x1bOF"),
            ("ctrl-up", "\x1b[1;5A"),
            ("pgup", "\x1b[5~"),
        ];
        for (name, expected) in cases {
            assert_eq!(press(name, &modes), expected, "{name}");
        }
    }

    #[test]
    fn kitty_flags_disambiguate_keys() {
        let modes = Modes { kitty_flags: 1, application_cursor: true, ..Modes::default() };
        let cases = [
            ("a", "a"),
            ("shift-a", "A"),
            ("ctrl-c", "\x1b[99;5u"),
            ("ctrl-C", "\x1b[99;6u"),
            ("ctrl-shift-c", "\x1b[99;6u"),
            ("alt-x", "\x1b[120;3u"),
            ("ctrl-space", "\x1b[32;5u"),
            ("esc", "\x1b[27u"),
            ("alt-esc", "\x1b[27;3u"),
            ("enter", "\r"),
            ("shift-enter", "\x1b[13;2u"),
            ("tab", "\t"),
            ("shift-tab", "\x1b[9;2u"),
            ("backspace", "\x7f"),
            ("ctrl-backspace", "\x1b[127;5u"),
            ("up", "\x1b[A"),
            ("f1", "\x1b[P"),
            ("f3", "\x1b[13~"),
        ];
        for (name, expected) in cases {
            assert_eq!(press(name, &modes), expected, "{name}");
        }
    }

    #[test]
    fn pasted_line_ends_become_carriage_returns() {
        let cases = [("a\nb", "a\rb"), ("a\r\nb\r", "a\rb\r"), ("a\n\nb\tc", "a\r\rb\tc")];
        for (text, expected) in cases {
            assert_eq!(paste(text, &Modes::default()), expected.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn pasted_text_cannot_end_the_paste() {
        let modes = Modes { bracketed_paste: true, ..Modes::default() };

        let bytes = paste("a\x1b[201~rm\x03\x7f\u{9b}201~é", &modes);

        assert_eq!(bytes, "\x1b[200~a[201~rm201~é\x1b[201~".as_bytes());
    }

    proptest! {
        #[test]
        fn paste_contains_no_control_characters_except_tab_and_cr(
            text in prop::collection::vec(
                prop_oneof![any::<char>(), (0u8..0xa0).prop_map(char::from)], 0..40
            ).prop_map(String::from_iter),
            bracketed_paste: bool,
        ) {
            let modes = Modes { bracketed_paste, ..Modes::default() };

            let bytes = String::from_utf8(paste(&text, &modes)).unwrap();

            let inner = if bracketed_paste {
                bytes.strip_prefix("\x1b[200~").unwrap().strip_suffix("\x1b[201~").unwrap()
            } else {
                &bytes
            };
            prop_assert!(inner.chars().all(|c| !c.is_control() || matches!(c, '\t' | '\r')));
        }
    }
}
