//! Key presses and pastes as the bytes a program expects, given the modes it has set.
//!
//! The encodings are xterm's. A program that asked for kitty's keyboard protocol gets the keys that
//! xterm's cannot tell apart (escape, and letters and enter with modifiers) in that form.

use model::key::{Key, KeyCode};

use crate::modes::Modes;

/// The flags of kitty's protocol under which ambiguous keys are sent as `CSI … u`: 1, disambiguate,
/// and 8, all keys, which includes it.
const KITTY_DISAMBIGUATE: u8 = 1 | 8;

/// The bytes of one key press. Empty for a key that does not exist (`F(13)`).
#[must_use]
pub fn encode(key: Key, modes: &Modes) -> Vec<u8> {
    let kitty = modes.kitty_flags & KITTY_DISAMBIGUATE != 0;
    match key.code {
        KeyCode::Char(c) => character(c, key, kitty),
        KeyCode::Enter => simple(key, kitty, 13, b"\r"),
        KeyCode::Tab if key.shift && !kitty => with_alt(key, b"\x1b[Z"),
        KeyCode::Tab => simple(key, kitty, 9, b"\t"),
        KeyCode::Backspace => simple(key, kitty, 127, if key.ctrl { b"\x08" } else { b"\x7f" }),
        KeyCode::Escape if kitty => unicode(27, modifiers(key)),
        KeyCode::Escape => with_alt(key, b"\x1b"),
        KeyCode::Up => letter(key, modes.application_cursor && !kitty, b'A'),
        KeyCode::Down => letter(key, modes.application_cursor && !kitty, b'B'),
        KeyCode::Right => letter(key, modes.application_cursor && !kitty, b'C'),
        KeyCode::Left => letter(key, modes.application_cursor && !kitty, b'D'),
        KeyCode::Home => letter(key, modes.application_cursor && !kitty, b'H'),
        KeyCode::End => letter(key, modes.application_cursor && !kitty, b'F'),
        KeyCode::Insert => number(key, 2),
        KeyCode::Delete => number(key, 3),
        KeyCode::PageUp => number(key, 5),
        KeyCode::PageDown => number(key, 6),
        KeyCode::F(n) => function(key, n, kitty),
    }
}

/// The bytes of a pasted text.
///
/// # Invariant
///
/// The text cannot end the paste or press a key: of the control characters only TAB and the ends of
/// lines (as CR, the return key) are left, so the only ESC are those of the brackets.
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

/// The modifier parameter of xterm and kitty; 1 is none.
fn modifiers(key: Key) -> u8 {
    1 + u8::from(key.shift) + 2 * u8::from(key.alt) + 4 * u8::from(key.ctrl)
}

fn with_alt(key: Key, bytes: &[u8]) -> Vec<u8> {
    let prefix: &[u8] = if key.alt { b"\x1b" } else { b"" };
    [prefix, bytes].concat()
}

/// `CSI code ; modifiers u`.
fn unicode(code: u32, modifiers: u8) -> Vec<u8> {
    match modifiers {
        1 => format!("\x1b[{code}u"),
        _ => format!("\x1b[{code};{modifiers}u"),
    }
    .into_bytes()
}

/// Enter, tab and backspace: a control of their own, which kitty keeps unless modified.
fn simple(key: Key, kitty: bool, code: u32, plain: &[u8]) -> Vec<u8> {
    match modifiers(key) {
        2.. if kitty => unicode(code, modifiers(key)),
        _ => with_alt(key, plain),
    }
}

/// `CSI X`, or `SS3 X` where the program asked for it, or `CSI 1 ; modifiers X`.
fn letter(key: Key, ss3: bool, last: u8) -> Vec<u8> {
    let last = char::from(last);
    match modifiers(key) {
        1 if ss3 => format!("\x1bO{last}"),
        1 => format!("\x1b[{last}"),
        modifiers => format!("\x1b[1;{modifiers}{last}"),
    }
    .into_bytes()
}

/// `CSI number ~`.
fn number(key: Key, number: u8) -> Vec<u8> {
    match modifiers(key) {
        1 => format!("\x1b[{number}~"),
        modifiers => format!("\x1b[{number};{modifiers}~"),
    }
    .into_bytes()
}

fn function(key: Key, n: u8, kitty: bool) -> Vec<u8> {
    match n {
        // `CSI R` is also the answer to where the cursor is, which kitty's protocol avoids.
        3 if kitty => number(key, 13),
        1..=4 => letter(key, !kitty, b'P' + n - 1),
        5 => number(key, 15),
        6..=10 => number(key, 11 + n),
        11 | 12 => number(key, 12 + n),
        _ => Vec::new(),
    }
}

fn character(c: char, key: Key, kitty: bool) -> Vec<u8> {
    if kitty && (key.ctrl || key.alt) {
        // The code is that of the key without shift; a capital letter is one with it.
        let lower = c.to_lowercase().next().unwrap_or(c);
        let key = Key { shift: key.shift || lower != c, ..key };
        return unicode(u32::from(lower), modifiers(key));
    }
    if let Some(control) = control(c).filter(|_| key.ctrl) {
        return with_alt(key, &[control]);
    }
    let c = if key.shift { c.to_uppercase().next().unwrap_or(c) } else { c };
    with_alt(key, c.encode_utf8(&mut [0; 4]).as_bytes())
}

/// What ctrl makes of a character, if anything.
fn control(c: char) -> Option<u8> {
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
    fn keys_are_written_as_xterm_writes_them() {
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
    fn application_cursor_keys_are_for_unmodified_arrows_home_and_end() {
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
    fn kitty_disambiguates_what_xterm_cannot_tell_apart() {
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
    fn pasted_lines_end_as_the_return_key_ends_them() {
        let cases = [("a\nb", "a\rb"), ("a\r\nb\r", "a\rb\r"), ("a\n\nb\tc", "a\r\rb\tc")];
        for (text, expected) in cases {
            assert_eq!(paste(text, &Modes::default()), expected.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn a_paste_cannot_be_left_from_within() {
        let modes = Modes { bracketed_paste: true, ..Modes::default() };

        let bytes = paste("a\x1b[201~rm\x03\x7f\u{9b}201~é", &modes);

        assert_eq!(bytes, "\x1b[200~a[201~rm201~é\x1b[201~".as_bytes());
    }

    proptest! {
        #[test]
        fn the_only_escapes_of_a_paste_are_its_brackets(
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
