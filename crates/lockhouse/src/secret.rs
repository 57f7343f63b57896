//! Secrets: the proof of the holder of a claim, or of an owner.
//!
//! A secret is a keyed hash of public data and of a random number that is stored with them; the key is the
//! store's. So the secret can be returned again and checked without ever being stored.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use lockhouse_core::{FencingToken, Name, OwnerId, SecretSeed};
use lockhouse_store::Scope;
use subtle::ConstantTimeEq;

use crate::error::StoreError;
use crate::keyed_hash::KeyedHash;

/// How many bytes of the hash are shown: 160 bits.
const BYTES: usize = 20;

/// The secret of an owner or the token of a claim. A client that has it may act as its holder.
///
/// Secrets are compared in constant time, and neither `Debug` nor any error shows them:
/// [`reveal`](Self::reveal) does, to hand one over.
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

/// The text is no secret of lockhouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token: {} hexadecimal digits are expected", 2 * BYTES)]
pub struct MalformedSecret;

impl Secret {
    /// As text, to be sent to its holder: hexadecimal digits.
    pub fn reveal(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// Of an owner.
    pub(crate) fn of_owner(key: &KeyedHash, scope: &Scope, owner: OwnerId, seed: SecretSeed) -> Self {
        derive(key, "owner", scope, &[&owner.get().to_be_bytes(), &seed.0.to_be_bytes()])
    }

    /// Of a claim, current or made final.
    pub(crate) fn of_claim(
        key: &KeyedHash,
        scope: &Scope,
        name: Name<'_>,
        token: FencingToken,
        seed: SecretSeed,
    ) -> Self {
        derive(key, "claim", scope, &[name.as_wtf8(), &token.get().to_be_bytes(), &seed.0.to_be_bytes()])
    }
}

/// The seed of a claim that is asked for with this idempotency key: the same each time.
pub(crate) fn seed_of(
    key: &KeyedHash,
    scope: &Scope,
    name: Name<'_>,
    claimant: &str,
    idempotency_key: &str,
) -> SecretSeed {
    let parts = [name.as_wtf8(), claimant.as_bytes(), idempotency_key.as_bytes()];
    first_of(&derive(key, "idempotency", scope, &parts))
}

/// The seed of an owner that is opened with this idempotency key, by that caller where callers have keys of
/// their own: the same each time.
pub(crate) fn seed_of_owner(
    key: &KeyedHash,
    scope: &Scope,
    caller: Option<&str>,
    idempotency_key: &str,
) -> SecretSeed {
    let parts: &[&[u8]] = match caller {
        None => &[idempotency_key.as_bytes()],
        Some(caller) => &[idempotency_key.as_bytes(), caller.as_bytes()],
    };
    first_of(&derive(key, "idempotency of owners", scope, parts))
}

fn first_of(Secret(bytes): &Secret) -> SecretSeed {
    let (number, _) = bytes.split_first_chunk().expect("20 bytes have 8 in front");
    SecretSeed(u64::from_be_bytes(*number))
}

/// A seed that cannot be guessed.
pub(crate) fn random_seed() -> Result<SecretSeed, StoreError> {
    getrandom::u64().map(SecretSeed).map_err(|error| no_randomness(&error))
}

/// The system gives no random numbers, so that no new owner or claim can begin.
pub(crate) fn no_randomness(error: &getrandom::Error) -> StoreError {
    StoreError::Failed(format!("the system gives no random numbers: {error}"))
}

/// A keyed hash of all that.
fn derive(key: &KeyedHash, what: &str, scope: &Scope, parts: &[&[u8]]) -> Secret {
    let purpose = [what.as_bytes(), scope.tenant.as_bytes(), scope.bucket.as_bytes()];
    Secret(key.of(purpose.into_iter().chain(parts.iter().copied())))
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl FromStr for Secret {
    type Err = MalformedSecret;

    fn from_str(text: &str) -> Result<Self, MalformedSecret> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| MalformedSecret)?;
        bytes.try_into().map(Self).map_err(|_| MalformedSecret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "3b3beb300bea6813d6d2dd9ace8b12dbc16aedfc";

    fn key() -> KeyedHash {
        KeyedHash::new(&[7; 32])
    }

    fn claim(bucket: &str, name: &str, token: u64, seed: u64) -> Secret {
        let name = Name::new(name).unwrap();
        Secret::of_claim(&key(), &Scope::new("", bucket), name, FencingToken::new(token), SecretSeed(seed))
    }

    #[test]
    fn a_secret_depends_on_everything_that_it_stands_for() {
        let one = claim("b", "n", 1, 1);
        assert_eq!(one, claim("b", "n", 1, 1));
        let others =
            [claim("c", "n", 1, 1), claim("b", "m", 1, 1), claim("b", "n", 2, 1), claim("b", "n", 1, 2)];
        assert!(others.iter().all(|other| *other != one));
        assert_ne!(claim("bn", "", 1, 1), claim("b", "n", 1, 1), "parts do not run into each other");
        let other_key = KeyedHash::new(&[8; 32]);
        let scope = Scope::new("", "b");
        assert_ne!(
            Secret::of_claim(
                &other_key,
                &scope,
                Name::new("n").unwrap(),
                FencingToken::new(1),
                SecretSeed(1)
            ),
            one
        );
        let owner = OwnerId::new(1);
        let of_owner = Secret::of_owner(&key(), &scope, owner, SecretSeed(1));
        assert_ne!(of_owner, Secret::of_owner(&key(), &scope, owner, SecretSeed(2)));
        assert_ne!(of_owner, Secret::of_owner(&key(), &scope, OwnerId::new(2), SecretSeed(1)));
    }

    #[test]
    fn a_secret_survives_its_text_and_nothing_else_shows_it() {
        let secret = claim("b", "n", 1, 1);
        let text = secret.reveal();
        assert_eq!(text, SECRET, "secrets outlive upgrades, so that they must never change");
        assert_eq!(text.parse(), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        for wrong in ["", "0", &text[1..], &format!("{text}0"), &text.replace(|_| true, "g"), &"é".repeat(20)]
        {
            assert_eq!(wrong.parse::<Secret>(), Err(MalformedSecret), "{wrong}");
        }
        assert!(!MalformedSecret.to_string().contains(&text[..4]));
    }

    #[test]
    fn the_same_idempotency_key_gives_the_same_seed() {
        let scope = Scope::new("", "b");
        let name = Name::new("n").unwrap();
        let seed = |claimant, idempotency| seed_of(&key(), &scope, name, claimant, idempotency);
        assert_eq!(seed("a", "k"), seed("a", "k"));
        assert_ne!(seed("a", "k"), seed("b", "k"));
        assert_ne!(seed("a", "k"), seed("a", "l"));
    }

    #[test]
    fn the_seed_of_an_owner_depends_on_its_key_its_caller_and_its_bucket() {
        let seed = |tenant: &str, bucket: &str, caller, idempotency| {
            seed_of_owner(&key(), &Scope::new(tenant, bucket), caller, idempotency).0
        };
        let all = [
            seed("", "b", None, "k"),
            seed("t", "b", None, "k"),
            seed("", "c", None, "k"),
            seed("", "b", None, "l"),
            seed("", "b", Some("k"), "k"),
            seed("", "b", Some(""), "k"),
            seed("", "b", Some("l"), "k"),
            seed("", "b", None, "kk"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one), "{at}");
        }
        assert_eq!(
            all[6], 1_981_783_961_275_144_232,
            "owners outlive upgrades, so that it must never change"
        );
    }
}
