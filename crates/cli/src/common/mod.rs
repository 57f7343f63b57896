//! Parts that several commands need.

pub mod api;
pub(crate) mod duration;
pub mod print;
pub mod secret_file;
pub mod shape;
pub mod target;
