//! The initiator of a request: a page or a program.

use axum::http::{HeaderMap, HeaderName, Uri, header};

use super::hosts::{is_for_loopback, single};
use crate::settings::Origin;

/// The initiator of a request, as far as its head shows. A program may claim to be any page; a page cannot
/// claim to be a program or another page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Initiator {
    Program,
    /// A page of this origin, written as browsers do.
    Page(String),
    /// A page whose origin the browser does not send.
    UnknownPage,
}

/// The header in which browsers send how the page stands to the resource that it requests
/// (<https://www.w3.org/TR/fetch-metadata/>). Of those headers `Sec-Fetch-Mode` is no mark of a page, as the
/// `fetch` of Node sends it as well.
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

/// The origin of that URL.
fn origin_of(url: &str) -> Option<Origin> {
    let uri: Uri = url.parse().ok()?;
    format!("{}://{}", uri.scheme_str()?, uri.authority()?).parse().ok()
}

/// Our origin, as seen by a browser that sends [`SEC_FETCH_SITE`]: browsers send it over TLS, which a proxy
/// may have ended, and on their own machine.
fn own_origin(headers: &HeaderMap, is_tls: bool) -> Option<Origin> {
    let scheme = if is_tls || !is_for_loopback(headers) { "https" } else { "http" };
    format!("{scheme}://{}", single(headers, &header::HOST)?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(key: &HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (key.clone(), value.parse().unwrap())).collect()
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
