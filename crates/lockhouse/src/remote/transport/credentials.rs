//! The credentials of a client.

use std::fmt;
use std::sync::Arc;

use lockhouse_wire::Credential;

use crate::remote::error::ConnectError;

/// Gives the credential of the moment, if there is any.
#[derive(Clone, Default)]
pub(crate) struct Credentials(Option<Arc<dyn Fn() -> String + Send + Sync>>);

impl Credentials {
    pub(crate) fn new(key: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(key)))
    }

    pub(crate) fn show(&self) -> Result<Option<Credential<'static>>, ConnectError> {
        self.0.as_ref().map(|key| Credential::new(key()).ok_or(ConnectError::Key)).transpose()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Credentials(…)" } else { "Credentials(none)" })
    }
}
