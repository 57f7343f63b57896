//! The keys that an issuer signs its tokens with.

mod key_set_file;

use std::fs;
use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{DecodingKey, DecodingKeyKind};

use self::key_set_file::{FileState, KeySetFile};
use super::bad_settings::BadSettings;
use crate::settings::sections::auth::{Algorithm, JwtSettings};

/// The least bytes of a key of HS256 (RFC 7518, section 3.2).
const SECRET_BYTES: usize = 32;

/// The beginning of each part of a PEM (RFC 7468).
const PEM: &[u8] = b"-----BEGIN";

/// The least bytes of the modulus of an RSA key (RFC 7518, section 3.3).
const MODULUS_BYTES: usize = 256;

/// The sources named by the settings that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    Everything,
    /// Files, but not the environment; of its variables only the names are known.
    FilesOnly,
}

/// The keys of one issuer.
#[derive(Clone, Debug)]
pub(super) enum IssuerKeys {
    One(DecodingKey),
    Set(KeySet),
    /// Read again when the file changes.
    File(Arc<KeySetFile>),
}

/// Keys, each with its `kid`.
pub(super) type KeySet = Vec<(Option<String>, DecodingKey)>;

impl IssuerKeys {
    /// As the entry at that place says.
    pub(super) fn read(settings: &JwtSettings, place: &str, hearing: Hearing) -> Result<Self, BadSettings> {
        let bad = |member: &str, why: String| BadSettings { field: format!("{place}.{member}"), why };
        let file = |member: &str, path: &std::path::Path| {
            let unreadable = |error| {
                format!(
                    "{} cannot be read ({error}); name a file that the server may read, with {}",
                    path.display(),
                    what_is_in(member)
                )
            };
            fs::read(path).map_err(|error| bad(member, unreadable(error)))
        };
        match (&settings.key_file, &settings.key_env, &settings.jwks_file) {
            (Some(path), None, None) => {
                let key = key(settings.algorithm, &file("key_file", path)?);
                key.map(Self::One).map_err(|why| bad("key_file", format!("{} {why}", path.display())))
            }
            // The member may hold the key itself by mistake, so that its value is never shown.
            (None, Some(variable), None) => {
                if !is_variable(variable) {
                    let rule = "must be the name of a variable: A-Z, a-z, 0-9 and \"_\", no digit first";
                    return Err(bad("key_env", rule.to_owned()));
                }
                if hearing == Hearing::FilesOnly {
                    return Ok(Self::Set(Vec::new()));
                }
                let text = std::env::var(variable)
                    .map_err(|_| bad("key_env", "the environment has no variable of that name".to_owned()))?;
                let key = key(settings.algorithm, text.as_bytes());
                key.map(Self::One).map_err(|why| bad("key_env", format!("the variable {why}")))
            }
            (None, None, Some(path)) => {
                let state = FileState::of(path);
                let file = KeySetFile::new(settings.algorithm, path, state, file("jwks_file", path)?);
                let file = file.map_err(|why| bad("jwks_file", format!("{} {why}", path.display())))?;
                Ok(Self::File(Arc::new(file)))
            }
            _ => {
                let why = "exactly one of key_file, key_env and jwks_file must be there".to_owned();
                Err(BadSettings { field: place.to_owned(), why })
            }
        }
    }

    /// The keys of which one has to fit: several only if they share a `kid`. For a `kid` that is not in a
    /// file the file is read again.
    pub(super) fn of(&self, kid: Option<&str>) -> Vec<DecodingKey> {
        match self {
            Self::One(key) => vec![key.clone()],
            Self::Set(keys) => fitting_kid(keys, kid),
            Self::File(file) => {
                let found = fitting_kid(&file.keys(), kid);
                if !found.is_empty() {
                    return found;
                }
                file.read_again();
                fitting_kid(&file.keys(), kid)
            }
        }
    }

    /// Looks at the file of the keys; whether it has others than at the last look.
    pub(super) fn look_at_file(&self) -> bool {
        match self {
            Self::File(file) => file.look(),
            Self::One(_) | Self::Set(_) => false,
        }
    }
}

fn fitting_kid(keys: &[(Option<String>, DecodingKey)], kid: Option<&str>) -> Vec<DecodingKey> {
    let is_only = keys.len() == 1;
    let fits = |known: Option<&str>| if kid.is_some() { known == kid } else { is_only };
    keys.iter().filter(|(known, _)| fits(known.as_deref())).map(|(_, key)| key.clone()).collect()
}

/// The content that the file of that member has to have.
fn what_is_in(member: &str) -> &'static str {
    if member == "jwks_file" { "the JSON Web Key Set of the issuer" } else { "the key of the issuer" }
}

fn is_variable(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_word) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// The key in the bytes of a file; otherwise its fault.
pub(super) fn key(algorithm: Algorithm, bytes: &[u8]) -> Result<DecodingKey, String> {
    let pem = match algorithm {
        Algorithm::HS256 => {
            let secret = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
            return usable(secret).map(DecodingKey::from_secret);
        }
        Algorithm::EdDSA => DecodingKey::from_ed_pem,
        Algorithm::RS256 => DecodingKey::from_rsa_pem,
    };
    if bytes.windows(7).any(|window| window == b"PRIVATE") {
        return Err("has a private key in it, but the public one belongs there".to_owned());
    }
    let key = pem(bytes).map_err(|_| format!("has no public key for {algorithm:?} in PEM in it"))?;
    fitting(algorithm, key)
}

/// The keys of a JSON Web Key Set that can be used.
pub(super) fn key_set(algorithm: Algorithm, bytes: &[u8]) -> Result<KeySet, String> {
    let set: JwkSet =
        serde_json::from_slice(bytes).map_err(|error| format!("is no JSON Web Key Set: {error}"))?;
    let mut keys = Vec::new();
    for jwk in set.keys.iter().filter(|jwk| is_for(algorithm, jwk)) {
        let kid = &jwk.common.key_id;
        let named = kid.as_deref().unwrap_or("without kid");
        let key = DecodingKey::from_jwk(jwk).map_err(|error| error.to_string());
        let key = key
            .and_then(|key| fitting(algorithm, key))
            .map_err(|why| format!("has the key {named:?}: {why}"))?;
        keys.push((kid.clone(), key));
    }
    if keys.is_empty() { Err(format!("has no key for {algorithm:?} in it")) } else { Ok(keys) }
}

/// Keys for other things may stand in the set.
fn is_for(algorithm: Algorithm, jwk: &Jwk) -> bool {
    let is_kind = matches!(
        (algorithm, &jwk.algorithm),
        (Algorithm::HS256, AlgorithmParameters::OctetKey(_))
            | (Algorithm::EdDSA, AlgorithmParameters::OctetKeyPair(_))
            | (Algorithm::RS256, AlgorithmParameters::RSA(_))
    );
    let is_declared = match jwk.common.key_algorithm {
        None => true,
        Some(KeyAlgorithm::HS256) => algorithm == Algorithm::HS256,
        Some(KeyAlgorithm::EdDSA) => algorithm == Algorithm::EdDSA,
        Some(KeyAlgorithm::RS256) => algorithm == Algorithm::RS256,
        Some(_) => false,
    };
    let is_for_signatures =
        jwk.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    let operations = jwk.common.key_operations.as_ref();
    let verifies = operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    is_kind && is_declared && is_for_signatures && verifies
}

fn fitting(algorithm: Algorithm, key: DecodingKey) -> Result<DecodingKey, String> {
    match (algorithm, key.kind()) {
        (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => usable(secret).map(|_| ())?,
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, .. }) => {
            let bytes = n.iter().skip_while(|byte| **byte == 0).count();
            if bytes < MODULUS_BYTES {
                return Err(format!("an RSA key of {} bits, but at least 2048 are needed", bytes * 8));
            }
        }
        // The modulus and some bytes around it.
        (Algorithm::RS256, DecodingKeyKind::SecretOrDer(der)) if der.len() < MODULUS_BYTES + 8 => {
            return Err("has an RSA key of less than 2048 bits in it".to_owned());
        }
        _ => {}
    }
    Ok(key)
}

/// A secret for HS256, unless it is none, or too short.
fn usable(secret: &[u8]) -> Result<&[u8], String> {
    // A public key may be known to every client, and a client that knows it could sign with these bytes.
    if secret.windows(PEM.len()).any(|window| window == PEM) {
        return Err(
            "has a PEM in it, but for HS256 a secret belongs there, of at least 32 random bytes; if the issuer signs with a private key, set algorithm to RS256 or EdDSA"
                .to_owned(),
        );
    }
    if secret.len() < SECRET_BYTES {
        return Err(format!(
            "has {} bytes of a key for HS256 in it, but at least 32 are needed",
            secret.len()
        ));
    }
    Ok(secret)
}

impl From<Algorithm> for jsonwebtoken::Algorithm {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::HS256 => Self::HS256,
            Algorithm::EdDSA => Self::EdDSA,
            Algorithm::RS256 => Self::RS256,
        }
    }
}
