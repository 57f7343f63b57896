//! Owners of a bucket of a server.

use std::collections::HashMap;
use std::sync::Arc;

use lockhouse_core::{Acquired, FencingToken, Limits, Mode, Name, OwnerId, Refusal, Unlock};

use super::{IdempotencyKey, NewOwner, Owner};
use crate::error::{Quota, StoreError};
use crate::location::BucketLocation;
use crate::owners::error::{LockError, OwnerError};
use crate::owners::lock::{Acquisition, OfflineLock, OwnerInfo};
use crate::remote::http::api::{Api, Reply};
use crate::remote::http::call::Call;
use crate::remote::http::problem::{Problem, unusable};
use crate::remote::http::views::{
    GivenBack, Id, LockItem, LockedBody, NewLocks, OpenRequest, OpenedBody, OwnerBody, ReleaseItem,
    ReleaseRequest, RenewedBody, UndoItem, UndoRequest, Undone,
};
use crate::secret::Secret;
use crate::whole_millis::whole_millis;

/// The bounds of a server, so that a call beyond them is refused in the same words as in process.
const LIMITS: Limits = Limits::DEFAULT;

/// How many locks are given back by one call at most.
const RELEASES: usize = 1000;

fn within(checked: Result<(), Refusal>) -> Result<(), Quota> {
    checked.map_err(|refusal| Quota::of(&refusal).expect("a check of bounds refuses nothing else"))
}

pub(super) async fn open(api: &Arc<Api>, new: &NewOwner) -> Result<Owner, OwnerError> {
    let request = OpenRequest {
        label: new.label.clone(),
        metadata: new.metadata.clone(),
        ttl_ms: whole_millis(new.ttl),
        max_ms: new.max_life.map(whole_millis),
    };
    let checked = LIMITS.check_label(&request.label);
    let checked = checked.and_then(|()| LIMITS.check_metadata(request.metadata.as_deref()));
    within(checked.and_then(|()| LIMITS.check_ttl(request.ttl_ms)))
        .and_then(|()| Quota::check_max_life(request.max_ms, &LIMITS))
        .map_err(OwnerError::Quota)?;
    let call = Call::post(&["owners"]).json(&request);
    let is_for_good = new.key.is_some();
    let call = match &new.key {
        None => call.once(),
        Some(IdempotencyKey { text, caller: None }) => call.idempotency_key(text),
        Some(IdempotencyKey { caller: Some(_), .. }) => {
            let rule = "a server knows its callers by itself";
            return Err(OwnerError::Quota(Quota::new("idempotency_key", "one of a caller", rule)));
        }
    };
    let server = api.clone();
    let work = async move {
        let opened: OpenedBody = server.send(&call).await?.read()?;
        let secret = opened.owner_secret.parse();
        let secret = secret.map_err(|_| unusable("ownerSecret"))?;
        Ok::<_, OwnerError>(Owner { location: BucketLocation::Remote(server), id: opened.owner.0, secret })
    };
    let end = move |opened: Result<Owner, OwnerError>| async move {
        if let Ok(Owner { location: BucketLocation::Remote(api), id, secret }) = opened
            && !is_for_good
        {
            // Else it ends by its TTL.
            _ = api.send(&of_owner(Call::delete, id, &secret).idempotent()).await;
        }
    };
    api.carry_out(work, end).await?
}

pub(super) async fn resume(api: &Arc<Api>, id: OwnerId, secret: &Secret) -> Result<Owner, OwnerError> {
    api.ask(of_owner(Call::get, id, secret)).await?.read::<OwnerBody>()?;
    Ok(Owner { location: BucketLocation::Remote(api.clone()), id, secret: secret.clone() })
}

pub(super) async fn lock(
    api: &Arc<Api>,
    owner: &Owner,
    locks: &[(Name<'_>, Mode)],
    metadata: Option<&str>,
    note: impl FnOnce(Vec<OfflineLock>),
) -> Result<Vec<OfflineLock>, LockError> {
    if locks.is_empty() {
        return if touch(api, owner).await? { Ok(Vec::new()) } else { Err(LockError::OwnerEnded) };
    }
    check(locks, metadata).map_err(LockError::Quota)?;
    let item = |(name, mode): &(Name<'_>, Mode)| LockItem { name: (*name).into(), mode: *mode };
    let metadata = metadata.map(str::to_owned);
    let request = NewLocks { owner: Id(owner.id), locks: locks.iter().map(item).collect(), metadata };
    let call = Call::post(&["locks"]).by(&owner.secret).json(&request).once();
    let (server, owner) = (api.clone(), owner.clone());
    let work = async move {
        let locked: LockedBody = server.send(&call).await?.read()?;
        let locked = locked.locks();
        // In the order asked.
        let are_those =
            locked.iter().map(|lock| &lock.name).eq(request.locks.iter().map(|item| &item.name.0));
        if are_those { Ok::<_, LockError>(locked) } else { Err(unusable("locks").into()) }
    };
    let tidy = |locked: Result<Vec<OfflineLock>, LockError>| async move {
        if let (Ok(granted), BucketLocation::Remote(api)) = (locked, &owner.location) {
            // Else they go with the owner.
            let acquired: Vec<_> = granted.into_iter().map(Acquisition::from).collect();
            _ = send_undo(api, &owner, &acquired).await;
        }
    };
    let granted = api.carry_out(work, tidy).await??;
    note(granted.clone());
    Ok(granted)
}

fn check(locks: &[(Name<'_>, Mode)], metadata: Option<&str>) -> Result<(), Quota> {
    let limit = LIMITS.locks_per_command;
    let count = if locks.len() > limit { Err(Refusal::TooManyLocksAtOnce { limit }) } else { Ok(()) };
    let names = || locks.iter().try_for_each(|(name, _)| LIMITS.check_name(*name));
    within(count.and_then(|()| names()).and_then(|()| LIMITS.check_metadata(metadata)))
}

pub(super) async fn give_back(api: &Arc<Api>, owner: &Owner, locks: Unlock<'_>) -> Result<usize, StoreError> {
    let calls = release_calls(owner, &release_requests(owner, locks));
    let server = api.clone();
    let work = async move {
        let mut count = 0_usize;
        for release in calls {
            let given_back = server.send(&release.call).await.and_then(|reply| {
                let given_back = known(reply.read::<GivenBack>())?;
                Ok(release.count(&reply, given_back.map_or(0, |given_back| given_back.released)))
            });
            count = count.saturating_add(given_back.map_err(|error| error.after_a_part(count > 0))?);
        }
        Ok(count)
    };
    api.carry_out(work, |_| async {}).await?
}

pub(super) async fn commit_step(
    api: &Arc<Api>,
    owner: &Owner,
    held: &[(Name<'_>, Option<FencingToken>)],
    release: Option<Unlock<'_>>,
) -> Result<usize, LockError> {
    if held.is_empty() && release.is_none() {
        return if touch(api, owner).await? { Ok(0) } else { Err(LockError::OwnerEnded) };
    }
    let is_written = release.is_some();
    let releases = match release {
        None => Vec::new(),
        Some(Unlock::These(locks)) => {
            release_requests(owner, Unlock::These(&under_their_tokens(locks, held)))
        }
        Some(all_but) => release_requests(owner, all_but),
    };
    let calls = release_calls(owner, &with_needs(owner, held, releases));
    let server = api.clone();
    let work = async move {
        let mut count = 0_usize;
        for release in calls {
            let reply = server.send(&release.call).await.map_err(|error| error.after_a_part(count > 0))?;
            match reply.read::<GivenBack>() {
                Ok(given_back) => {
                    count = count.saturating_add(release.count(&reply, given_back.released));
                }
                // The first attempt may have succeeded, and its release be what a server that was started
                // anew finds.
                Err(problem) if reply.is_repeated && is_written && is_loss(&problem) => {
                    let why = format!("an earlier attempt may have succeeded: {problem}");
                    return Err(StoreError::OutcomeUnknown { why }.into());
                }
                Err(problem) => {
                    return Err(match LockError::from(problem) {
                        LockError::Store(error) => error.after_a_part(count > 0).into(),
                        error => error,
                    });
                }
            }
        }
        Ok(count)
    };
    api.carry_out(work, |_| async {}).await?
}

/// The locks, each under the token under which it has to be held, so that the release can be repeated.
fn under_their_tokens<'a>(
    locks: &[(Name<'a>, Option<FencingToken>)],
    held: &[(Name<'_>, Option<FencingToken>)],
) -> Vec<(Name<'a>, Option<FencingToken>)> {
    let tokens: HashMap<_, _> = held.iter().filter_map(|(name, token)| Some((*name, (*token)?))).collect();
    locks.iter().map(|(name, token)| (*name, token.or_else(|| tokens.get(name).copied()))).collect()
}

fn is_loss(problem: &Problem) -> bool {
    ["lock_lost", "unknown_owner", "unauthorized"].into_iter().any(|code| problem.is(code))
}

/// A call that gives locks back.
struct Release {
    call: Call,
    /// How many locks it names.
    named: usize,
}

impl Release {
    fn new(owner: &Owner, request: &ReleaseRequest) -> Self {
        let locks = request.locks.as_deref().unwrap_or_default();
        let call = Call::post(&["locks", "release"]).by(&owner.secret).json(request);
        // Between the first attempt and a repeat another step of the owner may have locked the same names
        // again, and a server that was started in between knows no keys. Only tokens say which locks are
        // meant, so that a call without them is not repeated.
        let is_by_token = !request.all && locks.iter().all(|lock| lock.fencing_token.is_some());
        Self { call: if is_by_token { call.once() } else { call }, named: locks.len() }
    }

    /// How many locks are given back. A lock that a repeat finds gone counts, as the first attempt may have
    /// given it back.
    fn count(&self, reply: &Reply, given_back: usize) -> usize {
        if reply.is_repeated { self.named } else { given_back }
    }
}

fn release_calls(owner: &Owner, requests: &[ReleaseRequest]) -> Vec<Release> {
    requests.iter().map(|request| Release::new(owner, request)).collect()
}

fn release_requests(owner: &Owner, locks: Unlock<'_>) -> Vec<ReleaseRequest> {
    let none = || ReleaseRequest::of(Id(owner.id));
    match locks {
        Unlock::These(locks) => {
            let parts = locks.chunks(RELEASES);
            parts.map(|part| ReleaseRequest { locks: Some(items(part)), ..none() }).collect()
        }
        Unlock::AllBut(spared) => {
            let spared: Vec<_> = spared.iter().map(|name| (*name, None)).collect();
            let sparing = (!spared.is_empty()).then(|| items(&spared));
            vec![ReleaseRequest { all: true, sparing, ..none() }]
        }
    }
}

/// The releases, none before all needed locks were found. They are found together with the first release,
/// unless they are more than a call may name.
fn with_needs(
    owner: &Owner,
    held: &[(Name<'_>, Option<FencingToken>)],
    releases: Vec<ReleaseRequest>,
) -> Vec<ReleaseRequest> {
    let check =
        |part: &[_]| ReleaseRequest { holding: Some(items(part)), ..ReleaseRequest::of(Id(owner.id)) };
    let mut requests: Vec<_> = held.chunks(RELEASES).map(check).collect();
    let mut releases = releases.into_iter();
    if let Some(first) = releases.next() {
        let holding = requests.pop().and_then(|last| last.holding);
        requests.push(ReleaseRequest { holding, ..first });
    }
    requests.extend(releases);
    requests
}

fn items(locks: &[(Name<'_>, Option<FencingToken>)]) -> Vec<ReleaseItem> {
    let item = |(name, token): &(Name<'_>, Option<FencingToken>)| ReleaseItem {
        name: (*name).into(),
        fencing_token: token.map(FencingToken::get),
    };
    locks.iter().map(item).collect()
}

pub(super) async fn undo(api: &Arc<Api>, owner: &Owner, locks: &[Acquisition]) -> Result<usize, StoreError> {
    let (server, owner, locks) = (api.clone(), owner.clone(), locks.to_vec());
    let work = async move { send_undo(&server, &owner, &locks).await };
    api.carry_out(work, |_| async {}).await?
}

/// As [`undo`], for callers that cannot wait for it; all other calls wait instead.
pub(super) fn undo_soon(api: &Arc<Api>, owner: &Owner, locks: Vec<Acquisition>) {
    let (server, owner) = (api.clone(), owner.clone());
    api.tidy(async move {
        // Else they go with the owner.
        _ = send_undo(&server, &owner, &locks).await;
    });
}

async fn send_undo(api: &Api, owner: &Owner, locks: &[Acquisition]) -> Result<usize, StoreError> {
    let taken = locks.iter().filter(|acquired| acquired.lock.how != Acquired::AlreadyHeld);
    let items = taken.map(|Acquisition { lock, again }| UndoItem {
        name: lock.name.as_name().into(),
        fencing_token: lock.token.get(),
        how: lock.how,
        again: *again,
    });
    let mut items: Vec<_> = items.collect();
    let mut undone = 0_usize;
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(LIMITS.locks_per_command));
        let request = UndoRequest { owner: Id(owner.id), locks: std::mem::replace(&mut items, rest) };
        let call = Call::post(&["locks", "undo"]).by(&owner.secret).json(&request).once();
        let count = api.send(&call).await.and_then(|reply| {
            let answer = known(reply.read::<Undone>())?;
            // What a repeat passes over may have been taken back by the first attempt.
            Ok(if reply.is_repeated { request.locks.len() } else { answer.map_or(0, |it| it.undone) })
        });
        undone = undone.saturating_add(count.map_err(|error| error.after_a_part(undone > 0))?);
    }
    Ok(undone)
}

pub(super) async fn locks(api: &Arc<Api>, owner: &Owner) -> Result<Vec<OfflineLock>, StoreError> {
    Ok(show(api, owner).await?.map(OwnerBody::locks).unwrap_or_default())
}

pub(super) async fn has_lock(
    api: &Arc<Api>,
    owner: &Owner,
    name: Name<'_>,
) -> Result<Option<OfflineLock>, StoreError> {
    Ok(locks(api, owner).await?.into_iter().find(|lock| lock.name.as_name() == name))
}

pub(super) async fn touch(api: &Arc<Api>, owner: &Owner) -> Result<bool, StoreError> {
    let id = owner.id.to_string();
    let call = Call::post(&["owners", &id, "heartbeat"]).by(&owner.secret).idempotent();
    let beat = api.ask(call).await?.read::<RenewedBody>();
    Ok(known(beat)?.is_some())
}

pub(super) async fn info(api: &Arc<Api>, owner: &Owner) -> Result<Option<OwnerInfo>, StoreError> {
    Ok(show(api, owner).await?.map(OwnerBody::info))
}

async fn show(api: &Arc<Api>, owner: &Owner) -> Result<Option<OwnerBody>, StoreError> {
    known(api.ask(of_owner(Call::get, owner.id, &owner.secret)).await?.read())
}

pub(super) async fn end(api: &Arc<Api>, owner: &Owner) -> Result<bool, StoreError> {
    let call = of_owner(Call::delete, owner.id, &owner.secret).idempotent();
    let server = api.clone();
    let work = async move {
        let reply = server.send(&call).await?;
        // A repeat may find the result of the first attempt.
        Ok(known(reply.read_nothing())?.is_some() || reply.is_repeated)
    };
    api.carry_out(work, |_| async {}).await?
}

fn of_owner(call: fn(&[&str]) -> Call, id: OwnerId, secret: &Secret) -> Call {
    call(&["owners", &id.to_string()]).by(secret)
}

/// The answer; `None` if the server knows no such owner. A secret that was right once is that of an owner
/// that the server does not know.
fn known<T>(answer: Result<T, Box<Problem>>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(problem) if problem.is("unknown_owner") || problem.is("unauthorized") => Ok(None),
        Err(problem) => Err(problem.into()),
    }
}
