//! The price of a look at a bucket, and the thread that does it.

/// The price of a look at all entries of a bucket, in frames.
pub(crate) fn price_of_query(entries: usize) -> u32 {
    (entries / 16).try_into().unwrap_or(u32::MAX)
}

/// The price of sending so many bytes of them.
pub(crate) fn price_of_text(bytes: usize) -> u32 {
    (bytes / 512).try_into().unwrap_or(u32::MAX)
}

/// Work on a bucket with more entries is done apart.
const LARGE: usize = 10_000;

/// Does work on a bucket with so many entries; if it is much, so that the other tasks of this thread go on
/// meanwhile on another one.
pub(crate) fn block_in_place_if_large<T>(entries: usize, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        // A runtime with one thread has no other one.
        Ok(RuntimeFlavor::MultiThread) if entries > LARGE => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_on_a_large_bucket_leaves_its_thread_to_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("threads");
        let done = runtime.block_on(async {
            let work = tokio::spawn(async {
                let (sender, receiver) = std::sync::mpsc::channel();
                tokio::spawn(async move { sender.send(()) });
                // The only worker waits for the other task.
                block_in_place_if_large(LARGE + 1, || receiver.recv_timeout(Duration::from_secs(10)).is_ok())
            });
            work.await
        });
        assert!(done.is_ok_and(|done| done), "the other task had to wait");
    }
}
