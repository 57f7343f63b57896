//! What has happened in buckets that are not in use any more: the latest of them, so that their history does
//! not go with their last user.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lockhouse_store::HistoryFilter;

use crate::engine::bucket::Bucket;
use crate::engine::events::log::EventLog;
use crate::engine::events::{EventPosition, WebHistoryPage};
use crate::engine::house::House;
use crate::engine::key::BucketKey;
use crate::engine::sync::Mutex;

/// So many buckets are remembered that are not in use, and so many of each tenant.
const REMEMBERED: usize = 256;
const REMEMBERED_OF_TENANT: usize = 32;

/// The logs of buckets that are not in use.
#[derive(Debug, Default)]
pub(super) struct PastEvents(Mutex<Past>);

#[derive(Debug, Default)]
struct Past {
    logs: HashMap<BucketKey, Arc<EventLog>>,
    /// The oldest first; some may be in use again.
    order: VecDeque<BucketKey>,
}

impl PastEvents {
    /// The bucket is not in use any more.
    pub(super) fn keep(&self, key: &BucketKey, log: &Arc<EventLog>) {
        if log.is_unused() {
            return;
        }
        log.shrink();
        let mut past = self.0.lock();
        past.order.retain(|other| other != key);
        let of_tenant = past.order.iter().filter(|other| other.tenant() == key.tenant()).count();
        let goes = if of_tenant >= REMEMBERED_OF_TENANT {
            past.order.iter().position(|other| other.tenant() == key.tenant())
        } else {
            (past.order.len() >= REMEMBERED).then_some(0)
        };
        let gone = goes.and_then(|at| past.order.remove(at)).and_then(|key| past.logs.remove(&key));
        past.order.push_back(key.clone());
        let replaced = past.logs.insert(key.clone(), log.clone());
        drop(past);
        drop((gone, replaced));
    }

    /// The bucket is in use again, and goes on with what is known of it.
    pub(super) fn take(&self, key: &BucketKey) -> Option<Arc<EventLog>> {
        let mut past = self.0.lock();
        let log = past.logs.remove(key)?;
        past.order.retain(|other| other != key);
        Some(log)
    }

    fn look(&self, key: &BucketKey) -> Option<Arc<EventLog>> {
        self.0.lock().logs.get(key).cloned()
    }
}

impl House {
    /// The bucket with that key, if it is in use.
    pub fn bucket_in_use(&self, key: &BucketKey) -> Option<Bucket> {
        self.inner.in_use(key).map(Bucket)
    }

    /// The history of the web locks of a bucket, which need not be in use: what was held, waited for and
    /// refused, the latest entries first. It is in memory alone, where the house
    /// [keeps](crate::Options::events) one. `before` is the place of the last entry of the page before: no
    /// entry comes twice, and none is left out that is still there.
    ///
    /// ```
    /// use lockhouse::{BucketKey, EventBounds, House, Options};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let house = House::with_options(&Options::new().events(EventBounds::DEFAULT));
    /// let agent = house.bucket("orders").agent("worker 7")?;
    /// drop(agent.locks().request("report").await?);
    ///
    /// let page = house.web_history(&BucketKey::from("orders"), None, 10, &Default::default());
    /// let held = &page.entries[0].entry;
    /// assert_eq!((&*held.who, held.end.word()), ("worker 7", "released"));
    /// # Ok(()) }
    /// ```
    pub fn web_history(
        &self,
        bucket: &BucketKey,
        before: Option<EventPosition>,
        limit: usize,
        filter: &HistoryFilter,
    ) -> WebHistoryPage {
        let used = self.inner.in_use(bucket).and_then(|bucket| bucket.events_if_kept().cloned());
        let log = used.or_else(|| self.inner.past_events.look(bucket));
        log.map_or_else(WebHistoryPage::default, |log| log.web_history(before, limit, filter))
    }
}
