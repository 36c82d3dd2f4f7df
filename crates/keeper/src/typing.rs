//! Conversion of a typing request into input items.

use std::time::Duration;

use model::key::{Key, KeyCode};
use protocol::pane_io::Typing;
use terminal::{Modes, key};

use crate::input::Item;

/// Delay between a paste and the following key. Agents treat a carriage return that arrives together
/// with a long text as part of the text; with this delay, all of them recognized it as Enter.
const AFTER_PASTE: Duration = Duration::from_millis(50);

/// Returns the items to queue for `typing`, encoded for a program with these terminal modes.
pub(crate) fn items(typing: &Typing, modes: &Modes) -> Vec<Item> {
    let enter = Key { code: KeyCode::Enter, ctrl: false, alt: false, shift: false };
    let keys = typing.keys.iter().copied().chain(typing.enter.then_some(enter));
    let keys: Vec<u8> = keys.flat_map(|key| key::encode(key, modes)).collect();
    let mut items = Vec::new();
    if !typing.text.is_empty() {
        items.push(Item::Bytes(key::paste(&typing.text, modes)));
    }
    if !keys.is_empty() {
        if !items.is_empty() {
            items.push(Item::Pause(AFTER_PASTE));
        }
        items.push(Item::Bytes(keys));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typing(text: &str, keys: &[&str], enter: bool) -> Typing {
        let keys = keys.iter().map(|key| key.parse().unwrap()).collect();
        Typing { text: text.to_owned(), keys, enter }
    }

    #[test]
    fn enter_after_text_is_a_separate_item_after_a_pause() {
        let bracketed = Modes { bracketed_paste: true, ..Modes::default() };

        let items = items(&typing("hi", &[], true), &bracketed);

        let paste = Item::Bytes(b"\x1b[200~hi\x1b[201~".to_vec());
        assert_eq!(items, [paste, Item::Pause(AFTER_PASTE), Item::Bytes(b"\r".to_vec())]);
    }

    #[test]
    fn keys_without_text_are_one_item_without_a_pause() {
        let keys = items(&typing("", &["ctrl-c", "up"], true), &Modes::default());

        assert_eq!(keys, [Item::Bytes(b"\x03\x1b[A\r".to_vec())]);
        assert_eq!(items(&typing("", &[], false), &Modes::default()), []);
    }
}
