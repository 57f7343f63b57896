//! The required outcome for a token by ARCHITECTURE and RFC 7519, computed by code of the tests' own.

use std::time::{Duration, SystemTime};

use lockhouse_server::auth::{Permission, Taken};
use lockhouse_wire::SCOPE_BYTES;
use serde_json::Value;

use super::signers::{AUDIENCE, LEEWAY_S, Signer, TENANT_OF_ED};

/// The required outcome for a token.
pub(super) enum Expected {
    Taken(Taken),
    Refused(String),
    /// A clock decides that we do not read at the same time, or the rules are silent.
    Either,
}

/// A token, as it was made.
pub(super) struct Token {
    pub(super) signer: Option<Signer>,
    pub(super) header: Option<Value>,
    pub(super) claims: Option<Value>,
    pub(super) now: Duration,
}

/// The seconds that may pass while a token is checked, rounding included.
const SLACK_S: f64 = 2.0;

/// The year 9999 is over for everybody.
const NO_END_S: f64 = 253_402_214_400.0;

type Read<T> = Result<T, Expected>;

fn refused<T>(why: &str) -> Read<T> {
    Err(Expected::Refused(why.to_owned()))
}

impl Token {
    pub(super) fn expected(&self) -> Expected {
        self.read().unwrap_or_else(|otherwise| otherwise)
    }

    fn read(&self) -> Read<Expected> {
        let (Some(header), Some(claims)) = (&self.header, &self.claims) else {
            return refused("it is no JSON");
        };
        let issuer = self.issuer(header)?;
        if claims["iss"].as_str() != Some(issuer) {
            return refused("another has signed it than its iss");
        }
        if !is_for_us(&claims["aud"]) {
            return refused("it is for others");
        }
        let exp = self.end(claims)?;
        self.begin(claims)?;
        let tenant = tenant(issuer, text(claims, "tenant")?)?;
        let session = text(claims, "session")?;
        if session.is_some_and(|session| !is_name(session)) {
            return refused("the session has no name");
        }
        let subject = text(claims, "sub")?.unwrap_or_default();
        let isolates_origins = match &claims.as_object().and_then(|claims| claims.get("isolateOrigins")) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => return refused("isolateOrigins is neither true nor false"),
        };
        let leeway = Duration::from_secs(LEEWAY_S);
        let expires_at =
            (exp < NO_END_S).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(exp) + leeway);
        let taken = Taken {
            name: format!("{issuer}/{subject}"),
            tenant: tenant.to_owned(),
            session: session.map(str::to_owned),
            isolates_origins,
            buckets: buckets(&claims["buckets"])?,
            expires_at,
        };
        self.is_plain(header)?;
        Ok(Expected::Taken(taken))
    }

    /// The issuer that signed the token, if it did so in its way.
    fn issuer(&self, header: &Value) -> Read<&'static str> {
        let (issuer, algorithm, kid) = match self.signer {
            Some(Signer::Hs) => ("hs", "HS256", None),
            Some(Signer::Ed) => ("ed", "EdDSA", Some("one")),
            Some(Signer::EdTwo) => ("ed", "EdDSA", Some("two")),
            Some(Signer::Rs) => ("rs", "RS256", None),
            _ => return refused("no issuer signed it"),
        };
        if header["alg"].as_str() != Some(algorithm) {
            return refused("its alg is not that of the issuer");
        }
        if kid.is_some() && header["kid"].as_str() != kid {
            return refused("its kid is another key's");
        }
        if !header["crit"].is_null() {
            return refused("its crit is not understood");
        }
        Ok(issuer)
    }

    /// Members of a header have types of their own; a value with no other type is read alike by every reader.
    fn is_plain(&self, header: &Value) -> Read<()> {
        let is_known = |(name, value): (&String, &Value)| {
            matches!(name.as_str(), "alg" | "typ" | "kid") && value.is_string()
        };
        match header.as_object().is_some_and(|header| header.iter().all(is_known)) {
            true => Ok(()),
            false => Err(Expected::Either),
        }
    }

    fn end(&self, claims: &Value) -> Read<f64> {
        let Some(exp) = claims["exp"].as_f64().filter(|exp| *exp >= 0.0) else {
            return refused("it has no end");
        };
        let over = self.now.as_secs_f64() - LEEWAY_S as f64 - exp;
        match over {
            over if over > SLACK_S => refused("it is over"),
            over if over > -SLACK_S => Err(Expected::Either),
            // No number of seconds in 64 bits.
            _ if exp > 1e18 => Err(Expected::Either),
            _ => Ok(exp),
        }
    }

    fn begin(&self, claims: &Value) -> Read<()> {
        let Some(nbf) = claims.as_object().and_then(|claims| claims.get("nbf")) else { return Ok(()) };
        let Some(nbf) = nbf.as_f64() else { return refused("its begin is no time") };
        let early = nbf - self.now.as_secs_f64() - LEEWAY_S as f64;
        match early {
            early if early > SLACK_S => refused("it is not good yet"),
            early if early > -SLACK_S || nbf < 0.0 => Err(Expected::Either),
            _ => Ok(()),
        }
    }
}

/// RFC 7519, section 4.1.3.
fn is_for_us(audience: &Value) -> bool {
    match audience {
        Value::String(one) => one == AUDIENCE,
        Value::Array(all) => all.iter().all(Value::is_string) && all.iter().any(|one| one == AUDIENCE),
        _ => false,
    }
}

fn tenant<'c>(issuer: &str, claimed: Option<&'c str>) -> Read<&'c str> {
    match (issuer, claimed) {
        ("ed", None | Some(TENANT_OF_ED)) => Ok(TENANT_OF_ED),
        ("ed", Some(_)) => refused("it is for another tenant than its issuer"),
        (_, Some(tenant)) if is_name(tenant) => Ok(tenant),
        _ => refused("it has no tenant"),
    }
}

/// A text, if it is there.
fn text<'c>(claims: &'c Value, member: &str) -> Read<Option<&'c str>> {
    match &claims[member] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => refused("a claim is no text"),
    }
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | '-');
    !text.is_empty() && text.len() <= 64 && text.chars().all(fits)
}

fn buckets(claim: &Value) -> Read<Vec<(String, Vec<Permission>)>> {
    let Some(claim) = claim.as_object() else { return refused("it says nothing of buckets") };
    let mut buckets = Vec::new();
    for (pattern, words) in claim {
        let star = pattern.find('*').unwrap_or(pattern.len());
        if pattern.is_empty() || pattern.len() > SCOPE_BYTES || star + 1 < pattern.len() {
            return refused("a pattern is none");
        }
        let Some(words) = words.as_array().filter(|words| !words.is_empty()) else {
            return refused("a pattern has no permission");
        };
        let named = |word: &Value| Permission::ALL.into_iter().find(|known| word == known.word());
        let Some(mut permissions) = words.iter().map(named).collect::<Option<Vec<_>>>() else {
            return refused("a permission is none");
        };
        permissions.sort();
        permissions.dedup();
        buckets.push((pattern.clone(), permissions));
    }
    buckets.sort();
    Ok(buckets)
}
