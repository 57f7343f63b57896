//! Reading a request.

pub(crate) mod asker;
pub(crate) mod body;
pub(crate) mod constraints;
pub(crate) mod decode;
pub(crate) mod headers;
pub(crate) mod parameters;
pub(crate) mod path;
pub(crate) mod request_id;
pub(crate) mod schema;
