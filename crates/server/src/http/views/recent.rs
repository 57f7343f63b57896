//! Views that cost a pass over a bucket: one is made at a time, and answered for a second, however many ask.
//! If the one that makes it goes away midway, the next begins anew.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use lockhouse::BucketKey;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::bounds::VIEW_AGE;
use crate::http::request::decode::ApiResult;

/// The views that were made lately, of each bucket and kind the last one.
#[derive(Debug, Default)]
pub(crate) struct RecentViews(Arc<Places>);

/// By the type of the view and the bucket.
type Places = Mutex<HashMap<(TypeId, BucketKey), Place, RandomState>>;

/// The view of one bucket. The one that makes it holds the mutex, and the others wait for it.
type Place = Arc<tokio::sync::Mutex<Option<Made>>>;

#[derive(Debug)]
struct Made {
    at: Instant,
    view: Arc<dyn Any + Send + Sync>,
}

impl RecentViews {
    /// The view of the bucket: one that is no older than [`VIEW_AGE`], or a new one. A view is kept no longer
    /// than that.
    ///
    /// # Errors
    ///
    /// Those of `make`. The next that waits makes the view then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next that waits makes the view.
    pub(crate) async fn get<T: Any + Send + Sync>(
        &self,
        key: &BucketKey,
        make: impl Future<Output = ApiResult<T>>,
    ) -> ApiResult<Arc<T>> {
        let key = (TypeId::of::<T>(), key.clone());
        let place = self.0.lock().entry(key.clone()).or_default().clone();
        let forgetting = ForgetIfEmpty { places: &self.0, key: &key, place: &place };
        let mut made = place.lock().await;
        if let Some(Made { at, view }) = &*made
            && at.elapsed() < VIEW_AGE
            && let Ok(view) = view.clone().downcast()
        {
            return Ok(view);
        }
        *made = None;
        let view = Arc::new(make.await?);
        *made = Some(Made { at: Instant::now(), view: view.clone() });
        drop(made);
        drop(forgetting);
        tokio::spawn(forget_in_time(Arc::downgrade(&self.0), key, Arc::downgrade(&place)));
        Ok(view)
    }
}

/// Forgets a place in which no view was made, and for which no one else waits.
struct ForgetIfEmpty<'a> {
    places: &'a Places,
    key: &'a (TypeId, BucketKey),
    place: &'a Place,
}

impl Drop for ForgetIfEmpty<'_> {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        // One in the map, one of the caller. Others come by only under this mutex.
        let is_unused =
            Arc::strong_count(self.place) <= 2 && self.place.try_lock().is_ok_and(|made| made.is_none());
        if is_unused {
            places.remove(self.key);
        }
    }
}

async fn forget_in_time(
    places: Weak<Places>,
    key: (TypeId, BucketKey),
    place: Weak<tokio::sync::Mutex<Option<Made>>>,
) {
    sleep(VIEW_AGE).await;
    let Some(places) = places.upgrade() else { return };
    let mut places = places.lock();
    // A place that is locked is about to have another view.
    let is_over = |kept: &Place| {
        std::ptr::eq(Arc::as_ptr(kept), place.as_ptr())
            && kept
                .try_lock()
                .is_ok_and(|made| made.as_ref().is_none_or(|made| made.at.elapsed() >= VIEW_AGE))
    };
    if places.get(&key).is_some_and(is_over) {
        places.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::task::yield_now;

    use super::*;
    use crate::http::problem::{Code, Problem};

    #[tokio::test]
    async fn a_view_is_made_once_for_all_that_ask_meanwhile() {
        let (recent, made, key) = (RecentViews::default(), AtomicUsize::new(0), BucketKey::from("b"));
        let ask = || {
            recent.get(&key, async {
                yield_now().await;
                Ok(made.fetch_add(1, Ordering::Relaxed))
            })
        };
        let views = join_all((0..10).map(|_| ask())).await;
        assert!(views.iter().all(|view| **view.as_ref().unwrap() == 0));
        assert_eq!(*ask().await.unwrap(), 0);
        assert_eq!(*recent.get(&BucketKey::from("c"), async { Ok(7) }).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_view_that_fails_is_made_by_the_next_and_leaves_nothing_behind() {
        let (recent, key) = (RecentViews::default(), BucketKey::from("b"));
        let failed = || recent.get::<i32>(&key, async { Err(Problem::new(Code::Overloaded, "")) });
        assert!(join_all([failed(), failed()]).await.iter().all(Result::is_err));
        assert!(recent.0.lock().is_empty());
        assert_eq!(*recent.get(&key, async { Ok(1) }).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_is_kept_no_longer_than_it_is_shown() {
        let (recent, key) = (RecentViews::default(), BucketKey::from("b"));
        let view = Arc::downgrade(&recent.get(&key, async { Ok(1) }).await.unwrap());
        assert!(view.upgrade().is_some());
        sleep(2 * VIEW_AGE).await;
        assert!(view.upgrade().is_none() && recent.0.lock().is_empty());
    }
}
