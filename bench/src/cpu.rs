//! CPU time, which neighbours on the machine disturb far less than they do the clock on the wall.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread so far, in nanoseconds.
pub fn thread_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process so far, in nanoseconds.
pub fn process_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // CPU time begins at 0 and is never negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
