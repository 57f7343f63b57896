//! The reasons why a request has no identity.

use std::sync::Arc;

use axum::http::Extensions;

use crate::access::Initiator;
use crate::tls::{ClientCertificate, NotGood};

/// The reason why a credential is not taken. The text never contains the credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unauthenticated {
    #[error("there is no API key, no token and no certificate")]
    Absent,
    #[error("the API key is not known")]
    Key,
    #[error("it is no API key and no token")]
    NotAToken,
    #[error("no issuer of that name is known")]
    Issuer,
    #[error("the token is not signed in the way of its issuer")]
    Algorithm,
    #[error("the token is not signed by its issuer")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token cannot be used: {0}")]
    Claims(String),
    #[error("a certificate does not speak for pages, which need an API key or a token")]
    Page,
    #[error(
        "the credential sets origins apart, but the browser does not tell that of the page: send the request by fetch or XMLHttpRequest, as CORS has it"
    )]
    UnknownPage,
    #[error(transparent)]
    NotGood(#[from] NotGood),
    #[error("the certificate stands for nobody: no entry of auth.certificates fits it")]
    Certificate,
}

/// The certificate of a caller without a credential, or the reason why there is none.
pub(crate) type PresentedCertificate = Result<Arc<ClientCertificate>, Unauthenticated>;

/// The certificate of the connection stands for a caller without a credential. A browser shows the
/// certificate for every page that asks, so that it does not stand for pages.
pub(crate) fn certificate(initiator: &Initiator, extensions: &Extensions) -> PresentedCertificate {
    let certificate = extensions.get::<Arc<ClientCertificate>>().ok_or(Unauthenticated::Absent)?;
    if *initiator == Initiator::Program { Ok(certificate.clone()) } else { Err(Unauthenticated::Page) }
}
