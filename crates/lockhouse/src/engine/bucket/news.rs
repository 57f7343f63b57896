//! What a house has to know of a bucket.

/// What the house has to know of a bucket.
#[derive(Debug)]
pub(crate) enum News {
    Recovered,
    /// There is something now that the bucket must not be forgotten for, or nothing any more.
    NeedChanged,
}
