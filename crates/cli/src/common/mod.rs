//! Parts that several commands need.

pub(super) mod api;
pub(super) mod duration;
pub(super) mod options;
pub(super) mod postgres;
pub(super) mod print;
pub(super) mod secret_file;
pub(super) mod target;
