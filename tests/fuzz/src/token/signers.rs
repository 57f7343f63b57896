//! The signers, among them some that should not sign, and the authority that checks their tokens.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::EncodingKey;
use lockhouse_server::auth::{Algorithm, Authority, JwtSettings, KeySettings, NewKey, Permission, Settings};
use rcgen::{KeyPair, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::json;
use sha2::{Sha256, Sha384, Sha512};

/// By how much the clock of an issuer may differ, in seconds.
pub(super) const LEEWAY_S: u64 = 30;

pub(super) const AUDIENCE: &str = "lockhouse";

/// The tenant that all tokens of `ed` are for.
pub(super) const TENANT_OF_ED: &str = "acme";

/// A signer and its way of signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer {
    Hs,
    /// With the key of `hs`, in other ways.
    Hs384,
    Hs512,
    Ed,
    EdTwo,
    Rs,
    /// A signer with keys of no issuer.
    StrangeHs,
    StrangeEd,
    EmptyHs,
    /// A signer with a publicly known key, as if it were a secret.
    PublicRs,
    PublicEd,
    Unsigned,
}

impl Signer {
    pub(super) const ALL: [Self; 12] = [
        Self::Hs,
        Self::Hs384,
        Self::Hs512,
        Self::Ed,
        Self::EdTwo,
        Self::Rs,
        Self::StrangeHs,
        Self::StrangeEd,
        Self::EmptyHs,
        Self::PublicRs,
        Self::PublicEd,
        Self::Unsigned,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hs => "hs",
            Self::Hs384 => "hs-384",
            Self::Hs512 => "hs-512",
            Self::Ed => "ed",
            Self::EdTwo => "ed-two",
            Self::Rs => "rs",
            Self::StrangeHs => "strange-hs",
            Self::StrangeEd => "strange-ed",
            Self::EmptyHs => "empty-hs",
            Self::PublicRs => "public-rs",
            Self::PublicEd => "public-ed",
            Self::Unsigned => "nobody",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signer| signer.name() == name)
    }
}

/// The keys, drawn anew in each run, so that no input can have a signature in it.
pub(super) struct Signers {
    pub(super) authority: Authority,
    secret: String,
    ed: [EncodingKey; 2],
    strange_ed: EncodingKey,
    rs: EncodingKey,
    public_rs: String,
    public_ed: Vec<u8>,
}

impl Signers {
    pub(super) fn get() -> &'static Self {
        static ALL: OnceLock<Signers> = OnceLock::new();
        ALL.get_or_init(Self::draw)
    }

    fn draw() -> Self {
        let secret = NewKey::draw("secret").expect("an id").text;
        let [one, two, strange] = [(); 3].map(|()| KeyPair::generate_for(&PKCS_ED25519).expect("a key"));
        let rs = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
        let jwk = |kid: &str, key: &KeyPair| json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": kid, "x": BASE64URL_NOPAD.encode(key.public_key_raw())});
        let set = json!({"keys": [jwk("one", &one), jwk("two", &two)]}).to_string();
        let public_rs = rs.public_key_pem();
        Self {
            authority: authority(&secret, &set, &public_rs),
            secret,
            public_ed: one.public_key_raw().to_vec(),
            ed: [ed(&one), ed(&two)],
            strange_ed: ed(&strange),
            rs: EncodingKey::from_rsa_pem(rs.serialize_pem().as_bytes()).expect("a key"),
            public_rs,
        }
    }

    /// The last part of a token.
    pub(super) fn signature(&self, signer: Signer, signed: &[u8]) -> String {
        let secret = self.secret.as_bytes();
        match signer {
            Signer::Hs => BASE64URL_NOPAD.encode(&mac::<Hmac<Sha256>>(secret, signed)),
            Signer::Hs384 => BASE64URL_NOPAD.encode(&mac::<Hmac<Sha384>>(secret, signed)),
            Signer::Hs512 => BASE64URL_NOPAD.encode(&mac::<Hmac<Sha512>>(secret, signed)),
            Signer::Ed => by(&self.ed[0], jsonwebtoken::Algorithm::EdDSA, signed),
            Signer::EdTwo => by(&self.ed[1], jsonwebtoken::Algorithm::EdDSA, signed),
            Signer::Rs => by(&self.rs, jsonwebtoken::Algorithm::RS256, signed),
            Signer::StrangeHs => {
                BASE64URL_NOPAD.encode(&mac::<Hmac<Sha256>>(b"0123456789abcdef0123456789abcdef", signed))
            }
            Signer::StrangeEd => by(&self.strange_ed, jsonwebtoken::Algorithm::EdDSA, signed),
            Signer::EmptyHs => BASE64URL_NOPAD.encode(&mac::<Hmac<Sha256>>(b"", signed)),
            Signer::PublicRs => {
                BASE64URL_NOPAD.encode(&mac::<Hmac<Sha256>>(self.public_rs.as_bytes(), signed))
            }
            Signer::PublicEd => BASE64URL_NOPAD.encode(&mac::<Hmac<Sha256>>(&self.public_ed, signed)),
            Signer::Unsigned => String::new(),
        }
    }
}

fn ed(key: &KeyPair) -> EncodingKey {
    EncodingKey::from_ed_pem(key.serialize_pem().as_bytes()).expect("a key")
}

fn by(key: &EncodingKey, algorithm: jsonwebtoken::Algorithm, signed: &[u8]) -> String {
    jsonwebtoken::crypto::sign(signed, key, algorithm).expect("a signature")
}

fn mac<M: Mac + KeyInit>(key: &[u8], signed: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key of any length");
    mac.update(signed);
    mac.finalize().into_bytes().to_vec()
}

/// Reads the keys from files, as a server does.
fn authority(secret: &str, set: &str, public_rs: &str) -> Authority {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("a file");
        Some(file)
    };
    let issuer =
        |id: &str, algorithm, key_file: Option<PathBuf>, jwks_file: Option<PathBuf>, tenant: Option<&str>| {
            JwtSettings {
                id: id.to_owned(),
                algorithm,
                key_file,
                key_env: None,
                jwks_file,
                issuer: id.to_owned(),
                audience: AUDIENCE.to_owned(),
                leeway: Duration::from_secs(LEEWAY_S),
                tenant: tenant.map(str::to_owned),
            }
        };
    let jwt = vec![
        issuer("hs", Algorithm::HS256, file("hs", secret), None, None),
        issuer("ed", Algorithm::EdDSA, None, file("ed", set), Some(TENANT_OF_ED)),
        issuer("rs", Algorithm::RS256, file("rs", public_rs), None, None),
    ];
    let key = KeySettings {
        id: "key".to_owned(),
        hash: NewKey::draw("key").expect("an id").hash,
        tenant: "acme".to_owned(),
        isolate_origins: false,
        session: None,
        buckets: BTreeMap::from([("*".to_owned(), Permission::ALL.to_vec())]),
    };
    Authority::new(&Settings { keys: vec![key], jwt, ..Settings::default() })
        .expect("settings without a fault")
}
