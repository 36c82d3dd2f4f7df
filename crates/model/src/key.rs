//! Keys by name: `enter`, `ctrl-c`, `alt-f5`, `C-b`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The key.
    pub code: KeyCode,
    /// Whether Ctrl is held.
    pub ctrl: bool,
    /// Whether Alt is held.
    pub alt: bool,
    /// Whether Shift is held.
    pub shift: bool,
}

/// A key without modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyCode {
    /// A key that types this character.
    Char(char),
    /// Return.
    Enter,
    /// Tab.
    Tab,
    /// Backspace.
    Backspace,
    /// Escape.
    Escape,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Insert.
    Insert,
    /// Delete.
    Delete,
    /// A function key, 1 to 12.
    F(u8),
}

/// A text that is not the name of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a key (try enter, tab, esc, up, f5, ctrl-c, alt-x, shift-tab)")]
pub struct UnknownKey(pub String);

impl FromStr for Key {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownKey(text.to_owned());
        let (mut ctrl, mut alt, mut shift) = (false, false, false);
        let mut rest = text;
        // The key itself may be `-`, so a modifier needs something after its hyphen.
        while let Some((modifier, after)) = rest.split_once('-').filter(|(_, a)| !a.is_empty()) {
            let held = match modifier {
                "ctrl" | "C" | "c" => &mut ctrl,
                "alt" | "meta" | "M" | "m" => &mut alt,
                "shift" | "S" | "s" => &mut shift,
                _ => return Err(unknown()),
            };
            *held = true;
            rest = after;
        }
        let code = code(rest).ok_or_else(unknown)?;
        Ok(Self { code, ctrl, alt, shift })
    }
}

fn code(text: &str) -> Option<KeyCode> {
    let mut chars = text.chars();
    if let (Some(only), None) = (chars.next(), chars.next()) {
        return (!only.is_control()).then_some(KeyCode::Char(only));
    }
    let lower = text.to_ascii_lowercase();
    if let Some(number) = lower.strip_prefix('f').and_then(|n| n.parse().ok()) {
        return (1..=12).contains(&number).then_some(KeyCode::F(number));
    }
    Some(match lower.as_str() {
        "enter" | "return" | "cr" => KeyCode::Enter,
        "tab" => KeyCode::Tab,
        "backspace" | "bspace" => KeyCode::Backspace,
        "escape" | "esc" => KeyCode::Escape,
        "space" => KeyCode::Char(' '),
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" | "pgup" => KeyCode::PageUp,
        "pagedown" | "pgdn" => KeyCode::PageDown,
        "insert" | "ins" => KeyCode::Insert,
        "delete" | "del" => KeyCode::Delete,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_parses_common_names_and_modifiers() {
        let plain = |code| Key { code, ctrl: false, alt: false, shift: false };
        let cases = [
            ("a", Ok(plain(KeyCode::Char('a')))),
            ("-", Ok(plain(KeyCode::Char('-')))),
            ("Enter", Ok(plain(KeyCode::Enter))),
            ("f12", Ok(plain(KeyCode::F(12)))),
            ("ctrl-c", Ok(Key { ctrl: true, ..plain(KeyCode::Char('c')) })),
            ("C-b", Ok(Key { ctrl: true, ..plain(KeyCode::Char('b')) })),
            ("ctrl-alt-up", Ok(Key { ctrl: true, alt: true, ..plain(KeyCode::Up) })),
            ("shift-tab", Ok(Key { shift: true, ..plain(KeyCode::Tab) })),
            ("f13", Err(UnknownKey("f13".to_owned()))),
            ("hyper-x", Err(UnknownKey("hyper-x".to_owned()))),
            ("", Err(UnknownKey(String::new()))),
            ("\u{1b}", Err(UnknownKey("\u{1b}".to_owned()))),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Key>(), expected, "input: {text:?}");
        }
    }
}
