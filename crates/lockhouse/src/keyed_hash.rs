//! Hashes under the store's key: without the key no hash can be made up.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HMAC-SHA-256 over lists of parts, begun with the key.
#[derive(Clone)]
pub(crate) struct KeyedHash(Hmac<Sha256>);

impl KeyedHash {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// The first bytes of the hash of these parts, at most 32. Each part stands behind its length, so that no
    /// two lists are hashed alike.
    pub(crate) fn of<'a, const N: usize>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; N] {
        const { assert!(N <= 32, "the hash has 32 bytes") }
        let mut hash = self.0.clone();
        for part in parts {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hash = hash.finalize().into_bytes();
        *hash.first_chunk().expect("asserted above")
    }
}

impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHash(..)")
    }
}
