//! The queues of a bucket: who is before whom.

use lockhouse_core::{AgentId, QueueView, RequestId};
use tokio::task::yield_now;

use super::PART;
use crate::engine::bucket::Bucket;
use crate::error::StoreError;
use crate::snapshot::Holder;

impl Bucket {
    /// The names for which requests wait, with their holders and queues. O(names, and what is held or queued
    /// under those), in parts between which others use the bucket: each queue is of one moment, but two of
    /// them may be of two. What is reported of it has to be looked at again with
    /// [`standings`](Self::standings), as it need not be durable.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn queues(&self) -> Result<Vec<QueueView>, StoreError> {
        let (mut from, mut queues) = (0, Vec::new());
        while self.0.look_at(|manager| manager.queues(&mut from, PART as usize, &mut queues))? {
            yield_now().await;
        }
        Ok(queues)
    }

    /// Who holds or waits with each of these entries, and whether it still waits; none of those that have
    /// ended. All of it is of one moment, and returned once it is durable. O(entries).
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn standings(&self, entries: &[RequestId]) -> Result<Vec<Option<(Holder, bool)>>, StoreError> {
        let read = self.0.execute_read(|manager| {
            entries.iter().map(|entry| manager.standing_of(*entry)).collect::<Vec<_>>()
        });
        let wall = |at| self.wall(at);
        let found = read.await?.into_iter();
        Ok(found.map(|it| it.map(|(holder, waits)| (Holder::new(holder, &wall), waits))).collect())
    }

    /// The client id of each of these agents, how many locks it holds, and how many requests of it wait; none
    /// of those that have ended. O(agents), in parts between which others use the bucket.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn counts_of(
        &self,
        agents: &[AgentId],
    ) -> Result<Vec<Option<(String, usize, usize)>>, StoreError> {
        let mut counts = Vec::with_capacity(agents.len());
        for part in agents.chunks(PART as usize) {
            counts.extend(self.0.look_at(|manager| {
                let of = |agent: &AgentId| {
                    let (client_id, held, waiting) = manager.counts_of(*agent)?;
                    Some((client_id.to_owned(), held, waiting))
                };
                part.iter().map(of).collect::<Vec<_>>()
            })?);
            yield_now().await;
        }
        Ok(counts)
    }

    /// The client ids of these agents; none of those that have ended. O(agents), in parts between which
    /// others use the bucket.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn client_ids(&self, agents: &[AgentId]) -> Result<Vec<Option<String>>, StoreError> {
        let mut client_ids = Vec::with_capacity(agents.len());
        for part in agents.chunks(PART as usize) {
            client_ids.extend(self.0.look_at(|manager| {
                let client_id = |agent: &AgentId| manager.client_id_of(*agent).map(str::to_owned);
                part.iter().map(client_id).collect::<Vec<_>>()
            })?);
            yield_now().await;
        }
        Ok(client_ids)
    }
}
