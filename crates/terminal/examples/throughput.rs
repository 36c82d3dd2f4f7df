//! Measures the throughput of a terminal of 200 columns and 50 rows.
//!
//! `cargo run --release -p ccmux-terminal --example throughput [STREAM]`

#![expect(clippy::print_stdout, reason = "prints its results")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use terminal::{Painter, Terminal};

const CHUNK: usize = 8 * 1024;
const MIN_DURATION: Duration = Duration::from_millis(700);

fn main() {
    let size = model::Size::clamped(200, 50);
    let streams = [
        ("ascii log lines", ascii()),
        ("dense SGR", dense_sgr()),
        ("TUI frames", tui()),
        ("ink frames", ink()),
        ("wide Unicode", unicode()),
    ];
    println!("{:<18} {:>10} {:>12} {:>12}", "stream", "MB/s", "frame, µs", "snapshot, µs");
    let only = std::env::args().nth(1).unwrap_or_default();
    for (name, stream) in streams.iter().filter(|(name, _)| name.contains(&only)) {
        let mut terminal = Terminal::new(size, 0);
        let (mut bytes, started) = (0, Instant::now());
        while started.elapsed() < MIN_DURATION {
            for chunk in stream.chunks(CHUNK) {
                terminal.feed(black_box(chunk));
            }
            bytes += stream.len();
        }
        terminal.flush();
        #[expect(clippy::cast_precision_loss, reason = "the result is approximate")]
        let rate = bytes as f64 / started.elapsed().as_secs_f64() / 1e6;
        let frame = per_call(|| {
            black_box(Painter::new().frame(&mut terminal, size));
        });
        let snapshot = per_call(|| {
            black_box(terminal.snapshot());
        });
        println!("{name:<18} {rate:>10.0} {frame:>12.1} {snapshot:>12.1}");
    }
}

/// Returns the duration of one call in microseconds.
fn per_call(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 1000;
    let started = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    started.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}

fn ascii() -> Vec<u8> {
    let mut text = String::new();
    for line in 0..20_000 {
        let words = "the quick brown fox jumps over the lazy dog and runs through the wood ";
        writeln!(text, "{line:08} INFO server {words:<78}\r").unwrap_or_default();
    }
    text.into_bytes()
}

fn dense_sgr() -> Vec<u8> {
    let mut text = String::new();
    for line in 0..8_000 {
        for word in 0..12 {
            let color = (line * 7 + word * 13) % 256;
            write!(text, "\x1b[38;5;{color}mword{word:02}\x1b[0m ").unwrap_or_default();
        }
        text.push_str("\r\n");
    }
    text.into_bytes()
}

fn tui() -> Vec<u8> {
    let mut text = String::new();
    for frame in 0..60 {
        for row in 1..=50 {
            write!(text, "\x1b[{row};1H\x1b[{}m", 31 + (row + frame) % 7).unwrap_or_default();
            for cell in 0..10 {
                let column = cell * 20 + 1;
                write!(text, "\x1b[{row};{column}H{:>6}.{frame:02}\x1b[K", row * cell)
                    .unwrap_or_default();
            }
        }
    }
    text.into_bytes()
}

fn ink() -> Vec<u8> {
    let mut text = String::new();
    for frame in 0..2_000 {
        text.push_str("\x1b[?2026h");
        for _ in 0..12 {
            text.push_str("\x1b[2K\x1b[1A");
        }
        text.push_str("\x1b[2K\x1b[G");
        for row in 0..12 {
            let bar = "─".repeat(40);
            writeln!(
                text,
                "\x1b[38;2;215;119;87m│\x1b[39m step {frame} of task {row} {bar}\x1b[22m\r"
            )
            .unwrap_or_default();
        }
        text.push_str("\x1b[?2026l");
    }
    text.into_bytes()
}

fn unicode() -> Vec<u8> {
    let mut text = String::new();
    for line in 0..8_000 {
        let word = ["日本語の文章", "한국어 텍스트", "emoji 🚀✨", "naïve café"][line % 4];
        writeln!(text, "{}\r", word.repeat(6)).unwrap_or_default();
    }
    text.into_bytes()
}
