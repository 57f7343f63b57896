//! The audit log: who was denied what, and who took something from others. When, the log says itself; no secret ever stands in it.

use std::fmt;

use lockhouse::Name;

use crate::auth::Identity;

/// What is noted of one deed.
pub(crate) struct Deed<'a> {
    /// Who; none if the credential was not taken.
    pub(crate) who: Option<&'a Identity>,
    /// What he wanted to do, such as `steal`, or the operation of the HTTP API.
    pub(crate) what: &'a str,
    /// Where.
    pub(crate) bucket: &'a str,
    /// With which name or owner, if with one.
    pub(crate) name: Option<&'a dyn fmt::Display>,
    /// Why it was denied; none if it was done.
    pub(crate) denied: Option<&'a dyn fmt::Display>,
}

/// Notes a deed.
pub(crate) fn note(deed: &Deed<'_>) {
    let Deed { who, what, bucket, name, denied } = deed;
    let (tenant, key) = who.map_or(("", ""), |who| (&who.tenant, &who.name));
    let name = name.map(ToString::to_string).unwrap_or_default();
    match denied {
        Some(why) => tracing::info!(target: "audit", tenant, key, what, ?bucket, ?name, %why, "denied"),
        None => tracing::info!(target: "audit", tenant, key, what, ?bucket, ?name, "done"),
    }
}

/// A resource name in a log.
pub(crate) struct Named<'a>(pub(crate) Name<'a>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0.as_wtf8()))
    }
}
