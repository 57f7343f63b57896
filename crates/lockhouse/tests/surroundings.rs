//! The surroundings of the locks: runtimes, wakers, timers, watchers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lockhouse::{House, LockGuard, Loss, RequestError};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_guard_dropped_outside_any_runtime_lets_a_longest_hold_begin_and_end() {
    let (runtime, bucket) = (runtime(), House::new().bucket("default"));
    let (a, b) = (bucket.agent("a").unwrap(), bucket.agent("b").unwrap());
    let held = runtime.block_on(a.locks().request("n").into_future()).unwrap();
    let waiting = runtime.spawn(async move {
        let next = b.locks().request("n").max_hold(Duration::from_millis(200)).await.unwrap();
        next.lost().await
    });
    while bucket.len() < 2 {
        std::thread::yield_now();
    }
    std::thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!(runtime.block_on(waiting).unwrap(), Loss::Expired);
}

/// Drops its guard when it wakes.
struct Dropper(Mutex<Option<LockGuard>>);

impl Wake for Dropper {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[tokio::test]
async fn a_waker_that_runs_at_once_may_use_the_bucket() {
    let bucket = House::new().bucket("default");
    let (a, b) = (bucket.agent("a").unwrap(), bucket.agent("b").unwrap());
    let other = a.locks().request("other").await.unwrap();
    let held = a.locks().request("n").await.unwrap();
    let waker = Waker::from(Arc::new(Dropper(Mutex::new(Some(other)))));
    let mut lost = std::pin::pin!(held.lost());
    assert_eq!(lost.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    let _thief = b.locks().request("n").steal().await.unwrap();
    assert_eq!(lost.await, Loss::Stolen);
    let _free = b.locks().request("other").if_available().await.unwrap();
}

#[test]
fn a_timer_that_panics_takes_its_request_back() {
    let bucket = House::new().bucket("default");
    let (a, b) = (bucket.agent("a").unwrap(), bucket.agent("b").unwrap());
    let timeless = Builder::new_current_thread().build().unwrap();
    let held = timeless.block_on(a.locks().request("n").into_future()).unwrap();
    let request = || timeless.block_on(b.locks().request("n").timeout(Duration::from_secs(1)).into_future());
    assert!(catch_unwind(AssertUnwindSafe(request)).is_err());
    assert_eq!(bucket.len(), 1);
    drop(held);
    assert!(bucket.is_empty());
}

#[tokio::test]
async fn times_beyond_all_bounds_are_no_limit_or_refused() {
    let bucket = House::new().bucket("default");
    let a = bucket.agent("a").unwrap();
    assert_eq!(a.locks().request_all(["n"]).timeout(Duration::MAX).await.unwrap().len(), 1);
    drop(a.locks().request("n").timeout(Duration::MAX).await.unwrap());
    for max_hold in [Duration::ZERO, Duration::MAX] {
        let refused = a.locks().request("n").max_hold(max_hold).await.unwrap_err();
        let RequestError::Quota(quota) = refused else { panic!("{refused}") };
        assert_eq!(quota.field, "max_hold");
    }
    assert!(bucket.is_empty());
}

#[test]
fn a_label_of_more_than_256_bytes_is_refused() {
    let bucket = House::new().bucket("default");
    bucket.agent(&"é".repeat(128)).unwrap();
    let refused = bucket.agent(&"é".repeat(129)).unwrap_err();
    assert_eq!(refused.to_string(), "client_id: 258 bytes, but at most 256 bytes are allowed");
}

#[tokio::test]
async fn a_bucket_is_marked_as_changed_by_what_changes_it_and_by_nothing_else() {
    let bucket = House::new().bucket("default");
    let a = bucket.agent("a").unwrap();
    let mut changed = bucket.changed();
    let mut is_marked = move || {
        let marked = changed.has_changed().unwrap();
        changed.borrow_and_update();
        marked
    };
    let held = a.locks().request("n").await.unwrap();
    assert!(is_marked());
    a.locks().query().await.unwrap();
    assert!(!is_marked());
    drop(held);
    assert!(is_marked());
    drop(a);
    assert!(is_marked());
}
