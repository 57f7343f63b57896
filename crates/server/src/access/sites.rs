//! Sites, as browsers partition storage by them.

use std::net::IpAddr;

use super::hosts::host_of;
use crate::settings::Origin;

/// The start of a partition that lists the origins of a frame: its own first, then those of its ancestors,
/// the nearest first.
const ORIGINS: &str = "origins:";

/// What browsers send for an origin that is like no other.
const OPAQUE: &str = "null";

/// A list of origins that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "partition lists {0:?}, but must list origins such as https://app.example, or null, with one space before each"
)]
pub(crate) struct NoOrigin(String);

/// Whether the partition lists origins.
pub(crate) fn is_list_of_origins(text: &str) -> bool {
    text.starts_with(ORIGINS)
}

/// The partition that is meant: any text is one, and a list of origins is that of the frame.
///
/// It is empty in a page of its own and in a frame whose ancestors are all of its own site, else the site of
/// the top page. <https://privacycg.github.io/storage-partitioning/>
pub(crate) fn partition(text: &str) -> Result<String, NoOrigin> {
    let Some(list) = text.strip_prefix(ORIGINS) else { return Ok(text.to_owned()) };
    let sites: Vec<_> = list.split(' ').skip(1).map(site_of).collect::<Result<_, _>>()?;
    let (Some(own), Some(top)) = (sites.first(), sites.last().filter(|_| list.starts_with(' '))) else {
        return Err(NoOrigin(list.to_owned()));
    };
    let is_same_site = sites.iter().all(|site| site != OPAQUE && site == own);
    Ok(if sites.len() == 1 || is_same_site { String::new() } else { format!("{top} cross-site") })
}

/// The scheme, and the part of the host that one owner has by the public suffix list; an address or a name
/// without an owner counts whole. The ports of one host are one site.
/// <https://html.spec.whatwg.org/multipage/browsers.html#obtain-a-site>
fn site_of(text: &str) -> Result<String, NoOrigin> {
    if text == OPAQUE {
        return Ok(OPAQUE.to_owned());
    }
    let origin: Origin = text.parse().map_err(|_| NoOrigin(text.to_owned()))?;
    let host = host_of(&origin.authority);
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    let domain = if is_address { None } else { psl::domain_str(host) };
    Ok(format!("{}://{}", origin.scheme, domain.unwrap_or(host)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;

    #[test]
    fn a_site_ends_where_the_public_suffix_list_says() {
        for (origin, site) in [
            ("https://www.bank.co.uk", "https://bank.co.uk"),
            ("https://bank.co.uk:8443", "https://bank.co.uk"),
            ("https://evil.co.uk", "https://evil.co.uk"),
            ("https://co.uk", "https://co.uk"),
            ("https://anna.github.io", "https://anna.github.io"),
            ("https://a.b.app.example", "https://app.example"),
            ("http://app.example", "http://app.example"),
            ("http://localhost:3000", "http://localhost"),
            ("http://a.localhost", "http://a.localhost"),
            ("http://127.0.0.1:8080", "http://127.0.0.1"),
            ("http://[::1]:8080", "http://[::1]"),
            ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
            ("null", "null"),
        ] {
            assert_eq!(site_of(origin).as_deref(), Ok(site), "{origin}");
        }
    }

    #[test]
    fn a_frame_shares_its_partition_with_those_in_the_same_place() {
        let of = |list: &str| partition(&format!("origins:{list}")).unwrap();
        for same_site in [
            " https://app.example",
            " null",
            " https://a.app.example https://b.app.example",
            " https://a.app.example https://app.example:444 https://b.app.example",
            " http://localhost:1 http://localhost:2",
        ] {
            assert_eq!(of(same_site), "", "{same_site}");
        }
        for (list, expected) in [
            (" https://evil.co.uk https://bank.co.uk", "https://bank.co.uk cross-site"),
            (
                " https://app.example https://ads.example https://app.example",
                "https://app.example cross-site",
            ),
            (" http://app.example https://app.example", "https://app.example cross-site"),
            (" null https://app.example", "https://app.example cross-site"),
            (" https://app.example null", "null cross-site"),
        ] {
            assert_eq!(of(list), expected, "{list}");
        }
        assert_eq!(partition("https://bank.co.uk cross-site").unwrap(), "https://bank.co.uk cross-site");
        for list in
            ["", " ", " app.example", " https://a.example/x", "https://a.example", " https://a.example  null"]
        {
            assert!(partition(&format!("origins:{list}")).is_err(), "{list:?}");
        }
    }
}
