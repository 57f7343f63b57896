//! The errors that concern TLS.

#[cfg(feature = "tls")]
use std::io;

/// Whether a server is there, but TLS with it failed: the server is not trusted, or speaks none.
#[cfg(feature = "tls")]
pub(crate) fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(why) = error {
        // An I/O error reports the source of its inner error, and not the inner error itself.
        let within = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if why.is::<rustls::Error>() || within.is_some_and(|within| is_of_tls(within)) {
            return true;
        }
        error = why.source();
    }
    false
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
    let mut error = Some(error);
    while let Some(why) = error {
        let within = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if within.is_some_and(|within| is_refusal(within)) {
            return true;
        }
        if let Some(rustls::Error::AlertReceived(alert)) = why.downcast_ref() {
            return matches!(
                alert,
                AccessDenied
                    | BadCertificate
                    | CertificateExpired
                    | CertificateRequired
                    | CertificateRevoked
                    | CertificateUnknown
                    | UnknownCA
                    | UnsupportedCertificate
            );
        }
        error = why.source();
    }
    false
}

#[cfg(not(feature = "tls"))]
pub(crate) fn is_refusal(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}
