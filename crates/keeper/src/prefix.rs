//! The prefix key of an attached terminal: `ctrl-b`, then what to do.
//!
//! A terminal whose program has asked for a newer keyboard protocol sends the same keys as escape
//! sequences; both spellings are known. Inside a paste nothing is a key.

/// What a piece of input asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Let go of the client.
    Detach,
}

/// Reads the keys of one client.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    /// The prefix was pressed and nothing since.
    armed: bool,
    in_paste: bool,
}

const CTRL_B: u8 = 0x02;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// `ctrl-b` as the kitty protocol and as xterm's modifyOtherKeys spell it.
const SPELLINGS: [&[u8]; 4] = [b"\x1b[98;5u", b"\x1b[98;5:1u", b"\x1b[98::98;5u", b"\x1b[27;5;98~"];
/// Releases of keys are no keys.
const RELEASES: [&[u8]; 2] = [b"\x1b[98;5:3u", b"\x1b[57442;1:3u"];

impl Prefix {
    /// Splits keys into what goes to the pane and a command, if there is one. What comes after a
    /// command is dropped: the client is gone then.
    pub(crate) fn read(&mut self, keys: &[u8]) -> (Vec<u8>, Option<Command>) {
        // Nearly always: ordinary keys.
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
                    // A key that means nothing after the prefix does nothing.
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

    /// How many bytes the first key of `keys` has.
    fn key_length(&self, keys: &[u8]) -> usize {
        if self.in_paste {
            // To the end of the paste, or one byte short of what may be the beginning of it.
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
    key == [CTRL_B] || SPELLINGS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of input, what the pane gets of them, what is to be done.
    type Case<'a> = (&'a [&'a [u8]], &'a [u8], Option<Command>);

    #[test]
    fn only_the_prefix_and_what_follows_it_are_kept_from_the_pane() {
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
    fn inside_a_paste_nothing_is_a_key() {
        let mut prefix = Prefix::default();
        let paste = b"\x1b[200~one \x02d two\x1b[201~";

        assert_eq!(prefix.read(paste), (paste.to_vec(), None));
        assert_eq!(prefix.read(b"\x02d"), (Vec::new(), Some(Command::Detach)));
    }
}
