//! Damaged database files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use lockhouse::core::{
    AssignmentRecord, Change, ClaimRecord, FencingToken, Instant, LockRecord, OwnerId, OwnerRecord,
    SecretSeed,
};
use lockhouse::store::{CommitBatch, MarkOf, Scope, Slot, SqliteStore, Store, TokenMark, Write, WriterId};
use lockhouse::{BucketKey, House, LockType, Mode, NameBuf, OpenError, Options, RecordKind};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::promise;
use crate::store::folder;

/// More harm adds nothing but time.
const HARMS: usize = 8;

/// A damaged database is refused in one line, with the file as it was, or it is served; whichever, nothing
/// panics, neither when it is opened nor when it is used.
pub fn database(data: &[u8]) {
    let folder = folder();
    let file = folder.path().join("damaged.db");
    fs::write(&file, sound()).expect("a file in a folder of ours");
    let mut choices = Unstructured::new(data);
    let harms: Vec<Harm> =
        choices.arbitrary_iter().into_iter().flatten().take(HARMS).filter_map(Result::ok).collect();
    harms.iter().for_each(|harm| harm.harm(&file));
    let before = content(folder.path());
    match SqliteStore::open(&file) {
        Ok(store) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.expect("a runtime of one thread").block_on(serve(store, &harms));
        }
        Err(refusal) => {
            one_line(&refusal.to_string());
            promise!(refusal.to_string().contains("damaged.db"), "{refusal}");
            promise!(!harms.is_empty(), "a sound database is refused: {refusal}");
            promise!(content(folder.path()) == before, "{refusal}: and the folder is not as it was");
        }
    }
}

async fn serve(store: SqliteStore, harms: &[Harm]) {
    let store = Arc::new(store);
    match House::open(store.clone(), Options::new().lease(Duration::from_secs(1))).await {
        Ok(house) => {
            use_it(&house).await;
            house.close().await;
        }
        Err(refusal) => {
            promise!(!harms.is_empty(), "a sound database is refused: {refusal}");
            promise!(!matches!(refusal, OpenError::Lost(_)), "{refusal}");
            one_line(&refusal.to_string());
        }
    }
    // Any answer shows that the store's thread is alive, unless it was asked to end before.
    let _ = store.close().await;
}

/// Sends every kind of command, about things that are there and things that are not.
async fn use_it(house: &House) {
    let length = Duration::from_secs(60);
    for scope in [scope("", "default"), scope("t", "told"), scope("", "new")] {
        let key = BucketKey { bucket: scope.bucket.to_string(), partition: scope.tenant.to_string() };
        let bucket = house.bucket(key);
        for name in ["a", "b", "c", "d", "e"] {
            let claims = bucket.claims();
            let _ = claims.assignment(name).await;
            if let Ok(mut claim) = claims.claim(name, "Anna", length).await {
                let _ = claim.renew().await;
                let _ = claim.finalize().await;
            }
        }
        if let Ok(owner) = bucket.owners().open("Bob", length).await {
            let kind = RecordKind::new("record", LockType::ReadWrite);
            let _ = owner.lock([kind.for_write(1), kind.for_read(2)]).await;
            let _ = owner.end().await;
        }
        if let Ok(agent) = bucket.agent("tab") {
            // While the bucket recovers, this waits.
            let ask = agent.locks().request("free");
            let _ = tokio::time::timeout(Duration::ZERO, async { ask.await.map(drop) }).await;
        }
    }
}

fn one_line(message: &str) {
    promise!(!message.contains('\n') && message.len() < 2000, "{message:?} is not one line");
}

fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        fs::read_dir(folder).expect("a folder of ours").map(|entry| entry.expect("a folder of ours"));
    let read = |path: &Path| fs::read(path).expect("a file of ours");
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(&entry.path()))).collect()
}

/// One part that is not as it was written.
#[derive(Debug, Arbitrary)]
enum Harm {
    /// Other bytes somewhere.
    Bytes { at: u32, bytes: Vec<u8> },
    /// The rest is gone.
    Cut { at: u32 },
    /// Another value in a row, or in all.
    Cell { table: u8, column: u8, row: Option<u8>, value: Content },
    /// A row is gone.
    Row { table: u8, row: u8 },
    /// A table is gone.
    Table { table: u8 },
    /// The fields of the header.
    Header { version: Option<i32>, application: Option<i32> },
}

#[derive(Debug, Arbitrary)]
enum Content {
    Null,
    Edge {
        which: u8,
    },
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    /// A text that is none.
    Mojibake(Vec<u8>),
}

const TABLES: [&str; 9] =
    ["secret", "slots", "tenants", "buckets", "owners", "locks", "claims", "assignments", "floors"];

/// Numbers at which something ends.
const EDGES: [i64; 12] =
    [0, 1, 2, 3, -1, i64::MAX, i64::MIN, 1 << 53, (1 << 53) - 1, (1 << 53) - 2, 1 << 32, i64::MAX - 1];

impl Harm {
    /// Does it as far as it can be done.
    fn harm(&self, file: &Path) {
        match self {
            Self::Bytes { at, bytes } => {
                let mut all = fs::read(file).expect("a file of ours");
                let at = *at as usize % all.len().max(1);
                all.iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old = *new);
                fs::write(file, all).expect("a file of ours");
            }
            Self::Cut { at } => {
                let mut all = fs::read(file).expect("a file of ours");
                all.truncate(*at as usize % all.len().max(1));
                fs::write(file, all).expect("a file of ours");
            }
            _ => _ = Connection::open(file).and_then(|file| self.by_sql(&file)),
        }
    }

    fn by_sql(&self, file: &Connection) -> rusqlite::Result<()> {
        let name = |table: u8| TABLES[usize::from(table) % TABLES.len()];
        file.pragma_update(None, "ignore_check_constraints", true)?;
        match self {
            Self::Cell { table, column, row, value } => {
                let columns: Vec<String> = file
                    .prepare(&format!("SELECT name FROM pragma_table_info('{}')", name(*table)))?
                    .query_map([], |row| row.get(0))?
                    .collect::<Result<_, _>>()?;
                let Some(column) = columns.get(usize::from(*column) % columns.len().max(1)) else {
                    // The table is gone.
                    return Ok(());
                };
                let place = row.map_or(String::new(), |row| {
                    format!("WHERE {column} = (SELECT {column} FROM {} LIMIT 1 OFFSET {row})", name(*table))
                });
                let content = if matches!(value, Content::Mojibake(_)) { "CAST(?1 AS TEXT)" } else { "?1" };
                let sql = format!("UPDATE OR REPLACE {} SET {column} = {content} {place}", name(*table));
                file.execute(&sql, [value.value()]).map(drop)
            }
            Self::Row { table, row } => {
                let key = if name(*table) == "secret" { "only" } else { "rowid" };
                let sql = format!("DELETE FROM {} WHERE {key} = {row}", name(*table));
                file.execute(&sql, []).map(drop)
            }
            Self::Table { table } => file.execute(&format!("DROP TABLE {}", name(*table)), []).map(drop),
            Self::Header { version, application } => {
                version.map_or(Ok(()), |version| file.pragma_update(None, "user_version", version))?;
                application.map_or(Ok(()), |id| file.pragma_update(None, "application_id", id))
            }
            Self::Bytes { .. } | Self::Cut { .. } => Ok(()),
        }
    }
}

impl Content {
    fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Edge { which } => Value::Integer(EDGES[usize::from(*which) % EDGES.len()]),
            Self::Integer(number) => Value::Integer(*number),
            Self::Real(number) => Value::Real(*number),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Blob(bytes) | Self::Mojibake(bytes) => Value::Blob(bytes.clone()),
        }
    }
}

/// A database with something of everything in it, as it is found after a clean close of the file.
fn sound() -> &'static [u8] {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let folder = folder();
        let path = folder.path().join("sound.db");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime of one thread");
        runtime.block_on(async {
            let store = SqliteStore::open(&path).expect("a new database");
            let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut |_| {}).await.expect("a new database");
            let (slot, epoch, writer) = (Slot::ONLY, opened.epoch, WriterId(1));
            let batch = CommitBatch { slot, epoch, writer, first_seq: 1, writes: writes() };
            store.commit(vec![Arc::new(batch)]).await.expect("room for some rows");
            store.close().await.expect("a sound end");
        });
        fs::read(path).expect("a file of ours")
    })
}

fn scope(tenant: &str, bucket: &str) -> Arc<Scope> {
    Arc::new(Scope::new(tenant, bucket))
}

fn writes() -> Vec<Write> {
    let at = Instant::from_millis(1_700_000_000_000);
    let name = |name: &str| NameBuf::new(name).expect("it begins with no hyphen");
    let owner = |number, label: &str| {
        let ends = Some(at.plus_millis(1 << 42));
        let (owner, label, metadata) = (OwnerId::new(number), label.into(), Some("by telephone".into()));
        Change::OwnerOpened(OwnerRecord {
            owner,
            label,
            metadata,
            ttl_ms: 60_000,
            since: at,
            ends,
            seed: SecretSeed(9),
        })
    };
    let lock = |of: &str, owner, mode, token| {
        let (owner, token) = (OwnerId::new(owner), FencingToken::new(token));
        Change::Locked(LockRecord { name: name(of), owner, mode, token, since: at, metadata: None })
    };
    let claim = |of: &str, token| {
        let (claimant, token, metadata) = ("Carl".into(), FencingToken::new(token), None);
        Change::Claimed(ClaimRecord {
            name: name(of),
            claimant,
            token,
            ttl_ms: 60_000,
            since: at,
            seed: SecretSeed(8),
            metadata,
        })
    };
    let assignment = |of: &str, token| {
        let (claimant, token) = ("Dora".into(), FencingToken::new(token));
        Change::Assigned(AssignmentRecord { name: name(of), claimant, token, since: at, seed: SecretSeed(7) })
    };
    let of_default = [
        Change::TokensReserved { up_to: 1000 },
        owner(1, "Anna"),
        owner(2, "Bob"),
        owner(8, "Zoe, who has nothing"),
        lock("a", 1, Mode::Exclusive, 3),
        lock("b", 1, Mode::Shared, 4),
        lock("b", 2, Mode::Shared, 5),
        claim("c", 6),
        assignment("d", 7),
    ];
    let of_announced =
        [Change::TokensReserved { up_to: 2000 }, owner(1, "Eve"), lock("a", 1, Mode::Shared, 2)];
    let (default, announced, gone) = (scope("", "default"), scope("t", "told"), scope("t", "gone"));
    let changes = |scope: &Arc<Scope>, changes: Vec<Change>| {
        let scope = scope.clone();
        changes.into_iter().map(move |change| Write::Change { scope: scope.clone(), change })
    };
    let mut writes =
        vec![Write::LongestLease { ms: 1000 }, Write::NeedsRecovery { scope: announced.clone() }];
    writes.extend(changes(&default, of_default.into()));
    writes.extend(changes(&announced, of_announced.into()));
    writes.extend(changes(&gone, vec![Change::TokensReserved { up_to: 3000 }]));
    let mark = TokenMark { of: MarkOf::Tenant("t".into()), up_to: 2500 };
    writes.push(Write::BucketDropped { scope: gone, mark: Some(mark) });
    writes
}
