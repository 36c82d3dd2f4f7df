//! Answers to XTGETTCAP, which asks for terminfo capabilities by name.

/// Capabilities of a pane, for names under which programs ask. Those of `$TERM` in a pane, and
/// extensions that it does not list.
const CAPABILITIES: [(&str, &str); 16] = [
    ("TN", "xterm-256color"),
    ("name", "xterm-256color"),
    ("Co", "256"),
    ("colors", "256"),
    ("RGB", "8/8/8"),
    ("Tc", ""),
    ("Su", ""),
    ("Smulx", "\x1b[4:%p1%dm"),
    ("Ss", "\x1b[%p1%d q"),
    ("Se", "\x1b[2 q"),
    ("setrgbf", "\x1b[38:2:%p1%d:%p2%d:%p3%dm"),
    ("setrgbb", "\x1b[48:2:%p1%d:%p2%d:%p3%dm"),
    ("Ms", "\x1b]52;%p1%s;%p2%s\x07"),
    ("Sync", "\x1b[?2026%?%p1%{1}%-%tl%eh%;"),
    ("bce", ""),
    ("am", ""),
];

/// Maximum number of names in one question that are answered.
const MAX_NAMES: usize = 64;

/// Returns one answer per name; `names` are in hexadecimal, separated by `;`.
pub(crate) fn answer(names: &[u8]) -> String {
    names.split(|&byte| byte == b';').take(MAX_NAMES).map(answer_one).collect()
}

fn answer_one(name: &[u8]) -> String {
    let shown: String =
        name.iter().filter(|byte| byte.is_ascii_hexdigit()).map(|&byte| char::from(byte)).collect();
    let known = decode(name).and_then(|name| {
        CAPABILITIES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, value)| *value)
    });
    match known {
        Some("") => format!("\x1bP1+r{shown}\x1b\\"),
        Some(value) => {
            let value: String = value.bytes().map(|byte| format!("{byte:02X}")).collect();
            format!("\x1bP1+r{shown}={value}\x1b\\")
        }
        None => format!("\x1bP0+r{shown}\x1b\\"),
    }
}

fn decode(hexadecimal: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    hexadecimal
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}
