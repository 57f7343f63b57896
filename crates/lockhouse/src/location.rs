//! Where the bucket is that owners and claims belong to.

use std::sync::Arc;

use crate::engine::bucket::shared::Shared;
#[cfg(feature = "remote")]
use crate::remote::http::api::Api;

/// A bucket of this process, or of a server.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Here(Arc<Shared>),
    #[cfg(feature = "remote")]
    There(Arc<Api>),
}

/// Calls the function of that name in the module `local` or `remote` beside the caller, with the bucket in front.
macro_rules! at {
    ($place:expr, $call:ident($($argument:expr),*)) => {
        match $place {
            $crate::location::Place::Here(bucket) => local::$call(bucket, $($argument),*).await,
            #[cfg(feature = "remote")]
            $crate::location::Place::There(api) => remote::$call(api, $($argument),*).await,
        }
    };
}
pub(crate) use at;
