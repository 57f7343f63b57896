//! What happens in a bucket, as a stream and as history, over real sockets of real processes.

mod history;
mod refusals;
pub(crate) mod stream;
mod streams;
