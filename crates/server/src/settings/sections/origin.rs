//! Web origins.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;

/// A web origin, such as `https://app.example` or `http://localhost:3000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub(crate) scheme: String,
    pub(crate) authority: String,
}

/// A text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an origin is the scheme of a page and a host, with a port from 1 to 65535 if it has one, without a path and without \"*\", like https://app.example or http://localhost:3000"
)]
pub struct InvalidOrigin;

impl FromStr for Origin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let lower = text.to_ascii_lowercase();
        let (scheme, authority) = lower.split_once("://").ok_or(InvalidOrigin)?;
        let uri: Uri = lower.parse().map_err(|_| InvalidOrigin)?;
        let whole = uri.authority().is_some_and(|parsed| parsed.as_str() == authority);
        // An IPv6 address has colons, too.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0 && port.to_string() == text);
        if port.is_some_and(|port| !is_port(port)) || matches!(scheme, "ws" | "wss") {
            return Err(InvalidOrigin);
        }
        if !whole || scheme.is_empty() || authority.contains('@') || host.contains('*') {
            return Err(InvalidOrigin);
        }
        // Browsers leave the default port out.
        let default_port = if scheme == "https" { ":443" } else { ":80" };
        let authority = authority.strip_suffix(default_port).unwrap_or(authority);
        Ok(Self { scheme: scheme.to_owned(), authority: authority.to_owned() })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path() {
        for text in [
            "https://app.example/",
            "https://app.example/x",
            "app.example",
            "*",
            "https://",
            "https://a b",
            "https://*.example",
            "https://app.example:",
            "https://app.example:x",
            "https://app.example:99999",
            "https://app.example:0443",
            "https://app.example:0",
            "ws://app.example",
            "wss://app.example",
        ] {
            assert_eq!(text.parse::<Origin>(), Err(InvalidOrigin), "{text}");
        }
        assert_eq!("HTTPS://App.Example:443".parse::<Origin>().unwrap().to_string(), "https://app.example");
        for text in ["http://[::1]:3000", "http://[::1]", "capacitor://localhost"] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), text);
        }
    }
}
