//! Everything that the server goes by when it judges a credential.

use std::collections::HashMap;

use lockhouse::wire::Credential;

use super::identity::{Identity, TENANT_RULE, is_tenant};
use super::keys::{self, ID_RULE, KeyHash, is_id};
use super::permissions::Grants;
use super::settings::{KeySettings, Settings};
use super::tokens::{self, Issuer};

/// Judges credentials. Made anew from the settings when they change; the default one lets everybody do everything.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    /// By their ids.
    keys: HashMap<String, Key>,
    issuers: Vec<Issuer>,
}

#[derive(Clone, Debug)]
struct Key {
    hash: KeyHash,
    tenant: String,
    session: Option<String>,
    isolates_origins: bool,
    grants: Grants,
}

/// Settings that make no sense, told in one line that names the member, the value and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadSettings {
    /// The member, such as `auth.keys[0].hash`.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

/// Why a credential is not taken. Never tells the credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unauthenticated {
    #[error("there is no API key and no token")]
    Absent,
    #[error("the API key is not known")]
    Key,
    #[error("it is no API key and no token")]
    NotAToken,
    #[error("no issuer of that name is known")]
    Issuer,
    #[error("the token is not signed in the way of its issuer")]
    Algorithm,
    #[error("the token is not signed by its issuer")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token cannot be used: {0}")]
    Claims(String),
}

impl Authority {
    /// By these settings; reads the files and environment variables that they name.
    ///
    /// # Errors
    ///
    /// [`BadSettings`].
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let mut authority = Self::default();
        for (number, key) in settings.keys.iter().enumerate() {
            let place = format!("auth.keys[{number}]");
            authority.check_id(&key.id, &place)?;
            authority.keys.insert(key.id.clone(), Key::new(key, &place)?);
        }
        let mut issuers = Vec::new();
        for (number, jwt) in settings.jwt.iter().enumerate() {
            let place = format!("auth.jwt[{number}]");
            authority.check_id(&jwt.id, &place)?;
            if settings.jwt[..number].iter().any(|other| other.id == jwt.id) {
                return Err(BadSettings { field: format!("{place}.id"), why: twice(&jwt.id) });
            }
            issuers.push(Issuer::new(jwt, &place)?);
        }
        authority.issuers = issuers;
        Ok(authority)
    }

    /// Whether there is no authentication at all: everybody who can connect may do everything.
    pub fn is_open(&self) -> bool {
        self.keys.is_empty() && self.issuers.is_empty()
    }

    /// Who presents that, from that web origin.
    pub(crate) fn identify(
        &self,
        credential: Option<&Credential<'_>>,
        origin: Option<&str>,
    ) -> Result<Identity, Unauthenticated> {
        if self.is_open() {
            return Ok(Identity::anybody());
        }
        let text = credential.ok_or(Unauthenticated::Absent)?.as_str();
        if keys::is_key(text) { self.by_key(text, origin) } else { self.by_token(text, origin) }
    }

    fn by_key(&self, text: &str, origin: Option<&str>) -> Result<Identity, Unauthenticated> {
        let id = keys::id_of(text).ok_or(Unauthenticated::Key)?;
        let key = self.keys.get(id).filter(|key| key.hash.fits(text)).ok_or(Unauthenticated::Key)?;
        Ok(Identity {
            name: id.to_owned(),
            tenant: key.tenant.clone(),
            session: key.session.clone(),
            origin: key.isolates_origins.then(|| origin.unwrap_or_default().to_owned()),
            grants: key.grants.clone(),
            expires_at: None,
        })
    }

    fn by_token(&self, text: &str, origin: Option<&str>) -> Result<Identity, Unauthenticated> {
        let name = tokens::issuer_of(text).ok_or(Unauthenticated::NotAToken)?;
        let mut refused = Unauthenticated::Issuer;
        // An issuer may stand there twice, while its keys change.
        for issuer in self.issuers.iter().filter(|issuer| issuer.is_named(&name)) {
            match issuer.judge(text, origin) {
                Ok(identity) => return Ok(identity),
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }

    fn check_id(&self, id: &str, place: &str) -> Result<(), BadSettings> {
        let bad = |why| Err(BadSettings { field: format!("{place}.id"), why });
        if !is_id(id) {
            return bad(format!("is {id:?}, but must be {ID_RULE}"));
        }
        if self.keys.contains_key(id) { bad(twice(id)) } else { Ok(()) }
    }
}

fn twice(id: &str) -> String {
    format!("is {id:?}, which stands there twice, but must be there once")
}

impl Key {
    fn new(settings: &KeySettings, place: &str) -> Result<Self, BadSettings> {
        let bad = |member: &str, why: String| BadSettings { field: format!("{place}.{member}"), why };
        let hash = KeyHash::parse(&settings.hash).ok_or_else(|| {
            bad(
                "hash",
                "must be sha256: and 64 hexadecimal digits, as lockhouse key new prints it".to_owned(),
            )
        })?;
        let names = [("tenant", Some(&settings.tenant)), ("session", settings.session.as_ref())];
        for (member, value) in names {
            if let Some(value) = value.filter(|value| !is_tenant(value)) {
                return Err(bad(member, format!("is {value:?}, but must be {TENANT_RULE}")));
            }
        }
        if settings.buckets.is_empty() {
            return Err(bad("buckets", "is empty, but must name what the key may do where".to_owned()));
        }
        let grants = Grants::new(&settings.buckets)
            .map_err(|(pattern, why)| bad(&format!("buckets.{pattern:?}"), why))?;
        Ok(Self {
            hash,
            tenant: settings.tenant.clone(),
            session: settings.session.clone(),
            isolates_origins: settings.isolate_origins,
            grants,
        })
    }
}
