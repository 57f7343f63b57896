//! Claims of a bucket of a server.

use std::sync::Arc;
use std::time::SystemTime;

use lockhouse_core::{FencingToken, Limits, Name, NameBuf};

use super::{Claim, Claims, Terms};
use crate::claims::error::ClaimError;
use crate::claims::info::{Assignment, ClaimInfo};
use crate::error::Quota;
use crate::location::BucketLocation;
use crate::remote::http::api::Api;
use crate::remote::http::call::Call;
use crate::remote::http::problem::{Problem, unusable};
use crate::remote::http::views::{
    AssignmentBody, Assignments, ClaimBody, ClaimRequest, ClaimedBody, ReleasedBody, RenewedBody,
    TokenRequest, UnassignedBody,
};
use crate::secret::Secret;
use crate::whole_millis::whole_millis;

/// The bounds of a server, so that a call beyond them is refused in the same words as in process.
const LIMITS: Limits = Limits::DEFAULT;

pub(super) async fn claim(api: &Arc<Api>, resource: NameBuf, terms: Terms) -> Result<Claim, ClaimError> {
    let request = ClaimRequest {
        resource: resource.as_name().into(),
        claimant: terms.claimant,
        ttl_ms: whole_millis(terms.ttl),
        metadata: terms.metadata,
        claim_key: terms.idempotency_key,
    };
    check(&request).map_err(ClaimError::Quota)?;
    let is_for_good = request.claim_key.is_some();
    let call = Call::post(&["claims"]).json(&request);
    // With a key of the caller's own the claim is found again in any case, and always as it is then.
    let call = if is_for_good { call.idempotent() } else { call.once() };
    let server = api.clone();
    let work = async move {
        let claimed: ClaimedBody = server.send(&call).await?.read()?;
        let token = claimed.token.parse();
        let token = token.map_err(|_| unusable("token"))?;
        Ok::<_, ClaimError>(Claim {
            claims: Claims::new(BucketLocation::Remote(server)),
            resource,
            claimant: request.claimant,
            token,
            fencing_token: claimed.fencing_token.0,
            expires_at: claimed.expires_at.0,
        })
    };
    let tidy = move |claimed: Result<Claim, ClaimError>| async move {
        if let Ok(Claim { claims: Claims { location: BucketLocation::Remote(api) }, resource, token, .. }) =
            claimed
            && !is_for_good
        {
            // Else it ends by its TTL.
            _ = api.send(&with_token("release", resource.as_name(), &token).once()).await;
        }
    };
    api.carry_out(work, tidy).await?
}

fn check(new: &ClaimRequest) -> Result<(), Quota> {
    let checked = LIMITS.check_name(new.resource.0.as_name());
    let checked = checked.and_then(|()| LIMITS.check_label(&new.claimant));
    let checked = checked.and_then(|()| LIMITS.check_metadata(new.metadata.as_deref()));
    let checked = checked.and_then(|()| LIMITS.check_ttl(new.ttl_ms));
    checked.map_err(|refusal| Quota::of(&refusal).expect("a check of bounds refuses nothing else"))
}

fn with_token(what: &str, name: Name<'_>, token: &Secret) -> Call {
    Call::post(&["claims", what]).json(&TokenRequest { resource: name.into(), token: token.reveal() })
}

pub(super) async fn renew(api: &Arc<Api>, name: Name<'_>, token: &Secret) -> Result<SystemTime, ClaimError> {
    // A repeat does no harm, and returns the later end.
    let call = with_token("renew", name, token).idempotent();
    let renewed: RenewedBody = api.ask(call).await?.read()?;
    Ok(renewed.expires_at.0)
}

pub(super) async fn release(api: &Arc<Api>, name: Name<'_>, token: &Secret) -> Result<(), ClaimError> {
    let call = with_token("release", name, token).once();
    let server = api.clone();
    let work = async move {
        let reply = server.send(&call).await?;
        match reply.read::<ReleasedBody>().map_err(ClaimError::from) {
            Ok(ReleasedBody { released: true }) => Ok(()),
            Ok(ReleasedBody { released: false }) => Err(unusable("released").into()),
            // A repeat may find the result of the first attempt.
            Err(ClaimError::ClaimExpired | ClaimError::ClaimLost { .. }) if reply.is_repeated => Ok(()),
            Err(error) => Err(error),
        }
    };
    api.carry_out(work, |_| async {}).await?
}

pub(super) async fn finalize(
    api: &Arc<Api>,
    name: Name<'_>,
    token: &Secret,
) -> Result<Assignment, ClaimError> {
    let call = with_token("finalize", name, token).once();
    let server = api.clone();
    let work = async move {
        let assignment: AssignmentBody = server.send(&call).await?.read()?;
        Ok(assignment.into())
    };
    api.carry_out(work, |_| async {}).await?
}

pub(super) async fn get(api: &Arc<Api>, name: Name<'_>) -> Result<Option<ClaimInfo>, ClaimError> {
    Ok(found(api.ask(of_resource(Call::get, "claims", name)).await?.read::<ClaimBody>())?.map(Into::into))
}

pub(super) async fn assignment(api: &Arc<Api>, name: Name<'_>) -> Result<Option<Assignment>, ClaimError> {
    let assignment = api.ask(of_resource(Call::get, "assignments", name)).await?.read::<AssignmentBody>();
    Ok(found(assignment)?.map(Into::into))
}

pub(super) async fn assignments(api: &Arc<Api>) -> Result<Vec<Assignment>, ClaimError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let mut call = Call::get(&["query"]).with("kind", "assignment").with("limit", "1000");
        if let Some(cursor) = cursor {
            call = call.with("cursor", cursor);
        }
        let page: Assignments = api.ask(call).await?.read()?;
        all.extend(page.entries.into_iter().map(Assignment::from));
        cursor = match page.next {
            Some(next) => Some(next),
            None => return Ok(all),
        };
    }
}

pub(super) async fn unassign(
    api: &Arc<Api>,
    name: Name<'_>,
    token: Option<FencingToken>,
) -> Result<bool, ClaimError> {
    let call = of_resource(Call::delete, "assignments", name);
    let call = match token {
        Some(token) => call.with("fencingToken", token.get().to_string()).once(),
        // Between the first attempt and a repeat the resource may have been assigned to another claimant, and
        // a server that was started in between knows no keys. So such a call is not repeated.
        None => call,
    };
    let server = api.clone();
    let work = async move {
        let reply = server.send(&call).await?;
        let unassigned: UnassignedBody = reply.read()?;
        // A repeat may find the result of the first attempt.
        Ok(unassigned.unassigned || reply.is_repeated)
    };
    api.carry_out(work, |_| async {}).await?
}

fn of_resource(call: fn(&[&str]) -> Call, path: &str, name: Name<'_>) -> Call {
    call(&[path]).with("resource", name.as_wtf8())
}

fn found<T>(answer: Result<T, Box<Problem>>) -> Result<Option<T>, ClaimError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(problem) if problem.is("not_found") => Ok(None),
        Err(problem) => Err(problem.into()),
    }
}
