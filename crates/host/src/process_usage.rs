//! Resource usage of processes: bytes written and private memory.

use std::fs;

/// Returns the bytes that a process and its reaped children have written to files, terminals and
/// pipes; more than reached a disk. `None` if the kernel does not report it.
#[must_use]
pub fn written(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
        line.trim().parse().ok()
    };
    // `wchar` counts write calls, `write_bytes` dirty pages. Writes through a mapping are only in
    // the second, writes to a tmpfs only in the first.
    Some(field("wchar")?.saturating_add(field("write_bytes")?))
}

/// Returns the bytes written by a process and its descendants. `None` if the kernel does not report
/// them, or if that takes more than `max_reads` reads of `/proc`.
#[must_use]
pub fn written_below(root: u32, max_reads: usize) -> Option<u64> {
    let own = written(root)?;
    let family = descendants_within(root, max_reads, |_| false)?;
    // A child that ends meanwhile is counted with the parent that reaped it.
    Some(family.into_iter().map(|pid| written(pid).unwrap_or(0)).fold(own, u64::saturating_add))
}

/// Returns the descendants of a process, without those that `skip` selects and their descendants.
/// `None` if the kernel does not report them, or if that takes more than `max_reads` reads.
pub fn descendants_within(
    root: u32,
    max_reads: usize,
    skip: impl Fn(u32) -> bool,
) -> Option<Vec<u32>> {
    let mut left = max_reads;
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        // A process that has ended has no children.
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            let children = match fs::read_to_string(thread.path().join("children")) {
                Ok(children) => children,
                Err(_) if pid != root => continue,
                Err(_) => return None,
            };
            for child in children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
                left = left.checked_sub(1)?;
                if !skip(child) {
                    found.push(child);
                    next.push(child);
                }
            }
        }
    }
    Some(found)
}

/// Returns the bytes of memory that a process does not share.
#[must_use]
pub fn private_memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut fields = text.split_ascii_whitespace().skip(1).map_while(|field| field.parse().ok());
    let (resident, shared): (u64, u64) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_counts_bytes_of_this_process() {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        testkit::require!(ProcessIo);
        let before = written(std::process::id()).unwrap();

        file.write_all(&[0; 100_000]).unwrap();

        assert!(written(std::process::id()).unwrap() >= before + 100_000);
        assert!(private_memory(std::process::id()) > 0);
    }

    #[test]
    fn written_below_stops_at_the_read_limit() {
        let us = std::process::id();
        testkit::require!(ProcessIo, ProcessChildren);
        assert!(written_below(us, 1000).is_some());

        assert_eq!(written_below(us, 0), None);
    }
}
