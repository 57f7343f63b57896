//! Sample state for the promises.

use std::sync::Arc;

use lockhouse_core::{
    AssignmentRecord, BrokenBy, Change, ClaimEnd, ClaimRecord, FencingToken, Instant, LockEnd, LockRecord,
    Mode, NameBuf, OwnerEnd, OwnerId, OwnerRecord, SecretSeed, VoidLocks,
};

use crate::{HeldList, HeldWebLock, MarkOf, RecoveredRow, Scope, TokenMark, Write};

/// A moment of the year 2026.
pub(crate) const NOW: Instant = Instant::from_millis(1_790_000_000_000);

/// A bucket that all promises share.
pub(crate) fn scope() -> Arc<Scope> {
    Arc::new(Scope::new("tenant", "bucket"))
}

pub(crate) fn name(text: &str) -> NameBuf {
    // The names in this suite do not begin with a hyphen.
    NameBuf::new(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

pub(crate) fn owner(number: u64) -> OwnerRecord {
    OwnerRecord {
        owner: OwnerId::new(number),
        label: format!("Ann \u{1F511} {number}").into(),
        metadata: (!number.is_multiple_of(2)).then(|| "{\"page\": 7}".into()),
        ttl_ms: 1_200_000,
        since: NOW,
        ends: number.is_multiple_of(2).then(|| NOW.plus_millis(86_400_000)),
        seed: SecretSeed(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
    }
}

pub(crate) fn lock(text: &str, owner: u64, token: u64) -> LockRecord {
    LockRecord {
        name: name(text),
        owner: OwnerId::new(owner),
        mode: if token.is_multiple_of(2) { Mode::Shared } else { Mode::Exclusive },
        token: FencingToken::new(token),
        since: NOW.plus_millis(token),
        metadata: token.is_multiple_of(3).then(|| "note".into()),
    }
}

pub(crate) fn claim(text: &str, token: u64) -> ClaimRecord {
    ClaimRecord {
        name: name(text),
        claimant: format!("worker {token}").into(),
        token: FencingToken::new(token),
        ttl_ms: 30_000 + token,
        since: NOW.plus_millis(token),
        seed: SecretSeed(u64::MAX - token),
        metadata: token.is_multiple_of(2).then(|| "seat 12".into()),
    }
}

pub(crate) fn assignment(text: &str, token: u64) -> AssignmentRecord {
    let ClaimRecord { name, claimant, token, since, seed, .. } = claim(text, token);
    AssignmentRecord { name, claimant, token, since: since.plus_millis(5), seed }
}

pub(crate) fn unlocked(lock: &LockRecord) -> Change {
    let LockRecord { name, owner, token, since, .. } = lock.clone();
    Change::Unlocked { name, owner, token, reason: LockEnd::Released, at: since.plus_millis(9) }
}

pub(crate) fn unclaimed(claim: &ClaimRecord) -> Change {
    let ClaimRecord { name, token, since, .. } = claim.clone();
    Change::Unclaimed { name, token, reason: ClaimEnd::Expired, at: since.plus_millis(9) }
}

pub(crate) fn broken_lock(lock: &LockRecord) -> Change {
    let LockRecord { name, owner, token, since, .. } = lock.clone();
    Change::Unlocked {
        name,
        owner,
        token,
        reason: LockEnd::Broken(broken_by(token)),
        at: since.plus_millis(9),
    }
}

pub(crate) fn broken_claim(claim: &ClaimRecord) -> Change {
    let ClaimRecord { name, token, since, .. } = claim.clone();
    Change::Unclaimed { name, token, reason: ClaimEnd::Broken(broken_by(token)), at: since.plus_millis(9) }
}

fn broken_by(token: FencingToken) -> BrokenBy {
    let reason = token.get().is_multiple_of(2).then(|| "Ann \u{1F511} has left".into());
    BrokenBy { operator: "ops".into(), reason }
}

pub(crate) fn unassigned(text: &str, token: u64) -> Change {
    Change::Unassigned { name: name(text), token: FencingToken::new(token), at: NOW.plus_millis(99) }
}

pub(crate) fn ended(owner: u64, names: &[&str]) -> Change {
    Change::OwnerEnded {
        owner: OwnerId::new(owner),
        names: names.iter().map(|text| name(text)).collect(),
        reason: OwnerEnd::Expired,
        at: NOW.plus_millis(500),
    }
}

/// Locks that the owner gave up: which, as the number says.
pub(crate) fn voided(owner: u64, number: u64) -> Change {
    let which = match number % 3 {
        0 => VoidLocks::OfEnded(OwnerEnd::Overdue),
        1 => VoidLocks::AllBut { up_to: FencingToken::new(number), spared: vec![name(""), name("\0b")] },
        _ => VoidLocks::These(vec![
            (name("a"), FencingToken::new(number)),
            (name(&"long ".repeat(60)), FencingToken::new(FencingToken::LIMIT - 1)),
        ]),
    };
    Change::LocksVoided { owner: OwnerId::new(owner), which, at: NOW.plus_millis(number) }
}

pub(crate) fn swept(owner: u64) -> Change {
    Change::LocksSwept { owner: OwnerId::new(owner) }
}

pub(crate) fn reserved(up_to: u64) -> Change {
    Change::TokensReserved { up_to }
}

/// A mark of one tenant.
pub(crate) fn of_tenant(tenant: &str, up_to: u64) -> TokenMark {
    TokenMark { of: MarkOf::Tenant(tenant.into()), up_to }
}

pub(crate) fn dropped(scope: &Arc<Scope>, mark: Option<TokenMark>) -> Write {
    Write::BucketDropped { scope: Arc::clone(scope), mark }
}

/// A list of so many web locks in each of these buckets.
pub(crate) fn held_list(buckets: &[(&Arc<Scope>, u64)]) -> HeldList {
    let lock = |number: u64| HeldWebLock {
        name: [number as u8; 16],
        session: [!number as u8; 16],
        mode: if number.is_multiple_of(2) { Mode::Shared } else { Mode::Exclusive },
        token: FencingToken::new(FencingToken::LIMIT - 1 - number),
    };
    let locks = |(scope, count): &(&Arc<Scope>, u64)| (Arc::clone(scope), (0..*count).map(lock).collect());
    HeldList::new(buckets.iter().map(locks).collect()).unwrap_or_default()
}

/// The changes as writes to one bucket.
pub(crate) fn writes(scope: &Arc<Scope>, changes: impl IntoIterator<Item = Change>) -> Vec<Write> {
    changes.into_iter().map(|change| Write::Change { scope: Arc::clone(scope), change }).collect()
}

/// The rows of a slot with only this bucket.
pub(crate) fn recovered_rows(
    scope: &Arc<Scope>,
    needs_recovery: bool,
    changes: impl IntoIterator<Item = Change>,
) -> Vec<RecoveredRow> {
    let bucket = RecoveredRow::Bucket { scope: Arc::clone(scope), needs_recovery };
    let changes = changes.into_iter().map(|change| RecoveredRow::Change { scope: Arc::clone(scope), change });
    std::iter::once(bucket).chain(changes).collect()
}
