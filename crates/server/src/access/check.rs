//! Checks of the place that a request comes from.

use axum::http::{HeaderMap, HeaderName, header};

use super::hosts::{host_of, is_loopback, single};
use crate::settings::Origin;

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error(
        "the Host header must name this machine (localhost, 127.0.0.1, [::1]) or an allowed origin: see --allow-origin"
    )]
    Host,
    #[error("pages of this origin may not connect: see --allow-origin")]
    Origin,
}

impl Denied {
    /// The header that the request is refused for.
    pub(crate) fn header(&self) -> HeaderName {
        match self {
            Self::Host => header::HOST,
            Self::Origin => header::ORIGIN,
        }
    }
}

/// The `Host` must be a loopback name or that of an allowed origin.
pub(crate) fn check_host(headers: &HeaderMap, allowed: &[Origin]) -> Result<(), Denied> {
    let host = single(headers, &header::HOST).ok_or(Denied::Host)?;
    if is_loopback(host_of(host)) {
        return Ok(());
    }
    let host = host.to_ascii_lowercase();
    let known = |origin: &Origin| origin.authority == host || host_of(&origin.authority) == host_of(&host);
    if allowed.iter().any(known) { Ok(()) } else { Err(Denied::Host) }
}

/// The `Origin`, which browsers send, must be a loopback or an allowed one; other programs send none.
pub(crate) fn check_origin(headers: &HeaderMap, allowed: &[Origin]) -> Result<(), Denied> {
    if !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let origin: Origin =
        single(headers, &header::ORIGIN).and_then(|text| text.parse().ok()).ok_or(Denied::Origin)?;
    let web = origin.scheme == "http" || origin.scheme == "https";
    let local = web && is_loopback(host_of(&origin.authority));
    if local || allowed.contains(&origin) { Ok(()) } else { Err(Denied::Origin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(key: &HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (key.clone(), value.parse().unwrap())).collect()
    }

    fn allowed() -> Vec<Origin> {
        vec!["https://app.example".parse().unwrap(), "http://dev.example:3000".parse().unwrap()]
    }

    #[test]
    fn hosts_of_this_machine_and_of_allowed_origins_pass() {
        for host in [
            "localhost:7420",
            "127.0.0.1:7420",
            "127.8.9.1",
            "[::1]:7420",
            "LOCALHOST",
            "a.localhost:1",
            "A.LocalHost:1",
            "app.example",
            "dev.example:7420",
        ] {
            assert_eq!(check_host(&headers(&header::HOST, &[host]), &allowed()), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evillocalhost",
            "localhost.",
            "localhost:p",
            "127.0.0.1.evil.example",
            "0x7f.1",
            "1270.0.1",
            "",
            "[::2]:80",
            "app.example.evil",
        ] {
            assert_eq!(check_host(&headers(&header::HOST, &[host]), &allowed()), Err(Denied::Host), "{host}");
        }
        assert_eq!(check_host(&HeaderMap::new(), &allowed()), Err(Denied::Host));
        assert_eq!(
            check_host(&headers(&header::HOST, &["localhost", "localhost"]), &allowed()),
            Err(Denied::Host)
        );
    }

    #[test]
    fn no_origin_loopback_origins_and_allowed_ones_pass() {
        assert_eq!(check_origin(&HeaderMap::new(), &[]), Ok(()));
        for origin in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:8080",
            "https://app.example",
            "https://app.example:443",
            "http://dev.example:3000",
        ] {
            assert_eq!(check_origin(&headers(&header::ORIGIN, &[origin]), &allowed()), Ok(()), "{origin}");
        }
    }

    #[test]
    fn other_origins_are_refused() {
        for origin in [
            "https://evil.example",
            "http://app.example",
            "https://app.example:444",
            "null",
            "",
            "file://",
            "https://localhost.evil.example",
            "chrome-extension://localhost",
            "https://app.example@evil.example",
        ] {
            assert_eq!(
                check_origin(&headers(&header::ORIGIN, &[origin]), &allowed()),
                Err(Denied::Origin),
                "{origin}"
            );
        }
    }
}
