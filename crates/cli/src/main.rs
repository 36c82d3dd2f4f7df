//! ccmux
fn main() {}
