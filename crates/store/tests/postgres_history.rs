//! What a schema of PostgreSQL keeps of the history, for how long, and what it costs to bound it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockhouse_core::{Change, ClaimEnd, ClaimRecord, FencingToken, Instant, NameBuf, SecretSeed};
use lockhouse_store::{
    CommitBatch, CommitOutcome, FleetStore, HistoryBounds, HistoryFilter, HistoryKind, HistoryQuery,
    PostgresOptions, PostgresStore, RecoveredRow, RefusalRecord, Scope, Slot, Store, Write, WriterId,
};
use tokio_postgres::Client;

use crate::server::Server;

/// As statements have it.
const SCHEMA: &str = "\"lock \"\"house\"\"\"";

/// The one that has the slot.
struct Writer {
    store: PostgresStore,
    epoch: u64,
    last_seq: u64,
    last_token: u64,
}

impl Writer {
    async fn with(server: &Server, history: HistoryBounds) -> Self {
        let options = PostgresOptions::default().schema("lock \"house\"").history(history);
        let options = options.statement_timeout(Duration::from_secs(20));
        let store = PostgresStore::open(&server.address(), options).await.unwrap();
        let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
        Self { store, epoch: opened.epoch, last_seq: 0, last_token: 0 }
    }

    /// Commits so many claims with their ends, and then so many refusals, at once.
    async fn add(&mut self, ends: u64, refusals: u64) {
        let (scope, at) = (Arc::new(Scope::new("t", "b")), now());
        let mut writes = Vec::new();
        for number in 0..ends {
            self.last_token += 1;
            let name = NameBuf::new(&format!("seat {number}")).unwrap();
            let token = FencingToken::new(self.last_token);
            let claim = ClaimRecord {
                name: name.clone(),
                claimant: "Ann".into(),
                token,
                ttl_ms: 1000,
                since: at,
                seed: SecretSeed(7),
                metadata: None,
            };
            let ended = Change::Unclaimed { name, token, reason: ClaimEnd::Released, at };
            let changes = [Change::Claimed(claim), ended];
            writes.extend(changes.map(|change| Write::Change { scope: Arc::clone(&scope), change }));
        }
        writes.extend((0..refusals).map(|_| refused(&scope, 2)));
        self.commit(writes).await;
    }

    async fn commit(&mut self, writes: Vec<Write>) {
        let (slot, writer, first_seq) = (Slot::ONLY, WriterId(1), self.last_seq + 1);
        let batch = CommitBatch { slot, epoch: self.epoch, writer, first_seq, writes };
        self.last_seq = batch.last_seq();
        assert_eq!(self.store.commit(vec![Arc::new(batch)]).await, Ok(vec![CommitOutcome::Committed]));
    }
}

fn refused(scope: &Arc<Scope>, count: u32) -> Write {
    let (kind, name, who, at) = (HistoryKind::Claim, NameBuf::new("seat").unwrap(), "Bob".into(), now());
    let refusal = RefusalRecord { kind, name, mode: None, who, owner: None, since: at, at, count };
    Write::Refused { scope: Arc::clone(scope), refusal: Box::new(refusal) }
}

fn now() -> Instant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Instant::from_millis(now.as_millis() as u64)
}

/// How many rows of the history there are of that kind.
async fn rows(looker: &Client, which: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {SCHEMA}.history WHERE {which}");
    looker.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Waits until at most so many rows of that kind are left: no commit waits for that. Returns how many.
async fn pruned_to(looker: &Client, which: &str, most: i64) -> i64 {
    loop {
        let left = rows(looker, which).await;
        if left <= most {
            return left;
        }
    }
}

#[tokio::test]
async fn refusals_push_no_end_out_of_the_history_and_have_a_bound_of_their_own() {
    let server = Server::start(&["synchronous_commit=local"]);
    let bounds = HistoryBounds { rows: 100, age: None };
    let mut writer = Writer::with(&server, bounds).await;
    for _ in 0..60 {
        writer.add(1, 100).await;
    }
    let looker = server.connect().await;
    assert_eq!(rows(&looker, "why <> 'refused'").await, 60);
    assert!(pruned_to(&looker, "why = 'refused'", 1110).await >= 10);
    for _ in 0..60 {
        writer.add(100, 1).await;
    }
    assert!(pruned_to(&looker, "why <> 'refused'", 1200).await >= 100);
    assert!(rows(&looker, "why = 'refused'").await >= 10);
}

/// The column of the count ends earlier than the count does.
#[tokio::test]
async fn a_refusal_may_have_been_counted_as_often_as_can_be() {
    let server = Server::start(&["synchronous_commit=local"]);
    let mut writer = Writer::with(&server, HistoryBounds::DEFAULT).await;
    let scope = Arc::new(Scope::new("t", "b"));
    writer.commit([1, 1 << 31, u32::MAX].map(|count| refused(&scope, count)).into()).await;
    let query =
        HistoryQuery { scope: (*scope).clone(), before: None, limit: 9, filter: HistoryFilter::default() };
    let page = writer.store.history(query).await.unwrap();
    let counts: Vec<_> = page.entries.iter().map(|entry| entry.count).collect();
    assert_eq!(counts, [i32::MAX as u32, i32::MAX as u32, 1]);
}

/// Ends that are too old, among them refusals, behind others of a time when the clock was wrong.
#[tokio::test]
async fn all_that_is_too_old_is_deleted_also_behind_what_a_wrong_clock_has_dated() {
    let server = Server::start(&["synchronous_commit=local"]);
    let mut writer = Writer::with(&server, HistoryBounds::DEFAULT).await;
    let looker = server.connect().await;
    let insert = format!(
        "INSERT INTO {SCHEMA}.history (tenant, bucket, kind, since, at, why)
         SELECT '', '', 'claim', 1, CASE WHEN i <= 1500 THEN 9000000000000000 ELSE i END,
             CASE i % 5 WHEN 0 THEN 'refused' ELSE 'released' END FROM generate_series(1, 6000) AS i"
    );
    looker.batch_execute(&insert).await.unwrap();
    writer.add(1, 1).await;
    assert_eq!(pruned_to(&looker, "at <= 6000", 0).await, 0);
    assert_eq!(rows(&looker, "true").await, 1500 + 2);
}

/// The reason is noted once, and not after each thousand writes: a minute later it is tried again.
#[tokio::test]
async fn a_history_that_cannot_be_pruned_is_left_alone_for_a_while() {
    let server = Server::start(&["synchronous_commit=local"]);
    let looker = server.connect().await;
    let mut writer = Writer::with(&server, HistoryBounds::DEFAULT).await;
    let rename = format!("ALTER FUNCTION {SCHEMA}.prune_history RENAME TO gone");
    looker.batch_execute(&rename).await.unwrap();
    writer.add(1, 0).await;
    while writer.store.history_faults().times == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        writer.add(1000, 0).await;
        // A pruning that begins with the commit has failed by the end of the next one.
        writer.add(1, 0).await;
    }
    let faults = writer.store.history_faults();
    assert_eq!(faults.times, 1, "{}", faults.why);
}

#[tokio::test]
async fn where_nothing_is_kept_nothing_is_written_and_rows_go_by_their_age() {
    let server = Server::start(&["synchronous_commit=local"]);
    let looker = server.connect().await;
    for (bounds, left) in [
        (HistoryBounds::DEFAULT, 8),
        (HistoryBounds { rows: 0, age: None }, 8),
        (HistoryBounds { rows: 0, ..HistoryBounds::DEFAULT }, 0),
    ] {
        let mut writer = Writer::with(&server, bounds).await;
        let age = format!("UPDATE {SCHEMA}.history SET at = 1");
        looker.batch_execute(&age).await.unwrap();
        writer.add(6, 2).await;
        assert_eq!(pruned_to(&looker, "true", left).await, left);
    }
}

#[tokio::test]
async fn what_is_beyond_the_bound_is_found_without_a_look_at_what_stays() {
    const ROWS: i64 = 50_000;
    let server = Server::start(&["synchronous_commit=local"]);
    let bounds = HistoryBounds { rows: ROWS as u32, age: None };
    let mut writer = Writer::with(&server, bounds).await;
    writer.add(1, 1).await;
    let looker = server.connect().await;
    let insert = format!(
        "INSERT INTO {SCHEMA}.history (tenant, bucket, kind, since, at, why)
         SELECT '', '', 'claim', i, i, 'released' FROM generate_series(1, {ROWS}) AS i"
    );
    looker.batch_execute(&insert).await.unwrap();
    let before = rows(&looker, "true").await;
    writer.add(999, 0).await;
    assert!(pruned_to(&looker, "true", before + 998).await >= ROWS);
    // The counts of a process are there once it has ended.
    writer.store.close().await.unwrap();
    let is_there = "SELECT FROM pg_stat_activity WHERE application_name = 'lockhouse'";
    while !looker.query(is_there, &[]).await.unwrap().is_empty() {}
    let looked = "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname = 'history'
                  UNION ALL SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'history'";
    let looked = looker.query(looked, &[]).await.unwrap();
    let looked: Vec<i64> = looked.iter().map(|row| row.get(0)).collect();
    assert!(looked[1] < 20_000, "{looked:?}");
}

/// The tables of the first version, whose file is as it was then, with a history.
async fn make_first_version(looker: &Client, history: &str) {
    let steps = [
        include_str!("../src/postgres/schema/generation.sql"),
        include_str!("../src/postgres/schema/version_1.sql"),
    ];
    let all = format!(
        "CREATE SCHEMA {SCHEMA};
         CREATE TABLE {SCHEMA}.fleet (only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
             version integer NOT NULL, slots integer NOT NULL, key bytea NOT NULL);
         INSERT INTO {SCHEMA}.fleet VALUES (true, 1, 1, decode(repeat('07', 32), 'hex'));
         {}
         INSERT INTO {SCHEMA}.history (tenant, bucket, kind, since, at, why, token) {history}",
        steps.concat().replace("{s}", SCHEMA)
    );
    looker.batch_execute(&all).await.unwrap();
}

/// A claim and its end as a node of the first version commits them, which runs on when another one has taken
/// the tables to the next version.
async fn commit_as_first_version(looker: &Client, epoch: u64, last_seq: u64) -> Vec<i32> {
    let (first, last) = (last_seq + 1, last_seq + 2);
    let sql = format!(
        "SELECT c.outcome FROM {SCHEMA}.fleet AS f, {SCHEMA}.commit(
             375, ROW(f.generation, f.system_id, f.timeline, '{{}}', '{{}}', '{{}}', '{{}}')::{SCHEMA}.known,
             100, NULL, ARRAY[0], ARRAY[{epoch}], ARRAY[1], ARRAY[{first}], ARRAY[{last}], ARRAY[2], ARRAY[false],
             ARRAY['t'::bytea], ARRAY['b'::bytea],
             ARRAY[1, 1], ARRAY['claim', 'unclaim'], ARRAY['x'::bytea, 'x'], ARRAY[NULL, NULL]::bigint[],
             ARRAY[9000, 9000], ARRAY[1000, NULL], ARRAY[7, 8], ARRAY[NULL, NULL]::bigint[], ARRAY[1, NULL],
             ARRAY['Ann'::bytea, NULL], ARRAY[NULL, NULL]::bytea[], ARRAY[NULL, NULL]::text[],
             ARRAY[NULL, 'released']) AS c"
    );
    let rows = looker.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn tables_of_the_first_version_are_taken_to_the_present_one_with_their_history() {
    let server = Server::start(&["synchronous_commit=local"]);
    let looker = server.connect().await;
    let history = "SELECT 't', 'b', 'claim', i, i, 'released', i FROM generate_series(1, 500) AS i";
    make_first_version(&looker, history).await;
    // In the table newer rows are in front of older ones then, as they are where many were deleted.
    let swap = format!(
        "WITH gone AS (DELETE FROM {SCHEMA}.history WHERE seq > 100 RETURNING *)
         INSERT INTO {SCHEMA}.history OVERRIDING SYSTEM VALUE SELECT * FROM gone ORDER BY seq DESC"
    );
    looker.batch_execute(&swap).await.unwrap();
    let file = format!("SELECT pg_relation_filenode('{SCHEMA}.history')");
    let before: u32 = looker.query_one(&file, &[]).await.unwrap().get(0);
    let mut writer = Writer::with(&server, HistoryBounds { rows: 100, age: None }).await;
    assert_eq!(
        looker.query_one(&file, &[]).await.unwrap().get::<_, u32>(0),
        before,
        "no row is written anew"
    );
    let version = format!("SELECT version FROM {SCHEMA}.fleet");
    assert_eq!(looker.query_one(&version, &[]).await.unwrap().get::<_, i32>(0), 2);

    writer.add(10, 10).await;
    let (scope, filter) = (Scope::new("t", "b"), HistoryFilter::default());
    let query = HistoryQuery { scope, before: None, limit: 22, filter };
    let page = writer.store.history(query).await.unwrap();
    let tokens: Vec<_> = page.entries.iter().filter_map(|entry| entry.token).collect();
    assert_eq!(tokens, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 500, 499].map(FencingToken::new));
    // With the first commit all but the newest go.
    assert_eq!(pruned_to(&looker, "true", 110).await, 110);
    // And after a thousand writes.
    writer.add(80, 840).await;
    pruned_to(&looker, "at <= 500", 10).await;
    let oldest = format!("SELECT min(at), count(*) FROM {SCHEMA}.history WHERE at <= 500");
    let row = looker.query_one(&oldest, &[]).await.unwrap();
    assert_eq!((row.get::<_, Option<i64>>(0), row.get::<_, i64>(1)), (Some(491), 10));

    assert_eq!(commit_as_first_version(&looker, writer.epoch, writer.last_seq).await, [0, 3]);
    assert_eq!(rows(&looker, "token = 9000 AND nth = 591").await, 1);
}

/// Someone who reads the history for a long time, as `pg_dump` does. Returns with the number of its process.
async fn read_for_long(server: &Server) -> (Client, i32) {
    let reader = server.connect().await;
    let begin =
        format!("SET application_name = 'pg_dump'; BEGIN; LOCK TABLE {SCHEMA}.history IN ACCESS SHARE MODE");
    reader.batch_execute(&begin).await.unwrap();
    let pid = reader.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    (reader, pid)
}

/// As a node with a slot lease of three seconds commits.
#[tokio::test]
async fn while_the_tables_wait_for_their_next_version_the_nodes_of_the_former_one_commit() {
    let server = Server::start(&["synchronous_commit=local"]);
    let looker = server.connect().await;
    make_first_version(&looker, "VALUES ('t', 'b', 'claim', 1, 1, 'released', 1)").await;
    let take = format!("UPDATE {SCHEMA}.slots SET epoch = 1, writer = 1");
    looker.batch_execute(&take).await.unwrap();
    let (reader, _) = read_for_long(&server).await;
    let options = PostgresOptions::default().schema("lock \"house\"");
    let address = server.address();
    let opening = tokio::spawn(async move { PostgresStore::open(&address, options).await });

    let (old, is_seen) = (server.connect().await, AtomicBool::new(false));
    let watching = async {
        let sql = format!(
            "SELECT waitstart::text FROM pg_locks
             WHERE relation = to_regclass('{SCHEMA}.history') AND mode = 'AccessExclusiveLock' AND waitstart > 'epoch'"
        );
        let mut attempts = HashSet::new();
        while attempts.len() < 4 {
            let rows = looker.query(&sql, &[]).await.unwrap();
            attempts.extend(rows.iter().map(|row| row.get::<_, String>(0)));
        }
        is_seen.store(true, Ordering::Relaxed);
    };
    let committing = async {
        let mut last_seq = 0;
        while !is_seen.load(Ordering::Relaxed) {
            assert_eq!(commit_as_first_version(&old, 1, last_seq).await, [0, 3]);
            last_seq += 2;
        }
        last_seq
    };
    let ((), last_seq) = tokio::join!(watching, committing);
    assert!(!opening.is_finished());
    reader.batch_execute("COMMIT").await.unwrap();
    opening.await.unwrap().unwrap();
    assert_eq!(commit_as_first_version(&old, 1, last_seq).await, [0, 3]);
    assert_eq!(rows(&looker, "nth IS NULL").await, 1 + last_seq as i64 / 2);
}

#[tokio::test]
async fn a_start_that_waits_for_the_tables_in_vain_says_who_uses_them() {
    let server = Server::start(&["synchronous_commit=local"]);
    let looker = server.connect().await;
    make_first_version(&looker, "VALUES ('t', 'b', 'claim', 1, 1, 'released', 1)").await;
    let (reader, pid) = read_for_long(&server).await;
    let options = PostgresOptions::default().schema("lock \"house\"");
    let failed = PostgresStore::open(&server.address(), options.clone()).await.unwrap_err().to_string();
    let why = format!(
        "its tables have to be taken to version 2, but are in use by pg_dump (process {pid}); start again when that has ended"
    );
    assert!(failed.ends_with(&why), "{failed}");
    reader.batch_execute("COMMIT").await.unwrap();
    PostgresStore::open(&server.address(), options).await.unwrap();
}
