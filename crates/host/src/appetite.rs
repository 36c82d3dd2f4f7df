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

/// The same of a process and everything that descends from it. None if the system does not say, or
/// if it would take more than `questions` to ask: nobody may wait that long.
#[must_use]
pub fn written_below(root: u32, questions: usize) -> Option<u64> {
    let own = written(root)?;
    let family = descendants_within(root, questions, |_| false)?;
    // One that has ended meanwhile is counted with who took leave of it.
    Some(family.into_iter().map(|pid| written(pid).unwrap_or(0)).fold(own, u64::saturating_add))
}

/// Everything that descends from a process, without itself, those who are `spared` and what descends
/// from them. None if the system does not say, or if it would take more than `questions` to ask.
pub fn descendants_within(
    root: u32,
    questions: usize,
    spared: impl Fn(u32) -> bool,
) -> Option<Vec<u32>> {
    let mut left = questions;
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        // A process that has ended meanwhile has no children any more.
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            let children = match fs::read_to_string(thread.path().join("children")) {
                Ok(children) => children,
                Err(_) if pid != root => continue,
                Err(_) => return None,
            };
            for child in children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
                left = left.checked_sub(1)?;
                if !spared(child) {
                    found.push(child);
                    next.push(child);
                }
            }
        }
    }
    Some(found)
}

/// The bytes of memory that a process shares with nobody.
#[must_use]
pub fn private(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut fields = text.split_ascii_whitespace().skip(1).map_while(|field| field.parse().ok());
    let (resident, shared): (u64, u64) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * u64::try_from(rustix::param::page_size()).unwrap_or(4096)
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
        assert!(private(std::process::id()) > 0);
    }

    #[test]
    fn nobody_is_asked_more_often_than_allowed() {
        let us = std::process::id();
        if written_below(us, 1000).is_none() {
            return eprintln!("skipped: this system does not say who descends from whom");
        }

        assert_eq!(written_below(us, 0), None);
    }
}
