//! Whose turn it is on a processor.
#![expect(unsafe_code, reason = "no library has this system call")]

use std::io;

use rustix::process::getpriority_process;

/// The longest turn that the kernel takes as a wish, in nanoseconds.
const LONGEST: u64 = 100_000_000;

/// `struct sched_attr` in its first form, which every kernel knows that has the call.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Lets everybody who wakes up go before this process and those that it will start.
///
/// How large a share of the processor it gets stays as it is. A process that asks for long turns
/// is interrupted by anybody who asks for shorter ones (Linux 6.12), as everybody else does; one of
/// the batch policy never interrupts others. A handful of system calls, and nothing that may not be
/// done between fork and exec.
///
/// # Errors
///
/// The system's.
pub fn let_others_go_first() -> io::Result<()> {
    let attributes = Attributes {
        size: u32::try_from(size_of::<Attributes>()).unwrap_or_default(),
        policy: libc::SCHED_BATCH.cast_unsigned(),
        flags: 0,
        nice: getpriority_process(None)?,
        priority: 0,
        runtime: LONGEST,
        deadline: 0,
        period: 0,
    };
    let (this_process, no_flags) = (0, 0);
    // SAFETY: the kernel reads as many bytes as `size` says, and those are all there.
    let set = unsafe {
        libc::syscall(libc::SYS_sched_setattr, this_process, &raw const attributes, no_flags)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lets_others_go_first_keeps_its_priority_and_is_of_the_batch_policy() {
        let before = getpriority_process(None).unwrap();

        // Both are of the thread that asks.
        let after = std::thread::spawn(move || {
            let_others_go_first().unwrap();
            // SAFETY: it has no memory to be wrong about.
            (unsafe { libc::sched_getscheduler(0) }, getpriority_process(None).unwrap())
        });

        assert_eq!(after.join().unwrap(), (libc::SCHED_BATCH, before));
    }
}
