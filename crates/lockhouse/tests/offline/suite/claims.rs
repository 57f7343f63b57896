//! Claims and assignments.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockhouse::{ClaimError, HolderKind, Secret};

use super::ground::{Ground, Place, kill};
use super::locks::{MINUTE, customers, futures, two};

const TTL: Duration = Duration::from_secs(60);
const LOST: ClaimError = ClaimError::ClaimLost { assigned: None };

pub(crate) async fn a_claim_has_a_resource_a_claimant_a_token_and_an_end(ground: impl Ground) {
    let (house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let claim = claims.claim("seat", "ada", TTL).metadata("paying").await.unwrap();
    assert_eq!((claim.resource().as_str(), claim.claimant()), (Some("seat"), "ada"));
    assert_eq!(claim.expires_at(), house.wall(house.now()) + TTL);
    let seen = claims.get("seat").await.unwrap().unwrap();
    assert_eq!((seen.claimant.as_str(), seen.metadata.as_deref()), ("ada", Some("paying")));
    assert_eq!((seen.fencing_token, seen.expires_at), (claim.fencing_token(), claim.expires_at()));
    claim.release().await.unwrap();
    let next = claims.claim("seat", "ada", TTL).await.unwrap();
    assert_ne!(next.token(), claim.token(), "no two claims share a token");
    assert!(next.fencing_token() > claim.fencing_token());
    let debug = format!("{claim:?}");
    assert!(!debug.contains(&claim.token().reveal()), "{debug}");
}

pub(crate) async fn a_second_claim_is_refused_with_the_holder_and_never_the_token(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let claim = claims.claim("seat", "ada", TTL).await.unwrap();
    for claimant in ["bob", "ada"] {
        let refused = claims.claim("seat", claimant, TTL).await.unwrap_err();
        let ClaimError::Claimed { holder } = &refused else { panic!("{refused}") };
        assert_eq!((holder.kind, holder.client_id.as_str()), (HolderKind::Claim, "ada"));
        assert_eq!(holder.expires_at, Some(claim.expires_at()));
        assert!(!format!("{refused:?}").contains(&claim.token().reveal()));
    }
}

pub(crate) async fn a_claim_ends_with_its_ttl_and_another_may_claim(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let first = claims.claim("seat", "ada", TTL).await.unwrap();
    ground.clock().advance(TTL - Duration::from_secs(1));
    assert!(claims.claim("seat", "bob", TTL).await.is_err());
    ground.clock().advance(Duration::from_secs(1));
    let second = claims.claim("seat", "bob", TTL).await.unwrap();
    assert_ne!(first.token(), second.token());
}

pub(crate) async fn nothing_is_assigned_before_a_claim_is_final(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let claim = claims.claim("seat", "ada", TTL).await.unwrap();
    assert_eq!(claims.assignment("seat").await.unwrap(), None);
    claim.finalize().await.unwrap();
    assert_eq!(claims.assignment("seat").await.unwrap().unwrap().claimant, "ada");
}

pub(crate) async fn a_wrong_token_finalizes_nothing(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let claim = claims.claim("seat", "ada", TTL).await.unwrap();
    let other = claims.claim("other seat", "ada", TTL).await.unwrap();
    let guessed: Secret = "00".repeat(20).parse().unwrap();
    for wrong in [other.token(), &guessed] {
        assert_eq!(claims.finalize("seat", wrong).await, Err(LOST));
        assert_eq!(claims.renew("seat", wrong).await, Err(LOST));
        assert_eq!(claims.release("seat", wrong).await, Err(LOST));
    }
    assert_eq!(claims.assignment("seat").await.unwrap(), None);
    claim.finalize().await.unwrap();
}

pub(crate) async fn finalize_distinguishes_expired_from_lost(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let released = claims.claim("seat", "ada", TTL).await.unwrap();
    released.release().await.unwrap();
    assert_eq!(released.finalize().await, Err(ClaimError::ClaimExpired));
    let late = claims.claim("seat", "ada", TTL).await.unwrap();
    assert_eq!(released.finalize().await, Err(LOST));
    ground.clock().advance(TTL);
    assert_eq!(late.finalize().await, Err(ClaimError::ClaimExpired), "there is none: that comes first");
    assert_eq!(late.release().await, Err(ClaimError::ClaimExpired));
}

pub(crate) async fn finalize_assigns_and_ends_the_claim_and_can_be_repeated(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let claim = claims.claim("seat", "ada", TTL).await.unwrap();
    let assignment = claim.finalize().await.unwrap();
    assert_eq!((assignment.claimant.as_str(), assignment.fencing_token), ("ada", claim.fencing_token()));
    assert_eq!(claims.get("seat").await.unwrap(), None);
    let refused = claims.claim("seat", "bob", TTL).await.unwrap_err();
    assert_eq!(refused, ClaimError::AlreadyAssigned(Box::new(assignment.clone())));
    assert_eq!(claim.finalize().await, Ok(assignment.clone()), "for those who never heard the answer");
    assert_eq!(claim.renew_again().await, Err(ClaimError::ClaimExpired));
    assert!(!claims.unassign("seat", Some(claim.fencing_token().next())).await.unwrap());
    assert!(claims.unassign("seat", Some(assignment.fencing_token)).await.unwrap());
    assert!(!claims.unassign("seat", None).await.unwrap());
    assert_eq!(claim.finalize().await, Err(ClaimError::ClaimExpired));
    claims.claim("seat", "bob", TTL).await.unwrap();
}

trait Again {
    async fn renew_again(&self) -> Result<(), ClaimError>;
}

impl Again for lockhouse::Claim {
    async fn renew_again(&self) -> Result<(), ClaimError> {
        self.clone().renew().await
    }
}

trait Next {
    fn next(self) -> Self;
}

impl Next for lockhouse::FencingToken {
    fn next(self) -> Self {
        Self::new(self.get() + 1)
    }
}

pub(crate) async fn a_failed_finalize_changes_nothing(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let old = claims.claim("seat", "ada", TTL).await.unwrap();
    ground.clock().advance(TTL);
    let new = claims.claim("seat", "bob", TTL).await.unwrap();
    assert_eq!(old.finalize().await, Err(LOST));
    assert_eq!(claims.assignment("seat").await.unwrap(), None);
    assert_eq!(claims.get("seat").await.unwrap().unwrap().fencing_token, new.fencing_token());
    new.finalize().await.unwrap();
}

pub(crate) async fn a_released_claim_frees_the_resource_at_once(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let first = claims.claim("seat", "ada", TTL).await.unwrap();
    first.release().await.unwrap();
    assert_eq!(first.release().await, Err(ClaimError::ClaimExpired));
    let second = claims.claim("seat", "bob", TTL).await.unwrap();
    assert_eq!(first.finalize().await, Err(LOST));
    assert_eq!(first.release().await, Err(LOST));
    second.finalize().await.unwrap();
}

pub(crate) async fn a_stale_worker_gets_claim_lost(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let a = claims.claim("job", "worker a", TTL).await.unwrap();
    ground.clock().advance(2 * TTL);
    let b = claims.claim("job", "worker b", TTL).await.unwrap();
    assert_eq!(a.finalize().await, Err(LOST));
    let assigned = b.finalize().await.unwrap();
    assert_eq!(assigned.claimant, "worker b");
    let lost = ClaimError::ClaimLost { assigned: Some(Box::new(assigned)) };
    assert_eq!(lost.to_string(), "the claim is lost: assigned to \"worker b\"");
    assert_eq!(a.finalize().await, Err(lost.clone()));
    assert_eq!(a.release().await, Err(lost));
    assert_eq!(b.release().await, Err(ClaimError::ClaimExpired), "it was made final by this one");
    assert!(claims.unassign("job", None).await.unwrap());
    assert_eq!(a.finalize().await, Err(ClaimError::ClaimExpired));
}

pub(crate) async fn a_late_worker_gets_claim_expired(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let a = claims.claim("job", "worker a", TTL).await.unwrap();
    ground.clock().advance(2 * TTL);
    assert_eq!(a.finalize().await, Err(ClaimError::ClaimExpired), "having had it proves nothing");
    assert_eq!(claims.assignment("job").await.unwrap(), None);
}

pub(crate) async fn a_renewed_claim_lasts_longer(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let mut claim = claims.claim("seat", "ada", TTL).await.unwrap();
    let first = claim.expires_at();
    ground.clock().advance(TTL / 2);
    claim.renew().await.unwrap();
    assert_eq!(claim.expires_at(), first + TTL / 2);
    ground.clock().advance(TTL - Duration::from_secs(1));
    claim.finalize().await.unwrap();
}

pub(crate) async fn an_idempotency_key_gives_the_same_claim_while_it_lives(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let claim = |claimant: &str, key: &str| claims.claim("seat", claimant, TTL).idempotency_key(key);
    let first = claim("ada", "k1").await.unwrap();
    let again = claim("ada", "k1").await.unwrap();
    assert_eq!((again.token(), again.fencing_token()), (first.token(), first.fencing_token()));
    assert_eq!(again.expires_at(), first.expires_at());
    assert!(matches!(claim("ada", "k2").await, Err(ClaimError::Claimed { .. })));
    assert!(matches!(claim("bob", "k1").await, Err(ClaimError::Claimed { .. })));
    first.release().await.unwrap();
    let anew = claim("ada", "k1").await.unwrap();
    assert_ne!(anew.token(), first.token(), "a new claim all the same");
}

pub(crate) async fn a_name_that_is_held_otherwise_is_busy(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, _) = two(&bucket.owners()).await;
    let (claims, record) = (bucket.claims(), customers().record(7));
    ada.lock([record.for_write()]).await.unwrap();
    let refused = claims.claim(record.name(), "bob", TTL).await.unwrap_err();
    let ClaimError::Busy { holders, queued: 0 } = refused else { panic!("{refused}") };
    assert_eq!(holders[0].client_id, "Ada");
    let agent = bucket.agent("job");
    let mut waiting = pin!(agent.locks().request(record.name()).into_future());
    assert!(std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
    // A later query is answered later.
    assert_eq!(agent.locks().query().await.unwrap().pending.len(), 1);
    ada.unlock_all().await.unwrap();
    assert!(matches!(claims.claim(record.name(), "bob", TTL).await, Err(ClaimError::Busy { .. })));
    waiting.await.unwrap().release().await.unwrap();
    let claim = claims.claim(record.name(), "bob", TTL).await.unwrap();
    assert!(ada.lock([record.for_write()]).await.is_err());
    claim.finalize().await.unwrap();
    ada.lock([record.for_write()]).await.unwrap();
    assert!(matches!(
        claims.claim(record.name(), "eve", TTL).await,
        Err(ClaimError::Busy { .. } | ClaimError::AlreadyAssigned(_))
    ));
}

pub(crate) async fn claims_and_assignments_outlive_a_restart<G: Ground>(ground: G) {
    if !G::KEEPS {
        return;
    }
    let (house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let pending = claims.claim("a", "ada", 20 * MINUTE).idempotency_key("k").await.unwrap();
    let done = claims.claim("b", "bob", TTL).await.unwrap();
    let assignment = done.finalize().await.unwrap();
    let released = claims.claim("c", "eve", TTL).await.unwrap();
    released.release().await.unwrap();
    let (of_a, of_b) = (pending.token().clone(), done.token().clone());
    drop((claims, bucket, pending, done, released));
    kill(house).await;

    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    assert!(matches!(claims.claim("a", "bob", TTL).await, Err(ClaimError::Claimed { .. })));
    let again = claims.claim("a", "ada", 20 * MINUTE).idempotency_key("k").await.unwrap();
    assert_eq!(again.token(), &of_a, "it can be told again though it was never stored");
    assert_eq!(claims.finalize("a", &of_a).await.unwrap().claimant, "ada");
    assert_eq!(claims.finalize("b", &of_b).await, Ok(assignment));
    assert!(claims.claim("c", "bob", TTL).await.is_ok());
}

pub(crate) async fn at_most_one_of_many_claimants_becomes_final(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    for round in 0_u32..10 {
        let finals = AtomicU32::new(0);
        let name = format!("seat {round}");
        let workers = (0_u32..6).map(|worker| {
            let (claims, name, finals, clock) = (&claims, &name, &finals, ground.clock());
            async move {
                for attempt in 0_u32..4 {
                    let Ok(claim) = claims.claim(name, worker.to_string(), TTL).await else { continue };
                    let dice = (worker * 7 + attempt * 5 + round * 3) % 4;
                    for _ in 0..dice {
                        tokio::task::yield_now().await;
                    }
                    if dice == 3 {
                        clock.advance(TTL);
                    }
                    if claim.finalize().await.is_ok() {
                        finals.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        futures(workers).await;
        assert!(finals.load(Ordering::Relaxed) <= 1, "round {round}");
        let assigned = u32::from(claims.assignment(&name).await.unwrap().is_some());
        assert_eq!(finals.into_inner(), assigned, "round {round}");
    }
}

pub(crate) async fn a_claim_whose_future_is_dropped_is_released<G: Ground>(ground: G) {
    let (_house, bucket) = ground.bucket().await;
    let claims = bucket.claims();
    let mut cut = 0;
    // Where threads answer, they may do so before it is asked for the answer: until one is late.
    for n in 0..10_000 {
        if n >= 20 && (G::ANSWERS_AT_ONCE || cut > 0) {
            break;
        }
        let name = format!("seat {n}");
        let mut claim = claims.claim(&name, "ada", TTL).into_future();
        let polled =
            std::future::poll_fn(|context| Poll::Ready(claim.as_mut().poll(context).is_ready())).await;
        drop(claim);
        if polled {
            continue;
        }
        cut += 1;
        claims.claim(&name, "bob", TTL).await.unwrap();
    }
    assert_eq!(cut > 0, !G::ANSWERS_AT_ONCE);
}
