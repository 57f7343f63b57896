//! A bucket in a few figures.

use std::time::{Duration, SystemTime};

use lockhouse_core::{ContendedName, Discipline, Gauges, NameBuf, Survey, Totals};
use tokio::task::yield_now;

use super::PART;
use crate::engine::bucket::Bucket;
use crate::error::StoreError;
use crate::snapshot::LockInfo;

/// A bucket in a few figures.
#[derive(Clone, Debug)]
pub struct Overview {
    /// When.
    pub at: SystemTime,
    /// How many locks and claims are held, by [`Discipline`].
    pub held: [usize; Discipline::ALL.len()],
    /// How many requests wait.
    pub waiting: usize,
    /// How many assignments stand.
    pub assigned: usize,
    /// How many agents there are and sessions, owners, and claims, by [`Discipline`].
    pub parties: [usize; Discipline::ALL.len()],
    /// The request that waits for longest.
    pub longest_wait: Option<LockInfo>,
    /// The lock or claim that is held for longest.
    pub oldest: Option<LockInfo>,
    /// The names with the longest queues, at most ten, the longest first.
    pub contended: Vec<Contended>,
    /// What has happened, and since when that is counted: since the bucket was put to use in this process.
    /// None where nothing is counted, as the house has no [`Meters`](crate::Meters).
    pub totals: Option<(SystemTime, Totals)>,
}

/// A name for which requests wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contended {
    /// The name.
    pub name: NameBuf,
    /// How many requests wait.
    pub waiting: u32,
    /// How many locks and claims hold it.
    pub held: usize,
    /// For how long the first of the queue waits.
    pub longest_wait: Duration,
}

impl Bucket {
    /// The bucket in a few figures. O(requests and locks), in parts between which others use the bucket: the
    /// figures are of one moment, but of a large bucket what is named one by one was there at some moment of
    /// the pass.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let bucket = lockhouse::House::new().bucket("jobs");
    /// let agent = bucket.agent("worker 7")?;
    /// let _lock = agent.locks().request("report").await?;
    /// let overview = bucket.overview().await?;
    /// assert_eq!((overview.held[0], overview.waiting), (1, 0));
    /// assert_eq!(overview.oldest.unwrap().client_id, "worker 7");
    /// # Ok(()) }
    /// ```
    pub async fn overview(&self) -> Result<Overview, StoreError> {
        let mut survey = Survey::default();
        while self.0.look_at(|manager| manager.survey(&mut survey, PART))? {
            yield_now().await;
        }
        let now = self.now();
        // Those who look at events have counts as a by-product, of another time.
        let is_counted = self.0.metered().is_some();
        let read = self.0.execute_read(|manager| {
            let totals = manager.totals().filter(|_| is_counted).copied();
            (manager.end_survey(survey), manager.gauges(), totals, manager.assignments().len())
        });
        let (surveyed, gauges, totals, assigned) = read.await?;
        let Gauges { held, waiting, parties, .. } = gauges;
        let wall = |at| self.wall(at);
        let contended = |it: ContendedName| Contended {
            name: it.name,
            waiting: it.waiting,
            held: it.held,
            longest_wait: Duration::from_millis(now.as_millis().saturating_sub(it.since.as_millis())),
        };
        Ok(Overview {
            at: self.wall(now),
            held,
            waiting,
            assigned,
            parties,
            longest_wait: surveyed.longest_wait.map(|entry| LockInfo::new(entry, &wall)),
            oldest: surveyed.oldest.map(|entry| LockInfo::new(entry, &wall)),
            contended: surveyed.contended.into_iter().map(contended).collect(),
            totals: totals.map(|totals| (self.wall(self.0.began()), totals)),
        })
    }
}
