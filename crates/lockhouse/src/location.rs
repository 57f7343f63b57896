//! Where the bucket is that owners and claims belong to.

use std::sync::Arc;

use crate::engine::bucket::shared::Shared;
#[cfg(feature = "remote")]
use crate::remote::http::api::Api;

/// A bucket of this process, or of a server.
#[derive(Clone, Debug)]
pub(crate) enum BucketLocation {
    Local(Arc<Shared>),
    #[cfg(feature = "remote")]
    Remote(Arc<Api>),
}

/// Awaits the function for a local bucket or the one for a remote bucket, with the bucket in front of the
/// arguments.
macro_rules! call_at {
    ($location:expr, $local:path | $remote:path, ($($argument:expr),*)) => {
        match $location {
            $crate::location::BucketLocation::Local(bucket) => $local(bucket, $($argument),*).await,
            #[cfg(feature = "remote")]
            $crate::location::BucketLocation::Remote(api) => $remote(api, $($argument),*).await,
        }
    };
}
pub(crate) use call_at;
