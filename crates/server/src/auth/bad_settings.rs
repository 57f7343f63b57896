//! Faults of the section `[auth]`.

/// Settings that make no sense, reported in one line that names the member, the value and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadSettings {
    /// The member, such as `auth.keys[0].hash`.
    pub field: String,
    /// The fault.
    pub why: String,
}
