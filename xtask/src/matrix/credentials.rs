//! Every kind of credential, and the settings that know them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use jsonwebtoken::{EncodingKey, Header, encode};
use lockhouse_server::auth::{Algorithm, JwtSettings, KeySettings, NewKey, Permission, Settings};
use serde_json::{Value, json};

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

/// Whose tables it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Others,
}

/// A credential, and what it stands for.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    pub(super) name: String,
    /// What is sent; nothing if there is none.
    pub(super) text: Option<String>,
    pub(super) state: State,
    pub(super) whose: Whose,
    pattern: &'static str,
    permissions: Vec<Word>,
}

/// What must become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Unauthenticated,
    /// One of these permissions is missing, and named.
    Forbidden(&'static [Word]),
    /// It may do nothing at all in the bucket.
    NothingHere,
    Done(Whose),
}

/// All credentials, with the settings that know them.
pub(super) struct Credentials {
    pub(super) all: Vec<Credential>,
    pub(super) settings: Settings,
    /// The same without what is deleted and taken away.
    pub(super) later: Settings,
}

impl Credential {
    /// What must become of what needs that.
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
            Needs::Everywhere(words) if lacks(everywhere, words) => Expected::Forbidden(words),
            _ => Expected::Done(self.whose),
        }
    }
}

impl Credentials {
    /// Draws them; the key of the issuer goes into the folder.
    pub(super) fn draw(folder: &Path) -> Result<Self> {
        let mut drawing = Drawing { all: Vec::new(), keys: Vec::new() };
        drawing.refuse("none", None);
        drawing.refuse("garbage", Some("garbage".to_owned()));
        drawing.key("everything", TENANT, PATTERN, &PERMISSIONS)?;
        drawing.key("everywhere", TENANT, "*", &PERMISSIONS)?;
        drawing.key("another bucket", TENANT, "elsewhere*", &PERMISSIONS)?;
        drawing.key("another tenant", "beta", PATTERN, &PERMISSIONS)?.whose = Whose::Others;
        drawing.key("the default tenant", "default", "*", &PERMISSIONS)?.whose = Whose::Others;
        drawing.key("a private session", TENANT, PATTERN, &PERMISSIONS)?.whose = Whose::Others;
        drawing.settings().session = Some("s1".to_owned());
        drawing.key("isolated origins", TENANT, PATTERN, &PERMISSIONS)?.whose = Whose::Others;
        drawing.settings().isolate_origins = true;
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
        drawing.refuse("a wrong key", Some(wrong));
        drawing.tokens()?;
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
    keys: Vec<KeySettings>,
}

impl Drawing {
    fn push(&mut self, name: &str, text: Option<String>, state: State) -> &mut Credential {
        let permissions = PERMISSIONS.to_vec();
        let (name, whose, pattern) = (name.to_owned(), Whose::Ours, PATTERN);
        self.all.push(Credential { name, text, state, whose, pattern, permissions });
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
        let id = format!("key-{}", self.keys.len());
        let key = NewKey::draw(&id).context("it is an id")?;
        self.keys.push(KeySettings {
            id,
            hash: key.hash,
            tenant: tenant.to_owned(),
            isolate_origins: false,
            session: None,
            buckets: BTreeMap::from([(
                pattern.to_owned(),
                words.iter().map(|word| permission(word)).collect(),
            )]),
        });
        let credential = self.push(name, Some(key.text), State::Taken);
        (credential.pattern, credential.permissions) = (pattern, words.to_vec());
        Ok(credential)
    }

    /// Of the key that was drawn last.
    fn settings(&mut self) -> &mut KeySettings {
        self.keys.last_mut().expect("a key was drawn")
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
        let settings = Settings { keys: self.keys, jwt: vec![issuer] };
        let mut later = settings.clone();
        let state_of = |key: &KeySettings| {
            let prefix = format!("lhk_{}_", key.id);
            let has_it = |credential: &&Credential| {
                credential.text.as_deref().is_some_and(|it| it.starts_with(&prefix))
            };
            // The wrong key has the id of a right one, and comes after it.
            self.all.iter().find(has_it).map(|credential| credential.state)
        };
        later.keys.retain(|key| state_of(key) != Some(State::Deleted));
        for key in &mut later.keys {
            if state_of(key) == Some(State::Curbed) {
                key.buckets = BTreeMap::from([("elsewhere".to_owned(), vec![Permission::Query])]);
            }
        }
        Ok(Credentials { all: self.all, settings, later })
    }
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
