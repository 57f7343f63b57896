//! The errors that concern TLS.

#[cfg(feature = "tls")]
use std::io;

/// Whether a server is there, but TLS with it failed: the server is not trusted, or speaks none.
#[cfg(feature = "tls")]
pub(crate) fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    has(error, &|_| true)
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_of_tls(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}

/// Whether the other side refuses our certificate, or wants one: in TLS 1.3 it says so only behind the
/// handshake, and has read nothing then.
#[cfg(feature = "tls")]
pub(crate) fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
    use rustls::AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    has(error, &|error| {
        let rustls::Error::AlertReceived(alert) = error else { return false };
        matches!(
            alert,
            AccessDenied
                | BadCertificate
                | CertificateExpired
                | CertificateRequired
                | CertificateRevoked
                | CertificateUnknown
                | UnknownCA
                | UnsupportedCertificate
        )
    })
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_refusal(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}

/// The remedy, if the other side has answered the handshake with something else than TLS, as a server of
/// plain HTTP does.
#[cfg(feature = "tls")]
pub(crate) fn remedy(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    use rustls::InvalidMessage::InvalidContentType;
    let is_plain = has(error, &|error| *error == rustls::Error::InvalidMessage(InvalidContentType));
    is_plain.then(|| "it answers without TLS; use http://".to_owned())
}

#[cfg(not(feature = "tls"))]
pub(crate) fn remedy(_: &(dyn std::error::Error + 'static)) -> Option<String> {
    None
}

/// Whether such an error of TLS is behind that error.
#[cfg(feature = "tls")]
fn has(error: &(dyn std::error::Error + 'static), is_it: &dyn Fn(&rustls::Error) -> bool) -> bool {
    let mut error = Some(error);
    while let Some(why) = error {
        // An I/O error reports the source of its inner error, and not the inner error itself.
        let within = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if why.downcast_ref().is_some_and(is_it) || within.is_some_and(|within| has(within, is_it)) {
            return true;
        }
        error = why.source();
    }
    false
}
