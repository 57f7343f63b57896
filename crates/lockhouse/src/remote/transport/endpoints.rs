//! The addresses of a server, and the one that is in use.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::address::Address;
use crate::remote::error::ConnectError;

/// How long an attempt to connect may take at most, from the dial to the welcome.
pub(crate) const LONGEST_PATIENCE: Duration = Duration::from_secs(10);
/// How long the first attempt at one of several endpoints may take.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);

/// The addresses of a server, in an order of this client's own, so that a crowd of clients spreads. Each
/// serves every client, so that connections and calls go to the one that answered last.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// At least one.
    addresses: Vec<Address>,
    current: AtomicUsize,
}

impl Endpoints {
    /// Reads the URLs, of which there is at least one, with what `scope` sets. All must agree on what decides
    /// with whom locks are shared, and on TLS.
    pub(crate) fn parse(urls: &[String], scope: &[(&'static str, &str)]) -> Result<Self, ConnectError> {
        let [url] = urls else { return Self::parse_several(urls, scope) };
        Ok(Self::new(vec![Address::parse(url, scope)?]))
    }

    fn parse_several(urls: &[String], scope: &[(&'static str, &str)]) -> Result<Self, ConnectError> {
        let mut addresses: Vec<Address> = Vec::new();
        for (index, url) in urls.iter().enumerate() {
            let parse = || {
                let address = Address::parse(url, scope)?;
                addresses.first().map_or(Ok(()), |first| address.agrees_with(first))?;
                Ok(address)
            };
            let address = parse().map_err(|error: ConnectError| error.of_url(index))?;
            addresses.push(address.at(index));
        }
        addresses.sort_by_cached_key(|_| getrandom::u64().unwrap_or_default());
        Ok(Self::new(addresses))
    }

    fn new(addresses: Vec<Address>) -> Self {
        Self { addresses, current: AtomicUsize::new(0) }
    }

    /// Changes each address.
    #[cfg(feature = "tls")]
    pub(crate) fn map(self, change: impl FnMut(Address) -> Address) -> Self {
        Self::new(self.addresses.into_iter().map(change).collect())
    }

    /// The endpoint to be used now.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// This endpoint did not answer: the next is used, unless another use has turned away from it already.
    pub(crate) fn failed(&self, endpoint: usize) {
        let next = (endpoint + 1) % self.addresses.len();
        // Where that fails, the endpoint is not in use any more.
        _ = self.current.compare_exchange(endpoint, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The first of them, for what they have in common.
    pub(crate) fn first(&self) -> &Address {
        &self.addresses[0]
    }

    /// How long the first attempt to connect to one of them may take.
    pub(crate) fn patience(&self) -> Duration {
        if self.addresses.len() == 1 { LONGEST_PATIENCE } else { FIRST_PATIENCE }
    }
}

/// All of them, for people to read.
impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        f.write_str(&shown.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(urls: &[&str]) -> Result<Endpoints, ConnectError> {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        Endpoints::parse(&urls, &[])
    }

    #[test]
    fn an_endpoint_that_failed_is_left_once_however_many_report_it() {
        let endpoints = parse(&["http://a", "http://b", "http://c"]).unwrap();
        assert_eq!(endpoints.current(), 0);
        endpoints.failed(0);
        endpoints.failed(0);
        assert_eq!(endpoints.current(), 1);
        endpoints.failed(1);
        endpoints.failed(2);
        assert_eq!(endpoints.current(), 0);
    }

    #[test]
    fn each_client_has_an_order_of_its_own() {
        let first = || parse(&["http://a", "http://b", "http://c"]).unwrap().first().to_string();
        let mut left = vec!["http://a:80", "http://b:80", "http://c:80"];
        while !left.is_empty() {
            let first = first();
            left.retain(|url| *url != first);
        }
    }

    #[test]
    fn a_url_that_cannot_be_used_is_named_with_its_index() {
        let refused = |urls: &[&str]| parse(urls).unwrap_err().to_string();
        assert!(
            refused(&["http://a", "ftp://b"]).starts_with("url[1]: \"ftp://b\", but it must be a URL that")
        );
        assert!(refused(&["http://a?token=hush", "http://b"]).starts_with("url[0]: \"?token=…\""));
        assert!(refused(&["ftp://b"]).starts_with("url: \"ftp://b\""));
        assert_eq!(
            refused(&["http://a?bucket=x", "http://b?bucket=y"]),
            "url[1]: \"http://b:80\", but it must be a URL with the bucket of the first one"
        );
        assert!(
            refused(&["http://a", "http://b?partition=y"]).ends_with("with the partition of the first one")
        );
        assert!(parse(&["http://a", "http://b?bucket=default"]).is_ok());
    }

    #[cfg(feature = "tls")]
    #[test]
    fn all_endpoints_speak_tls_or_none() {
        let refused = parse(&["https://a", "http://b"]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "url[1]: \"http://b:80\", but it must be a URL with TLS if the first one has it, and else without"
        );
    }

    #[test]
    fn what_is_set_beside_the_urls_replaces_what_they_name() {
        let urls = ["http://a?bucket=x".to_owned(), "http://b?bucket=y".to_owned()];
        assert_eq!(Endpoints::parse(&urls, &[("bucket", "z")]).unwrap().first().bucket(), "z");
    }
}
