//! The secret that the nodes of a fleet share.

use std::fmt;
use std::fs;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The least and the most bytes of a secret.
const BYTES: std::ops::RangeInclusive<usize> = 32..=4096;

/// The secret that the nodes of a fleet share. It is never sent.
#[derive(Clone)]
pub(crate) struct ClusterSecret(Hmac<Sha256>);

impl ClusterSecret {
    /// Reads it from a file; space around it does not count.
    ///
    /// # Errors
    ///
    /// The fault, as a sentence that names the setting.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = fs::read(path).map_err(|error| {
            format!(
                "cluster.secret_file: {shown} cannot be read ({error}); name a file that the server may read"
            )
        })?;
        let secret = text.trim_ascii();
        if !BYTES.contains(&secret.len()) {
            return Err(format!(
                "cluster.secret_file: {shown} has {} bytes, but must have from {} to {}; openssl rand -hex 32 makes a secret",
                secret.len(),
                BYTES.start(),
                BYTES.end()
            ));
        }
        Ok(Self::new(secret))
    }

    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(Hmac::new_from_slice(secret).expect("HMAC takes keys of any length"))
    }

    /// A hash that says nothing of the secret but whether another one is the same.
    pub(crate) fn mark(&self) -> [u8; 32] {
        self.over(&[b"mark"]).finalize().into_bytes().into()
    }

    /// The proof that the sender of these parts has the secret.
    pub(super) fn prove(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.over(parts).finalize().into_bytes().into()
    }

    /// Whether that is the proof, in constant time.
    pub(super) fn is_proven(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.over(parts).verify_slice(proof).is_ok()
    }

    /// Each part stands behind its length, so that no two lists are hashed alike.
    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hash = self.0.clone();
        for part in parts {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(..)")
    }
}
