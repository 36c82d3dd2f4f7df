//! The prefix key of an attached terminal, followed by a command key ([`model::attach_keys`]).
//!
//! If the program has enabled a newer keyboard protocol, the terminal sends these keys as escape
//! sequences; both encodings are recognized. Pasted text is never interpreted as keys.

use model::attach_keys::{self, AttachCommand, PrefixKey};

/// The result of a command key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A key with a meaning.
    Run(AttachCommand),
    /// A key without a meaning; its name.
    Unknown(String),
}

/// Parser for the input of one client.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    key: PrefixKey,
    /// The prefix was the last key pressed.
    armed: bool,
    in_paste: bool,
}

/// A key as the parser sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressed {
    /// A character, typed without ctrl and alt.
    Plain(char),
    /// Ctrl and a letter.
    Ctrl(char),
    /// A key release, or a modifier by itself.
    Nothing,
    /// Any other key.
    Other,
}

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// The bits of the modifiers in the kitty protocol and in xterm's modifyOtherKeys. Caps lock and num
/// lock are not considered.
const SHIFT: u32 = 1;
const CTRL: u32 = 4;
const LOCKS: u32 = 64 | 128;

/// The codes of the modifier keys themselves in the kitty protocol.
const MODIFIER_KEYS: std::ops::RangeInclusive<u32> = 57441..=57454;

impl Prefix {
    /// Creates a parser for the prefix key `key`.
    pub(crate) fn new(key: PrefixKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Returns the prefix key.
    pub(crate) fn key(&self) -> PrefixKey {
        self.key
    }

    /// Splits input into the keys for the pane and a command, if there is one. Input after a command
    /// is discarded, since the client may then be detached.
    pub(crate) fn read(&mut self, keys: &[u8]) -> (Vec<u8>, Option<Command>) {
        // Fast path for ordinary keys.
        let control = control_byte(self.key);
        if !self.armed && !self.in_paste && !keys.contains(&control) && !keys.contains(&0x1b) {
            return (keys.to_vec(), None);
        }
        let mut passed = Vec::with_capacity(keys.len());
        let mut rest = keys;
        while !rest.is_empty() {
            let (key, after) = rest.split_at(self.key_length(rest));
            rest = after;
            if self.in_paste {
                self.in_paste = key != PASTE_ENDS;
                passed.extend_from_slice(key);
                continue;
            }
            let pressed = pressed(key);
            let is_prefix = pressed == Pressed::Ctrl(self.key.letter());
            if std::mem::take(&mut self.armed) {
                match pressed {
                    Pressed::Nothing => self.armed = true,
                    _ if is_prefix => passed.extend_from_slice(key),
                    Pressed::Plain(_) | Pressed::Ctrl(_) | Pressed::Other => {
                        return (passed, Some(command(pressed)));
                    }
                }
            } else if is_prefix {
                self.armed = true;
            } else {
                self.in_paste = key == PASTE_BEGINS;
                passed.extend_from_slice(key);
            }
        }
        (passed, None)
    }

    /// Returns the length of the first key in `keys`.
    fn key_length(&self, keys: &[u8]) -> usize {
        if self.in_paste {
            // Up to the end of the paste, or all of it.
            return match keys.windows(PASTE_ENDS.len()).position(|w| w == PASTE_ENDS) {
                Some(0) => PASTE_ENDS.len(),
                Some(at) => at,
                None => keys.len(),
            };
        }
        match keys {
            [0x1b, b'[', rest @ ..] => {
                let last = rest.iter().position(|b| (0x40..=0x7e).contains(b));
                last.map_or(keys.len(), |at| at + 3)
            }
            [0x1b, b'O', _, ..] => 3,
            [0xc0..=0xff, rest @ ..] => {
                1 + rest.iter().take_while(|byte| (0x80..0xc0).contains(*byte)).count()
            }
            _ => 1,
        }
    }
}

/// Returns the byte that the key types in the traditional encoding.
fn control_byte(key: PrefixKey) -> u8 {
    u8::try_from(key.letter()).map_or(0, |letter| letter & 0x1f)
}

fn command(pressed: Pressed) -> Command {
    let name = match pressed {
        Pressed::Plain(key) => match attach_keys::command(key) {
            Some(command) => return Command::Run(command),
            None => key.to_string(),
        },
        Pressed::Ctrl(letter) => format!("ctrl-{letter}"),
        Pressed::Nothing | Pressed::Other => "this key".to_owned(),
    };
    Command::Unknown(name)
}

fn pressed(key: &[u8]) -> Pressed {
    match key {
        [byte @ 1..=26] => Pressed::Ctrl(char::from(byte | 0x60)),
        [0x1b, b'[', params @ .., b'u'] => sequence(params).unwrap_or(Pressed::Other),
        [0x1b, b'[', b'2', b'7', b';', params @ .., b'~'] => {
            other_key(params).unwrap_or(Pressed::Other)
        }
        _ => {
            let mut chars = std::str::from_utf8(key).unwrap_or_default().chars();
            match (chars.next(), chars.next()) {
                (Some(key), None) if !key.is_control() => Pressed::Plain(key),
                _ => Pressed::Other,
            }
        }
    }
}

/// Parses a key of the kitty protocol: `code[:shifted[:base]] [; modifiers[:event]] [; text]`.
fn sequence(params: &[u8]) -> Option<Pressed> {
    let text = std::str::from_utf8(params).ok()?;
    let mut fields = text.split(';');
    let mut codes = fields.next()?.split(':').map(|code| code.parse().ok());
    let code: u32 = codes.next()??;
    let shifted = codes.next().flatten();
    let base = codes.next().flatten();
    let mut modifiers = fields.next().unwrap_or("1").split(':');
    let held = modifiers.next()?.parse::<u32>().unwrap_or(1).saturating_sub(1) & !LOCKS;
    let is_release = modifiers.next() == Some("3");
    if is_release || MODIFIER_KEYS.contains(&code) {
        return Some(Pressed::Nothing);
    }
    let code = match held {
        SHIFT => shifted.unwrap_or(code),
        // The key in the layout of the protocol, for keyboards without Latin letters.
        CTRL => base.unwrap_or(code),
        _ => code,
    };
    Some(with_modifiers(char::from_u32(code)?, held))
}

/// Parses a key of modifyOtherKeys: `modifiers ; code`.
fn other_key(params: &[u8]) -> Option<Pressed> {
    let (modifiers, code) = std::str::from_utf8(params).ok()?.split_once(';')?;
    let held = modifiers.parse::<u32>().ok()?.saturating_sub(1);
    Some(with_modifiers(char::from_u32(code.parse().ok()?)?, held))
}

fn with_modifiers(key: char, held: u32) -> Pressed {
    match held {
        0 | SHIFT if !key.is_control() => Pressed::Plain(key),
        CTRL if key.is_ascii_alphabetic() => Pressed::Ctrl(key.to_ascii_lowercase()),
        _ => Pressed::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input in pieces, the expected keys for the pane, the expected command.
    type Case<'a> = (&'a [&'a [u8]], &'a [u8], Option<Command>);

    fn run(command: AttachCommand) -> Option<Command> {
        Some(Command::Run(command))
    }

    fn unknown(name: &str) -> Option<Command> {
        Some(Command::Unknown(name.to_owned()))
    }

    fn read(prefix: &mut Prefix, pieces: &[&[u8]]) -> (Vec<u8>, Option<Command>) {
        let mut passed = Vec::new();
        let mut last = None;
        for piece in pieces {
            let (bytes, found) = prefix.read(piece);
            passed.extend(bytes);
            last = found;
        }
        (passed, last)
    }

    #[test]
    fn prefix_and_command_key_are_removed_from_the_input() {
        let detach = || run(AttachCommand::Detach);
        #[rustfmt::skip]
        let table: [Case<'_>; 20] = [
            (&[b"hello"],                              b"hello",   None),
            (&[b"\x02d"],                              b"",        detach()),
            (&[b"\x02", b"d"],                         b"",        detach()),
            (&[b"ab\x02d"],                            b"ab",      detach()),
            (&[b"\x02\x02"],                           b"\x02",    None),
            (&[b"\x02x"],                              b"",        unknown("x")),
            (&[b"\x02\xc3\xa4"],                       b"",        unknown("ä")),
            (&[b"\x02\x1bOA"],                         b"",        unknown("this key")),
            (&[b"\x02\x18"],                           b"",        unknown("ctrl-x")),
            (&[b"\x1b[98;5u", b"d"],                   b"",        detach()),
            (&[b"\x1b[98::98;5u", b"d"],               b"",        detach()),
            (&[b"\x1b[1080::98;5u", b"d"],             b"",        detach()),
            (&[b"\x1b[98;5:1u\x1b[98;5:3u\x1b[100u"],  b"",        detach()),
            (&[b"\x1b[98;5u\x1b[57441;2u\x1b[47:63;2u"], b"",      run(AttachCommand::Help)),
            (&[b"\x1b[98;5u\x1b[57442;1:3u\x1b[100;1:1u"], b"",    detach()),
            (&[b"\x1b[27;5;98~d"],                     b"",        detach()),
            (&[b"\x1b[27;5;98~\x1b[27;2;63~"],         b"",        run(AttachCommand::Help)),
            (&[b"\x02["],                              b"",        run(AttachCommand::Scrollback)),
            (&[b"\x02?"],                              b"",        run(AttachCommand::Help)),
            (&[b"\x1b[A\x1b[1;5C"],                    b"\x1b[A\x1b[1;5C", None),
        ];
        for (pieces, expected, command) in table {
            let (passed, last) = read(&mut Prefix::default(), pieces);
            assert_eq!((passed.as_slice(), last), (expected, command), "{pieces:?}");
        }
    }

    #[test]
    fn configured_prefix_replaces_the_default() {
        let mut prefix = Prefix::new("ctrl-a".parse().unwrap());

        assert_eq!(read(&mut prefix, &[b"\x02d"]), (b"\x02d".to_vec(), None));
        assert_eq!(read(&mut prefix, &[b"\x01d"]), (Vec::new(), run(AttachCommand::Detach)));
        assert_eq!(read(&mut prefix, &[b"\x1b[97;5u\x1b[97;5u"]).0, b"\x1b[97;5u");
    }

    #[test]
    fn prefix_inside_a_paste_is_passed_through() {
        let mut prefix = Prefix::default();
        let paste = b"\x1b[200~one \x02d two\x1b[201~";

        assert_eq!(prefix.read(paste), (paste.to_vec(), None));
        assert_eq!(prefix.read(b"\x02d"), (Vec::new(), run(AttachCommand::Detach)));
    }
}
