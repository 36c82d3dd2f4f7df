//! Measures ccmux beside tmux.
fn main() {}
