//! The events of a bucket, as a stream of server-sent events.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>

pub(crate) mod bodies;
pub(crate) mod routes;
pub(crate) mod stream;
