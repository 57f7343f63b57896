//! Where a server is: the rules of its URL.

use std::fmt;

use lockhouse_wire as wire;
use tokio_tungstenite::tungstenite::http::Uri;

use crate::remote::error::ConnectError;
#[cfg(feature = "tls")]
use crate::remote::transport::tls::Trust;

/// The most characters of a URL that an error repeats.
const SHOWN_CHARS: usize = 200;

/// The endpoint of a server, with the scope in its query.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    uri: Uri,
    /// Its place among several.
    index: Option<usize>,
    #[cfg(feature = "tls")]
    trust: Option<Trust>,
}

impl Address {
    /// Reads `http`, `https`, `ws` or `wss`. The path `/` stands for [`wire::PATH`]. The query may name a
    /// bucket and a partition; what `scope` sets goes before them.
    pub(crate) fn parse(url: &str, scope: &[(&'static str, &str)]) -> Result<Self, ConnectError> {
        let wrong = |rule| wrong(&without_password(url), rule);
        let before_fragment = url.split('#').next().unwrap_or_default();
        let given = before_fragment.split_once('?').map_or("", |(_, query)| query);
        let mut keys = form_urlencoded::parse(given.as_bytes()).map(|(key, _)| key);
        if let Some(key) = keys.find(|key| !PARAMETERS.contains(&&**key)) {
            // The value may be a secret.
            let rule = "a URL whose query has no other parameters than bucket and partition";
            return Err(self::wrong(&format!("?{key}=…"), rule));
        }
        if url.contains('#') {
            return Err(wrong("a URL without a fragment, which no server gets"));
        }
        let uri: Uri = url.parse().map_err(|_| wrong("a URL like http://127.0.0.1:7420"))?;
        let scheme = match uri.scheme_str() {
            Some("http" | "ws") => "ws",
            Some("https" | "wss") if cfg!(feature = "tls") => "wss",
            Some("https" | "wss") => {
                return Err(wrong("http:// or ws://, as this program was built without the feature tls"));
            }
            _ => {
                return Err(wrong(
                    "a URL that begins with http:// or https://, such as http://127.0.0.1:7420",
                ));
            }
        };
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
            return Err(wrong("a URL with a host"));
        };
        if authority.as_str().contains('@') {
            return Err(wrong("a URL without a user name"));
        }
        // What stands behind the host must be read, or 80 would take its place.
        let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        let is_port = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
        };
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return Err(wrong("a URL whose port is a number from 1 to 65535"));
        }
        let path = if uri.path() == "/" { wire::PATH } else { uri.path() };
        let given = uri.query().unwrap_or_default();
        if wire::percent_decode(given).is_none() {
            return Err(wrong("a URL whose query is percent-encoded UTF-8"));
        }
        if PARAMETERS.iter().any(|key| named(given, key).count() > 1) {
            return Err(wrong("a URL that names one bucket and one partition at most"));
        }
        let query = query(given, scope)?;
        let mark = if query.is_empty() { "" } else { "?" };
        let uri = format!("{scheme}://{authority}{path}{mark}{query}");
        Ok(Self {
            uri: uri.parse().map_err(|_| wrong("a URL like http://127.0.0.1:7420"))?,
            index: None,
            #[cfg(feature = "tls")]
            trust: None,
        })
    }

    /// The same as one of several, at this place.
    pub(crate) fn at(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Checks that both lead to the same locks, and that none is without TLS where the other has it.
    pub(crate) fn agrees_with(&self, first: &Self) -> Result<(), ConnectError> {
        let wrong = |rule| Err(wrong(&self.to_string(), rule));
        if self.is_tls() != first.is_tls() {
            return wrong("a URL with TLS if the first one has it, and else without");
        }
        if self.bucket() != first.bucket() {
            return wrong("a URL with the bucket of the first one");
        }
        if self.partition() != first.partition() {
            return wrong("a URL with the partition of the first one");
        }
        Ok(())
    }

    /// Whether it is to be spoken to by TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.uri.scheme_str() == Some("wss")
    }

    /// Sets the certificates that are trusted there; needed for TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn trusting(self, trust: Trust) -> Self {
        Self { trust: Some(trust), ..self }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    fn http_scheme(&self) -> &'static str {
        if self.is_tls() { "https" } else { "http" }
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The address of the HTTP API: below the part before [`wire::PATH`].
    pub(crate) fn http_base(&self) -> Result<String, ConnectError> {
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        match self.uri.path().strip_suffix(wire::PATH) {
            Some(prefix) => Ok(format!("{}://{authority}{prefix}", self.http_scheme())),
            None => {
                let url = format!("{}://{authority}{}", self.http_scheme(), self.uri.path());
                let rule = "a URL whose path is / or ends in /v1/ws, for offline locks and claims";
                let error = wrong(&url, rule);
                Err(match self.index {
                    Some(index) => error.of_url(index),
                    None => error,
                })
            }
        }
    }

    /// Without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// The bucket that the query names.
    pub(crate) fn bucket(&self) -> String {
        let mut named = named(self.uri.query().unwrap_or_default(), "bucket");
        named.next().unwrap_or_else(|| "default".to_owned())
    }

    fn partition(&self) -> String {
        named(self.uri.query().unwrap_or_default(), "partition").next().unwrap_or_default()
    }
}

fn wrong(url: &str, rule: &'static str) -> ConnectError {
    ConnectError::Url { index: None, url: url.chars().take(SHOWN_CHARS).collect(), rule }
}

/// The parameters of a WebSocket's URL.
const PARAMETERS: [&str; 2] = ["bucket", "partition"];

/// The values of that parameter.
fn named<'q>(query: &'q str, key: &'q str) -> impl Iterator<Item = String> + 'q {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.filter(move |(known, _)| known == key).map(|(_, value)| value.into_owned())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.uri.host().unwrap_or_default();
        write!(f, "{}://{host}:{}", self.http_scheme(), self.port())
    }
}

/// The URL with `***` in the place of a password.
pub(crate) fn without_password(url: &str) -> String {
    let begin = url.find("//").map_or(0, |at| at + 2);
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |length| begin + length);
    // A password may have a slash or an @ that was to be encoded.
    let at =
        url[begin..end].rfind('@').map(|at| begin + at).or_else(|| url.rfind('@').filter(|at| *at > begin));
    match at.and_then(|at| Some((at, begin + url[begin..at].find(':')?))) {
        Some((at, colon)) => format!("{}:***{}", &url[..colon], &url[at..]),
        None => url.to_owned(),
    }
}

fn query(given: &str, scope: &[(&'static str, &str)]) -> Result<String, ConnectError> {
    let check = |field, value: &str| {
        // An empty bucket is a mistake, such as a variable that is not set; no partition is an empty one.
        let is_absent = field == "bucket" && value.is_empty();
        if is_absent || value.len() > wire::SCOPE_BYTES {
            return Err(ConnectError::Scope { field, bytes: value.len() });
        }
        Ok(())
    };
    scope.iter().try_for_each(|(field, value)| check(field, value))?;
    let mut is_named = scope.iter().any(|(field, _)| *field == "bucket");
    for (key, value) in form_urlencoded::parse(given.as_bytes()) {
        match &*key {
            // The option goes before the URL.
            "bucket" if !is_named => {
                check("bucket", &value)?;
                is_named = true;
            }
            "partition" => check("partition", &value)?,
            _ => {}
        }
    }
    if scope.is_empty() {
        return Ok(given.to_owned());
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    let kept = form_urlencoded::parse(given.as_bytes());
    query.extend_pairs(kept.filter(|(key, _)| scope.iter().all(|(set, _)| set != key)));
    query.extend_pairs(scope);
    Ok(query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(url: &str, scope: &[(&'static str, &str)]) -> String {
        Address::parse(url, scope).unwrap().uri().to_string()
    }

    #[test]
    fn the_path_and_the_query_are_kept_and_the_root_stands_for_the_endpoint() {
        assert_eq!(uri("http://localhost:7420", &[]), "ws://localhost:7420/v1/ws");
        assert_eq!(uri("ws://localhost:7420/", &[]), "ws://localhost:7420/v1/ws");
        assert_eq!(uri("http://h/behind/proxy?bucket=a%20b", &[]), "ws://h/behind/proxy?bucket=a%20b");
        assert_eq!(
            uri("http://h?partition=p&bucket=a", &[("bucket", "b&c")]),
            "ws://h/v1/ws?partition=p&bucket=b%26c"
        );
        let address = Address::parse("http://[::1]:7420?bucket=a%20b", &[]).unwrap();
        assert_eq!((address.host(), address.port(), address.bucket().as_str()), ("::1", 7420, "a b"));
        assert_eq!(address.to_string(), "http://[::1]:7420");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_url_may_ask_for_tls() {
        assert_eq!(uri("https://h", &[]), "wss://h/v1/ws");
        let address = Address::parse("wss://h/", &[]).unwrap();
        assert!(address.is_tls());
        assert_eq!((address.port(), address.to_string().as_str()), (443, "https://h:443"));
        assert_eq!(address.http_base().unwrap(), "https://h");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_url_may_not_ask_for_tls() {
        let error = Address::parse("https://h", &[]).unwrap_err().to_string();
        assert!(
            error.ends_with("it must be http:// or ws://, as this program was built without the feature tls")
        );
    }

    #[test]
    fn the_http_api_is_beside_the_endpoint() {
        let base = |url: &str| Address::parse(url, &[]).unwrap().http_base();
        assert_eq!(base("ws://[::1]:7420?bucket=a").unwrap(), "http://[::1]:7420");
        assert_eq!(base("http://h/behind/proxy/v1/ws").unwrap(), "http://h/behind/proxy");
        assert_eq!(
            base("http://h/elsewhere").unwrap_err().to_string(),
            "url: \"http://h/elsewhere\", but it must be a URL whose path is / or ends in /v1/ws, for offline locks and claims"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_rule() {
        let refused = |url: &str| Address::parse(url, &[]).unwrap_err().to_string();
        assert_eq!(
            refused("ftp://example.com"),
            "url: \"ftp://example.com\", but it must be a URL that begins with http:// or https://, such as http://127.0.0.1:7420"
        );
        assert!(refused("localhost:7420").ends_with(
            "it must be a URL that begins with http:// or https://, such as http://127.0.0.1:7420"
        ));
        assert!(refused("http://u:p@h/").ends_with("it must be a URL without a user name"));
        for query in ["x=1", "Bucket=a", "bucket=a&partiton=b"] {
            let refused = refused(&format!("http://h?{query}"));
            assert!(refused.contains("no other parameters than bucket and partition"), "{refused}");
        }
        for url in ["http://h?token=geheim", "http://h:0/?token=geheim#x", "ftp://h/?token=geheim%zz"] {
            assert!(!refused(url).contains("geheim"), "{url}");
        }
        for port in ["7420x", "", "0", "65536", "+80", "-1"] {
            let refused = refused(&format!("http://127.0.0.1:{port}"));
            assert!(refused.contains("it must be a URL"), "{refused}");
        }
        assert!(refused("http://[::1]:x").contains("it must be a URL"));
        assert!(refused("http://u:geheim@h/").starts_with("url: \"http://u:***@h/\""));
        assert!(refused("http://u:ge/heim@h/").starts_with("url: \"http://u:***@h/\""));
        assert_eq!(refused("http://h?bucket="), "bucket: 0 bytes, but 1 to 256 bytes are allowed");
        assert!(refused("http://").ends_with("it must be a URL like http://127.0.0.1:7420"));
        let long = "b".repeat(257);
        let error = Address::parse("http://h", &[("bucket", &long)]).unwrap_err();
        assert_eq!(error.to_string(), "bucket: 257 bytes, but 1 to 256 bytes are allowed");
    }
}
