//! The bounds of the lock tables and of a session that follow from what operators set.

use lockhouse::{EventBounds, Limits, MemoryBudget, Meters, Options};
use lockhouse_wire::{FRAME_BYTES, WireLimits};

use crate::bounds::{REQUESTS_PER_AGENT, WINDOW_BYTES};
use crate::settings::HistorySettings;
use crate::settings::sections::limits::LimitSettings;

/// The bounds of each bucket, unless operators set others; those of lengths they cannot set.
pub(crate) const BUCKET_LIMITS: Limits = bucket_limits(&LimitSettings::DEFAULT);

/// The bounds of each bucket.
pub(crate) const fn bucket_limits(settings: &LimitSettings) -> Limits {
    Limits {
        requests_per_agent: REQUESTS_PER_AGENT,
        entries: settings.requests_per_bucket,
        names: settings.names_per_bucket,
        agents: settings.agents_per_bucket,
        owners: settings.owners_per_bucket,
        locks_per_owner: settings.locks_per_owner,
        assignments: settings.assignments_per_bucket,
        ..Limits::DEFAULT
    }
}

/// The options of a house with those bounds, which shares the memory with others that have the same budget,
/// is counted together with those that have the same meters, and keeps what happens if `history` says so.
pub(crate) fn house_options(
    settings: &LimitSettings,
    budget: &MemoryBudget,
    meters: Option<&Meters>,
    history: &HistorySettings,
) -> Options {
    let mut options =
        Options::new().limits(bucket_limits(settings)).block_in_place(true).memory_budget(budget);
    if let Some(meters) = meters {
        options = options.meters(meters);
    }
    if history.enabled { options.events(EventBounds::DEFAULT) } else { options }
}

/// The limits that `welcome` announces.
pub(crate) fn wire_limits(settings: &LimitSettings) -> WireLimits {
    WireLimits {
        frame_bytes: FRAME_BYTES as u64,
        name_units: BUCKET_LIMITS.name_units as u64,
        metadata_bytes: BUCKET_LIMITS.metadata_bytes as u64,
        agents: settings.agents_per_session.into(),
        requests_per_agent: settings.requests_per_session.into(),
        window_bytes: WINDOW_BYTES as u64,
    }
}
