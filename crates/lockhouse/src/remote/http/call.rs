//! Requests over HTTP.

use std::fmt::Write;

use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::secret::Secret;

/// All that RFC 3986 does not leave unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request to a server, below a bucket by default.
///
/// ```
/// use lockhouse::remote::http::Call;
///
/// let call = Call::get(&["query"]).with("prefix", "seat/");
/// ```
#[derive(Clone)]
#[must_use = "nothing is asked unless it is sent"]
pub struct Call {
    pub(super) method: Method,
    /// The path, and then the query string, each part encoded.
    pub(super) target: String,
    pub(super) secret: Option<String>,
    pub(super) key: Option<String>,
    pub(super) body: Option<String>,
    /// Whether to carry it out twice does no harm, by its nature or by its key.
    is_idempotent: bool,
    /// Below the server itself instead of the bucket.
    pub(super) is_of_server: bool,
}

impl Call {
    fn new(method: Method, path: &[&str]) -> Self {
        let mut target = String::new();
        for segment in path {
            // Writing to a string never fails.
            _ = write!(target, "/{}", encode(segment));
        }
        let is_idempotent = method == Method::GET;
        Self { method, target, secret: None, key: None, body: None, is_idempotent, is_of_server: false }
    }

    /// Reads the resource at this path, which is given in its segments.
    pub fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Has something done.
    pub fn post(path: &[&str]) -> Self {
        Self::new(Method::POST, path)
    }

    /// Has something ended.
    pub fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// With a parameter of the query string.
    pub fn with(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        let mark = if self.target.contains('?') { '&' } else { '?' };
        let target = format!("{}{mark}{}={}", self.target, encode(key), encode(value.as_ref()));
        Self { target, ..self }
    }

    /// With a body of JSON.
    pub fn body(self, json: impl Into<String>) -> Self {
        Self { body: Some(json.into()), ..self }
    }

    /// In the name of the holder of that secret.
    pub fn secret(self, secret: impl Into<String>) -> Self {
        Self { secret: Some(secret.into()), ..self }
    }

    /// As a request that can be sent again and is carried out once.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), is_idempotent: true, ..self }
    }

    /// Of the server, not of the bucket.
    pub fn of_server(self) -> Self {
        Self { is_of_server: true, ..self }
    }

    /// In the name of an owner.
    pub(crate) fn by(self, secret: &Secret) -> Self {
        self.secret(secret.reveal())
    }

    /// With a body as `serde` writes it.
    pub(crate) fn json(self, body: &impl serde::Serialize) -> Self {
        self.body(serde_json::to_string(body).expect("what is sent has nothing that JSON cannot hold"))
    }

    /// As a request that does no harm if it is carried out twice. All others, but for questions and those
    /// with a key, are not repeated once they may have been carried out.
    pub(crate) fn idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
    }

    /// As a request that has a key of its own, which cannot be guessed. Without randomness the request goes
    /// without, and is not repeated.
    pub(crate) fn once(self) -> Self {
        let random = getrandom::u64().and_then(|high| Ok((high, getrandom::u64()?)));
        match random {
            Ok((high, low)) => self.idempotency_key(format!("{high:016x}{low:016x}")),
            Err(_) => self,
        }
    }

    /// Whether it may be sent again once it may have been carried out.
    pub(super) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    /// Whether it changes nothing, however often it is carried out. Of a question no outcome is unknown.
    pub fn is_a_question(&self) -> bool {
        self.method == Method::GET
    }
}

/// Secrets are not shown.
impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

pub(super) fn encode(part: impl AsRef<[u8]>) -> String {
    percent_encode(part.as_ref(), ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_path_and_a_query_is_encoded() {
        let call = Call::get(&["owners", "a/b"]).with("resource", "row 1&2/é").with("x", [0xED, 0xA0, 0x80]);
        assert_eq!(call.target, "/owners/a%2Fb?resource=row%201%262%2F%C3%A9&x=%ED%A0%80");
    }

    #[test]
    fn keys_differ_and_secrets_are_not_shown() {
        let [one, other] = [(); 2].map(|()| Call::post(&["claims"]).once().secret("geheim"));
        assert_ne!(one.key, other.key);
        assert_eq!(one.key.as_ref().map(String::len), Some(32));
        assert!(!format!("{one:?}").contains("geheim"));
    }
}
