//! Queries and watches: snapshots of what is held and pending, sent once or after each change.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::core::{Command, LockState, Snapshot, SnapshotEntry as CoreEntry};
use lockhouse::{Bucket, MemoryReservation, StoreState};
use lockhouse_wire::{EntryDetail, EntryPlace, EntryView, ErrorCode, FrameProblem, SnapshotQuery, pages};
use tokio::time::Instant;

use super::state::Session;
use super::verdict::{PendingCall, UNAWAITED, Verdict};
use super::watches::matching;
use crate::bounds::{OUTBOX_HIGH_WATER_BYTES, WAITING_ANSWERS, WATCH_GATHERING, WATCHES_PER_SESSION};
use crate::limits::{QUOTA, block_in_place_if_large, price_of_query, price_of_text};
use crate::settings::Permission;

impl Session {
    pub(super) fn query(&mut self, look: SnapshotQuery) -> Verdict {
        let refused = self.new_id(look.id).or_else(|| self.denied(look.id, Permission::Query, None));
        if let Some(verdict) = refused {
            return verdict;
        }
        if self.asked.len() + self.table.undecided_count() >= WAITING_ANSWERS {
            return self.too_many_waiting(look.id);
        }
        if let Some(name) = &look.name {
            self.port.name_comes_up(name.as_name());
        }
        match self.reserve_for_query() {
            Some(memory) => self.take_snapshot(memory.clone(), PendingCall::Query(look, memory)),
            None => self.too_many_queries(look.id),
        }
    }

    pub(super) fn too_many_queries(&mut self, id: u64) -> Verdict {
        let problem = FrameProblem::with_message(
            "the looks of the tenant at its buckets that are under way take all the memory that they may: ask again later",
        );
        self.not_now(Some(id), ErrorCode::QuotaExceeded, problem, QUOTA)
    }

    pub(super) fn has_questions(&self) -> bool {
        self.asked.has_questions()
    }

    /// The answers rest on changes that the store cannot make durable at the moment: no client is left
    /// waiting for that.
    pub(super) fn answer_questions(&mut self, state: &StoreState) -> Verdict {
        let StoreState::Unavailable { why, retry_after } = state else { return Verdict::Stop };
        for id in self.asked.answer_questions() {
            self.unavailable_now(id, why, *retry_after);
        }
        Verdict::GoOn
    }

    pub(super) fn has_undecided(&self) -> bool {
        self.table.undecided_count() > 0
    }

    /// As [`answer_questions`](Self::answer_questions), of the requests whose grants or refusals wait for the
    /// store. Each is taken back: later notices of it find no request, and the client gets none of them.
    pub(super) fn answer_undecided(&mut self, state: &StoreState) -> Verdict {
        let StoreState::Unavailable { why, retry_after } = state else { return Verdict::Stop };
        while let Some((id, request)) = self.table.remove_undecided() {
            self.unavailable_now(id, why, *retry_after);
            // The one is without effect if it is granted, and the other if it is not.
            self.port.submit(UNAWAITED, Command::Abort { request });
            self.port.submit(UNAWAITED, Command::Release { request });
        }
        self.take_notices()
    }

    fn unavailable_now(&mut self, id: u64, why: &str, retry_after: Duration) {
        let message = format!("nothing can be told as kept at the moment: {why}");
        self.not_now(Some(id), ErrorCode::Unavailable, FrameProblem::with_message(message), retry_after);
    }

    pub(super) fn watch(&mut self, look: SnapshotQuery) -> Verdict {
        let refused = self.new_id(look.id).or_else(|| self.denied(look.id, Permission::Query, None));
        if let Some(verdict) = refused {
            return verdict;
        }
        if self.watches.len() >= WATCHES_PER_SESSION {
            let rule = format!("one of at most {WATCHES_PER_SESSION} watches of a connection at once");
            return self.error(Some(look.id), ErrorCode::QuotaExceeded, FrameProblem::with_field("id", rule));
        }
        if let Some(name) = &look.name {
            self.port.name_comes_up(name.as_name());
        }
        let bucket = self.port.bucket().clone();
        self.watches.add(look, || bucket.changed());
        self.look_for_watches()
    }

    pub(super) fn reserve_for_query(&self) -> Option<Arc<MemoryReservation>> {
        let bucket = self.port.bucket();
        self.state.limiter.reserve_for_query(bucket.key().tenant(), bucket.bytes_of_snapshot())
    }

    /// Takes a snapshot of the whole bucket, in that memory.
    pub(super) fn take_snapshot(&mut self, memory: Arc<MemoryReservation>, asked: PendingCall) -> Verdict {
        let entries = self.port.bucket().len();
        self.pacing.has_done(price_of_query(entries));
        let tag = self.asked.add(asked);
        block_in_place_if_large(entries, || {
            self.port.look(tag, memory);
            self.take_notices()
        })
    }

    /// The bucket has changed since the last snapshots of the watches.
    pub(super) fn look_again(&mut self) -> Verdict {
        self.watches.overdue = self.outbound.queue.bytes() > OUTBOX_HIGH_WATER_BYTES;
        if self.watches.overdue {
            // A client that takes nothing gets the latest state once it reads again: before its next frame is
            // carried out, if there is one, and in any case soon.
            self.watches.due = Some(Instant::now() + WATCH_GATHERING);
            return Verdict::GoOn;
        }
        self.watches.due = None;
        self.look_for_watches()
    }

    /// Takes a snapshot for all watches, or in a while if there is no memory for it now. While one waits for
    /// the store no other is taken before it has come.
    pub(super) fn look_for_watches(&mut self) -> Verdict {
        if self.asked.has_watches() {
            self.watches.outdated = true;
            return Verdict::GoOn;
        }
        match self.reserve_for_query() {
            Some(memory) => self.take_snapshot(memory.clone(), PendingCall::Watches(self.highest_id, memory)),
            None => {
                self.look_later();
                Verdict::GoOn
            }
        }
    }

    /// There is no memory for a snapshot of the watches now.
    pub(super) fn look_later(&mut self) {
        self.watches.due = Some(Instant::now() + WATCH_GATHERING);
    }

    /// Shows the snapshot to all watches that were there when it was taken.
    pub(super) fn show_watches(&mut self, last: u64, snapshot: &Snapshot) {
        if std::mem::take(&mut self.watches.outdated) {
            self.look_later();
        }
        for id in self.watches.ids().into_iter().filter(|id| *id <= last) {
            let Some(look) = self.watches.query_if_changed(id, snapshot) else { continue };
            if self.show(&look, snapshot) {
                self.watches.remember(id, snapshot);
            } else {
                self.watches.remove(id);
            }
        }
    }

    /// Sends the matching entries, if there is memory for them; otherwise an error.
    pub(super) fn show(&mut self, look: &SnapshotQuery, snapshot: &Snapshot) -> bool {
        let bucket = self.port.bucket().clone();
        let (held, pending) = (views(&bucket, look, &snapshot.held), views(&bucket, look, &snapshot.pending));
        let (mut texts, mut bytes, mut fits) = (Vec::new(), 0, true);
        for page in pages(look.id, held, pending) {
            bytes += page.len();
            fits = self.reserve_unread(bytes);
            if !fits {
                break;
            }
            texts.push(page);
        }
        self.pacing.has_done(price_of_text(bytes));
        if !fits {
            // The memory for what has been written is free again.
            self.unread.settle(self.counted());
            let problem = FrameProblem::with_message(
                "the answer has no room in memory beside what the sessions of the tenant have not taken yet: ask again later, or for one name",
            );
            self.not_now(Some(look.id), ErrorCode::QuotaExceeded, problem, QUOTA);
            return false;
        }
        texts.into_iter().for_each(|text| self.outbound.push_unnumbered(text));
        true
    }
}

fn views<'e>(
    bucket: &'e Bucket,
    look: &'e SnapshotQuery,
    list: &'e [CoreEntry],
) -> impl Iterator<Item = EntryView<'e>> {
    matching(look, list).map(|entry| view(bucket, look.detail, entry))
}

fn view<'e>(bucket: &Bucket, detail: bool, entry: &'e CoreEntry) -> EntryView<'e> {
    let place = match entry.state {
        LockState::Held(token) => EntryPlace::Held(token),
        LockState::Pending { place } => EntryPlace::Queued(u64::from(place)),
    };
    let detail = detail.then(|| EntryDetail {
        place,
        kind: entry.party.into(),
        since: bucket.wall(entry.since),
        expires_at: entry.expires.map(|at| bucket.wall(at)),
        metadata: entry.metadata.as_deref().map(Into::into),
    });
    EntryView { client_id: entry.label.as_str().into(), mode: entry.mode, name: entry.name.clone(), detail }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use tokio::time::Instant;

    use super::super::tests::session;
    use super::*;
    use crate::Config;
    use crate::state::AppState;

    /// The answer of the session to the frame.
    fn answer(session: &mut Session, frame: &str) -> Vec<String> {
        assert!(matches!(session.frame(frame), Verdict::GoOn));
        written(session)
    }

    fn written(session: &mut Session) -> Vec<String> {
        std::iter::from_fn(|| session.outbound.queue.pop()).map(|text| text.as_str().to_owned()).collect()
    }

    #[tokio::test]
    async fn without_memory_a_query_is_refused_and_a_watch_waits() {
        let state = AppState::empty(Config::default());
        let mut session = session(&state, state.phases()).await;
        session.outbound.resume(0).unwrap();
        let key = session.port.bucket().key().clone();
        let agent = session.port.bucket().agent("holder").unwrap();
        let held = agent.locks().request("held").await.unwrap();
        // The copies of others take all that the tenant may have for them.
        let mut others = state.limiter.query_budget.of(key.tenant());
        others.reserve(state.limiter.settings().table_bytes()).unwrap();

        let refused = answer(&mut session, r#"{"type":"query","id":1}"#).concat();
        assert!(refused.contains(r#""code":"quota_exceeded""#), "{refused}");
        assert!(refused.contains(r#""retryAfterMs":1000"#), "{refused}");
        assert_eq!(answer(&mut session, r#"{"type":"watch","id":2}"#), [""; 0], "it waits for memory");
        assert!(session.asked.is_empty(), "nothing was copied");
        session.watches.due(Instant::now()).await;
        session.look_again();
        assert_eq!(written(&mut session), [""; 0]);

        drop(others);
        session.watches.due(Instant::now()).await;
        session.look_again();
        let shown = written(&mut session).concat();
        assert!(shown.contains(r#""type":"snapshot","id":2"#) && shown.contains("held"), "{shown}");
        assert!(answer(&mut session, r#"{"type":"query","id":3}"#).concat().contains(r#""id":3"#));
        assert_eq!(state.limiter.query_budget.taken(key.tenant()), 0, "the memory goes with the copy");
        drop(held);
    }
}
