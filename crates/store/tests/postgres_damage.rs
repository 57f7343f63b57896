//! Pages of tables and indexes that cannot be read any more: who goes on, and who cannot.

use std::io::{Seek, SeekFrom, Write as _};
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Change, ClaimEnd, ClaimRecord, FencingToken, Instant, NameBuf, SecretSeed};
use lockhouse_store::{
    CommitBatch, CommitOutcome, Fatal, Fleet, FleetStore, HistoryFilter, HistoryQuery, NewNode, NodeRenewal,
    PostgresFleet, PostgresOptions, PostgresStore, RecoveredRow, Scope, Slot, Store, TakeError, Write,
    WriterId,
};

use crate::server::Server;

/// How much a page of a table or an index takes.
const PAGE: u64 = 8192;

/// The one that has a slot.
struct Owner {
    slot: Slot,
    epoch: u64,
    last_seq: u64,
}

impl Owner {
    async fn of(store: &dyn FleetStore, slot: u16) -> Self {
        let slot = Slot::new(slot);
        let opened = store.take_slot(slot, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
        Self { slot, epoch: opened.epoch, last_seq: 0 }
    }

    fn batch(&mut self, changes: Vec<Change>) -> Arc<CommitBatch> {
        let (slot, epoch, writer, first_seq) = (self.slot, self.epoch, WriterId(1), self.last_seq + 1);
        let scope = Arc::new(Scope::new("t", slot.get().to_string()));
        let write = |change| Write::Change { scope: Arc::clone(&scope), change };
        let batch =
            CommitBatch { slot, epoch, writer, first_seq, writes: changes.into_iter().map(write).collect() };
        self.last_seq = batch.last_seq();
        Arc::new(batch)
    }
}

async fn open(server: &Server) -> PostgresStore {
    PostgresStore::open(&server.address(), PostgresOptions::default().slots(2)).await.unwrap()
}

/// A claim of which four fill a page.
fn claimed(number: usize) -> Change {
    Change::Claimed(ClaimRecord {
        name: NameBuf::new(&format!("seat {number}")).unwrap(),
        claimant: "Ann".into(),
        token: FencingToken::new(1),
        ttl_ms: 1000,
        since: Instant::from_millis(1),
        seed: SecretSeed(7),
        metadata: Some(
            (0..120).map(|i| format!("{:08x}{i:04}", i * 0x9e37_79b9_u64 + number as u64)).collect(),
        ),
    })
}

fn unclaimed(number: usize) -> Change {
    let (token, at) = (FencingToken::new(1), Instant::from_millis(2));
    let name = NameBuf::new(&format!("seat {number}")).unwrap();
    Change::Unclaimed { name, token, reason: ClaimEnd::Released, at }
}

/// Overwrites the first page of a table or an index.
async fn spoil(server: &mut Server, relation: &str) {
    let looker = server.connect().await;
    let sql = format!("SELECT pg_relation_filepath('lockhouse.{relation}')");
    let path: String = looker.query_one(&sql, &[]).await.unwrap().get(0);
    looker.batch_execute("CHECKPOINT").await.unwrap();
    server.stop();
    let path = server.folder().join("data").join(path);
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&[0xa5; PAGE as usize]).unwrap();
    drop(file);
    server.start_again();
}

/// The outcomes, once the connection that the server has ended is made again.
async fn committed(store: &PostgresStore, batches: &[Arc<CommitBatch>]) -> Vec<CommitOutcome> {
    loop {
        let outcomes = store.commit(batches.to_vec()).await.unwrap();
        if !outcomes.contains(&CommitOutcome::Unknown) {
            return outcomes;
        }
    }
}

#[tokio::test]
async fn damage_to_the_history_stops_no_commit_and_no_start_and_what_it_lacks_is_counted() {
    let mut server = Server::start(&[]);
    for relation in ["history_at_idx", "history_pkey", "history"] {
        let store = open(&server).await;
        let mut owner = Owner::of(&store, 0).await;
        let first = owner.batch(vec![claimed(1), unclaimed(1), claimed(1)]);
        assert_eq!(committed(&store, &[first]).await, [CommitOutcome::Committed]);
        spoil(&mut server, relation).await;
        let end = owner.batch(vec![unclaimed(1)]);
        assert_eq!(committed(&store, &[end]).await, [CommitOutcome::Committed], "{relation}");
        assert_eq!(store.renew().await.unwrap(), NodeRenewal::Dead);
        let faults = loop {
            let faults = store.history_faults();
            if faults.left_out > 0 || relation == "history" {
                break faults;
            }
        };
        if relation != "history" {
            assert_eq!(faults.left_out, 1);
            assert!(faults.why.contains("REINDEX"), "{}", faults.why);
        }

        // The next process starts, and leaves the history alone.
        let store = open(&server).await;
        let mut owner = Owner::of(&store, 0).await;
        let more = owner.batch(vec![claimed(2), unclaimed(2)]);
        assert_eq!(committed(&store, &[more]).await, [CommitOutcome::Committed]);

        let looker = server.connect().await;
        match relation {
            "history" => looker.batch_execute("TRUNCATE lockhouse.history").await.unwrap(),
            index => looker.batch_execute(&format!("REINDEX INDEX lockhouse.{index}")).await.unwrap(),
        }
        let store = open(&server).await;
        let mut owner = Owner::of(&store, 0).await;
        let last = owner.batch(vec![claimed(3), unclaimed(3)]);
        assert_eq!(committed(&store, &[last]).await, [CommitOutcome::Committed]);
        let (scope, filter) = (Scope::new("t", "0"), HistoryFilter::default());
        let query = HistoryQuery { scope, before: None, limit: 1, filter };
        let page = store.history(query).await.unwrap();
        assert_eq!(page.entries[0].name, Some(NameBuf::new("seat 3").unwrap()));
        assert_eq!(store.history_faults().left_out, 0);
    }
}

#[tokio::test]
async fn a_damaged_page_ends_the_slot_that_needs_it_and_no_other() {
    let mut server = Server::start(&[]);
    let store = open(&server).await;
    let (mut first, mut second) = (Owner::of(&store, 0).await, Owner::of(&store, 1).await);
    let batches = [first.batch((0..8).map(claimed).collect()), second.batch((0..8).map(claimed).collect())];
    for batch in batches {
        assert_eq!(committed(&store, &[batch]).await, [CommitOutcome::Committed]);
    }
    spoil(&mut server, "claims").await;
    let both = [first.batch(vec![unclaimed(0)]), second.batch(vec![unclaimed(0), claimed(9)])];
    let outcomes = committed(&store, &both).await;
    let [CommitOutcome::Damaged(fatal @ Fatal::PagesDamaged { .. }), CommitOutcome::Committed] =
        &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    let words = fatal.to_string();
    assert!(words.contains("invalid page in block 0") && words.contains("REINDEX"), "{words}");
    assert_eq!(store.history_faults().left_out, 0);
    let taken = store.take_slot(Slot::new(0), WriterId(2), &mut drop::<RecoveredRow>).await;
    assert!(matches!(taken, Err(TakeError::Fatal(Fatal::PagesDamaged { .. }))), "{taken:?}");
    let more = second.batch(vec![unclaimed(9)]);
    assert_eq!(committed(&store, &[more]).await, [CommitOutcome::Committed]);
}

#[tokio::test]
async fn a_node_is_confirmed_though_the_last_slot_of_a_commit_is_damaged() {
    let mut server = Server::start(&[]);
    let options = PostgresOptions::default().slots(2);
    let fleet = PostgresFleet::open(&server.address(), options).await.unwrap();
    let node = NewNode {
        label: "a".into(),
        address: "https://a.example".into(),
        slot_lease: Duration::from_secs(3),
        secret_mark: [7; 32],
    };
    let life = Fleet::join(&fleet, &node).await.unwrap();
    let (mut damaged, mut whole) = (Owner::of(&*life, 0).await, Owner::of(&*life, 1).await);
    for owner in [&mut damaged, &mut whole] {
        let batch = owner.batch((0..8).map(claimed).collect());
        assert_eq!(life.commit_and_renew(vec![batch]).await.unwrap().0, [CommitOutcome::Committed]);
    }
    spoil(&mut server, "claims").await;
    let both = [whole.batch(vec![unclaimed(0)]), damaged.batch(vec![unclaimed(0)])];
    let renewal = loop {
        let (outcomes, renewal) = life.commit_and_renew(both.to_vec()).await.unwrap();
        if let [CommitOutcome::Committed, CommitOutcome::Damaged(_)] = &outcomes[..] {
            break renewal;
        }
        assert_eq!(outcomes, [CommitOutcome::Unknown, CommitOutcome::Unknown]);
    };
    assert!(matches!(renewal, NodeRenewal::Owns(_)), "{renewal:?}");
}
