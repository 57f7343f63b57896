//! How much of the server anybody may have: what operators set, who is there, and what was refused.

mod settings;

pub use settings::{LimitOutOfRange, LimitSetting, LimitSettings, LimitValue};
