//! Every kind of credential, and the settings that know them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use jsonwebtoken::{EncodingKey, Header, encode};
use lockhouse_server::TlsSettings;
use lockhouse_server::auth::{
    Algorithm, Buckets, CertificateSettings, JwtSettings, KeySettings, NewKey, Permission, Settings,
};
use serde_json::{Value, json};
use traces::Kind;

use super::certificates::{Ca, Client};
use super::table::{Needs, PERMISSIONS, Word};

/// The bucket that all cells are about, and the pattern by which most credentials may use it.
pub(super) const BUCKET: &str = "matrix";
const PATTERN: &str = "mat*";

const TENANT: &str = "acme";

/// Whether the server should take a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Taken,
    Refused,
    /// Taken until it is deleted from the settings.
    Deleted,
    /// Taken until its permissions are taken from it.
    Curbed,
}

/// The tenant to whose tables a credential leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Others,
}

/// A credential, and its meaning.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    pub(super) name: String,
    /// The text that is sent; `None` if nothing is.
    pub(super) text: Option<String>,
    /// The certificate with which it comes, if any.
    pub(super) client: Client,
    /// The entry of the settings that knows it.
    id: Option<String>,
    pub(super) state: State,
    pub(super) whose: Whose,
    /// Whether each web origin has tables of its own.
    pub(super) isolates_origins: bool,
    pattern: &'static str,
    permissions: Vec<Word>,
}

/// The required outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Unauthenticated,
    /// One of these permissions is missing, and named.
    Forbidden(&'static [Word]),
    /// The credential gives no permission at all in the bucket.
    NothingHere,
    Done(Whose),
}

/// All credentials, with the settings that know them.
pub(super) struct Credentials {
    pub(super) all: Vec<Credential>,
    pub(super) settings: Settings,
    /// The same settings without the deleted credentials and the permissions that are taken away.
    pub(super) later: Settings,
    /// The server's TLS settings.
    pub(super) tls: TlsSettings,
}

impl Credential {
    /// The required outcome of a call with these needs.
    pub(super) fn expected(&self, needs: Needs) -> Expected {
        let everywhere = if self.pattern == "*" { &self.permissions[..] } else { &[] };
        let here = match self.pattern.strip_suffix('*') {
            Some(prefix) if BUCKET.starts_with(prefix) => &self.permissions[..],
            None if self.pattern == BUCKET => &self.permissions[..],
            _ => &[],
        };
        let lacks = |held: &[Word], words: &[Word]| words.iter().any(|word| !held.contains(word));
        match needs {
            Needs::Nothing => Expected::Done(self.whose),
            _ if self.state == State::Refused => Expected::Unauthenticated,
            Needs::Anything | Needs::These(_) if here.is_empty() => Expected::NothingHere,
            Needs::These(words) if lacks(here, words) => Expected::Forbidden(words),
            Needs::Somewhere(words) if lacks(&self.permissions, words) => Expected::Forbidden(words),
            Needs::Everywhere(words) if lacks(everywhere, words) => Expected::Forbidden(words),
            _ => Expected::Done(self.whose),
        }
    }
}

impl Credentials {
    /// Draws them; the key of the issuer goes into the folder.
    pub(super) fn draw(folder: &Path) -> Result<Self> {
        let ca = Ca::new()?;
        let stranger = ca.stranger()?;
        let mut drawing = Drawing { all: Vec::new(), settings: Settings::default(), ca, stranger };
        drawing.refuse("none", None);
        drawing.refuse("garbage", Some("garbage".to_owned()));
        drawing.key("everything", TENANT, PATTERN, &PERMISSIONS)?;
        drawing.key("everywhere", TENANT, "*", &PERMISSIONS)?;
        drawing.key("another bucket", TENANT, "elsewhere*", &PERMISSIONS)?;
        drawing.key("another tenant", "beta", PATTERN, &PERMISSIONS)?.whose = Whose::Others;
        drawing.key("the default tenant", "default", "*", &PERMISSIONS)?.whose = Whose::Others;
        drawing.key("a private session", TENANT, PATTERN, &PERMISSIONS)?.whose = Whose::Others;
        drawing.last_key().session = Some("s1".to_owned());
        let isolating = drawing.key("isolated origins", TENANT, PATTERN, &PERMISSIONS)?;
        (isolating.whose, isolating.isolates_origins) = (Whose::Others, true);
        drawing.last_key().isolate_origins = true;
        for word in PERMISSIONS {
            drawing.key(&format!("only {word}"), TENANT, PATTERN, &[word])?;
            let others: Vec<Word> = PERMISSIONS.into_iter().filter(|other| *other != word).collect();
            drawing.key(&format!("all but {word}"), TENANT, PATTERN, &others)?;
        }
        drawing.key("a deleted key", TENANT, PATTERN, &PERMISSIONS)?.state = State::Deleted;
        drawing.key("a curbed key", TENANT, PATTERN, &PERMISSIONS)?.state = State::Curbed;
        let everything = drawing.all[2].text.clone().context("a key was drawn")?;
        let wrong = everything.chars().rev().enumerate().map(|(at, digit)| match digit {
            'a' if at == 0 => 'b',
            _ if at == 0 => 'a',
            digit => digit,
        });
        let wrong: String = wrong.collect::<Vec<_>>().into_iter().rev().collect();
        drawing.refuse("a wrong key", Some(wrong.clone()));
        drawing.tokens()?;
        drawing.certificates(&wrong)?;
        drawing.finish(folder)
    }

    /// The credential with that name.
    pub(super) fn named(&self, name: &str) -> Result<&Credential> {
        let found = self.all.iter().find(|credential| credential.name == name);
        found.ok_or_else(|| anyhow!("there is no credential {name:?}"))
    }
}

const SECRET: &[u8] = b"a key for the tokens of the matrix, long enough";
const ISSUER: &str = "https://idp.example";
const AUDIENCE: &str = "lockhouse";

struct Drawing {
    all: Vec<Credential>,
    settings: Settings,
    ca: Ca,
    /// The client without a certificate.
    stranger: Client,
}

impl Drawing {
    fn push(&mut self, name: &str, text: Option<String>, state: State) -> &mut Credential {
        if let Some(text) = &text {
            traces::secret(if text.starts_with("lhk_") { Kind::ApiKey } else { Kind::Token }, text);
        }
        let permissions = PERMISSIONS.to_vec();
        let (name, whose, pattern, client) = (name.to_owned(), Whose::Ours, PATTERN, self.stranger.clone());
        let (id, isolates_origins) = (None, false);
        self.all.push(Credential {
            name,
            text,
            client,
            id,
            state,
            whose,
            isolates_origins,
            pattern,
            permissions,
        });
        self.all.last_mut().expect("it was pushed")
    }

    fn refuse(&mut self, name: &str, text: Option<String>) {
        self.push(name, text, State::Refused);
    }

    fn key(
        &mut self,
        name: &str,
        tenant: &str,
        pattern: &'static str,
        words: &[Word],
    ) -> Result<&mut Credential> {
        let id = format!("key-{}", self.settings.keys.len());
        let key = NewKey::draw(&id).context("it is an id")?;
        self.settings.keys.push(KeySettings {
            id: id.clone(),
            hash: key.hash,
            tenant: tenant.to_owned(),
            isolate_origins: false,
            session: None,
            buckets: buckets(pattern, words),
        });
        let credential = self.push(name, Some(key.text), State::Taken);
        (credential.pattern, credential.permissions, credential.id) = (pattern, words.to_vec(), Some(id));
        Ok(credential)
    }

    /// Of the key that was drawn last.
    fn last_key(&mut self) -> &mut KeySettings {
        self.settings.keys.last_mut().expect("a key was drawn")
    }

    fn certificate(
        &mut self,
        name: &str,
        tenant: &str,
        pattern: &'static str,
        words: &[Word],
    ) -> Result<&mut Credential> {
        let id = format!("certificate-{}", self.settings.certificates.len());
        let uri = format!("spiffe://matrix.example/{id}");
        self.settings.certificates.push(CertificateSettings {
            id: id.clone(),
            dns: None,
            uri: Some(uri.clone()),
            email: None,
            sha256: None,
            tenant: tenant.to_owned(),
            session: None,
            buckets: buckets(pattern, words),
        });
        let client = self.ca.known_as(&uri)?;
        let credential = self.push(name, None, State::Taken);
        (credential.pattern, credential.permissions, credential.id) = (pattern, words.to_vec(), Some(id));
        credential.client = client;
        Ok(credential)
    }

    /// Certificates alone, and beside a key: then it is the key that counts.
    fn certificates(&mut self, wrong: &str) -> Result<()> {
        let but_offline: Vec<Word> = PERMISSIONS.into_iter().filter(|word| *word != "offline").collect();
        let all = self.certificate("a certificate for everything", TENANT, PATTERN, &PERMISSIONS)?;
        let client = all.client.clone();
        self.certificate("a certificate for all buckets", TENANT, "*", &PERMISSIONS)?;
        self.certificate("a certificate for queries", TENANT, PATTERN, &["query"])?;
        self.certificate("a certificate for all but offline", TENANT, PATTERN, &but_offline)?;
        self.certificate("a certificate for another bucket", TENANT, "elsewhere*", &PERMISSIONS)?;
        let other = self.certificate("a certificate of another tenant", "beta", PATTERN, &PERMISSIONS)?;
        other.whose = Whose::Others;
        let other = other.client.clone();
        self.certificate("a certificate of a private session", TENANT, PATTERN, &PERMISSIONS)?.whose =
            Whose::Others;
        let settings = self.settings.certificates.last_mut().context("a certificate was drawn")?;
        settings.session = Some("s1".to_owned());
        self.certificate("a deleted certificate", TENANT, PATTERN, &PERMISSIONS)?.state = State::Deleted;
        self.certificate("a curbed certificate", TENANT, PATTERN, &PERMISSIONS)?.state = State::Curbed;
        let unknown = self.ca.known_as("spiffe://matrix.example/nobody")?;
        self.push("an unknown certificate", None, State::Refused).client = unknown;

        let refused = State::Refused;
        self.push("a certificate and a wrong key", Some(wrong.to_owned()), refused).client = client.clone();
        self.push("a certificate and garbage", Some("garbage".to_owned()), refused).client = client.clone();
        self.key("a certificate and a key for queries", TENANT, PATTERN, &["query"])?.client = client;
        self.key("a key beside a certificate of another tenant", TENANT, PATTERN, &PERMISSIONS)?.client =
            other;
        Ok(())
    }

    fn tokens(&mut self) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let hour = Duration::from_secs(3600);
        let claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": (now + hour).as_secs(), "tenant": TENANT,
            "buckets": {PATTERN: PERMISSIONS},
        });
        let but = |member: &str, value: Value| {
            let mut changed = claims.clone();
            changed[member] = value;
            changed
        };
        self.push("a token for everything", Some(sign(&claims, SECRET)?), State::Taken);
        let others = sign(&but("tenant", json!("beta")), SECRET)?;
        self.push("a token of another tenant", Some(others), State::Taken).whose = Whose::Others;
        let elsewhere = sign(&but("buckets", json!({"elsewhere*": PERMISSIONS})), SECRET)?;
        self.push("a token for another bucket", Some(elsewhere), State::Taken).pattern = "elsewhere*";
        self.push(
            "a token for queries",
            Some(sign(&but("buckets", json!({BUCKET: ["query"]})), SECRET)?),
            State::Taken,
        )
        .permissions = vec!["query"];
        let mut refuse = |name: &str, claims: &Value, secret: &[u8]| -> Result<()> {
            self.refuse(name, Some(sign(claims, secret)?));
            Ok(())
        };
        refuse("an expired token", &but("exp", json!((now - hour).as_secs())), SECRET)?;
        refuse("a token not valid yet", &but("nbf", json!((now + hour / 2).as_secs())), SECRET)?;
        refuse("a token without an end", &but("exp", Value::Null), SECRET)?;
        refuse("a token of another issuer", &but("iss", json!("https://evil.example")), SECRET)?;
        refuse("a token for another audience", &but("aud", json!("others")), SECRET)?;
        refuse("a token without a tenant", &but("tenant", Value::Null), SECRET)?;
        refuse("a forged token", &claims, b"another key for tokens, which is long enough too")?;
        // {"alg":"none"}
        let signed = sign(&claims, SECRET)?;
        let payload = signed.split('.').nth(1).context("a token has three parts")?;
        self.refuse("an unsigned token", Some(format!("eyJhbGciOiJub25lIn0.{payload}.")));
        Ok(())
    }

    fn finish(self, folder: &Path) -> Result<Credentials> {
        let file = folder.join("token.key");
        std::fs::write(&file, SECRET)?;
        traces::secret(Kind::SigningKey, str::from_utf8(SECRET)?);
        let issuer = JwtSettings {
            id: "idp".to_owned(),
            algorithm: Algorithm::HS256,
            key_file: Some(file),
            key_env: None,
            jwks_file: None,
            issuer: ISSUER.to_owned(),
            audience: AUDIENCE.to_owned(),
            leeway: Duration::from_secs(1),
            tenant: None,
        };
        let tls = self.ca.settings(folder)?;
        let settings = Settings { jwt: vec![issuer], ..self.settings };
        let mut later = settings.clone();
        let is = |id: &str, state: State| {
            self.all
                .iter()
                .any(|credential| credential.id.as_deref() == Some(id) && credential.state == state)
        };
        later.keys.retain(|key| !is(&key.id, State::Deleted));
        later.certificates.retain(|certificate| !is(&certificate.id, State::Deleted));
        let keys = later.keys.iter_mut().map(|key| (&key.id, &mut key.buckets));
        let certificates = later.certificates.iter_mut().map(|entry| (&entry.id, &mut entry.buckets));
        for (_, curbed) in keys.chain(certificates).filter(|(id, _)| is(id, State::Curbed)) {
            *curbed = buckets("elsewhere", &["query"]);
        }
        Ok(Credentials { all: self.all, settings, later, tls })
    }
}

fn buckets(pattern: &str, words: &[Word]) -> Buckets {
    BTreeMap::from([(pattern.to_owned(), words.iter().map(|word| permission(word)).collect())])
}

fn sign(claims: &Value, secret: &[u8]) -> Result<String> {
    Ok(encode(&Header::default(), claims, &EncodingKey::from_secret(secret))?)
}

fn permission(word: &str) -> Permission {
    *Permission::ALL
        .iter()
        .find(|permission| permission.word() == word)
        .expect("the words are those of the server")
}
