//! Every bound of the lock manager, in one place.

use crate::{Name, Refusal};

/// The most bytes of a client id, the label of an agent. The callers of the manager check it.
pub const CLIENT_ID_BYTES: usize = 256;

/// The bounds of one lock manager. A command that exceeds a bound is refused, with a [`Refusal`] of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of a resource name in 16-bit units.
    pub name_units: usize,
    /// Requests and locks of one agent together.
    pub requests_per_agent: u32,
    /// Requests, locks and claims together.
    pub entries: u32,
    /// Names with something held or queued.
    pub names: u32,
    /// Agents alive at once.
    pub agents: u32,
    /// Length of the metadata of one request, lock, claim or owner, in bytes.
    pub metadata_bytes: usize,
    /// Owners alive at once.
    pub owners: u32,
    /// Offline locks of one owner.
    pub locks_per_owner: u32,
    /// Locks in one command, so that its changes fit into one transaction of the smallest store.
    pub locks_per_command: usize,
    /// Locks of an owner that end in one step. More of them become [void](crate::Change::LocksVoided), and
    /// end one by one.
    pub locks_ended_at_once: usize,
    /// Length of the label of an owner or a claimant, in bytes.
    pub label_bytes: usize,
    /// The shortest and the longest TTL of an owner or a claim, in milliseconds. No claim is renewed beyond
    /// the longest after its beginning.
    pub ttl_ms: (u64, u64),
    /// Claims and assignments together, so that a claim can always become final.
    pub assignments: u32,
}

impl Limits {
    /// The bounds used unless others are given.
    pub const DEFAULT: Self = Self {
        name_units: 4096,
        requests_per_agent: 10_000_000,
        entries: 100_000_000,
        names: 50_000_000,
        agents: 1_000_000,
        metadata_bytes: 1024,
        owners: 1_000_000,
        locks_per_owner: 100_000,
        locks_per_command: 60,
        locks_ended_at_once: 60,
        label_bytes: 256,
        ttl_ms: (1, 30 * 24 * 60 * 60 * 1_000),
        assignments: 50_000_000,
    };
}

impl Limits {
    /// Whether the name is short enough.
    ///
    /// # Errors
    ///
    /// The refusal that names the bound.
    #[inline]
    pub fn check_name(&self, name: Name<'_>) -> Result<(), Refusal> {
        // A unit takes at least one byte, so that short names need not be counted.
        if name.as_wtf8().len() > self.name_units {
            let units = name.unit_count();
            if units > self.name_units {
                return Err(Refusal::NameTooLong { units, limit: self.name_units });
            }
        }
        Ok(())
    }

    /// Whether the metadata is short enough.
    ///
    /// # Errors
    ///
    /// The refusal that names the bound.
    #[inline]
    pub fn check_metadata(&self, metadata: Option<&str>) -> Result<(), Refusal> {
        let bytes = metadata.map_or(0, str::len);
        if bytes > self.metadata_bytes {
            return Err(Refusal::MetadataTooLong { bytes, limit: self.metadata_bytes });
        }
        Ok(())
    }

    /// Whether the label is short enough.
    ///
    /// # Errors
    ///
    /// The refusal that names the bound.
    pub fn check_label(&self, label: &str) -> Result<(), Refusal> {
        let bytes = label.len();
        if bytes > self.label_bytes {
            return Err(Refusal::LabelTooLong { bytes, limit: self.label_bytes });
        }
        Ok(())
    }

    /// Whether the TTL is within its bounds.
    ///
    /// # Errors
    ///
    /// The refusal that names the bound.
    pub fn check_ttl(&self, ttl_ms: u64) -> Result<(), Refusal> {
        let (least, most) = self.ttl_ms;
        if (least..=most).contains(&ttl_ms) {
            return Ok(());
        }
        Err(Refusal::TtlOutOfBounds { ttl_ms, least, most })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_lasts_from_a_millisecond_to_thirty_days() {
        let limits = Limits::DEFAULT;
        assert_eq!([1, 2_592_000_000].map(|ttl_ms| limits.check_ttl(ttl_ms)), [Ok(()), Ok(())]);
        assert!([0, 2_592_000_001].iter().all(|ttl_ms| limits.check_ttl(*ttl_ms).is_err()));
    }
}
