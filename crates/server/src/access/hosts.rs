//! Hosts, and which of them are this machine.

use std::net::Ipv4Addr;

use axum::http::{HeaderMap, HeaderName, header};

/// Whether the `Host` is a loopback name.
pub(crate) fn is_for_loopback(headers: &HeaderMap) -> bool {
    single(headers, &header::HOST).is_some_and(|host| is_loopback(host_of(host)))
}

/// The one value of the header.
pub(super) fn single<'h>(headers: &'h HeaderMap, key: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(key).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The host of `host:port`, brackets included.
pub(super) fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

pub(super) fn is_loopback(host: &str) -> bool {
    let top = host.rsplit_once('.').map_or(host, |(_, top)| top);
    top.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
}
