//! API keys: 256 random bits, of which the settings have a hash only.
//!
//! A key is random enough that a plain hash of it can be public.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::settings::secret::KEY_PREFIX;

/// The prefix of a hash in the settings.
const HASH: &str = "sha256:";

/// The hash of an API key, or of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash([u8; 32]);

/// An API key that was just made, to be shown once.
pub struct NewKey {
    /// The key.
    pub text: String,
    /// The hash of the key, for the settings.
    pub hash: String,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl NewKey {
    /// Draws a key with that id; none if it is no id.
    ///
    /// # Panics
    ///
    /// If the operating system has no random numbers.
    pub fn draw(id: &str) -> Option<Self> {
        is_id(id).then(|| {
            let text = format!("{KEY_PREFIX}{id}_{}", crate::random::random_hex::<32>());
            let hash = KeyHash::of(&text).to_text();
            Self { text, hash }
        })
    }
}

impl KeyHash {
    pub(super) fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Reads the hash in the settings.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let hex = text
            .strip_prefix(HASH)
            .filter(|hex| hex.len() == 64 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Whether this is the hash of that key; takes the same time whatever the answer.
    pub(super) fn fits(&self, key: &str) -> bool {
        self.0.ct_eq(&Self::of(key).0).into()
    }

    pub(super) fn to_text(self) -> String {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{HASH}{hex}")
    }
}

/// The id in the text of a key; none if the text is no key.
pub fn key_id(text: &str) -> Option<&str> {
    let (id, secret) = text.strip_prefix(KEY_PREFIX)?.split_once('_')?;
    let is_secret = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
    (is_secret && is_id(id)).then_some(id)
}

/// Whether the text is that of an API key, and not of a token.
pub(super) fn is_key(text: &str) -> bool {
    text.starts_with(KEY_PREFIX)
}

/// The rule of ids.
pub(super) const ID_RULE: &str = "1 to 64 of a-z, 0-9 and -";

/// Whether it can be the id of a key or of an issuer.
pub(super) fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_fits_its_own_hash_and_no_other() {
        let [one, other] = [(); 2].map(|()| NewKey::draw("ci-2").unwrap());
        let hash = KeyHash::parse(&one.hash).unwrap();
        assert!(hash.fits(&one.text) && !hash.fits(&other.text));
        for text in ["lhk__0123", "lhk_ci-2_", "lhk_ci-2_01 23", "lhk_ci-2_0123\n45", "lhk_CI_0123"] {
            assert_eq!(key_id(text), None, "{text:?}");
        }
        assert_eq!((key_id(&one.text), one.text.len()), (Some("ci-2"), "lhk_ci-2_".len() + 64));
        assert!(!format!("{one:?}").contains(&one.text));
    }

    /// FIPS 180-4, the example of one block.
    #[test]
    fn the_hash_is_sha_256() {
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(KeyHash::parse(abc).unwrap().fits("abc"));
        for bad in
            ["", "sha256:", "ba78", &abc[..70], &abc.replace("ba", "zz"), &abc.replace("sha256", "md5")]
        {
            assert_eq!(KeyHash::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_id_is_short_and_plain() {
        assert!(is_id("a-1") && is_id(&"a".repeat(64)));
        for bad in ["", "A", "a_b", "a b", "ä", &"a".repeat(65)] {
            assert!(!is_id(bad) && NewKey::draw(bad).is_none(), "{bad}");
        }
    }
}
