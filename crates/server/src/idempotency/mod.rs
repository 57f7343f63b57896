//! What requests with an `Idempotency-Key` were answered, to be answered again when they are sent again.

mod answer;
mod ranks;
mod shelf;
mod store;

pub(crate) use self::answer::{Answer, digest};
pub(crate) use self::store::{Answers, Begin};
