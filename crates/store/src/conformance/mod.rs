//! The promises of every store: one function each, which panics if the promise is broken.
//!
//! A test makes a [`Harness`], which opens the store under test, kills it and opens it again, and hands a new
//! one to each function. [`for_each_promise!`](crate::for_each_promise) lists them:
//!
//! ```
//! use lockhouse_store::conformance::{self, Harness};
//! use lockhouse_store::{StoreFuture, MemoryStore, Store};
//! use std::sync::Arc;
//!
//! struct Memory(MemoryStore);
//!
//! impl Harness for Memory {
//!     fn open(&self) -> StoreFuture<'_, Arc<dyn Store>> {
//!         Box::pin(async { Arc::new(self.0.reopen()) as _ })
//!     }
//!
//!     fn kill(&self, store: Arc<dyn Store>) -> StoreFuture<'_, ()> {
//!         Box::pin(async { drop(store) })
//!     }
//! }
//!
//! macro_rules! on_memory {
//!     ($($promise:ident)*) => { $(
//!         #[tokio::test]
//!         async fn $promise() {
//!             conformance::$promise(&Memory(MemoryStore::new().unwrap())).await;
//!         }
//!     )* };
//! }
//!
//! lockhouse_store::for_each_promise!(on_memory);
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! #     conformance::names_come_back_unit_by_unit(&Memory(MemoryStore::new().unwrap())).await;
//! # }
//! ```

mod batches;
mod life;
mod random;
mod sample;
mod slots;
mod state;

use std::sync::Arc;

pub use batches::{
    a_batch_ahead_of_its_turn_is_refused, a_batch_sent_again_changes_nothing,
    a_batch_without_writes_shows_whether_its_epoch_stands, a_newer_epoch_fences_what_came_before,
    a_slot_that_was_never_taken_is_fenced, another_writer_of_the_same_epoch_is_fenced,
    batches_of_one_call_are_committed_in_their_order, batches_stand_or_fall_alone,
};
pub use random::{claims_and_their_ends_amount_to_what_they_say, random_histories_amount_to_what_they_say};
pub use slots::{
    a_clean_stop_ends_its_epoch, a_closed_store_answers_nothing_more,
    a_dropped_take_leaves_the_slot_to_others, a_new_store_is_clean_and_empty,
    a_stop_without_a_list_ends_its_epoch, every_take_has_a_higher_epoch_and_the_same_key,
    only_what_was_announced_since_the_last_recovery_recovers,
    the_longest_lease_counts_until_a_recovery_is_completed,
    the_mark_of_a_clean_stop_is_erased_before_any_announcement, what_was_held_at_a_stop_comes_back_once,
};
pub use state::{
    a_hundred_thousand_locks_come_back, a_refusal_is_an_entry_of_the_history_and_makes_no_bucket,
    each_change_does_what_it_says, marks_are_kept_where_they_were_put, names_come_back_unit_by_unit,
    numbers_come_back_up_to_their_bounds, state_comes_back_in_an_order_that_rebuilds_it,
    the_mark_of_a_dropped_bucket_passes_to_its_tenant, void_locks_come_back_until_they_are_swept,
    what_was_committed_is_there_after_a_kill,
};

use crate::{Store, StoreFuture};

/// The way in which a test opens the store under test.
pub trait Harness: Send + Sync {
    /// Opens the store: an empty one at first, then always the same. The store is not open when this is
    /// called.
    fn open(&self) -> StoreFuture<'_, Arc<dyn Store>>;

    /// Ends the store as if its process were killed: without `close`, and as soon as possible. No call is
    /// under way.
    fn kill(&self, store: Arc<dyn Store>) -> StoreFuture<'_, ()>;
}

/// Calls the macro `$with` with the names of all promises.
#[macro_export]
macro_rules! for_each_promise {
    ($with:ident) => {
        $with! {
            a_new_store_is_clean_and_empty
            every_take_has_a_higher_epoch_and_the_same_key
            a_clean_stop_ends_its_epoch
            what_was_held_at_a_stop_comes_back_once
            the_mark_of_a_clean_stop_is_erased_before_any_announcement
            only_what_was_announced_since_the_last_recovery_recovers
            the_longest_lease_counts_until_a_recovery_is_completed
            a_dropped_take_leaves_the_slot_to_others
            a_closed_store_answers_nothing_more
            batches_stand_or_fall_alone
            batches_of_one_call_are_committed_in_their_order
            a_batch_sent_again_changes_nothing
            a_batch_ahead_of_its_turn_is_refused
            a_batch_without_writes_shows_whether_its_epoch_stands
            a_newer_epoch_fences_what_came_before
            another_writer_of_the_same_epoch_is_fenced
            a_slot_that_was_never_taken_is_fenced
            what_was_committed_is_there_after_a_kill
            each_change_does_what_it_says
            void_locks_come_back_until_they_are_swept
            state_comes_back_in_an_order_that_rebuilds_it
            the_mark_of_a_dropped_bucket_passes_to_its_tenant
            marks_are_kept_where_they_were_put
            names_come_back_unit_by_unit
            numbers_come_back_up_to_their_bounds
            a_hundred_thousand_locks_come_back
            a_refusal_is_an_entry_of_the_history_and_makes_no_bucket
            claims_and_their_ends_amount_to_what_they_say
            random_histories_amount_to_what_they_say
        }
    };
}
