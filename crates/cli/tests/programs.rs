//! Real full-screen programs in panes: every client sees the same screen.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Write as _;

use model::Size;
use testkit::{Home, Screen};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

fn attach(home: &Home) -> Screen {
    home.ccmux(&["attach", "work"]).screen(Size::new(80, 24).unwrap())
}

/// A full-screen program, a text that it shows when ready, and keys with the text that they bring
/// up.
const PROGRAMS: [(&[&str], &str, &str, &str); 3] = [
    (&["vim", "-u", "NONE", "-N", "text"], "row 1 of", "50G:split\r", "row 50 of"),
    (&["less", "text"], "row 1 of", "/row 77\r", "row 77 of"),
    (&["htop"], "PID", "/sleep", "Search: sleep"),
];

#[test]
fn full_screen_program_looks_the_same_to_next_client() {
    for (command, ready, keys, after) in PROGRAMS {
        let home = Home::new(CCMUX);
        let mut text = File::create(home.work().join("text")).unwrap();
        for row in 1..=200 {
            writeln!(text, "row {row} of a text with some \u{4e2d}\u{6587} in it").unwrap();
        }
        home.start_pane("work", command);
        let first = attach(&home);
        first.wait_for(ready);

        first.send(keys);
        first.wait_for(after);
        let second = attach(&home);

        second.wait_for(after);
        if command[0] != "htop" {
            // It keeps updating its figures.
            second.wait_until("both see the same", |view| view.text() == first.text());
            assert_eq!(home.ccmux(&["read", "work"]).ok().trim_end(), first.text().trim_end());
        }
        for client in [first, second] {
            client.send("\x02d");
            assert_eq!(client.wait_exit(), 0, "{command:?}");
        }
    }
}
