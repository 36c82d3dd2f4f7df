//! From what somebody wants typed to what the program gets.

use std::time::Duration;

use model::key::{Key, KeyCode};
use protocol::look::Typing;
use terminal::{Modes, key};

use crate::input::Item;

/// Between a paste and the key after it. Agents take a carriage return that arrives together with
/// a long text for part of the text; with this much between them it was taken as Enter every time.
const AFTER_PASTE: Duration = Duration::from_millis(50);

/// The items to queue for `typing`, given what the program has asked its terminal for.
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
