//! A database that has lost commits is a restored backup: who finds it, and what becomes of nodes and
//! batches.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use lockhouse_core::{Change, ClaimRecord, FencingToken, Instant, NameBuf, SecretSeed};
use lockhouse_store::{
    CommitBatch, CommitOutcome, Fleet, HighestNumbers, JoinError, MarkOf, NewNode, NodeRenewal, Opened,
    PostgresFleet, PostgresOptions, PostgresStore, RecoveredRow, Scope, Slot, Store, StoreUnavailable,
    TakeError, TokenMark, Write, WriterId,
};
use tokio_postgres::Client;

use crate::pgbouncer::PgBouncer;
use crate::server::Server;

const SLOTS: u16 = 4;
const SLOT_LEASE: Duration = Duration::from_secs(3);

/// How far numbers leap where the clock is of no use.
const LEAP: u64 = 1 << 47;

async fn store(address: &str) -> PostgresStore {
    let options = PostgresOptions::default().slots(SLOTS).statement_timeout(Duration::from_secs(10));
    PostgresStore::open(address, options).await.unwrap_or_else(|error| panic!("{error}"))
}

fn new_node(label: &str) -> NewNode {
    let address = format!("https://{label}.example").into();
    NewNode { label: label.into(), address, slot_lease: SLOT_LEASE, secret_mark: [7; 32] }
}

async fn is_node(server: &Server, label: &str) -> bool {
    let sql = "SELECT count(*) FROM lockhouse.nodes WHERE label = $1";
    server.connect().await.query_one(sql, &[&label.as_bytes()]).await.unwrap().get::<_, i64>(0) == 1
}

async fn join(store: PostgresStore, label: &str) -> PostgresStore {
    store.join(&new_node(label)).await.unwrap()
}

async fn joined(address: &str, label: &str) -> PostgresStore {
    join(store(address).await, label).await
}

/// An address with these servers.
fn address<const N: usize>(servers: [&Server; N]) -> String {
    let hosts = servers.map(|server| server.folder().to_str().unwrap().replace('/', "%2F"));
    format!("postgres://postgres@{}/postgres", hosts.join(","))
}

/// A slot that was taken, with the rows that were there.
struct Taken {
    slot: u16,
    opened: Opened,
    rows: Vec<RecoveredRow>,
}

impl Taken {
    async fn by(store: &PostgresStore, slot: u16) -> Self {
        Self::for_writer(store, slot, 1).await
    }

    /// The server may be away before.
    async fn for_writer(store: &PostgresStore, slot: u16, writer: u64) -> Self {
        loop {
            let (mut rows, writer) = (Vec::new(), WriterId(writer));
            match store.take_slot(Slot::new(slot), writer, &mut |row| rows.push(row)).await {
                Ok(opened) => return Self { slot, opened, rows },
                Err(TakeError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn batch(&self, first_seq: u64, writes: Vec<Write>) -> Arc<CommitBatch> {
        let (slot, epoch) = (Slot::new(self.slot), self.opened.epoch);
        Arc::new(CommitBatch { slot, epoch, writer: WriterId(1), first_seq, writes })
    }

    /// The batch that claims a name as the only write with this number.
    fn claims(&self, seq: u64, name: &str) -> Arc<CommitBatch> {
        let claim = ClaimRecord {
            name: NameBuf::new(name).unwrap(),
            claimant: "ann".into(),
            token: FencingToken::new(seq),
            ttl_ms: 1000,
            since: Instant::from_millis(1),
            seed: SecretSeed(7),
            metadata: None,
        };
        self.batch(seq, vec![Write::Change { scope: scope("b"), change: Change::Claimed(claim) }])
    }

    fn has_claim(&self, wanted: &str) -> bool {
        let wanted = NameBuf::new(wanted).unwrap();
        self.rows.iter().any(|row| {
            matches!(row, RecoveredRow::Change { change: Change::Claimed(claim), .. } if claim.name == wanted)
        })
    }
}

fn scope(bucket: &str) -> Arc<Scope> {
    Arc::new(Scope::new("t", bucket))
}

async fn commit(store: &PostgresStore, batch: &Arc<CommitBatch>) {
    assert_eq!(outcome(store, batch).await, CommitOutcome::Committed);
}

/// The outcome once there is one: the server may be away before.
async fn outcome(store: &PostgresStore, batch: &Arc<CommitBatch>) -> CommitOutcome {
    loop {
        match store.commit(vec![batch.clone()]).await.unwrap().remove(0) {
            CommitOutcome::Unknown | CommitOutcome::Refused(_) => {}
            known => return known,
        }
    }
}

async fn renewal(store: &PostgresStore) -> NodeRenewal {
    loop {
        match store.renew().await.unwrap() {
            NodeRenewal::Unknown(_) => {}
            known => return known,
        }
    }
}

/// The generation, as the row has it.
async fn generation(admin: &Client) -> i64 {
    admin.query_one("SELECT generation FROM lockhouse.fleet", &[]).await.unwrap().get(0)
}

/// Every slot has leapt, and is free, and no node is there.
async fn is_restored(admin: &Client) {
    let sql =
        "SELECT count(DISTINCT epoch), max(epoch), bool_and(restored AND owner IS NULL AND held IS NULL),
                   (SELECT count(*) FROM lockhouse.nodes) FROM lockhouse.slots";
    let row = admin.query_one(sql, &[]).await.unwrap();
    let (epochs, epoch, is_free, nodes): (i64, i64, bool, i64) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    assert!(epochs == 1 && is_free && nodes == 0, "{row:?}");
    assert!(epoch as u64 > LEAP, "{epoch}");
}

/// A row for each generation that is drawn from now on.
const COUNT_DRAWS: &str = "
    CREATE TABLE draws (generation bigint);
    CREATE FUNCTION count_draw() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN INSERT INTO public.draws VALUES (new.generation); RETURN new; END';
    CREATE TRIGGER draws AFTER UPDATE ON lockhouse.fleet FOR EACH ROW EXECUTE FUNCTION count_draw()";

/// A primary, and a standby that gets nothing more from it.
async fn with_standby_that_falls_behind(run: impl AsyncFn(&Server) -> ()) -> (Server, Server) {
    let primary = Server::start(&[]);
    let standby = Server::standby_of(&primary);
    run(&primary).await;
    let (admin, follower) = (primary.connect().await, standby.connect().await);
    let written: String = admin.query_one("SELECT pg_current_wal_lsn()::text", &[]).await.unwrap().get(0);
    let has = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn");
    while !follower.query_one(&has, &[]).await.unwrap().get::<_, bool>(0) {}
    follower.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
    follower.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let senders = "SELECT count(*) FROM pg_stat_replication";
    while admin.query_one(senders, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
    (primary, standby)
}

#[tokio::test]
async fn a_process_declares_a_former_life_dead_also_in_a_later_generation() {
    let server = Server::start(&[]);
    let fleet =
        PostgresFleet::open(&server.address(), PostgresOptions::default().slots(SLOTS)).await.unwrap();
    store(&server.address()).await.declare_restored().await.unwrap();
    let former = joined(&server.address(), "a").await;
    let (label, address) = ("a".into(), "".into());
    let node = NewNode { label, address, slot_lease: SLOT_LEASE, secret_mark: [7; 32] };
    let Err(JoinError::LabelInUse(found)) = Fleet::join(&fleet, &node).await else { panic!("it is in use") };
    assert_eq!(Some(found.id), former.node());
    assert!(fleet.bury(found.id, found.counter).await.unwrap());
    Fleet::join(&fleet, &node).await.unwrap();
}

#[tokio::test]
async fn a_store_says_whether_its_commits_wait_for_a_standby() {
    let primary = Server::start(&[]);
    assert!(!store(&primary.address()).await.waits_for_standby());
    let _standby = Server::standby_of(&primary);
    let admin = primary.connect().await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let waits = async { while !store(&primary.address()).await.waits_for_standby() {} };
    tokio::time::timeout(Duration::from_secs(30), waits).await.unwrap();
}

#[tokio::test]
async fn a_promoted_standby_that_lacks_commits_is_found_once_though_several_nodes_find_it() {
    let (mut primary, standby) = with_standby_that_falls_behind(async |primary| {
        drop(store(&primary.address()).await);
        primary.connect().await.batch_execute(COUNT_DRAWS).await.unwrap();
    })
    .await;
    let address = address([&primary, &standby]);
    let nodes = join_all(["a", "b", "c"].map(|label| joined(&address, label))).await;
    let mut taken = Vec::new();
    for (slot, node) in (0..).zip(&nodes) {
        let slot = Taken::by(node, slot).await;
        let mark = Some(TokenMark { of: MarkOf::Tenant("t".into()), up_to: 70_000 });
        let writes = vec![
            Write::Change { scope: scope("b"), change: Change::TokensReserved { up_to: 80_000 } },
            Write::Change { scope: scope("dropped"), change: Change::TokensReserved { up_to: 70_000 } },
            Write::BucketDropped { scope: scope("dropped"), mark },
            Write::LongestLease { ms: 12_000 },
        ];
        commit(node, &slot.batch(1, writes)).await;
        taken.push(slot);
    }
    primary.stop();
    standby.promote().await;
    let admin = standby.connect().await;
    let before = generation(&admin).await;

    // All of them have found it before the first draws.
    let mut other = standby.connect().await;
    let transaction = other.transaction().await.unwrap();
    transaction.execute("SELECT FROM lockhouse.fleet FOR UPDATE", &[]).await.unwrap();
    let release = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while admin.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) < 3 {}
        transaction.rollback().await.unwrap();
    };
    let (renewals, ()) = tokio::join!(join_all(nodes.iter().map(renewal)), release);
    assert_eq!(renewals, vec![NodeRenewal::Dead; 3]);
    assert_ne!(generation(&admin).await, before);
    assert_eq!(admin.query("SELECT FROM draws", &[]).await.unwrap().len(), 1);
    is_restored(&admin).await;
    for (node, slot) in nodes.iter().zip(&taken) {
        assert_eq!(outcome(node, &slot.claims(5, "late")).await, CommitOutcome::Fenced);
        assert_eq!(outcome(node, &slot.claims(1, "first")).await, CommitOutcome::Fenced);
        let late = node.take_slot(Slot::new(3), WriterId(1), &mut drop::<RecoveredRow>).await;
        assert_eq!(late, Err(TakeError::NodeGone));
    }
    for ((slot, node), label) in (0..).zip(nodes).zip(["a", "b", "c"]) {
        let node = join(node, label).await;
        let Taken { opened, .. } = Taken::by(&node, slot).await;
        assert!(opened.restored && opened.recovers(false));
        assert!(opened.token_floor > 80_000 && opened.epoch > taken[usize::from(slot)].opened.epoch);
        assert_eq!(renewal(&node).await, NodeRenewal::Owns(vec![Slot::new(slot)]));
    }
}

/// What the standby has of slots, nodes and leases counts.
#[tokio::test]
async fn what_a_promoted_standby_has_leaps_above_itself_and_recovers_for_the_longest_lease() {
    let primary = Server::start(&[]);
    let standby = Server::standby_of(&primary);
    let admin = primary.connect().await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let address = address([&primary, &standby]);
    let node = joined(&address, "a").await;
    let slot = Taken::by(&node, 0).await;
    commit(&node, &slot.claims(1, "seat")).await;
    let above = 1 << 52;
    let writes = vec![
        Write::Change { scope: scope("b"), change: Change::TokensReserved { up_to: above } },
        Write::LongestLease { ms: 12_000 },
    ];
    commit(&node, &slot.batch(2, writes)).await;
    drop(primary);
    standby.promote().await;

    assert_eq!(renewal(&node).await, NodeRenewal::Dead);
    let node = join(node, "a").await;
    let again = Taken::by(&node, 0).await;
    assert!(again.has_claim("seat") && again.opened.restored && !again.opened.clean);
    assert_eq!(again.opened.token_floor, above + LEAP);
    let change = Change::TokensReserved { up_to: above + LEAP };
    assert!(again.rows.contains(&RecoveredRow::Change { scope: scope("b"), change }));
    // Also where nothing was kept.
    for opened in [again.opened, Taken::by(&node, 3).await.opened] {
        assert_eq!(opened.longest_lease_ms, 12_000);
        assert_eq!(opened.token_floor, above + LEAP);
    }
}

#[tokio::test]
async fn a_demoted_primary_that_still_accepts_writes_is_left() {
    let mut primary = Server::start(&[]);
    let mut standby = Server::standby_of(&primary);
    let address = address([&primary, &standby]);
    let node = joined(&address, "a").await;
    Taken::by(&node, 0).await;
    primary.stop();
    standby.promote().await;
    assert_eq!(renewal(&node).await, NodeRenewal::Dead);
    let node = join(node, "a").await;
    let slot = Taken::by(&node, 0).await;
    let batch = slot.claims(1, "seat");
    commit(&node, &batch).await;

    standby.stop();
    primary.start_again();
    let former = primary.connect().await;
    let before = generation(&former).await;
    let why = loop {
        match node.commit(vec![slot.claims(2, "other")]).await.unwrap().remove(0) {
            CommitOutcome::Refused(StoreUnavailable::Away { why, .. }) if why.contains("timeline") => {
                break why;
            }
            CommitOutcome::Unknown | CommitOutcome::Refused(_) => {}
            settled => panic!("{settled:?}"),
        }
    };
    assert_eq!(&*why, "the server writes on timeline 1, but one on timeline 2 has taken its place");
    let refused = node.take_slot(Slot::new(1), WriterId(1), &mut drop::<RecoveredRow>).await;
    assert!(matches!(refused, Err(TakeError::Unavailable(_))), "{refused:?}");
    assert_eq!(generation(&former).await, before);
    // The former primary is there still, and is asked first or not.
    standby.start_again();
    commit(&node, &batch).await;
    commit(&node, &slot.claims(2, "other")).await;
    assert_eq!(renewal(&node).await, NodeRenewal::Owns(vec![Slot::new(0)]));
}

/// A process goes on as a node of the server that is there, whichever it has seen before.
#[tokio::test]
async fn a_node_joins_anew_past_a_demoted_primary_and_at_another_system() {
    let mut primary = Server::start(&[]);
    let mut standby = Server::standby_of(&primary);
    let other = Server::start(&[]);
    let options = PostgresOptions::default().slots(SLOTS).statement_timeout(Duration::from_secs(10));
    let fleet = PostgresFleet::open(&address([&primary, &standby, &other]), options).await.unwrap();
    let (node, is_node) = (new_node("a"), async |server: &Server| is_node(server, "a").await);
    let life = Fleet::join(&fleet, &node).await.unwrap();
    primary.stop();
    standby.promote().await;
    loop {
        match life.commit_and_renew(Vec::new()).await.unwrap().1 {
            NodeRenewal::Dead => break,
            renewal => assert!(matches!(renewal, NodeRenewal::Unknown(_)), "{renewal:?}"),
        }
    }
    // The former primary is there again, accepts writes, and is the first to be asked.
    primary.start_again();
    drop(Fleet::join(&fleet, &node).await.unwrap());
    assert!(is_node(&standby).await);

    // Another system takes the place of both, on a timeline of its own.
    primary.stop();
    standby.stop();
    drop(Fleet::join(&fleet, &node).await.unwrap());
    assert!(is_node(&other).await);
}

/// A former primary whose standby was promoted answers what is asked, and confirms no join.
#[tokio::test]
async fn a_node_joins_past_a_primary_that_no_standby_follows() {
    let mut primary = Server::start(&[]);
    drop(joined(&address([&primary]), "a").await);
    let standby = Server::standby_of(&primary);
    standby.promote().await;
    let set = "ALTER SYSTEM SET synchronous_standby_names = 'gone'";
    primary.connect().await.batch_execute(set).await.unwrap();
    primary.stop();
    primary.start_again();

    let options = PostgresOptions::default().slots(SLOTS).statement_timeout(Duration::from_secs(1));
    let both = address([&primary, &standby]);
    let fleet = PostgresFleet::open(&both, options.clone()).await.unwrap();
    let b = Fleet::join(&fleet, &new_node("b")).await.unwrap();
    assert!(is_node(&standby, "b").await);
    b.leave().await.unwrap();
    // So does another process whose former life both servers know.
    let fleet = PostgresFleet::open(&both, options).await.unwrap();
    drop(Fleet::join(&fleet, &new_node("a")).await.unwrap());
    assert!(is_node(&standby, "a").await);
}

/// A server, and the ways to it.
async fn each_way(run: impl AsyncFn(&mut Server, &str)) {
    let mut server = Server::start(&[]);
    let address = server.address();
    run(&mut server, &address).await;
    let mut server = Server::start(&[]);
    let pgbouncer = PgBouncer::before(&server);
    run(&mut server, &pgbouncer.address()).await;
}

/// Puts the files back as they were before `run`.
async fn put_back_what(server: &mut Server, run: impl AsyncFnOnce()) {
    server.stop();
    server.copy_files();
    server.start_again();
    run().await;
    server.stop();
    server.put_copy_back();
    server.start_again();
}

#[tokio::test]
async fn files_that_were_put_back_are_found_by_what_was_confirmed() {
    each_way(async |server, address| {
        let node = joined(address, "a").await;
        let (idle, busy) = (Taken::by(&node, 0).await, Taken::by(&node, 1).await);
        commit(&node, &busy.claims(1, "before")).await;
        let single = {
            // Another schema, and no node.
            let options = PostgresOptions::default().schema("alone").statement_timeout(SLOT_LEASE);
            PostgresStore::open(address, options).await.unwrap()
        };
        let alone = Taken::by(&single, 0).await;
        commit(&single, &alone.claims(1, "before")).await;
        put_back_what(server, async || {
            commit(&node, &busy.claims(2, "lost")).await;
            commit(&single, &alone.claims(2, "lost")).await;
        })
        .await;

        // The renewal of a node that sends nothing looks at all slots.
        assert_eq!(renewal(&node).await, NodeRenewal::Dead);
        is_restored(&server.connect().await).await;
        for (slot, seq) in [(&idle, 1), (&busy, 3)] {
            assert_eq!(outcome(&node, &slot.claims(seq, "late")).await, CommitOutcome::Fenced);
        }
        let node = join(node, "a").await;
        let again = Taken::by(&node, 1).await;
        assert!(again.opened.restored && again.has_claim("before") && !again.has_claim("lost"));

        assert_eq!(outcome(&single, &alone.claims(3, "late")).await, CommitOutcome::Fenced);
        let again = Taken::by(&single, 0).await;
        assert!(again.opened.restored && again.opened.token_floor > LEAP && !again.has_claim("late"));
        commit(&single, &again.claims(1, "next")).await;
    })
    .await;
}

#[tokio::test]
async fn a_take_that_was_lost_is_found_though_the_slot_was_taken_again() {
    let mut server = Server::start(&[]);
    let address = server.address();
    let (a, b) = (joined(&address, "a").await, joined(&address, "b").await);
    let mut lost = None;
    put_back_what(&mut server, async || lost = Some(Taken::by(&a, 0).await)).await;
    // The same epoch again.
    let lost = lost.unwrap();
    assert_eq!(Taken::for_writer(&b, 0, 2).await.opened.epoch, lost.opened.epoch);
    assert_eq!(outcome(&a, &lost.claims(1, "late")).await, CommitOutcome::Fenced);
    is_restored(&server.connect().await).await;
    assert_eq!(renewal(&b).await, NodeRenewal::Dead);
}

#[tokio::test]
async fn a_process_that_knows_nothing_of_before_needs_the_declaration() {
    each_way(async |server, address| {
        let former = joined(address, "a").await;
        let slot = Taken::by(&former, 0).await;
        put_back_what(server, async || commit(&former, &slot.claims(1, "lost")).await).await;
        drop(former);
        let (fresh, admin) = (store(address).await, server.connect().await);
        let before = generation(&admin).await;
        let node = joined(address, "b").await;
        let taken = Taken::by(&node, 1).await;
        assert!(!taken.opened.restored);

        fresh.declare_restored().await.unwrap();
        let declared = generation(&admin).await;
        assert_ne!(declared, before);
        is_restored(&admin).await;
        // A call that is repeated, as its answer was lost, declares nothing further.
        fresh.declare_restored().await.unwrap();
        assert_eq!(generation(&admin).await, declared);
        assert_eq!(outcome(&node, &taken.claims(1, "late")).await, CommitOutcome::Fenced);
        assert_eq!(renewal(&node).await, NodeRenewal::Dead);
        assert!(Taken::by(&join(node, "b").await, 1).await.opened.restored);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_was_restarted_has_lost_nothing() {
    each_way(async |server, address| {
        let node = joined(address, "a").await;
        let slot = Taken::by(&node, 0).await;
        commit(&node, &slot.claims(1, "seat")).await;
        let before = generation(&server.connect().await).await;
        server.stop();
        server.start_again();
        commit(&node, &slot.claims(2, "other")).await;
        assert_eq!(renewal(&node).await, NodeRenewal::Owns(vec![Slot::new(0)]));
        drop(store(address).await);
        assert_eq!(generation(&server.connect().await).await, before);
    })
    .await;
}

/// Either the commit comes first and is there, or the new generation, and it is not.
#[tokio::test]
async fn a_commit_that_meets_a_new_generation_is_kept_whole_or_fenced() {
    let server = Server::start(&[]);
    let address = server.address();
    let (mut kept, mut fenced) = (0, 0);
    for round in 0..40 {
        let (node, judge) = (Arc::new(joined(&address, "a").await), store(&address).await);
        let slot = Taken::by(&node, 0).await;
        let name = format!("of round {round}");
        let (batch, by) = (slot.claims(1, &name), node.clone());
        let declares = tokio::spawn(async move { judge.declare_restored().await });
        let committed = outcome(&by, &batch).await == CommitOutcome::Committed;
        declares.await.unwrap().unwrap();
        assert_eq!(outcome(&node, &slot.claims(2, "late")).await, CommitOutcome::Fenced);
        drop((node, by));
        let again = Taken::by(&store(&address).await, 0).await;
        assert_eq!(again.has_claim(&name), committed, "{name}");
        assert!(again.opened.restored && !again.has_claim("late"));
        *(if committed { &mut kept } else { &mut fenced }) += 1;
    }
    assert_eq!(kept + fenced, 40);
}

#[tokio::test]
async fn the_leap_is_that_of_a_restored_backup_a_minute_later() {
    let server = Server::start(&[]);
    drop(store(&server.address()).await);
    let admin = server.connect().await;
    let leap = async |highest: u64| {
        let leapt = admin.query_one("SELECT lockhouse.leap($1)", &[&(highest as i64)]).await;
        leapt.map(|row| row.get::<_, i64>(0) as u64)
    };
    let rule = |mark| {
        let backup = HighestNumbers { mark, ..HighestNumbers::default() };
        let now = SystemTime::now() + Duration::from_secs(60);
        HighestNumbers::after_restore(backup, None, now).map(|above| above.mark)
    };
    for highest in [0, 7, 1 << 40] {
        let (before, leapt, after) = (rule(highest), leap(highest).await.unwrap(), rule(highest));
        // Both have the clock of this machine, one with milliseconds and a part by chance.
        let latest = after.unwrap() + (1 << 20) / 1000 + (1 << 17);
        assert!(before.unwrap() <= leapt && leapt <= latest, "{leapt}");
    }
    for highest in [1 << 51, (1 << 53) - 2 - LEAP] {
        assert_eq!(leap(highest).await.unwrap(), rule(highest).unwrap());
    }
    let none = (1 << 53) - 1 - LEAP;
    leap(none).await.unwrap_err();
    rule(none).unwrap_err();
}

#[tokio::test]
async fn an_account_that_may_not_ask_for_the_system_goes_by_the_timeline_alone() {
    let primary = Server::start(&[]);
    let admin = primary.connect().await;
    let restrict = "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public; CREATE ROLE app LOGIN;
                    GRANT CREATE ON DATABASE postgres TO app";
    admin.batch_execute(restrict).await.unwrap();
    let standby = Server::standby_of(&primary);
    let address = address([&primary, &standby]).replace("postgres@", "app@");
    let single = store(&address).await;
    let slot = Taken::by(&single, 0).await;
    commit(&single, &slot.claims(1, "seat")).await;
    let row = admin.query_one("SELECT system_id, timeline FROM lockhouse.fleet", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 1));
    let written: String = admin.query_one("SELECT pg_current_wal_lsn()::text", &[]).await.unwrap().get(0);
    let has = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn");
    let follower = standby.connect().await;
    while !follower.query_one(&has, &[]).await.unwrap().get::<_, bool>(0) {}
    drop(primary);
    standby.promote().await;
    assert_eq!(outcome(&single, &slot.claims(2, "late")).await, CommitOutcome::Fenced);
    assert!(Taken::by(&single, 0).await.has_claim("seat"));
    // Another one that may ask agrees.
    commit_as_superuser(&standby).await;
}

async fn commit_as_superuser(server: &Server) {
    let before = generation(&server.connect().await).await;
    let single = store(&server.address()).await;
    let slot = Taken::by(&single, 0).await;
    commit(&single, &slot.claims(1, "next")).await;
    assert_eq!(generation(&server.connect().await).await, before);
}
