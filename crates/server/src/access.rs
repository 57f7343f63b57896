//! Who may talk to a server that has no authentication: programs of this machine, and pages of allowed origins.
//!
//! The `Host` check keeps away pages that were given this machine's address under a name of their own; the `Origin` check keeps
//! away pages of other sites. [`Initiator`] tells pages from programs where there is authentication.

use std::fmt;
use std::net::Ipv4Addr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Uri, header};

use crate::audit::{Audit, Deed};
use crate::limits::Seat;
use crate::settings::Origin;

/// What sent a request, as far as its head tells. A program may claim to be any page; a page cannot claim to be a program or another page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Initiator {
    Program,
    /// A page of this origin, written as browsers do.
    Page(String),
    /// A page, of which the browser does not tell the origin.
    UnknownPage,
}

/// Browsers say by it how the page stands to what it asks for (<https://www.w3.org/TR/fetch-metadata/>). Of those headers `Sec-Fetch-Mode` is no mark
/// of a page, as the `fetch` of Node sends it as well.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl Initiator {
    /// Browsers leave the `Origin` out of a GET for their own site, and of one without CORS for another site.
    pub(crate) fn of(headers: &HeaderMap, is_tls: bool) -> Self {
        let page = |origin: Option<Origin>| {
            origin.map_or(Self::UnknownPage, |origin| Self::Page(origin.to_string()))
        };
        if headers.contains_key(header::ORIGIN) {
            return page(single(headers, &header::ORIGIN).and_then(|text| text.parse().ok()));
        }
        // No page chooses its `Referer`, other than to have none.
        let referer = single(headers, &header::REFERER).and_then(origin_of);
        match headers.get(SEC_FETCH_SITE) {
            Some(site) if site == "same-origin" => page(referer.or_else(|| own_origin(headers, is_tls))),
            Some(_) => Self::UnknownPage,
            // Over plain HTTP browsers leave that header out, too, unless the server is on their own machine.
            None if headers.contains_key(header::REFERER) => page(referer),
            None => Self::Program,
        }
    }
}

/// The origin of what is at that URL.
fn origin_of(url: &str) -> Option<Origin> {
    let uri: Uri = url.parse().ok()?;
    format!("{}://{}", uri.scheme_str()?, uri.authority()?).parse().ok()
}

/// Ours, as a browser that sends [`SEC_FETCH_SITE`] has it: it does so by TLS, which a proxy may have ended, and on its own machine.
fn own_origin(headers: &HeaderMap, is_tls: bool) -> Option<Origin> {
    let scheme = if is_tls || !is_for_loopback(headers) { "https" } else { "http" };
    format!("{scheme}://{}", single(headers, &header::HOST)?).parse().ok()
}

/// Why a request is refused.
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
    /// The header that it is refused for.
    fn header(&self) -> HeaderName {
        match self {
            Self::Host => header::HOST,
            Self::Origin => header::ORIGIN,
        }
    }

    /// Notes the refusal.
    pub(crate) fn note(&self, audit: &Audit, request: &Request) {
        let header = self.header();
        let given = request.headers().get(&header).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let name = given.as_ref().map(|given| given as &dyn fmt::Display);
        let from = request.extensions().get::<Seat>().map(|seat| seat.from);
        audit.deny(from, &Deed { who: None, what: header.as_str(), bucket: "", name }, self);
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

/// Whether the `Host` is a loopback name.
pub(crate) fn is_for_loopback(headers: &HeaderMap) -> bool {
    single(headers, &header::HOST).is_some_and(|host| is_loopback(host_of(host)))
}

fn single<'h>(headers: &'h HeaderMap, key: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(key).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The host of `host:port`, brackets included.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn is_loopback(host: &str) -> bool {
    let top = host.rsplit_once('.').map_or(host, |(_, top)| top);
    top.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
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

    /// Of a request with that `Host` and these headers, separated by a colon.
    fn initiator(host: &str, lines: &[&str], is_tls: bool) -> Initiator {
        let mut headers = headers(&header::HOST, &[host]);
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        Initiator::of(&headers, is_tls)
    }

    fn page(origin: &str) -> Initiator {
        Initiator::Page(origin.to_owned())
    }

    #[test]
    fn a_page_is_no_program_though_it_sends_no_origin() {
        for (host, lines, is_tls, expected) in [
            ("l.example", &["origin: HTTPS://App.example:443"][..], true, page("https://app.example")),
            ("l.example", &["origin: null"], true, Initiator::UnknownPage),
            ("l.example", &["sec-fetch-site: same-origin"], true, page("https://l.example")),
            ("l.example:7420", &["sec-fetch-site: same-origin"], true, page("https://l.example:7420")),
            // Behind a proxy that ends TLS, and one that names us otherwise.
            ("l.example", &["sec-fetch-site: same-origin"], false, page("https://l.example")),
            (
                "127.0.0.1:7420",
                &["sec-fetch-site: same-origin", "referer: https://l.example/a?b"],
                false,
                page("https://l.example"),
            ),
            ("localhost:7420", &["sec-fetch-site: same-origin"], false, page("http://localhost:7420")),
            ("localhost:7420", &["sec-fetch-site: same-origin"], true, page("https://localhost:7420")),
            ("l.example", &["sec-fetch-site: cross-site"], true, Initiator::UnknownPage),
            ("l.example", &["sec-fetch-site: same-site"], true, Initiator::UnknownPage),
            ("l.example", &["sec-fetch-site: none"], true, Initiator::UnknownPage),
            (
                "l.example",
                &["sec-fetch-site: same-origin", "sec-fetch-site: none", "host: x"],
                true,
                Initiator::UnknownPage,
            ),
            // Over plain HTTP.
            ("l.example", &["referer: http://l.example:8080/"], false, page("http://l.example:8080")),
            ("l.example", &["referer: about:blank"], false, Initiator::UnknownPage),
            ("l.example", &[], true, Initiator::Program),
            ("l.example", &["sec-fetch-mode: cors"], true, Initiator::Program),
        ] {
            assert_eq!(initiator(host, lines, is_tls), expected, "{host} {lines:?}");
        }
    }
}
