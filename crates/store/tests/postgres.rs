//! The PostgreSQL store keeps every promise, directly and through a pooler, and tells what it does not know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockhouse_core::{
    AssignmentRecord, BrokenBy, Change, ClaimEnd, ClaimRecord, FencingToken, LockEnd, LockRecord, Mode,
    NameBuf, OwnerEnd, OwnerId, OwnerRecord, SecretSeed, VoidLocks,
};
use lockhouse_store::conformance::{self, Harness};
use lockhouse_store::{
    CommitBatch, CommitOutcome, Fatal, HistoryBounds, Opened, PostgresOpenError, PostgresOptions,
    PostgresStore, RecoveredRow, Scope, Slot, SqliteStore, Store, StoreFuture, StoreUnavailable, TakeError,
    Write, WriterId,
};
use tokio_postgres::Client;

use crate::pgbouncer::PgBouncer;
use crate::server::Server;

/// A schema of its own.
struct Postgres {
    address: String,
    schema: String,
}

impl Postgres {
    fn at(address: String) -> Self {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let schema = format!("lock \"house\" {}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
        Self { address, schema }
    }

    fn options(&self) -> PostgresOptions {
        // What the samples say has ended is long ago.
        let history = HistoryBounds { age: None, ..HistoryBounds::DEFAULT };
        let options = PostgresOptions::default().schema(&self.schema).slots(4).history(history);
        options.statement_timeout(Duration::from_secs(20))
    }

    async fn store(&self) -> PostgresStore {
        self.store_with(self.options()).await
    }

    async fn store_with(&self, options: PostgresOptions) -> PostgresStore {
        PostgresStore::open(&self.address, options).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// That of the schema, as statements have it.
    fn table(&self, name: &str) -> String {
        format!("\"{}\".{name}", self.schema.replace('"', "\"\""))
    }
}

impl Harness for Postgres {
    fn open(&self) -> StoreFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(self.store().await) as _ })
    }

    fn kill(&self, store: Arc<dyn Store>) -> StoreFuture<'_, ()> {
        Box::pin(async { drop(store) })
    }
}

macro_rules! all {
    ($($promise:ident)*) => {
        /// Each promise in a schema of its own.
        async fn every_promise(address: String) {
            $(
                println!(stringify!($promise));
                conformance::$promise(&Postgres::at(address.clone())).await;
            )*
        }
    };
}

lockhouse_store::for_each_promise!(all);

#[tokio::test]
async fn every_promise_is_kept() {
    let server = Server::start(&[]);
    every_promise(server.address()).await;
}

#[tokio::test]
async fn every_promise_is_kept_behind_a_pooler_that_lends_connections_for_a_transaction() {
    let server = Server::start(&[]);
    let pooler = PgBouncer::before(&server);
    every_promise(pooler.address()).await;
}

/// A writer of one slot.
struct Writer {
    store: Arc<PostgresStore>,
    slot: Slot,
    writer: WriterId,
    opened: Opened,
    recovered: Vec<RecoveredRow>,
    seq: u64,
}

impl Writer {
    async fn take(store: &Arc<PostgresStore>, slot: u16, writer: u64) -> Self {
        let (store, slot, writer) = (Arc::clone(store), Slot::new(slot), WriterId(writer));
        let mut recovered = Vec::new();
        let opened = store.take_slot(slot, writer, &mut |row| recovered.push(row)).await;
        let opened = opened.unwrap_or_else(|error| panic!("{error}"));
        Self { store, slot, writer, opened, recovered, seq: 0 }
    }

    /// The batch that claims a name.
    fn claiming(&mut self, name: &str) -> Arc<CommitBatch> {
        self.seq += 1;
        let claim = ClaimRecord {
            name: NameBuf::new(name).unwrap(),
            claimant: "ann\0".into(),
            token: FencingToken::new(self.seq),
            ttl_ms: 1000,
            since: lockhouse_core::Instant::from_millis(1),
            seed: SecretSeed(7),
            metadata: None,
        };
        let scope = Arc::new(Scope::new("t", format!("of slot {}", self.slot.get())));
        Arc::new(CommitBatch {
            slot: self.slot,
            epoch: self.opened.epoch,
            writer: self.writer,
            first_seq: self.seq,
            writes: vec![Write::Change { scope, change: Change::Claimed(claim) }],
        })
    }

    async fn commit(&self, batch: &Arc<CommitBatch>) -> CommitOutcome {
        self.store.commit(vec![Arc::clone(batch)]).await.unwrap_or_else(|fatal| panic!("{fatal}")).remove(0)
    }

    async fn claims(&self) -> usize {
        let is_claim =
            |row: &&RecoveredRow| matches!(row, RecoveredRow::Change { change: Change::Claimed(_), .. });
        let next = Self::take(&self.store, self.slot.get(), self.writer.0 + 1).await;
        next.recovered.iter().filter(is_claim).count()
    }
}

#[tokio::test]
async fn a_slot_is_taken_while_the_others_go_on() {
    let server = Server::start(&[]);
    let schema = Postgres::at(server.address());
    let (here, there) = (Arc::new(schema.store().await), Arc::new(schema.store().await));
    let mut own = Writer::take(&here, 0, 1).await;
    let mut lost = Writer::take(&here, 1, 2).await;
    let both =
        |own: &mut Writer, lost: &mut Writer, name: &str| vec![own.claiming(name), lost.claiming(name)];
    let first = here.commit(both(&mut own, &mut lost, "a")).await.unwrap();
    assert_eq!(first, [CommitOutcome::Committed, CommitOutcome::Committed]);

    let mut taken = Writer::take(&there, 1, 3).await;
    assert!(taken.opened.epoch > lost.opened.epoch);
    assert_eq!(taken.recovered.len(), 2, "its bucket and its claim: {:?}", taken.recovered);
    let mixed = here.commit(both(&mut own, &mut lost, "b")).await.unwrap();
    assert_eq!(mixed, [CommitOutcome::Committed, CommitOutcome::Fenced]);
    let next = taken.claiming("c");
    assert_eq!(taken.commit(&next).await, CommitOutcome::Committed);
    assert_eq!((own.claims().await, taken.claims().await), (2, 2));
    let none = here.take_slot(Slot::new(4), WriterId(1), &mut drop::<RecoveredRow>).await;
    assert_eq!(none, Err(TakeError::NoSuchSlot(Slot::new(4))));
}

/// A standby has what was confirmed: a repeat is confirmed by a transaction that it has to have, too.
#[tokio::test]
async fn a_repeat_that_is_found_kept_writes_all_the_same() {
    let server = Server::start(&[]);
    let schema = Postgres::at(server.address());
    let store = Arc::new(schema.store().await);
    let mut writer = Writer::take(&store, 0, 1).await;
    let looker = server.connect().await;
    let last_writer = async || {
        let sql = format!("SELECT xmin::text FROM {} WHERE slot = 0", schema.table("slots"));
        looker.query_one(&sql, &[]).await.unwrap().get::<_, String>(0)
    };
    let batch = writer.claiming("a");
    assert_eq!(writer.commit(&batch).await, CommitOutcome::Committed);
    let before = last_writer().await;
    assert_eq!(writer.commit(&batch).await, CommitOutcome::Committed);
    assert_ne!(last_writer().await, before);
    assert_eq!(writer.claims().await, 1);
}

/// The server of a fleet whose standby is away: a commit waits for it.
struct WithoutStandby {
    server: Server,
    admin: Client,
}

impl WithoutStandby {
    async fn start() -> Self {
        let server = Server::start(&[]);
        let admin = server.connect().await;
        Self { server, admin }
    }

    async fn set_standby(&self, name: &str) {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
        self.admin.batch_execute(&set).await.unwrap();
        self.admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        // The processes of the server read the settings one by one.
        while !name.is_empty() && !self.is_awaited().await {}
    }

    /// Whether a commit waits for a standby.
    async fn is_awaited(&self) -> bool {
        let probe = self.server.connect().await;
        let write = probe.batch_execute("SELECT pg_logical_emit_message(true, 'probe', '')");
        tokio::select! {
            biased;
            written = write => {
                written.unwrap();
                false
            }
            () = self.meddle("pg_cancel_backend", "") => true,
        }
    }

    /// Does that to the process of the application that waits for the standby, once there is one.
    async fn meddle(&self, function: &str, application: &str) {
        let sql = format!(
            "SELECT {function}(pid) FROM pg_stat_activity
             WHERE wait_event = 'SyncRep' AND application_name = '{application}'"
        );
        while self.admin.query(&sql, &[]).await.unwrap().is_empty() {}
    }
}

#[tokio::test]
async fn a_commit_that_no_standby_has_is_unknown() {
    let site = WithoutStandby::start().await;
    let schema = Postgres::at(site.server.address());
    let store = Arc::new(schema.store().await);
    let mut writer = Writer::take(&store, 0, 1).await;
    // Cancelled, the wait ends with a warning, and the answer says that all is well; ended, without one.
    for how in ["pg_cancel_backend", "pg_terminate_backend"] {
        site.set_standby("away").await;
        let batch = writer.claiming(how);
        for sending in ["the first", "the second, which finds it there"] {
            let both = async { tokio::join!(writer.commit(&batch), site.meddle(how, "lockhouse")).0 };
            // Sooner than the answer may take.
            let outcome = tokio::time::timeout(Duration::from_secs(15), both).await;
            assert_eq!(outcome, Ok(CommitOutcome::Unknown), "{how}, {sending}");
        }
        site.set_standby("").await;
        assert_eq!(writer.commit(&batch).await, CommitOutcome::Committed, "{how}");
    }
    assert_eq!(writer.claims().await, 2);
}

#[tokio::test]
async fn a_commit_that_no_standby_has_is_unknown_to_a_role_that_gets_no_warnings() {
    let site = WithoutStandby::start().await;
    site.admin.batch_execute("ALTER ROLE postgres SET client_min_messages = error").await.unwrap();
    let schema = Postgres::at(site.server.address());
    let store = Arc::new(schema.store().await);
    let mut writer = Writer::take(&store, 0, 1).await;
    site.set_standby("away").await;
    let batch = writer.claiming("seat");
    let both = async { tokio::join!(writer.commit(&batch), site.meddle("pg_cancel_backend", "lockhouse")).0 };
    assert_eq!(both.await, CommitOutcome::Unknown);
}

/// Nor is it told as not kept by a later sending that comes to nothing, as the first may be kept all the
/// same.
#[tokio::test]
async fn what_is_not_answered_in_time_is_unknown_and_stays_so_until_it_is_known() {
    let site = WithoutStandby::start().await;
    let schema = Postgres::at(site.server.address());
    let limit = Duration::from_millis(500);
    let store = Arc::new(schema.store_with(schema.options().statement_timeout(limit)).await);
    let mut writer = Writer::take(&store, 0, 1).await;
    let first = writer.claiming("a");
    while writer.commit(&first).await != CommitOutcome::Committed {}
    site.set_standby("away").await;
    let (both, start) = (vec![writer.claiming("b"), writer.claiming("c")], Instant::now());
    assert_eq!(store.commit(both.clone()).await, Ok(vec![CommitOutcome::Unknown; 2]));
    // The process of the first sending still has the row of the slot.
    for batch in &both {
        assert_eq!(writer.commit(batch).await, CommitOutcome::Unknown);
    }
    assert!(start.elapsed() < 20 * limit, "{:?}", start.elapsed());
    site.set_standby("").await;
    while store.commit(both.clone()).await != Ok(vec![CommitOutcome::Committed; 2]) {}
    assert_eq!(writer.claims().await, 3);
}

#[tokio::test]
async fn a_commit_is_on_the_disk_whatever_the_server_does_by_default() {
    let server = Server::start(&["synchronous_commit=off", "wal_writer_delay=10s"]);
    let schema = Postgres::at(server.address());
    let store = Arc::new(schema.store().await);
    let mut writer = Writer::take(&store, 0, 1).await;
    let looker = server.connect().await;
    for name in ["a", "b", "c"] {
        let row = looker.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).await.unwrap();
        let before: String = row.get(0);
        let batch = writer.claiming(name);
        assert_eq!(writer.commit(&batch).await, CommitOutcome::Committed);
        let sql = format!("SELECT pg_current_wal_flush_lsn() > '{before}'::pg_lsn");
        assert!(looker.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0), "{name}");
    }
}

#[tokio::test]
async fn a_row_that_another_holds_refuses_a_commit_that_is_not_kept_then() {
    let server = Server::start(&[]);
    let schema = Postgres::at(server.address());
    let store = Arc::new(schema.store_with(schema.options().statement_timeout(Duration::from_secs(2))).await);
    let mut writer = Writer::take(&store, 0, 1).await;
    let mut other = server.connect().await;
    let paused = other.transaction().await.unwrap();
    let lock = format!("SELECT FROM {} WHERE slot = 0 FOR UPDATE", schema.table("slots"));
    paused.batch_execute(&lock).await.unwrap();
    let batches = ["a", "b", "c", "d", "e"].map(|name| writer.claiming(name)).to_vec();
    let start = Instant::now();
    let outcomes = store.commit(batches.clone()).await.unwrap();
    // They wait together, and not one after the other.
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    for outcome in outcomes {
        assert!(matches!(outcome, CommitOutcome::Refused(StoreUnavailable::Away { .. })), "{outcome:?}");
    }
    paused.rollback().await.unwrap();
    assert_eq!(store.commit(batches).await, Ok(vec![CommitOutcome::Committed; 5]));
}

#[tokio::test]
async fn a_connection_that_ended_is_made_again() {
    let server = Server::start(&[]);
    let schema = Postgres::at(server.address());
    let store = Arc::new(schema.store().await);
    let mut writer = Writer::take(&store, 0, 1).await;
    let admin = server.connect().await;
    for name in ["a", "b", "c"] {
        let batch = writer.claiming(name);
        // The end may be noticed before the batch is sent, or not.
        let outcome = writer.commit(&batch).await;
        let again = if outcome == CommitOutcome::Unknown { writer.commit(&batch).await } else { outcome };
        assert_eq!(again, CommitOutcome::Committed);
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockhouse'";
        admin.batch_execute(end).await.unwrap();
    }
    assert_eq!(writer.claims().await, 3);
}

#[tokio::test]
async fn tables_that_are_gone_are_fatal() {
    let server = Server::start(&[]);
    let schema = Postgres::at(server.address());
    let store = Arc::new(schema.store().await);
    let mut writer = Writer::take(&store, 0, 1).await;
    let batch = writer.claiming("a");
    let drop = format!("DROP SCHEMA {} CASCADE", schema.table("x").trim_end_matches(".x"));
    server.connect().await.batch_execute(&drop).await.unwrap();
    let outcome = store.commit(vec![batch]).await;
    assert!(matches!(outcome, Err(Fatal::Damaged { .. })), "{outcome:?}");
}

/// The history of a database as text, oldest first.
const HISTORY: &str = "SELECT concat_ws(' ', since, at, kind, why, coalesce(WHO, '-'),
    coalesce(OWNER, '-'), coalesce(NAME, '-'), coalesce(mode, '-'), coalesce(TOKEN, '-'),
    coalesce(OPERATOR, '-'), coalesce(REASON, '-'))
    FROM HISTORY ORDER BY seq";

/// The history of both stores is the same, whatever happens.
#[tokio::test]
async fn the_history_says_the_same_as_in_a_file() {
    let at = lockhouse_core::Instant::from_millis;
    let name = |text: &str| NameBuf::new(text).unwrap();
    let (owner, token) = (OwnerId::new(7), FencingToken::new);
    let opened = OwnerRecord {
        owner,
        label: "Ann\0".into(),
        metadata: None,
        ttl_ms: 1000,
        since: at(7),
        ends: Some(at(99)),
        seed: SecretSeed(1),
    };
    let locked = |text: &str, number| {
        let (name, token, mode) = (name(text), token(number), Mode::Shared);
        Change::Locked(LockRecord { name, owner, mode, token, since: at(number), metadata: None })
    };
    let unlocked = |text: &str, number, reason| Change::Unlocked {
        name: name(text),
        owner,
        token: token(number),
        reason,
        at: at(number + 50),
    };
    let claimed_as = |text: &str, number| {
        Change::Claimed(ClaimRecord {
            name: name(text),
            claimant: "worker".into(),
            token: token(number),
            ttl_ms: 1,
            since: at(number),
            seed: SecretSeed(2),
            metadata: None,
        })
    };
    let claimed = |number| claimed_as("seat", number);
    let unclaimed = |text: &str, number, ms| Change::Unclaimed {
        name: name(text),
        token: token(number),
        reason: ClaimEnd::Released,
        at: at(ms),
    };
    let broken_by = || BrokenBy { operator: "ops".into(), reason: Some("the hall is closed".into()) };
    let broken = |text: &str, number, ms| Change::Unclaimed {
        name: name(text),
        token: token(number),
        reason: ClaimEnd::Broken(broken_by()),
        at: at(ms),
    };
    let assigned = AssignmentRecord {
        name: name("seat"),
        claimant: "worker".into(),
        token: token(23),
        since: at(24),
        seed: SecretSeed(2),
    };
    let voided = |which, ms| Change::LocksVoided { owner, which, at: at(ms) };
    let with_owner = LockEnd::WithOwner(OwnerEnd::Expired);
    let changes = vec![
        Change::OwnerOpened(opened.clone()),
        locked("a", 8),
        unlocked("a", 8, LockEnd::Stolen),
        locked("a", 8),
        unlocked("a", 8, LockEnd::Broken(broken_by())),
        locked("b", 9),
        locked("b", 10),
        locked("c\0", 11),
        Change::OwnerEnded {
            owner,
            names: vec![name("b"), name("c\0")],
            reason: OwnerEnd::Overdue,
            at: at(12),
        },
        claimed(21),
        Change::Unclaimed { name: name("seat"), token: token(21), reason: ClaimEnd::Expired, at: at(22) },
        claimed(23),
        Change::Assigned(assigned),
        Change::Unassigned { name: name("seat"), token: token(23), at: at(25) },
        // What never began does not end.
        unlocked("a", 30, LockEnd::Released),
        Change::Unassigned { name: name("seat"), token: token(23), at: at(31) },
        // Locks that became void end later than their owner.
        Change::OwnerOpened(opened),
        locked("d", 40),
        locked("e", 41),
        voided(VoidLocks::These(vec![(name("d"), token(40))]), 42),
        voided(VoidLocks::OfEnded(OwnerEnd::Expired), 43),
        unlocked("d", 40, with_owner.clone()),
        unlocked("e", 41, with_owner),
        Change::OwnerEnded { owner, names: Vec::new(), reason: OwnerEnd::Expired, at: at(45) },
    ];
    // Of claims and their ends many are written at once: not those of a name that comes up again.
    let batches = [
        changes,
        vec![claimed_as("f", 50), claimed_as("g", 51), claimed_as("h", 52), unclaimed("none", 53, 53)],
        vec![claimed_as("i", 54), Change::TokensReserved { up_to: 99 }, claimed_as("j", 55)],
        vec![unclaimed("g", 51, 56), unclaimed("i", 54, 57), claimed_as("k", 58)],
        vec![claimed_as("g", 59), unclaimed("g", 59, 60), unclaimed("f", 50, 61)],
        vec![Change::Unassigned { name: name("none"), token: token(62), at: at(62) }, unclaimed("h", 52, 63)],
        vec![unclaimed("j", 55, 64), claimed_as("h", 65)],
        vec![claimed_as("l", 66), claimed_as("m", 67), claimed_as("o", 68), broken("k", 58, 69)],
        vec![broken("l", 66, 70)],
    ];

    let server = Server::start(&[]);
    let schema = Postgres::at(server.address());
    let folder = server.folder().join("sqlite");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("lockhouse.db");
    let history = HistoryBounds { age: None, ..HistoryBounds::DEFAULT };
    let of_file = SqliteStore::open_keeping(&file, history).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(schema.store().await), Arc::new(of_file)];
    let scope = Arc::new(Scope::new("t", "b"));
    for store in stores {
        let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
        let write = |change: &Change| Write::Change { scope: Arc::clone(&scope), change: change.clone() };
        let mut first_seq = 1;
        let batch = |changes: &Vec<Change>| {
            let writes: Vec<Write> = changes.iter().map(write).collect();
            let (epoch, first) = (opened.epoch, first_seq);
            first_seq += writes.len() as u64;
            Arc::new(CommitBatch { slot: Slot::ONLY, epoch, writer: WriterId(1), first_seq: first, writes })
        };
        let batches: Vec<_> = batches.iter().map(batch).collect();
        let committed = vec![CommitOutcome::Committed; batches.len()];
        assert_eq!(store.commit(batches).await, Ok(committed));
        store.close().await.unwrap();
    }
    let of_postgres = HISTORY
        .replace("WHO", "upper(encode(who, 'hex'))")
        .replace("OPERATOR", "upper(encode(operator, 'hex'))")
        .replace("REASON", "upper(encode(reason, 'hex'))")
        .replace("OWNER", "owner::text")
        .replace("NAME", "upper(encode(name, 'hex'))")
        .replace("TOKEN", "token::text")
        .replace("HISTORY", &schema.table("history"));
    let rows = server.connect().await.query(&of_postgres, &[]).await.unwrap();
    let in_postgres: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let of_sqlite = HISTORY
        .replace("WHO", "hex(who)")
        .replace("OPERATOR", "iif(operator IS NULL, NULL, hex(operator))")
        .replace("REASON", "iif(reason IS NULL, NULL, hex(reason))")
        .replace("OWNER", "owner")
        .replace("NAME", "iif(name IS NULL, NULL, hex(name))")
        .replace("TOKEN", "token")
        .replace("HISTORY", "history");
    let raw = rusqlite::Connection::open(&file).unwrap();
    let mut statement = raw.prepare(&of_sqlite).unwrap();
    let in_file = statement.query_map([], |row| row.get(0)).unwrap();
    let in_file: Vec<String> = in_file.collect::<Result<_, _>>().unwrap();
    assert_eq!(in_postgres, in_file);
    assert!(in_file.len() > 15, "{in_file:?}");
}

/// How many rows each commit adds, and whether the last write of each finds nothing that could end.
async fn the_history_keeps_its_newest_rows(rows_each: usize, ends_with_nothing: bool) {
    let server = Server::start(&["synchronous_commit=local"]);
    let schema = Postgres::at(server.address());
    let store =
        Arc::new(schema.store_with(schema.options().history(HistoryBounds { rows: 100, age: None })).await);
    let mut writer = Writer::take(&store, 0, 1).await;
    let mut last = 0;
    for _ in 0..3000 / rows_each {
        let mut batch = CommitBatch { writes: Vec::new(), ..CommitBatch::clone(&writer.claiming("seat")) };
        writer.seq -= 1;
        for _ in 0..rows_each {
            batch.writes.extend(writer.claiming("seat").writes.iter().cloned());
            let Some(Write::Change { scope, change: Change::Claimed(claim) }) = batch.writes.last().cloned()
            else {
                panic!("{batch:?}")
            };
            last = claim.token.get();
            let (at, reason) = (claim.since, ClaimEnd::Released);
            let change = Change::Unclaimed { name: claim.name, token: claim.token, reason, at };
            batch.writes.push(Write::Change { scope, change });
            writer.seq += 1;
        }
        if let (Some(Write::Change { scope, .. }), true) = (batch.writes.first().cloned(), ends_with_nothing)
        {
            writer.seq += 1;
            let (name, token) = (NameBuf::new("no seat").unwrap(), FencingToken::new(1));
            let at = lockhouse_core::Instant::from_millis(1);
            batch.writes.push(Write::Change { scope, change: Change::Unassigned { name, token, at } });
        }
        assert_eq!(writer.commit(&Arc::new(batch)).await, CommitOutcome::Committed);
    }
    let look = format!("SELECT count(*), max(token) FROM {}", schema.table("history"));
    let looker = server.connect().await;
    loop {
        let row = looker.query_one(&look, &[]).await.unwrap();
        let (rows, newest): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(newest as u64, last);
        assert!(rows >= 100, "{rows}");
        // No commit waits for the pruning.
        if rows <= 2100 {
            break;
        }
    }
}

#[tokio::test]
async fn the_history_is_bounded_where_a_commit_adds_many_rows() {
    the_history_keeps_its_newest_rows(600, false).await;
}

#[tokio::test]
async fn the_history_is_bounded_where_a_commit_adds_one_row() {
    the_history_keeps_its_newest_rows(1, false).await;
}

#[tokio::test]
async fn the_history_is_bounded_where_the_last_write_of_a_commit_finds_nothing() {
    the_history_keeps_its_newest_rows(7, true).await;
}

#[tokio::test]
async fn many_open_an_empty_schema_at_once() {
    let server = Server::start(&[]);
    let schema = Postgres::at(server.address());
    let stores = (0..6).map(|_| schema.store());
    let stores = futures_util::future::join_all(stores).await;
    let mut keys = Vec::new();
    for store in stores {
        let opened = store.take_slot(Slot::new(0), WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
        keys.push(opened.key);
    }
    assert!(keys.iter().all(|key| *key == keys[0]), "one key for all");
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name() {
    let server = Server::start(&[]);
    let admin = server.connect().await;
    let schema = Postgres::at(server.address());
    let refused = async |address: &str, options: PostgresOptions| {
        PostgresStore::open(address, options).await.expect_err("it was opened")
    };
    let said = |error: &PostgresOpenError| error.to_string();

    for address in [
        "postgres://user:geheim@/x?ssl=7",
        "postgres://user:ge@heim@host/x",
        "host=a port=geheim",
        "host=a password=my geheim=1",
        "host=a,b port=1,2,3 password=geheim",
        "host",
        "user=geheim",
    ] {
        let error = refused(address, schema.options()).await;
        assert!(matches!(error, PostgresOpenError::Address { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("heim"), "{error:?}");
    }
    for (options, option) in [
        (schema.options().slots(0), "slots"),
        (schema.options().slots(4097), "slots"),
        (schema.options().schema(""), "schema"),
        (schema.options().schema("x".repeat(64)), "schema"),
        (schema.options().schema("public"), "schema"),
        (schema.options().statement_timeout(Duration::ZERO), "statement_timeout"),
    ] {
        let error = refused(&server.address(), options).await;
        assert!(said(&error).starts_with(option), "{error}");
    }
    let nowhere = refused("host=/nowhere user=geheim password=geheim2", schema.options()).await;
    assert!(matches!(nowhere, PostgresOpenError::Away { .. }), "{nowhere:?}");
    assert!(!said(&nowhere).contains("geheim2"), "{nowhere}");

    admin
        .batch_execute("CREATE USER eve; CREATE SCHEMA theirs; CREATE TABLE theirs.t (x integer)")
        .await
        .unwrap();
    let eve = server.address().replace("user=postgres", "user=eve");
    let no_rights = refused(&eve, schema.options()).await;
    assert!(matches!(no_rights, PostgresOpenError::Rights { .. }), "{no_rights:?}");
    let not_ours = refused(&server.address(), schema.options().schema("theirs")).await;
    assert!(matches!(not_ours, PostgresOpenError::NotOurs { .. }), "{not_ours:?}");

    admin.batch_execute("ALTER ROLE eve SET default_transaction_isolation = 'serializable'").await.unwrap();
    let isolation = refused(&eve, schema.options()).await;
    assert!(matches!(isolation, PostgresOpenError::Isolation { .. }), "{isolation:?}");

    drop(schema.store().await);
    let other = refused(&server.address(), schema.options().slots(5)).await;
    assert!(matches!(other, PostgresOpenError::OtherSlots { found: 4, asked: 5, .. }), "{other:?}");
    let later = format!("UPDATE {} SET version = 99", schema.table("fleet"));
    admin.batch_execute(&later).await.unwrap();
    let newer = refused(&server.address(), schema.options()).await;
    assert!(matches!(newer, PostgresOpenError::Newer { found: 99, .. }), "{newer:?}");

    let forgetful = Server::start(&["fsync=off"]);
    let no_sync = refused(&forgetful.address(), schema.options()).await;
    assert!(matches!(no_sync, PostgresOpenError::NoSync { .. }), "{no_sync:?}");
}
