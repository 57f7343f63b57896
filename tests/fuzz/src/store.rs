//! The input and the output of a store: SQLite beside memory.

use std::path::Path;
use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};
use lockhouse::core::{
    AssignmentRecord, BrokenBy, Change, ClaimEnd, ClaimRecord, FencingToken, Instant, LockEnd, LockRecord,
    OwnerEnd, OwnerId, OwnerRecord, SecretSeed,
};
use lockhouse::store::{
    CommitBatch, CommitOutcome, HeldList, HeldWebLock, MarkOf, MemoryStore, Opened, RecoveredRow, Scope,
    SecretKey, Slot, SqliteStore, Store, TokenMark, Write, WriterId,
};
use lockhouse::{Mode, NameBuf};
use tempfile::TempDir;

/// More batches add nothing but time.
const BATCHES: usize = 24;

/// Under any writes in any order, the database file and the memory store agree on the outcome of each batch
/// and, after each take and each start, on all stored data: the output equals the input.
pub fn store(data: &[u8]) {
    let folder = folder();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime of one thread");
    // Steps for which the bytes do not suffice are left out.
    let _ = runtime.block_on(play(&folder.path().join("store.db"), &mut Unstructured::new(data)));
}

/// A folder in memory, where there is one: nothing here need survive.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a temporary folder")
}

async fn play(path: &Path, choices: &mut Unstructured<'_>) -> Result<()> {
    let memory = MemoryStore::with_key(SecretKey::new([7; 32]));
    let mut model = Life::take(Box::new(memory.reopen()), 1).await;
    let mut life = Life::take(open(path), 1).await;
    compare(&life, &model);
    for number in 0..BATCHES as u64 {
        if choices.is_empty() {
            break;
        }
        match choices.int_in_range(0..=9)? {
            0 => {
                life = Life::take(life.store, number).await;
                model = Life::take(model.store, number).await;
            }
            1 => {
                life.store.close().await.expect("a store that nobody uses closes");
                life = Life::take(open(path), number).await;
                model = Life::take(Box::new(memory.reopen()), number).await;
            }
            _ => {
                let batch = batch(choices)?;
                assert_eq!(life.write(&batch).await, model.write(&batch).await, "{batch:?}");
                continue;
            }
        }
        compare(&life, &model);
    }
    life.store.close().await.expect("a store that nobody uses closes");
    compare(&Life::take(open(path), 99).await, &Life::take(Box::new(memory.reopen()), 99).await);
    Ok(())
}

fn open(path: &Path) -> Box<dyn Store> {
    Box::new(SqliteStore::open(path).expect("a database that was closed well opens"))
}

/// A store that is taken.
struct Life {
    store: Box<dyn Store>,
    writer: WriterId,
    opened: Opened,
    next_seq: u64,
    recovered: Vec<RecoveredRow>,
}

impl Life {
    async fn take(store: Box<dyn Store>, writer: u64) -> Self {
        let (writer, mut recovered) = (WriterId(writer), Vec::new());
        let taken = store.take_slot(Slot::ONLY, writer, &mut |piece| recovered.push(piece)).await;
        let opened = taken.expect("what was written here can be read");
        Self { store, writer, opened, next_seq: 1, recovered }
    }

    async fn write(&mut self, planned: &Planned) -> CommitOutcome {
        let first_seq = self.next_seq.saturating_add_signed(planned.off_turn.into());
        let batch = CommitBatch {
            slot: Slot::ONLY,
            epoch: self.opened.epoch.saturating_sub(planned.epochs_ago.into()),
            writer: if planned.of_other { WriterId(u64::MAX) } else { self.writer },
            first_seq,
            writes: planned.writes.clone(),
        };
        let outcomes = self.store.commit(vec![Arc::new(batch)]).await.expect("no disk fails here");
        let [outcome] = &outcomes[..] else { panic!("{outcomes:?} of one batch") };
        if *outcome == CommitOutcome::Committed {
            self.next_seq = self.next_seq.max(first_seq + planned.writes.len() as u64);
        }
        outcome.clone()
    }
}

fn compare(life: &Life, model: &Life) {
    let Opened { epoch, clean, restored, longest_lease_ms, tickets_since, token_floor, held, key: _ } =
        &model.opened;
    let Opened { key: _, .. } = &life.opened;
    assert_eq!(
        (life.opened.epoch, life.opened.clean, life.opened.restored, life.opened.longest_lease_ms),
        (*epoch, *clean, *restored, *longest_lease_ms)
    );
    assert_eq!(&life.opened.held, held);
    assert_eq!((life.opened.tickets_since, life.opened.token_floor), (*tickets_since, *token_floor));
    assert_eq!(by_bucket(&life.recovered), by_bucket(&model.recovered));
}

/// In which order tenants and buckets come, each store may decide.
fn by_bucket(recovered: &[RecoveredRow]) -> Vec<&[RecoveredRow]> {
    let starts_anew = |piece: &RecoveredRow| !matches!(piece, RecoveredRow::Change { .. });
    let mut pieces: Vec<&[RecoveredRow]> = recovered.chunk_by(|_, next| !starts_anew(next)).collect();
    pieces.sort_by_cached_key(|piece| format!("{:?}", piece.first()));
    pieces
}

/// A batch, and how it may be wrong.
#[derive(Debug)]
struct Planned {
    writes: Vec<Write>,
    off_turn: i8,
    epochs_ago: u8,
    of_other: bool,
}

fn batch(choices: &mut Unstructured<'_>) -> Result<Planned> {
    let is_wrong = choices.ratio(1, 8)?;
    let count = choices.int_in_range(0..=12)?;
    Ok(Planned {
        writes: (0..count).map(|_| write(choices)).collect::<Result<_>>()?,
        off_turn: if is_wrong { choices.int_in_range(-3..=3)? } else { 0 },
        epochs_ago: if is_wrong { choices.int_in_range(0..=2)? } else { 0 },
        of_other: is_wrong && choices.arbitrary()?,
    })
}

/// The list of some locks of one bucket.
fn held(choices: &mut Unstructured<'_>, scope: Arc<Scope>) -> Result<HeldList> {
    let count = choices.int_in_range(0..=3)?;
    let lock = |choices: &mut Unstructured<'_>| -> Result<HeldWebLock> {
        let mode = if choices.arbitrary()? { Mode::Shared } else { Mode::Exclusive };
        let token = FencingToken::new(choices.int_in_range(1..=FencingToken::LIMIT - 1)?);
        Ok(HeldWebLock { name: choices.arbitrary()?, session: choices.arbitrary()?, mode, token })
    };
    let locks = (0..count).map(|_| lock(choices)).collect::<Result<_>>()?;
    Ok(HeldList::new(vec![(scope, locks)]).unwrap_or_default())
}

fn write(choices: &mut Unstructured<'_>) -> Result<Write> {
    let scope = Arc::new(Scope::new(some_text(choices)?, some_text(choices)?));
    Ok(match choices.int_in_range(0..=31)? {
        0 => Write::BucketDropped { scope, mark: mark(choices)? },
        1 => Write::NeedsRecovery { scope },
        2 => Write::LongestLease { ms: choices.int_in_range(0..=i64::MAX as u64)? },
        3 => Write::RecoveryCompleted,
        4 => Write::MarkErased,
        5 if choices.arbitrary()? => Write::StoppedClean,
        5 => {
            let held = choices.arbitrary::<bool>()?.then(|| held(choices, scope)).transpose()?;
            Write::StoppedHolding { held }
        }
        6 => Write::MarksReplaced { marks: mark(choices)?.into_iter().collect() },
        _ => Write::Change { scope, change: change(choices)? },
    })
}

fn mark(choices: &mut Unstructured<'_>) -> Result<Option<TokenMark>> {
    let of = match choices.int_in_range(0..=3)? {
        0 => return Ok(None),
        1 => MarkOf::Tenant(some_text(choices)?.into()),
        2 => MarkOf::Group(some_text(choices)?.into()),
        _ => MarkOf::All,
    };
    Ok(Some(TokenMark { of, up_to: number(choices)? }))
}

fn change(choices: &mut Unstructured<'_>) -> Result<Change> {
    let (name, owner, token) = (name(choices)?, OwnerId::new(number(choices)?), token(choices)?);
    let at = Instant::from_millis(choices.arbitrary()?);
    Ok(match choices.int_in_range(0..=8)? {
        0 => Change::TokensReserved { up_to: token.get() },
        1 => Change::OwnerOpened(OwnerRecord {
            owner,
            label: some_text(choices)?.into(),
            metadata: metadata(choices)?,
            ttl_ms: choices.arbitrary()?,
            since: at,
            ends: Option::<u64>::arbitrary(choices)?.map(Instant::from_millis),
            seed: SecretSeed(choices.arbitrary()?),
        }),
        2 => {
            let reason = *choices.choose(&[OwnerEnd::Ended, OwnerEnd::Expired, OwnerEnd::Overdue])?;
            Change::OwnerEnded { owner, names: vec![name], reason, at }
        }
        3 => Change::Locked(LockRecord {
            name,
            owner,
            mode: *choices.choose(&[Mode::Exclusive, Mode::Shared])?,
            token,
            since: at,
            metadata: metadata(choices)?,
        }),
        4 => {
            let ends = [LockEnd::Released, LockEnd::Undone, LockEnd::Stolen, LockEnd::Broken(broken_by())];
            let reason = choices.choose(&ends)?.clone();
            Change::Unlocked { name, owner, token, reason, at }
        }
        5 => Change::Claimed(ClaimRecord {
            name,
            claimant: some_text(choices)?.into(),
            token,
            ttl_ms: choices.arbitrary()?,
            since: at,
            seed: SecretSeed(choices.arbitrary()?),
            metadata: metadata(choices)?,
        }),
        6 => {
            let ends =
                [ClaimEnd::Released, ClaimEnd::Expired, ClaimEnd::Stolen, ClaimEnd::Broken(broken_by())];
            let reason = choices.choose(&ends)?.clone();
            Change::Unclaimed { name, token, reason, at }
        }
        7 => {
            let claimant = some_text(choices)?.into();
            Change::Assigned(AssignmentRecord {
                name,
                claimant,
                token,
                since: at,
                seed: SecretSeed(choices.arbitrary()?),
            })
        }
        _ => Change::Unassigned { name, token, at },
    })
}

/// Mostly a few that come again and again.
fn name(choices: &mut Unstructured<'_>) -> Result<NameBuf> {
    let units: Vec<u16> = match choices.int_in_range(0..=7)? {
        0 => choices.arbitrary_iter()?.take(64).collect::<Result<_>>()?,
        few => vec![[0, 0x61, 0xD800, 0xDC00, 0xE9, 0xFFFF, 0x2F][few - 1]],
    };
    Ok(NameBuf::from_units(&units).unwrap_or_else(|_| NameBuf::new("").expect("it begins with no hyphen")))
}

fn some_text(choices: &mut Unstructured<'_>) -> Result<String> {
    Ok(match choices.int_in_range(0..=7)? {
        0 => choices.arbitrary()?,
        few => ["", "a", "b", "\0", "%", "'\"", "\u{1F511}"][few - 1].to_owned(),
    })
}

fn metadata(choices: &mut Unstructured<'_>) -> Result<Option<Box<str>>> {
    Ok(if choices.arbitrary()? { Some(some_text(choices)?.into()) } else { None })
}

fn number(choices: &mut Unstructured<'_>) -> Result<u64> {
    if choices.ratio(7, 8)? {
        choices.int_in_range(1..=4)
    } else {
        choices.int_in_range(1..=FencingToken::LIMIT - 1)
    }
}

fn token(choices: &mut Unstructured<'_>) -> Result<FencingToken> {
    number(choices).map(FencingToken::new)
}

fn broken_by() -> BrokenBy {
    BrokenBy { operator: "ops".into(), reason: Some("she has left".into()) }
}
