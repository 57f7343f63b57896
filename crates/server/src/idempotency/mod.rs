//! The answers to requests with an `Idempotency-Key`, given again when the requests are sent again.

mod answer;
mod bucket_answers;
mod store;
mod usage_index;

pub(crate) use self::answer::{StoredAnswer, digest};
pub(crate) use self::store::{Begin, IdempotencyStore};
