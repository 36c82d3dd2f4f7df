//! A configuration rewritten in place, as agents do.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Reads `.fake.json`, increments the counter of this process, and writes it in place, `hz` times a
/// second. Two agents that share a file lose each other's updates.
pub(crate) fn rewrite_forever(dir: &Path, hz: f64) {
    let interval = Duration::try_from_secs_f64(1.0 / hz).unwrap_or(Duration::from_secs(1));
    let mut next = Instant::now();
    loop {
        // Some tests remove or fill the directory; the agent continues.
        let _failed = rewrite(dir);
        next += interval;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn rewrite(dir: &Path) -> io::Result<()> {
    let file = dir.join(".fake.json");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut config: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
    let me = std::process::id().to_string();
    let writes = config[&me].as_u64().unwrap_or(0);
    config[&me] = json!(writes + 1);
    File::create(&file)?.write_all(config.to_string().as_bytes())
}
