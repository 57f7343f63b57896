//! An answer that is remembered.

use std::fmt;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};

/// The digest that distinguishes keys, and requests with the same key.
pub(crate) type RequestDigest = [u8; 32];

/// The digest of all parts and their lengths.
pub(crate) fn digest(parts: &[&[u8]]) -> RequestDigest {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// An answer that can be given again.
pub(crate) struct StoredAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Without the body, in which the secret of an owner or a claim may be.
impl fmt::Debug for StoredAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The approximate bytes of an answer beside its body: its entries in the store, and its headers.
pub(super) const ANSWER_BYTES: usize = 1024;

impl StoredAnswer {
    /// The bytes of the remembered answer.
    pub(super) fn bytes(&self) -> usize {
        ANSWER_BYTES + self.body.len()
    }
}
