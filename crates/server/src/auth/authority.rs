//! The authority: everything by which the server judges a credential.

use std::collections::HashMap;

use lockhouse_wire::Credential;

use super::bad_settings::BadSettings;
use super::certificates::Certificate;
use super::grant::CredentialGrant;
use super::identity::{Identity, isolated};
use super::issuer_keys::Hearing;
use super::keys::{self, ID_RULE, KeyHash, is_id};
use super::tokens::{self, Issuer};
use super::unauthenticated::{PresentedCertificate, Unauthenticated};
use crate::access::Initiator;
use crate::settings::sections::auth::{CertificateSettings, JwtSettings, KeySettings, Settings};

/// Judges credentials. Made anew from the settings when they change; the default authority lets every client
/// do everything.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    /// By their ids.
    keys: HashMap<String, ApiKey>,
    issuers: Vec<Issuer>,
    /// The first that fits holds.
    certificates: Vec<Certificate>,
    /// Whether no client is admitted where there is no entry.
    is_shut: bool,
}

#[derive(Clone, Debug)]
struct ApiKey {
    hash: KeyHash,
    isolates_origins: bool,
    grant: CredentialGrant,
}

impl Authority {
    /// By these settings; reads the files and environment variables that they name.
    ///
    /// # Errors
    ///
    /// [`BadSettings`] of the first entry that has one.
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let (authority, bad) = Self::hearing(settings, Hearing::Everything);
        bad.into_iter().next().map_or(Ok(authority), Err)
    }

    /// The fault of each wrong entry of the settings, whatever the environment says; reads the files that
    /// they name.
    pub fn check(settings: &Settings) -> Vec<BadSettings> {
        Self::hearing(settings, Hearing::FilesOnly).1
    }

    /// By these settings, of which another part cannot be taken: entries that are gone are gone. An issuer
    /// that cannot be taken now, for its file for example, stays as it was. No certificate stands for an
    /// identity that it did not stand for before, as that rests on CAs that may not have been taken.
    ///
    /// # Errors
    ///
    /// [`BadSettings`] of the first other entry that has one.
    pub(crate) fn renewed(&self, settings: &Settings) -> Result<Self, BadSettings> {
        let (mut next, bad) = Self::hearing(settings, Hearing::Everything);
        if let Some(bad) = bad.into_iter().find(|bad| !bad.field.starts_with("auth.jwt")) {
            return Err(bad);
        }
        for jwt in &settings.jwt {
            let is_taken = next.issuers.iter().any(|issuer| issuer.is_called(&jwt.id));
            let former = self.issuers.iter().find(|issuer| issuer.is_called(&jwt.id));
            next.issuers.extend(former.filter(|_| !is_taken).cloned());
        }
        next.certificates.retain(|new| self.certificates.iter().any(|old| old.mark == new.mark));
        Ok(next)
    }

    /// Returns the fault of each entry that is left out, too.
    fn hearing(settings: &Settings, hearing: Hearing) -> (Self, Vec<BadSettings>) {
        let (mut authority, mut bad) = (Self::default(), Vec::new());
        for (number, key) in settings.keys.iter().enumerate() {
            bad.extend(authority.add_key(key, &format!("auth.keys[{number}]")).err());
        }
        for number in 0..settings.jwt.len() {
            bad.extend(authority.add_issuer(&settings.jwt, number, hearing).err());
        }
        for (number, certificate) in settings.certificates.iter().enumerate() {
            let place = format!("auth.certificates[{number}]");
            bad.extend(authority.add_certificate(certificate, &place).err());
        }
        (authority, bad)
    }

    fn add_key(&mut self, key: &KeySettings, place: &str) -> Result<(), BadSettings> {
        self.check_id(&key.id, place)?;
        self.keys.insert(key.id.clone(), ApiKey::new(key, place)?);
        Ok(())
    }

    fn add_issuer(
        &mut self,
        all: &[JwtSettings],
        number: usize,
        hearing: Hearing,
    ) -> Result<(), BadSettings> {
        let (jwt, place) = (&all[number], format!("auth.jwt[{number}]"));
        self.check_id(&jwt.id, &place)?;
        if all[..number].iter().any(|other| other.id == jwt.id) {
            return Err(BadSettings { field: format!("{place}.id"), why: twice(&jwt.id) });
        }
        self.issuers.push(Issuer::new(jwt, &place, hearing)?);
        Ok(())
    }

    fn add_certificate(&mut self, settings: &CertificateSettings, place: &str) -> Result<(), BadSettings> {
        self.check_id(&settings.id, place)?;
        let new = Certificate::new(settings, place)?;
        if self.certificates.iter().any(|other| other.id == new.id) {
            return Err(BadSettings { field: format!("{place}.id"), why: twice(&new.id) });
        }
        if let Some(other) = self.certificates.iter().find(|other| other.mark == new.mark) {
            let why = format!("stands in the entry {:?} already, which holds", other.id);
            return Err(BadSettings { field: format!("{place}.{}", new.mark.member()), why });
        }
        self.certificates.push(new);
        Ok(())
    }

    /// An authority that admits no client.
    pub(crate) fn shut() -> Self {
        Self { is_shut: true, ..Self::default() }
    }

    /// Looks at the files of keys that issuers may change; whether any has other keys than at the last look.
    /// The former keys of a file that cannot be used stay in use.
    pub fn look_at_files(&self) -> bool {
        let mut has_changed = false;
        for issuer in &self.issuers {
            has_changed |= issuer.look_at_file();
        }
        has_changed
    }

    /// Whether there is no authentication at all: every client that can connect may do everything.
    pub fn is_open(&self) -> bool {
        !self.is_shut && self.keys.is_empty() && self.issuers.is_empty() && self.certificates.is_empty()
    }

    /// Whether a certificate may stand for the client that shows it.
    pub(crate) fn knows_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// The identity of the presenter. A credential that is presented is checked alone: if it is wrong, no
    /// certificate makes up for it.
    pub(crate) fn identify(
        &self,
        credential: Option<&Credential<'_>>,
        certificate: &PresentedCertificate,
        initiator: &Initiator,
    ) -> Result<Identity, Unauthenticated> {
        if self.is_open() {
            return Ok(Identity::anonymous());
        }
        match credential.map(Credential::as_str) {
            None => self.by_certificate(certificate),
            Some(text) if keys::is_key(text) => self.by_key(text, initiator),
            Some(text) => self.by_token(text, initiator),
        }
    }

    fn by_certificate(&self, shown: &PresentedCertificate) -> Result<Identity, Unauthenticated> {
        if !self.knows_certificates() {
            return Err(Unauthenticated::Absent);
        }
        let certificate = shown.as_ref().map_err(Clone::clone)?;
        certificate.check()?;
        let mut entries = self.certificates.iter();
        let entry = entries.find(|entry| certificate.subject.has(&entry.mark));
        let Certificate { id, grant, .. } = entry.ok_or(Unauthenticated::Certificate)?;
        Ok(Identity { expires_at: Some(certificate.expires_at), ..grant.identity(id) })
    }

    fn by_key(&self, text: &str, initiator: &Initiator) -> Result<Identity, Unauthenticated> {
        let id = keys::key_id(text).ok_or(Unauthenticated::Key)?;
        let key = self.keys.get(id).filter(|key| key.hash.fits(text)).ok_or(Unauthenticated::Key)?;
        let origin = key.isolates_origins.then(|| isolated(initiator)).transpose()?;
        Ok(Identity { origin, ..key.grant.identity(id) })
    }

    fn by_token(&self, text: &str, initiator: &Initiator) -> Result<Identity, Unauthenticated> {
        let name = tokens::issuer_of(text).ok_or(Unauthenticated::NotAToken)?;
        let mut refused = Unauthenticated::Issuer;
        // An issuer may stand there twice, while its keys change.
        for issuer in self.issuers.iter().filter(|issuer| issuer.is_named(&name)) {
            match issuer.authenticate(text, initiator) {
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

impl ApiKey {
    fn new(settings: &KeySettings, place: &str) -> Result<Self, BadSettings> {
        let bad = |member: &str, why: String| BadSettings { field: format!("{place}.{member}"), why };
        let hash = KeyHash::parse(&settings.hash).ok_or_else(|| {
            bad(
                "hash",
                "must be sha256: and 64 hexadecimal digits, as lockhouse key new prints it".to_owned(),
            )
        })?;
        let grant =
            CredentialGrant::new(&settings.tenant, settings.session.as_deref(), &settings.buckets, place)?;
        Ok(Self { hash, isolates_origins: settings.isolate_origins, grant })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;

    fn settings(text: &str) -> Settings {
        crate::settings::read_section("auth", text, Settings::read).unwrap()
    }

    #[test]
    fn a_reload_with_other_faults_adds_no_certificate() {
        let entry = |id: &str| {
            format!(
                "[[certificates]]\nid = \"{id}\"\ndns = \"{id}.example\"\nbuckets = {{ \"*\" = [\"query\"] }}\n"
            )
        };
        let former = Authority::new(&settings(&(entry("a") + &entry("b")))).unwrap();
        let next = former.renewed(&settings(&(entry("b") + &entry("c")))).unwrap();
        let ids: Vec<&str> = next.certificates.iter().map(|certificate| &*certificate.id).collect();
        assert_eq!(ids, ["b"]);
        assert!(former.renewed(&settings(&entry("C"))).is_err());
    }
}
