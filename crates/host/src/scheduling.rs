//! CPU scheduling of pane processes.
#![expect(unsafe_code, reason = "no library has this system call")]

use std::io;

use rustix::process::getpriority_process;

/// The longest time slice that the kernel accepts as a request, in nanoseconds.
const MAX_SLICE: u64 = 100_000_000;

/// First version of `struct sched_attr`, which every kernel with this system call accepts.
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

/// Lets other waking processes preempt this process and its future children.
///
/// The share of CPU time does not change. A process with long time slices is preempted by those
/// with shorter ones (Linux 6.12), and the batch policy never preempts others. Uses system calls
/// only, so it may run between fork and exec.
///
/// # Errors
///
/// Any error of the operating system.
pub fn yield_to_others() -> io::Result<()> {
    let attributes = Attributes {
        size: u32::try_from(size_of::<Attributes>()).unwrap_or_default(),
        policy: libc::SCHED_BATCH.cast_unsigned(),
        flags: 0,
        nice: getpriority_process(None)?,
        priority: 0,
        runtime: MAX_SLICE,
        deadline: 0,
        period: 0,
    };
    let (this_process, no_flags) = (0, 0);
    // SAFETY: the kernel reads `size` bytes, which is the size of `attributes`.
    let set = unsafe {
        libc::syscall(libc::SYS_sched_setattr, this_process, &raw const attributes, no_flags)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yield_to_others_keeps_nice_value_and_sets_batch_policy() {
        let before = getpriority_process(None).unwrap();

        // Policy and nice value are per thread.
        let after = std::thread::spawn(move || {
            yield_to_others().unwrap();
            // SAFETY: the call takes a number and no memory.
            (unsafe { libc::sched_getscheduler(0) }, getpriority_process(None).unwrap())
        });

        assert_eq!(after.join().unwrap(), (libc::SCHED_BATCH, before));
    }
}
