//! How much memory the reading of an input may take.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::promise;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The bytes that may be allocated whatever the input is: for messages of errors, the first capacity of a
/// text.
const ALWAYS: usize = 8 << 10;

/// Does `work`, in which at most `factor` bytes are allocated for each byte of the input. Nothing else may
/// run meanwhile.
pub(crate) fn within<T>(input: usize, factor: usize, work: impl FnOnce() -> T) -> T {
    let region = Region::new(COUNTED);
    let result = work();
    let change = region.change();
    let spent = change.bytes_allocated + usize::try_from(change.bytes_reallocated).unwrap_or(0);
    promise!(spent <= ALWAYS + factor * input, "{spent} bytes are allocated for an input of {input}");
    result
}
