//! Claims and assignments, as all clients may see them.

use std::time::SystemTime;

use lockhouse_core::{FencingToken, NameBuf};

/// A current claim, as all clients may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimInfo {
    /// The resource name.
    pub resource: NameBuf,
    /// The claimant.
    pub claimant: String,
    /// The fencing token.
    pub fencing_token: FencingToken,
    /// When it began.
    pub since: SystemTime,
    /// When it ends unless it is renewed.
    pub expires_at: SystemTime,
    /// The metadata of the claim.
    pub metadata: Option<String>,
}

/// A claim made final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The resource name.
    pub resource: NameBuf,
    /// To whom it belongs.
    pub claimant: String,
    /// The fencing token of the claim.
    pub fencing_token: FencingToken,
    /// When it became final.
    pub since: SystemTime,
}
