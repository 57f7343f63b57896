//! Every bound of the lock manager, in one place.

/// How much one lock manager takes on. What exceeds a bound is refused, by a [`Refusal`](crate::Refusal) of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of a resource name in 16-bit units.
    pub name_units: usize,
    /// Requests and locks of one agent together.
    pub requests_per_agent: u32,
    /// Names with something held or queued.
    pub names: u32,
    /// Agents alive at once.
    pub agents: u32,
    /// Length of the metadata of one request, in bytes.
    pub metadata_bytes: usize,
}

impl Limits {
    /// The bounds used unless others are given.
    pub const DEFAULT: Self = Self {
        name_units: 4096,
        requests_per_agent: 10_000_000,
        names: 50_000_000,
        agents: 1_000_000,
        metadata_bytes: 1024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
