//! Tokens (RFC 7519), checked by an authority with three issuers: `hs` signs by HS256, `ed` by EdDSA with two
//! keys, `rs` by RS256.
//!
//! An input has the signer in the first line, the header in the second, then the claims. A first line that
//! names no signer is taken for the signature itself. `$NOW+9` and `$NOW-9` stand for points of time, in
//! seconds.
//!
//! ```text
//! hs
//! {"alg": "HS256"}
//! {"iss": "hs", "aud": "lockhouse", "exp": $NOW+60, "tenant": "acme", "buckets": {"orders*": ["query"]}}
//! ```

mod expected;
mod signers;

use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use lockhouse_server::auth::{Taken, Unproven};
use lockhouse_wire::Credential;
use serde_json::Value;

use self::expected::{Expected, Token};
use self::signers::{Signer, Signers};
use crate::promise;

/// The number of bytes of an accepted token that are changed, one at a time.
const CHANGES: usize = 24;

/// A token is accepted only if an issuer signed it, in its one way, with its one key, for us and for now; and
/// it stands for the content of its claims. A token that is signed so and has all required claims is
/// accepted. No byte of it may be another.
pub fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let [who, header, claims] = [(); 3].map(|()| lines.next().unwrap_or_default());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    let (header, claims) = (at(header, now), at(claims, now));
    check(who, &header, &claims, now, false);
    // Written anew no member is there twice, and what has to come of it is certain.
    if let (Some(header), Some(claims)) = (object(&header), object(&claims)) {
        check(who, &header.to_string(), &claims.to_string(), now, true);
    }
}

fn check(who: &str, header: &str, claims: &str, now: Duration, is_plain: bool) {
    let signers = Signers::get();
    let signed = signed(header, claims);
    let signer = Signer::named(who);
    let token = match signer {
        Some(signer) => format!("{signed}.{}", signers.signature(signer, signed.as_bytes())),
        None => format!("{signed}.{who}"),
    };
    _ = Unproven::read(&token);
    let taken = signers.authority.inspect(&token);
    let seen = Token { signer, header: object(header), claims: object(claims), now };
    match (taken, seen.expected()) {
        (Ok(taken), Expected::Taken(expected)) => {
            assert_eq!(taken, expected, "{header} {claims}");
            no_byte_is_another(&token, &taken);
        }
        (Ok(taken), Expected::Refused(why)) => {
            panic!("taken as {taken:?}, though {why}: {who} {header} {claims}")
        }
        (Ok(_), Expected::Either) => {}
        (Err(why), expected) => {
            let why = why.to_string();
            let signature = token.rsplit('.').next().filter(|signature| signature.len() >= 16);
            promise!(
                !signature.is_some_and(|signature| why.contains(signature)),
                "{why} repeats the signature"
            );
            promise!(!why.chars().any(char::is_control), "{why:?} is more than a line");
            let is_due =
                is_plain && matches!(expected, Expected::Taken(_)) && Credential::new(&*token).is_some();
            promise!(!is_due, "refused, as {why}: {who} {header} {claims}");
        }
    }
}

/// The input of a signature.
fn signed(header: &str, claims: &str) -> String {
    [header, claims].map(|part| BASE64URL_NOPAD.encode(part.as_bytes())).join(".")
}

/// Changes bytes all over the token, those at the ends of its parts among them.
fn no_byte_is_another(token: &str, taken: &Taken) {
    let last_of_parts = token.match_indices('.').flat_map(|(at, _)| [at - 1, at, at + 1]);
    let spread = (0..CHANGES).map(|part| part * token.len() / CHANGES);
    for at in last_of_parts.chain(spread).chain([token.len() - 1]) {
        let mut changed = token.as_bytes().to_vec();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("ASCII");
        let inspected = Signers::get().authority.inspect(&changed);
        promise!(inspected.is_err(), "{changed} is taken as {inspected:?}, as {token} is as {taken:?}");
    }
}

/// A JSON object.
fn object(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Fills in the points of time.
fn at(text: &str, now: Duration) -> String {
    let mut parts = text.split("$NOW");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().skip(1).take_while(u8::is_ascii_digit).take(9).count();
        let (offset, rest) = match part.as_bytes().first() {
            Some(b'+' | b'-') if digits > 0 => part.split_at(1 + digits),
            _ => ("0", part),
        };
        let offset: i64 = offset.parse().expect("some digits behind a sign");
        filled.push_str(&(now.as_secs().cast_signed() + offset).to_string());
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_time_are_filled_in() {
        let now = Duration::from_secs(1000);
        assert_eq!(at("$NOW+5,$NOW-1000.5 $NOW", now), "1005,0.5 1000");
        assert_eq!(at("$NOW+ $NOW-x", now), "1000+ 1000-x");
    }

    #[test]
    fn all_that_signs_rightly_is_taken_and_nothing_else() {
        let claims = |iss: &str| {
            format!(
                r#"{{"iss":"{iss}","aud":"lockhouse","exp":$NOW+60,"tenant":"acme","buckets":{{"b":["query"]}}}}"#
            )
        };
        for (iss, header, takes) in [
            ("hs", r#"{"alg":"HS256"}"#, &["hs"][..]),
            ("hs", r#"{"alg":"HS384"}"#, &[]),
            ("hs", r#"{"alg":"none"}"#, &[]),
            ("ed", r#"{"alg":"EdDSA","kid":"one"}"#, &["ed"]),
            ("ed", r#"{"alg":"EdDSA","kid":"two"}"#, &["ed-two"]),
            ("ed", r#"{"alg":"EdDSA"}"#, &[]),
            ("rs", r#"{"alg":"RS256"}"#, &["rs"]),
            ("rs", r#"{"alg":"HS256"}"#, &[]),
            ("evil", r#"{"alg":"HS256"}"#, &[]),
        ] {
            for signer in Signer::ALL {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let claims = at(&claims(iss), now);
                let signed = signed(header, &claims);
                let token = format!("{signed}.{}", Signers::get().signature(signer, signed.as_bytes()));
                let is_taken = Signers::get().authority.inspect(&token).is_ok();
                assert_eq!(is_taken, takes.contains(&signer.name()), "{iss} {header} by {}", signer.name());
                check(signer.name(), header, &claims, now, true);
            }
        }
    }
}
