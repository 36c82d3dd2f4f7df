//! What processes take: the bytes that they have written, and their memory.

use std::fs;

/// The bytes that a process and the children it took leave of have written in their lives: to
/// files, terminals and pipes alike, so more than reached any disk. None if the system does not
/// say.
#[must_use]
pub fn written(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
        line.trim().parse().ok()
    };
    // The first counts calls, the second pages; what is written through a mapping is only in the
    // second, and what goes to a disk in memory only in the first.
    Some(field("wchar")?.saturating_add(field("write_bytes")?))
}

/// The bytes of memory that a process has of its own or shares.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 =
        text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_write_is_counted() {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        let Some(before) = written(std::process::id()) else {
            return eprintln!("skipped: this system does not say what processes write");
        };

        file.write_all(&[0; 100_000]).unwrap();

        assert!(written(std::process::id()).unwrap() >= before + 100_000);
        assert!(resident(std::process::id()) > 100_000);
    }
}
