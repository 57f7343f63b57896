//! Problems: every answer that is no success, as RFC 9457 wants it.

mod answer;
mod code;
mod errors;
mod explain;

pub(crate) use self::answer::{MEDIA_TYPE, Problem, advise_with_key, is_refusal_of_all, write_problem};
pub(crate) use self::code::Code;
pub(crate) use self::explain::explain;
