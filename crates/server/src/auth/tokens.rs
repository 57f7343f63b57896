//! JSON Web Tokens (RFC 7519, checked as RFC 8725 advises): the algorithm and the key are those of the
//! settings, whatever a token says of itself.

use std::time::{Duration, SystemTime};

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, dangerous, decode, decode_header};
use lockhouse_wire::shorten;
use serde::Deserialize;

use super::bad_settings::BadSettings;
use super::identity::{Identity, TENANT_RULE, is_tenant, isolated};
use super::issuer_keys::{Hearing, IssuerKeys};
use super::keys::KeyHash;
use super::permissions::Grants;
use super::unauthenticated::Unauthenticated;
use crate::access::Initiator;
use crate::settings::sections::auth::{Buckets, JwtSettings};

/// The most that clocks may differ.
const MOST_LEEWAY: Duration = Duration::from_secs(300);

/// The year 9999 is over; a token that lasts longer has no end.
const END_OF_CALENDAR: Duration = Duration::from_secs(253_402_300_800 - 86_400);

/// An issuer whose tokens the server takes.
#[derive(Clone, Debug)]
pub(super) struct Issuer {
    id: String,
    /// The `iss` of its tokens.
    name: String,
    keys: IssuerKeys,
    validation: Validation,
    tenant: Option<String>,
}

/// The claims of a token.
#[derive(Debug, Deserialize)]
struct TokenClaims {
    /// In seconds since 1970, perhaps with a fraction.
    exp: f64,
    sub: Option<String>,
    tenant: Option<String>,
    session: Option<String>,
    #[serde(rename = "isolateOrigins", default)]
    isolate_origins: bool,
    buckets: Buckets,
}

/// The issuer that a token names.
#[derive(Deserialize)]
struct Issued {
    iss: String,
}

impl Issuer {
    /// Reads the key; `place` is the section in the settings.
    pub(super) fn new(settings: &JwtSettings, place: &str, hearing: Hearing) -> Result<Self, BadSettings> {
        let bad = |member: &str, why: String| BadSettings { field: format!("{place}.{member}"), why };
        let JwtSettings { issuer, audience, leeway, .. } = settings;
        for (member, value) in [("issuer", issuer), ("audience", audience)] {
            if value.is_empty() {
                return Err(bad(member, "is empty, but must be what the tokens have there".to_owned()));
            }
        }
        if *leeway > MOST_LEEWAY {
            let given = humantime::format_duration(*leeway);
            return Err(bad("leeway", format!("is {given}, but must be at most 5m")));
        }
        if let Some(tenant) = settings.tenant.as_ref().filter(|tenant| !is_tenant(tenant)) {
            return Err(bad("tenant", format!("is {tenant:?}, but must be {TENANT_RULE}")));
        }
        let mut validation = Validation::new(settings.algorithm.into());
        validation.validate_nbf = true;
        validation.leeway = leeway.as_secs();
        validation.set_issuer(&[issuer]);
        validation.set_audience(&[audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        Ok(Self {
            id: settings.id.clone(),
            name: issuer.clone(),
            keys: IssuerKeys::read(settings, place, hearing)?,
            validation,
            tenant: settings.tenant.clone(),
        })
    }

    pub(super) fn is_called(&self, id: &str) -> bool {
        self.id == id
    }

    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    /// The identity of the token's presenter.
    pub(super) fn authenticate(
        &self,
        text: &str,
        initiator: &Initiator,
    ) -> Result<Identity, Unauthenticated> {
        let header = decode_header(text).map_err(|_| Unauthenticated::NotAToken)?;
        if header.crit.is_some() {
            // RFC 7515, section 4.1.11: there is no extension that we understand.
            return Err(Unauthenticated::Claims("its header has crit, which is not known here".to_owned()));
        }
        let mut refused = Unauthenticated::Signature;
        for key in self.keys.of(header.kid.as_deref()) {
            match decode::<TokenClaims>(text, &key, &self.validation).map_err(|error| refusal(error.kind())) {
                Ok(token) => return self.identity(token.claims, text, initiator),
                Err(Unauthenticated::Signature) => {}
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }

    /// Looks at the file of its keys; whether it has others than at the last look.
    pub(super) fn look_at_file(&self) -> bool {
        self.keys.look_at_file()
    }

    fn identity(
        &self,
        claims: TokenClaims,
        token: &str,
        initiator: &Initiator,
    ) -> Result<Identity, Unauthenticated> {
        let bad = |why: String| Unauthenticated::Claims(why);
        let tenant = match (&self.tenant, claims.tenant) {
            (Some(only), Some(tenant)) if *only != tenant => {
                return Err(bad("the claim tenant is another than that of the issuer".to_owned()));
            }
            (Some(only), _) => only.clone(),
            (None, Some(tenant)) if is_tenant(&tenant) => tenant,
            (None, Some(_)) => return Err(bad(format!("the claim tenant must be {TENANT_RULE}"))),
            (None, None) => return Err(bad("the claim tenant is absent".to_owned())),
        };
        if claims.session.as_ref().is_some_and(|session| !is_tenant(session)) {
            return Err(bad(format!("the claim session must be {TENANT_RULE}")));
        }
        let grants = Grants::new(&claims.buckets).map_err(|(pattern, why)| {
            bad(format!("the claim buckets has {:?}, which {why}", shorten(&pattern)))
        })?;
        let leeway = Duration::from_secs(self.validation.leeway);
        let exp = Duration::try_from_secs_f64(claims.exp.max(0.0)).ok().filter(|exp| *exp < END_OF_CALENDAR);
        let subject = claims.sub.unwrap_or_default();
        Ok(Identity {
            token_hash: subject.is_empty().then(|| KeyHash::of(token).to_text()),
            name: format!("{}/{subject}", self.id),
            tenant,
            session: claims.session,
            origin: claims.isolate_origins.then(|| isolated(initiator)).transpose()?,
            grants,
            expires_at: exp.map(|exp| SystemTime::UNIX_EPOCH + exp + leeway),
        })
    }
}

/// The `iss` of a token, which proves nothing.
pub(super) fn issuer_of(token: &str) -> Option<String> {
    dangerous::insecure_decode_claims::<Issued>(token).ok().map(|issued| issued.iss)
}

fn refusal(kind: &ErrorKind) -> Unauthenticated {
    match kind {
        ErrorKind::ExpiredSignature => Unauthenticated::Expired,
        ErrorKind::ImmatureSignature => Unauthenticated::NotYetValid,
        ErrorKind::InvalidAudience => Unauthenticated::Claims("its audience is another".to_owned()),
        ErrorKind::InvalidIssuer => Unauthenticated::Issuer,
        ErrorKind::MissingRequiredClaim(claim) => {
            Unauthenticated::Claims(format!("the claim {claim} is absent or unusable"))
        }
        ErrorKind::InvalidClaimFormat(claim) => {
            Unauthenticated::Claims(format!("the claim {claim} is unusable"))
        }
        ErrorKind::Json(error) => {
            // The error repeats the token's text as it is.
            let why = shorten(&error.to_string().replace(char::is_control, " "));
            Unauthenticated::Claims(format!("its claims cannot be read: {why}"))
        }
        ErrorKind::InvalidAlgorithm => Unauthenticated::Algorithm,
        ErrorKind::InvalidToken | ErrorKind::Base64(_) | ErrorKind::Utf8(_) => Unauthenticated::NotAToken,
        _ => Unauthenticated::Signature,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use jsonwebtoken::{DecodingKey, EncodingKey, Header, encode};
    use serde_json::{Value, json};

    use super::super::issuer_keys::{key, key_set};
    use super::*;
    use crate::settings::sections::auth::Algorithm;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn issuer(algorithm: Algorithm, keys: IssuerKeys) -> Issuer {
        let mut validation = Validation::new(algorithm.into());
        validation.validate_nbf = true;
        validation.leeway = 0;
        validation.set_issuer(&["idp"]);
        validation.set_audience(&["lockhouse"]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        Issuer { id: "idp".to_owned(), name: "idp".to_owned(), keys, validation, tenant: None }
    }

    fn hmac() -> Issuer {
        issuer(Algorithm::HS256, IssuerKeys::One(DecodingKey::from_secret(SECRET)))
    }

    fn now() -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    }

    fn claims() -> Value {
        json!({
            "iss": "idp", "aud": ["others", "lockhouse"], "sub": "ada", "exp": now() + 100, "tenant": "acme",
            "buckets": {"orders*": ["request", "query"]},
        })
    }

    fn but(member: &str, value: Value) -> Value {
        let mut changed = claims();
        changed[member] = value;
        changed
    }

    fn signed(header: &Header, claims: &Value) -> String {
        encode(header, claims, &EncodingKey::from_secret(SECRET)).unwrap()
    }

    fn authenticated(claims: &Value) -> Result<Identity, Unauthenticated> {
        hmac().authenticate(
            &signed(&Header::default(), claims),
            &Initiator::Page("https://a.example".to_owned()),
        )
    }

    #[test]
    fn a_token_says_who_where_and_what() {
        let identity = authenticated(&claims()).unwrap();
        assert_eq!((&*identity.name, &*identity.tenant), ("idp/ada", "acme"));
        assert!(identity.permissions("orders-7").has(crate::settings::Permission::Query));
        assert!(identity.permissions("seats").is_empty());
        assert_eq!((identity.session, identity.origin), (None, None));
        let left = identity.expires_at.unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(left > Duration::from_secs(90) && left < Duration::from_secs(101), "{left:?}");
        let apart = authenticated(&but("isolateOrigins", json!(true))).unwrap();
        assert_eq!(apart.origin.as_deref(), Some("https://a.example"));
        assert_eq!(authenticated(&but("session", json!("s-1"))).unwrap().session.as_deref(), Some("s-1"));
    }

    #[test]
    fn a_token_out_of_its_time_is_reported_as_such() {
        assert_eq!(authenticated(&but("exp", json!(now() - 5))), Err(Unauthenticated::Expired));
        assert_eq!(authenticated(&but("nbf", json!(now() + 50))), Err(Unauthenticated::NotYetValid));
        // An end beyond the calendar is none.
        assert_eq!(authenticated(&but("exp", json!(1e18))).unwrap().expires_at, None);
    }

    #[test]
    fn a_token_for_others_or_without_what_it_needs_is_refused() {
        assert_eq!(authenticated(&but("iss", json!("evil"))), Err(Unauthenticated::Issuer));
        for (member, value) in [
            ("aud", json!("others")),
            ("aud", Value::Null),
            ("exp", Value::Null),
            ("exp", json!("soon")),
            ("tenant", Value::Null),
            ("tenant", json!("a\u{1f}b")),
            ("session", json!("")),
            ("buckets", Value::Null),
            ("buckets", json!({"a*b": ["query"]})),
            ("buckets", json!({"a": ["everything"]})),
        ] {
            let refused = authenticated(&but(member, value.clone()));
            assert!(matches!(refused, Err(Unauthenticated::Claims(_))), "{member} {value}: {refused:?}");
        }
    }

    #[test]
    fn the_issuer_decides_on_the_tenant_where_its_settings_do() {
        let issuer = Issuer { tenant: Some("acme".to_owned()), ..hmac() };
        let authenticate =
            |claims: &Value| issuer.authenticate(&signed(&Header::default(), claims), &Initiator::Program);
        assert_eq!(authenticate(&but("tenant", Value::Null)).unwrap().tenant, "acme");
        assert!(matches!(authenticate(&but("tenant", json!("beta"))), Err(Unauthenticated::Claims(_))));
    }

    #[test]
    fn a_token_says_nothing_of_the_algorithm_and_the_key() {
        let hs512 = signed(&Header::new(jsonwebtoken::Algorithm::HS512), &claims());
        assert_eq!(hmac().authenticate(&hs512, &Initiator::Program), Err(Unauthenticated::Algorithm));
        // The public key of another algorithm, used as a secret by the signer.
        let rsa =
            issuer(Algorithm::RS256, IssuerKeys::Set(key_set(Algorithm::RS256, RSA_SET.as_bytes()).unwrap()));
        let confused = signed(&Header::default(), &claims());
        assert_eq!(rsa.authenticate(&confused, &Initiator::Program), Err(Unauthenticated::Algorithm));
        let payload = confused.split('.').nth(1).unwrap();
        // {"alg":"none"}
        let unsigned = format!("eyJhbGciOiJub25lIn0.{payload}.");
        assert!(hmac().authenticate(&unsigned, &Initiator::Program).is_err());
        let critical = Header { crit: Some(vec!["b64".to_owned()]), ..Header::default() };
        assert!(matches!(
            hmac().authenticate(&signed(&critical, &claims()), &Initiator::Program),
            Err(Unauthenticated::Claims(_))
        ));
    }

    #[test]
    fn a_token_names_its_key_of_several_by_kid() {
        let set = |kids: &[Option<&str>]| {
            let key = |kid: &Option<&str>| (kid.map(str::to_owned), DecodingKey::from_secret(SECRET));
            issuer(Algorithm::HS256, IssuerKeys::Set(kids.iter().map(key).collect()))
        };
        let named = |kid: Option<&str>| {
            signed(&Header { kid: kid.map(str::to_owned), ..Header::default() }, &claims())
        };
        assert!(set(&[Some("a"), Some("b")]).authenticate(&named(Some("b")), &Initiator::Program).is_ok());
        assert_eq!(
            set(&[Some("a"), Some("b")]).authenticate(&named(Some("c")), &Initiator::Program),
            Err(Unauthenticated::Signature)
        );
        assert_eq!(
            set(&[Some("a"), Some("b")]).authenticate(&named(None), &Initiator::Program),
            Err(Unauthenticated::Signature)
        );
        assert!(set(&[Some("a")]).authenticate(&named(None), &Initiator::Program).is_ok());
    }

    /// RFC 7515, appendix A.2.
    const RSA_SET: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
        {"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}]}"#;

    /// RFC 7515, appendix A.1.
    const HMAC_SET: &str = r#"{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}]}"#;

    /// RFC 8037, appendix A.2.
    const ED_SET: &str =
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    /// The signed payload is not for us, so that its claims are refused; but the signature is good.
    #[test]
    fn the_signatures_of_the_standards_are_genuine_and_others_are_not() {
        let payload =
            "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let hmac = format!(
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{payload}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        );
        let rsa = format!(
            "eyJhbGciOiJSUzI1NiJ9.{payload}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5ju\
             jGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_d\
             O--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
        );
        // RFC 8037, appendix A.4.
        let ed = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        for (algorithm, set, token) in [
            (Algorithm::HS256, HMAC_SET, hmac.as_str()),
            (Algorithm::RS256, RSA_SET, rsa.as_str()),
            (Algorithm::EdDSA, ED_SET, ed),
        ] {
            let issuer = issuer(algorithm, IssuerKeys::Set(key_set(algorithm, set.as_bytes()).unwrap()));
            let genuine = issuer.authenticate(token, &Initiator::Program);
            assert!(matches!(genuine, Err(Unauthenticated::Claims(_))), "{algorithm:?}: {genuine:?}");
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let first = if signature.starts_with('A') { 'B' } else { 'A' };
            let forged = format!("{signed}.{first}{}", &signature[1..]);
            assert_eq!(
                issuer.authenticate(&forged, &Initiator::Program),
                Err(Unauthenticated::Signature),
                "{algorithm:?}"
            );
        }
    }

    #[test]
    fn keys_that_are_too_short_or_of_another_kind_are_refused() {
        assert!(key(Algorithm::HS256, b"short\n").unwrap_err().contains("at least 32"));
        assert!(key(Algorithm::HS256, &[b'x'; 32]).is_ok());
        assert!(key(Algorithm::EdDSA, b"no PEM").is_err());
        let private = key(Algorithm::RS256, b"-----BEGIN PRIVATE KEY-----\n").unwrap_err();
        assert!(private.contains("private"), "{private}");
        assert!(key_set(Algorithm::EdDSA, RSA_SET.as_bytes()).unwrap_err().contains("no key for EdDSA"));
        let short = r#"{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQAB"}]}"#;
        assert!(key_set(Algorithm::RS256, short.as_bytes()).unwrap_err().contains("at least 2048"));
        let twice = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AA"},{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AA"}]}"#;
        assert_eq!(key_set(Algorithm::EdDSA, twice.as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn a_key_for_something_else_than_signatures_verifies_none() {
        let marked = |marks: &str| {
            let set = HMAC_SET.replacen(r#"{"kty""#, &format!(r#"{{{marks},"kty""#), 1);
            key_set(Algorithm::HS256, set.as_bytes()).map(|keys| keys.len())
        };
        for good in [r#""use":"sig""#, r#""key_ops":["sign","verify"]"#, r#""alg":"HS256""#] {
            assert_eq!(marked(good), Ok(1), "{good}");
        }
        for other in [r#""use":"enc""#, r#""use":"x""#, r#""key_ops":["encrypt"]"#, r#""key_ops":[]"#] {
            assert!(marked(other).unwrap_err().contains("no key for HS256"), "{other}");
        }
    }

    #[test]
    fn keys_that_share_a_kid_are_all_tried() {
        let key = |secret: &[u8]| (Some("k".to_owned()), DecodingKey::from_secret(secret));
        let token = signed(&Header { kid: Some("k".to_owned()), ..Header::default() }, &claims());
        let authenticate =
            |keys| issuer(Algorithm::HS256, IssuerKeys::Set(keys)).authenticate(&token, &Initiator::Program);
        let other = b"another secret of 32 bytes or so".as_slice();
        assert!(authenticate(vec![key(other), key(SECRET)]).is_ok());
        assert!(authenticate(vec![key(SECRET), key(other)]).is_ok());
        assert_eq!(authenticate(vec![key(other), key(other)]), Err(Unauthenticated::Signature));
    }

    #[test]
    fn a_refusal_repeats_at_most_64_characters_of_a_claim() {
        let long = "x".repeat(500);
        for claims in [
            but("exp", json!(long)),
            but("buckets", json!({"a": [long]})),
            but("buckets", json!({format!("a*{long}"): ["query"]})),
            but("tenant", json!(long)),
        ] {
            let refused = authenticated(&claims).unwrap_err().to_string();
            assert!(!refused.contains(&long[..64]), "{refused}");
        }
    }
}
