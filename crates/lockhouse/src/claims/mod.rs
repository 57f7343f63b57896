//! Claims: reservations by token, which end by themselves unless they are made final.

pub(crate) mod error;
pub(crate) mod info;
pub(crate) mod local;
#[cfg(feature = "remote")]
mod remote;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use lockhouse_core::{FencingToken, Name, NameBuf};

use crate::claims::error::ClaimError;
use crate::claims::info::{Assignment, ClaimInfo};
use crate::engine::bucket::Bucket;
use crate::error::{NotSupported, Quota};
use crate::location::{BucketLocation, call_at};
use crate::name_arg::NameArg;
use crate::secret::Secret;

/// The claims and assignments of one bucket.
///
/// A claim says "reserve this now, let me prepare, and make it final only if it is still mine". Only its
/// token gives the right to that: having held it once proves nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// use lockhouse::{ClaimError, House};
///
/// let seats = House::new().bucket("seats").claims();
/// let claim = seats.claim("row 7, seat 12", "ada", Duration::from_secs(600)).await?;
///
/// let taken = seats.claim("row 7, seat 12", "bob", Duration::from_secs(600)).await.unwrap_err();
/// assert!(matches!(taken, ClaimError::Claimed { holder } if holder.client_id == "ada"));
///
/// // After the payment:
/// let assignment = claim.finalize().await?;
/// assert_eq!(assignment.claimant, "ada");
/// # Ok(()) }
/// ```
///
/// Resource and claimant alone make nothing final:
///
/// ```compile_fail
/// # async fn make_final(seats: lockhouse::Claims) {
/// seats.finalize("row 7, seat 12", "ada").await;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Claims {
    location: BucketLocation,
}

/// A claim to be; awaiting it claims.
#[derive(Clone, Debug)]
#[must_use = "nothing is claimed unless it is awaited"]
pub struct NewClaim {
    claims: Claims,
    resource: Result<NameBuf, NotSupported>,
    terms: Terms,
}

/// The terms of a claim.
#[derive(Clone, Debug)]
struct Terms {
    claimant: String,
    ttl: Duration,
    metadata: Option<String>,
    idempotency_key: Option<String>,
    /// The length of the caller's part of it.
    key_bytes: usize,
}

impl Terms {
    fn check(&self) -> Result<(), Quota> {
        if self.key_bytes > NewClaim::KEY_BYTES {
            return Err(Quota::bytes("idempotency_key", self.key_bytes, NewClaim::KEY_BYTES));
        }
        Quota::check_label("claimant", &self.claimant)
    }
}

/// A claim, as its claimant sees it. Dropping it changes nothing: it lasts until it is released, made final,
/// or over.
#[derive(Clone, Debug)]
pub struct Claim {
    claims: Claims,
    resource: NameBuf,
    claimant: String,
    token: Secret,
    fencing_token: FencingToken,
    expires_at: SystemTime,
}

impl Bucket {
    /// Claims: reservations that end by themselves unless they are made final.
    pub fn claims(&self) -> Claims {
        Claims::new(BucketLocation::Local(self.0.clone()))
    }
}

impl Claims {
    pub(crate) fn new(location: BucketLocation) -> Self {
        Self { location }
    }

    /// Claims a resource at once or not at all, for `ttl` unless it is renewed. The claimant has from 1 to
    /// 256 bytes.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    ///
    /// # Cancel safety
    ///
    /// A claim whose future is dropped is released, unless it has an idempotency key, with which it can be
    /// asked for again.
    pub fn claim<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        claimant: impl Into<String>,
        ttl: Duration,
    ) -> NewClaim {
        let resource = named(resource).map(Name::to_buf);
        let terms =
            Terms { claimant: claimant.into(), ttl, metadata: None, idempotency_key: None, key_bytes: 0 };
        NewClaim { claims: self.clone(), resource, terms }
    }

    /// The TTL of the claim with that token runs anew from now; when it then ends.
    ///
    /// # Errors
    ///
    /// [`ClaimError::ClaimExpired`], [`ClaimError::ClaimLost`], [`ClaimError::Store`].
    ///
    /// # Cancel safety
    ///
    /// The claim may have been renewed.
    pub async fn renew<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: &Secret,
    ) -> Result<SystemTime, ClaimError> {
        let name = named(resource).map_err(ClaimError::NotSupported)?;
        call_at!(&self.location, local::renew | remote::renew, (name, token))
    }

    /// Gives the claim with that token back: the resource is free at once.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    ///
    /// # Cancel safety
    ///
    /// The claim is given back all the same.
    pub async fn release<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: &Secret,
    ) -> Result<(), ClaimError> {
        let name = named(resource).map_err(ClaimError::NotSupported)?;
        call_at!(&self.location, local::release | remote::release, (name, token))
    }

    /// Makes the claim with that token final: the resource belongs to its claimant, until that is
    /// [taken back](Self::unassign). Checking, assigning and ending the claim are one; doing it again answers
    /// the same.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew); nothing has changed then. Over the network, after an answer that was lost,
    /// the claim may also have been made final, and the assignment been taken back since.
    ///
    /// # Cancel safety
    ///
    /// The claim may have been finalized; repeat the call to know.
    pub async fn finalize<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: &Secret,
    ) -> Result<Assignment, ClaimError> {
        let name = named(resource).map_err(ClaimError::NotSupported)?;
        call_at!(&self.location, local::finalize | remote::finalize, (name, token))
    }

    /// The current claim of the resource.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn get<'a>(&self, resource: impl Into<NameArg<'a>>) -> Result<Option<ClaimInfo>, ClaimError> {
        let name = named(resource).map_err(ClaimError::NotSupported)?;
        call_at!(&self.location, local::get | remote::get, (name))
    }

    /// To whom the resource belongs.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn assignment<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
    ) -> Result<Option<Assignment>, ClaimError> {
        let name = named(resource).map_err(ClaimError::NotSupported)?;
        call_at!(&self.location, local::assignment | remote::assignment, (name))
    }

    /// All standing assignments, in the order of their names.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn assignments(&self) -> Result<Vec<Assignment>, ClaimError> {
        call_at!(&self.location, local::assignments | remote::assignments, ())
    }

    /// Takes an assignment back, only the one with that fencing token if one is given, so that the resource
    /// can be claimed again; whether there was one. Over the network, one that a repeat finds gone after an
    /// answer that was lost counts.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Store`]. Without a token a call over the network is not repeated once it may have been
    /// carried out, as a repeat could take back a later assignment: then the
    /// [outcome is unknown](crate::StoreError::OutcomeUnknown).
    ///
    /// # Cancel safety
    ///
    /// The assignment is taken back all the same.
    pub async fn unassign<'a>(
        &self,
        resource: impl Into<NameArg<'a>>,
        token: Option<FencingToken>,
    ) -> Result<bool, ClaimError> {
        let name = named(resource).map_err(ClaimError::NotSupported)?;
        call_at!(&self.location, local::unassign | remote::unassign, (name, token))
    }
}

impl NewClaim {
    /// The most bytes of an idempotency key.
    pub const KEY_BYTES: usize = 256;

    /// Something to show to others.
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.terms.metadata = Some(metadata.into());
        self
    }

    /// A caller that claims the same resource for the same claimant with the same key gets the same claim, as
    /// long as it lives: for callers that never got the answer. Make the key hard to guess, as it is as good
    /// as the token. At most [`KEY_BYTES`](Self::KEY_BYTES).
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        (self.terms.key_bytes, self.terms.idempotency_key) = (key.len(), Some(key));
        self
    }

    /// As [`idempotency_key`](Self::idempotency_key), with a key that finds the claims of this caller alone,
    /// so that it need not be hard to guess: for servers that know their callers. A server refuses such a key
    /// of a client: that is the server's to say.
    pub fn idempotency_key_of(mut self, caller: &str, key: &str) -> Self {
        // Filled up so that the whole is longer than any other key: no other caller can name it as one.
        let width = Self::KEY_BYTES;
        self.terms.key_bytes = key.len();
        self.terms.idempotency_key = Some(format!("{key:<width$}{caller}"));
        self
    }

    async fn make(self) -> Result<Claim, ClaimError> {
        let resource = self.resource.map_err(ClaimError::NotSupported)?;
        self.terms.check().map_err(ClaimError::Quota)?;
        call_at!(&self.claims.location, local::claim | remote::claim, (resource, self.terms))
    }
}

impl IntoFuture for NewClaim {
    type Output = Result<Claim, ClaimError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

impl Claim {
    /// The resource name.
    pub fn resource(&self) -> Name<'_> {
        self.resource.as_name()
    }

    /// The claimant.
    pub fn claimant(&self) -> &str {
        &self.claimant
    }

    /// The token, which gives the right to renew, release and finalize the claim.
    pub fn token(&self) -> &Secret {
        &self.token
    }

    /// A number that grows with every grant of the bucket, for the fence at the guarded resource.
    pub fn fencing_token(&self) -> FencingToken {
        self.fencing_token
    }

    /// When it ends unless it is renewed, as far as this handle knows.
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    /// As [`Claims::renew`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there; the end that this handle knows stays the earlier one.
    pub async fn renew(&mut self) -> Result<(), ClaimError> {
        self.expires_at = self.claims.renew(&self.resource, &self.token).await?;
        Ok(())
    }

    /// As [`Claims::release`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub async fn release(&self) -> Result<(), ClaimError> {
        self.claims.release(&self.resource, &self.token).await
    }

    /// As [`Claims::finalize`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub async fn finalize(&self) -> Result<Assignment, ClaimError> {
        self.claims.finalize(&self.resource, &self.token).await
    }
}

fn named<'a>(resource: impl Into<NameArg<'a>>) -> Result<Name<'a>, NotSupported> {
    resource.into().get().map_err(NotSupported::from)
}
