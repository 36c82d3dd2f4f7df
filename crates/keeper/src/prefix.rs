//! The prefix key of an attached terminal: `ctrl-b`, followed by a command key.
//!
//! If the program has enabled a newer keyboard protocol, the terminal sends these keys as escape
//! sequences; both encodings are recognized. Pasted text is never interpreted as keys.

/// A command entered with the prefix key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Detach the client.
    Detach,
}

/// Parser for the input of one client.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    /// The prefix was the last key pressed.
    armed: bool,
    in_paste: bool,
}

const CTRL_B: u8 = 0x02;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// `ctrl-b` as encoded by the kitty protocol and by xterm's modifyOtherKeys.
const CTRL_B_SEQUENCES: [&[u8]; 4] =
    [b"\x1b[98;5u", b"\x1b[98;5:1u", b"\x1b[98::98;5u", b"\x1b[27;5;98~"];
/// Key releases, which are ignored after the prefix.
const RELEASES: [&[u8]; 2] = [b"\x1b[98;5:3u", b"\x1b[57442;1:3u"];

impl Prefix {
    /// Splits input into the keys for the pane and a command, if there is one. Input after a command
    /// is discarded, since the client is then detached.
    pub(crate) fn read(&mut self, keys: &[u8]) -> (Vec<u8>, Option<Command>) {
        // Fast path for ordinary keys.
        if !self.armed && !self.in_paste && !keys.contains(&CTRL_B) && !keys.contains(&0x1b) {
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
            } else if std::mem::take(&mut self.armed) {
                match key {
                    b"d" | b"\x1b[100u" | b"\x1b[100;1u" | b"\x1b[100;1:1u" => {
                        return (passed, Some(Command::Detach));
                    }
                    _ if is_prefix(key) => passed.extend_from_slice(key),
                    _ if RELEASES.contains(&key) => self.armed = true,
                    // An unknown key after the prefix is ignored.
                    _ => {}
                }
            } else if is_prefix(key) {
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
            _ => 1,
        }
    }
}

fn is_prefix(key: &[u8]) -> bool {
    key == [CTRL_B] || CTRL_B_SEQUENCES.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input in pieces, the expected keys for the pane, the expected command.
    type Case<'a> = (&'a [&'a [u8]], &'a [u8], Option<Command>);

    #[test]
    fn prefix_and_command_key_are_removed_from_the_input() {
        let detach = Some(Command::Detach);
        #[rustfmt::skip]
        let table: [Case<'_>; 10] = [
            (&[b"hello"],                              b"hello",   None),
            (&[b"\x02d"],                              b"",        detach),
            (&[b"\x02", b"d"],                         b"",        detach),
            (&[b"ab\x02d"],                            b"ab",      detach),
            (&[b"\x02\x02"],                           b"\x02",    None),
            (&[b"\x02x", b"y"],                        b"y",       None),
            (&[b"\x1b[98;5u", b"d"],                   b"",        detach),
            (&[b"\x1b[98;5:1u\x1b[98;5:3u\x1b[100u"],  b"",        detach),
            (&[b"\x1b[27;5;98~d"],                     b"",        detach),
            (&[b"\x1b[A\x1b[1;5C"],                    b"\x1b[A\x1b[1;5C", None),
        ];
        for (pieces, expected, command) in table {
            let mut prefix = Prefix::default();
            let mut passed = Vec::new();
            let mut last = None;
            for piece in pieces {
                let (bytes, found) = prefix.read(piece);
                passed.extend(bytes);
                last = found;
            }
            assert_eq!((passed.as_slice(), last), (expected, command), "{pieces:?}");
        }
    }

    #[test]
    fn prefix_inside_a_paste_is_passed_through() {
        let mut prefix = Prefix::default();
        let paste = b"\x1b[200~one \x02d two\x1b[201~";

        assert_eq!(prefix.read(paste), (paste.to_vec(), None));
        assert_eq!(prefix.read(b"\x02d"), (Vec::new(), Some(Command::Detach)));
    }
}
