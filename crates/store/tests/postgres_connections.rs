//! How the PostgreSQL store comes to its server: which of several, by TLS, and with which password.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse_core::{Change, ClaimRecord, FencingToken, Instant, NameBuf, SecretSeed};
use lockhouse_store::{
    CommitBatch, CommitOutcome, Fatal, Fleet, FleetStore, HistoryFilter, HistoryQuery, JoinError, NewNode,
    Opened, PostgresFleet, PostgresLook, PostgresOpenError, PostgresOptions, PostgresStore, RecoveredRow,
    Scope, Slot, Store, StoreUnavailable, Write, WriterId,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::server::{Account, Server};

fn options() -> PostgresOptions {
    PostgresOptions::default().statement_timeout(Duration::from_secs(10))
}

async fn open(address: &str) -> Result<PostgresStore, PostgresOpenError> {
    PostgresStore::open(address, options()).await
}

async fn why(address: &str) -> String {
    open(address).await.unwrap_err().to_string()
}

/// The host of a URL for a server that is reached by a socket in the file system.
fn host(server: &Server) -> String {
    server.folder().to_str().unwrap().replace('/', "%2F")
}

async fn take(store: &PostgresStore) -> (Opened, Vec<RecoveredRow>) {
    let mut rows = Vec::new();
    let opened = store.take_slot(Slot::ONLY, WriterId(1), &mut |row| rows.push(row)).await.unwrap();
    (opened, rows)
}

fn reserves(epoch: u64, first_seq: u64, up_to: u64) -> Arc<CommitBatch> {
    let (scope, change) = (Arc::new(Scope::new("t", "b")), Change::TokensReserved { up_to });
    let writes = vec![Write::Change { scope, change }];
    Arc::new(CommitBatch { slot: Slot::ONLY, epoch, writer: WriterId(1), first_seq, writes })
}

async fn outcome(store: &PostgresStore, batch: &Arc<CommitBatch>) -> CommitOutcome {
    store.commit(vec![batch.clone()]).await.unwrap().remove(0)
}

#[tokio::test]
async fn of_several_hosts_the_one_that_can_be_written_is_used() {
    let primary = Server::start(&[]);
    let standby = Server::standby_of(&primary);
    // It takes connections, and never answers one.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("127.0.0.1:{}", silent.local_addr().unwrap().port());
    let address =
        format!("postgres://postgres@{silent},%2Fno%2Fserver,{},{}/postgres", host(&standby), host(&primary));
    let store =
        PostgresStore::open(&address, options().statement_timeout(Duration::from_secs(2))).await.unwrap();
    let (opened, _) = take(&store).await;
    assert_eq!(outcome(&store, &reserves(opened.epoch, 1, 7)).await, CommitOutcome::Committed);
}

#[tokio::test]
async fn a_store_goes_on_at_the_server_that_was_promoted() {
    let primary = Server::start(&[]);
    let standby = Server::standby_of(&primary);
    // Then what is acknowledged is at the standby, too.
    let admin = primary.connect().await;
    let name = "ALTER SYSTEM SET synchronous_standby_names = '*'";
    admin.batch_execute(name).await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let address = format!("postgres://postgres@{},{}/postgres", host(&primary), host(&standby));
    let store = open(&address).await.unwrap();
    let (opened, _) = take(&store).await;
    assert_eq!(outcome(&store, &reserves(opened.epoch, 1, 7)).await, CommitOutcome::Committed);
    drop(primary);
    let next = reserves(opened.epoch, 2, 9);
    let without_primary = outcome(&store, &next).await;
    assert!(
        matches!(without_primary, CommitOutcome::Unknown | CommitOutcome::Refused(_)),
        "{without_primary:?}"
    );
    standby.connect().await.batch_execute("SELECT pg_promote()").await.unwrap();
    // It may lack commits, which nothing shows.
    assert_eq!(outcome(&store, &next).await, CommitOutcome::Fenced);
    let (opened, rows) = take(&store).await;
    let scope = Arc::new(Scope::new("t", "b"));
    let change = Change::TokensReserved { up_to: opened.token_floor };
    assert!(
        opened.restored && opened.token_floor > 9 && rows.contains(&RecoveredRow::Change { scope, change })
    );
    assert_eq!(outcome(&store, &reserves(opened.epoch, 1, 7)).await, CommitOutcome::Committed);
}

#[tokio::test]
async fn a_server_that_was_demoted_is_left() {
    let (former, next) = (Server::start(&[]), Server::start(&[]));
    let address = format!("postgres://postgres@{},{}/postgres", host(&former), host(&next));
    let store = open(&address).await.unwrap();
    let (opened, _) = take(&store).await;
    let batch = reserves(opened.epoch, 1, 7);
    assert_eq!(outcome(&store, &batch).await, CommitOutcome::Committed);
    let admin = former.connect().await;
    admin.batch_execute("ALTER SYSTEM SET default_transaction_read_only = on").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    // The connection stays, and what is sent over it is refused.
    let refused = loop {
        match outcome(&store, &batch).await {
            CommitOutcome::Committed => {}
            other => break other,
        }
    };
    assert!(matches!(refused, CommitOutcome::Refused(StoreUnavailable::ReadOnly { .. })), "{refused:?}");
    // There the tables are missing, which shows that it was asked.
    let at_the_next = store.commit(vec![batch]).await;
    assert!(matches!(at_the_next, Err(Fatal::Damaged { .. })), "{at_the_next:?}");
}

/// A certificate authority, and a server's certificate of it for `localhost`.
struct Certificates {
    folder: PathBuf,
    account: Option<Account>,
}

impl Certificates {
    fn new(folder: &Path) -> Self {
        let account = Account::for_servers();
        let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, ca_key).unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ca).unwrap();
        let this = Self { folder: folder.to_owned(), account };
        this.write("ca.pem", &ca.pem());
        this.write("server.pem", &certificate.pem());
        this.write("server.key", &key.serialize_pem());
        this
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some(account) = self.account.as_ref().filter(|_| name != "ca.pem") {
            account.owns(&path);
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }
}

/// Not even where the newer one confirms nothing at the moment.
#[tokio::test]
async fn a_node_joins_at_no_server_that_another_one_has_replaced_which_the_process_has_seen() {
    let former = Server::start(&[]);
    drop(open(&former.address()).await.unwrap());
    let newer = Server::standby_of(&former);
    newer.promote().await;
    let hosts = [&newer, &former].map(host).join(",");
    let options = options().statement_timeout(Duration::from_secs(1));
    let fleet = PostgresFleet::open(&format!("postgres://postgres@{hosts}/postgres"), options).await.unwrap();
    let admin = newer.connect().await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'gone'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let waits = "SELECT current_setting('synchronous_standby_names') = 'gone'";
    while !newer.connect().await.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
        sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..3 {
        let joined = Fleet::join(&fleet, &node("a")).await.map(|life| life.id());
        assert!(matches!(joined, Err(JoinError::Unavailable(_))), "{joined:?}");
    }
    let count = "SELECT count(*) FROM lockhouse.nodes";
    assert_eq!(former.connect().await.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// A server on a free port, by TLS.
fn secured(certificates: &Certificates) -> (Server, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "ssl=on".to_owned(),
        format!("ssl_cert_file={cert}"),
        format!("ssl_key_file={key}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    (Server::start(&settings), port)
}

#[tokio::test]
async fn each_sslmode_verifies_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let certificates = Certificates::new(folder.path());
    let (server, port) = secured(&certificates);
    let other = tempfile::tempdir().unwrap();
    let others = Certificates::new(other.path());
    let (ca, other_ca) = (certificates.path("ca.pem"), others.path("ca.pem"));
    let address = |host: &str, query: &str| format!("postgres://postgres@{host}:{port}/postgres?{query}");

    for (host, query) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
    ] {
        let store = open(&address(host, &query)).await.unwrap_or_else(|error| panic!("{query}: {error}"));
        take(&store).await;
        let secured = "SELECT count(*) FROM pg_stat_ssl NATURAL JOIN pg_stat_activity
                       WHERE application_name = 'lockhouse' AND ssl";
        // By the socket, which needs the port in its name.
        let admin = format!("host={} port={port} user=postgres", server.folder().display());
        let (admin, connection) = tokio_postgres::connect(&admin, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let count: i64 = admin.query_one(secured, &[]).await.unwrap().get(0);
        assert!(count >= 1, "{query}");
    }
    for (host, query, rule) in [
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}"), "certificate not valid for name"),
        ("localhost", format!("sslmode=verify-full&sslrootcert={other_ca}"), "invalid peer certificate"),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={other_ca}"), "invalid peer certificate"),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={other_ca}"), "invalid peer certificate"),
        ("localhost", "sslrootcert=system".to_owned(), "invalid peer certificate"),
        ("localhost", "sslmode=verify-full&sslrootcert=/no/file".to_owned(), "sslrootcert is /no/file"),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={}", certificates.path("server.key")),
            "no certificate",
        ),
    ] {
        let why = why(&address(host, &query)).await;
        assert!(why.contains(rule), "{host} {query}: {why}");
    }
}

/// Commits go on meanwhile: each of the connections of before is ended, and made again.
#[tokio::test]
async fn a_new_authority_in_the_file_is_believed_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (server, port) = secured(&Certificates::new(folder.path()));
    let ca = folder.path().join("ca.pem").to_str().unwrap().to_owned();
    let address =
        format!("postgres://postgres@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={ca}");
    let store = open(&address).await.unwrap();
    let (opened, _) = take(&store).await;
    assert_eq!(outcome(&store, &reserves(opened.epoch, 1, 7)).await, CommitOutcome::Committed);
    // Another authority, and a certificate of it.
    Certificates::new(folder.path());
    let admin = format!("host={} port={port} user=postgres", server.folder().display());
    let (admin, connection) = tokio_postgres::connect(&admin, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockhouse'";
    admin.query(end, &[]).await.unwrap();
    let begun = std::time::Instant::now();
    while outcome(&store, &reserves(opened.epoch, 2, 9)).await != CommitOutcome::Committed {
        assert!(begun.elapsed() < Duration::from_secs(20), "the new authority is not believed");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_used_only_where_that_may_be() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _server = Server::start(&["listen_addresses=127.0.0.1", &format!("port={port}")]);
    let address = |mode: &str| format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode={mode}");
    for mode in ["disable", "prefer"] {
        open(&address(mode)).await.unwrap();
    }
    let why = why(&address("require")).await;
    assert!(why.contains("server does not support TLS"), "{why}");
}

#[tokio::test]
async fn a_password_comes_from_a_file_and_a_new_one_is_used_for_the_next_connection() {
    let server = Server::start(&[]);
    let admin = server.connect().await;
    let role = "CREATE ROLE app LOGIN PASSWORD 'first secret'; GRANT CREATE ON DATABASE postgres TO app";
    admin.batch_execute(role).await.unwrap();
    let rules = server.folder().join("data").join("pg_hba.conf");
    let former = fs::read_to_string(&rules).unwrap();
    fs::write(&rules, format!("local all app scram-sha-256\n{former}")).unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let (alone, many) = (folder.path().join("password"), folder.path().join("pgpass"));
    fs::write(&alone, "first secret\n").unwrap();
    fs::write(
        &many,
        format!("*:*:*:other:no\n{}:5432:postgres:app:first secret\n", server.folder().display()),
    )
    .unwrap();
    fs::set_permissions(&many, fs::Permissions::from_mode(0o600)).unwrap();
    let address = format!("postgres://app@{}/postgres", host(&server));
    let by = |options: PostgresOptions| PostgresStore::open(&address, options);
    by(options().passfile(&many)).await.unwrap();
    let store = by(options().password_file(&alone)).await.unwrap();
    take(&store).await;

    admin.batch_execute("ALTER ROLE app PASSWORD 'second secret'").await.unwrap();
    fs::write(&alone, "second secret").unwrap();
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";
    admin.batch_execute(ended).await.unwrap();
    // The first statement finds the connection gone.
    let (mut rows, mut taken) = (Vec::new(), None);
    while taken.is_none() {
        taken = store.take_slot(Slot::ONLY, WriterId(2), &mut |row| rows.push(row)).await.ok();
    }

    for (options, rule) in [
        (options(), "none is given"),
        (options().passfile(&many), "password authentication failed"),
        (options().password_file("/no/file"), "the password file /no/file cannot be read"),
    ] {
        let why = by(options).await.unwrap_err().to_string();
        assert!(why.contains(rule) && !why.contains("secret"), "{why}");
    }
    fs::set_permissions(&many, fs::Permissions::from_mode(0o640)).unwrap();
    let why = by(options().passfile(&many)).await.unwrap_err().to_string();
    assert!(why.contains("has mode 0640, but must be for its owner alone (0600)"), "{why}");
}

/// How many connections of stores there are.
async fn connections(admin: &Client) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockhouse'";
    admin.query_one(count, &[]).await.unwrap().get(0)
}

fn node(label: &str) -> NewNode {
    NewNode {
        label: label.into(),
        address: format!("https://{label}.example").into(),
        slot_lease: Duration::from_secs(3),
        secret_mark: [7; 32],
    }
}

/// What a caller asks for again and again, though nothing is answered.
async fn ask_for_all(fleet: &PostgresFleet, life: &dyn FleetStore, batch: &Arc<CommitBatch>) {
    let (scope, filter) = (Scope::new("t", "b"), HistoryFilter::default());
    let query = HistoryQuery { scope, before: None, limit: 10, filter };
    let take = async { drop(life.take_slot(Slot::new(1), WriterId(1), &mut drop::<RecoveredRow>).await) };
    let commit = async { drop(life.commit_and_renew(vec![batch.clone()]).await) };
    let history = async { drop(life.history(query).await) };
    let look = async { drop(life.look().await) };
    let outside = async { drop(fleet.look().await) };
    tokio::join!(take, commit, history, look, outside);
}

#[tokio::test]
async fn a_node_has_six_connections_at_most_however_long_its_statements_wait() {
    let server = Server::start(&[]);
    let options = options().slots(4).statement_timeout(Duration::from_millis(200));
    let fleet = PostgresFleet::open(&server.address(), options).await.unwrap();
    let life = Fleet::join(&fleet, &node("a")).await.unwrap();
    let opened = life.take_slot(Slot::ONLY, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
    let batch = reserves(opened.epoch, 1, 7);
    let (mut locker, admin) = (server.connect().await, server.connect().await);
    let locked = locker.transaction().await.unwrap();
    let lock = "LOCK TABLE lockhouse.nodes, lockhouse.slots, lockhouse.history IN ACCESS EXCLUSIVE MODE";
    locked.batch_execute(lock).await.unwrap();
    let mut most = 0;
    for _ in 0..10 {
        ask_for_all(&fleet, &*life, &batch).await;
        most = most.max(connections(&admin).await);
    }
    assert!(most <= i64::from(PostgresLook::CONNECTIONS_OF_NODE), "{most} connections");
    let why = life.look().await.unwrap_err().to_string();
    assert!(why.contains("waits for a lock of process"), "{why}");
    locked.rollback().await.unwrap();
    // Whatever was late is answered by now.
    while life.look().await.is_err() {}
    while life.commit_and_renew(vec![batch.clone()]).await.unwrap().0 != [CommitOutcome::Committed] {}
    let begun = std::time::Instant::now();
    while connections(&admin).await >= i64::from(PostgresLook::CONNECTIONS_OF_NODE) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the connection that looks stays");
    }
}

/// Commits at this server wait for a standby that is not there, or for none.
async fn set_standby(server: &Server, name: &str) {
    let admin = server.connect().await;
    admin.batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'")).await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
}

/// Commits over and over until nothing is confirmed. Returns the last batch.
async fn commit_until_unknown(life: &dyn FleetStore, epoch: u64) -> Arc<CommitBatch> {
    for seq in 1.. {
        let batch = reserves(epoch, seq, seq);
        match &life.commit_and_renew(vec![batch.clone()]).await.unwrap().0[..] {
            [CommitOutcome::Committed] => {}
            other => {
                assert_eq!(other, [CommitOutcome::Unknown]);
                return batch;
            }
        }
    }
    unreachable!("the numbers do not end")
}

/// The address is that of whichever server is the primary, as with a name that is pointed elsewhere.
#[tokio::test]
async fn what_hangs_at_a_former_primary_is_not_waited_for_at_the_next_one() {
    let former = Server::start(&[]);
    let next = Server::standby_of(&former);
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("primary");
    std::os::unix::fs::symlink(former.folder(), &link).unwrap();
    let address = format!("host={} user=postgres dbname=postgres", link.display());
    let options = options().statement_timeout(Duration::from_millis(500));
    let fleet = PostgresFleet::open(&address, options).await.unwrap();
    let life = Fleet::join(&fleet, &node("a")).await.unwrap();
    let opened = life.take_slot(Slot::ONLY, WriterId(1), &mut drop::<RecoveredRow>).await.unwrap();
    set_standby(&former, "gone").await;
    let batch = commit_until_unknown(&*life, opened.epoch).await;
    next.promote().await;
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(next.folder(), &link).unwrap();
    let begun = std::time::Instant::now();
    while life.commit_and_renew(vec![batch.clone()]).await.unwrap().0 != [CommitOutcome::Fenced] {
        assert!(begun.elapsed() < Duration::from_secs(20), "the next primary is not asked");
    }
}

/// Hands on what a store and its server send. Once the wire is to be cut, it hands on no more than the
/// beginning of the next large statement, and ends the connection for the store alone, as a network does that
/// is gone.
async fn wire(near: UnixStream, far: UnixStream, is_to_be_cut: Arc<AtomicBool>) {
    let ((mut from_store, mut to_store), (mut from_server, mut to_server)) =
        (near.into_split(), far.into_split());
    let answers = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_store).await });
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = from_store.read(&mut buffer).await {
        to_server.write_all(&buffer[..length]).await.unwrap();
        if length == buffer.len() && is_to_be_cut.swap(false, Ordering::Relaxed) {
            break;
        }
    }
    answers.abort();
    drop(from_store);
    // The server's side stays open.
    std::future::pending::<()>().await;
}

/// The server waits for the rest of a statement that never comes.
#[tokio::test]
async fn a_commit_that_was_cut_in_the_middle_holds_up_none_of_the_later_ones() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
    let (socket, is_to_be_cut) = (server.folder().join(".s.PGSQL.5432"), Arc::new(AtomicBool::new(false)));
    let cut = Arc::clone(&is_to_be_cut);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = UnixStream::connect(&socket).await.unwrap();
            tokio::spawn(wire(near, far, Arc::clone(&cut)));
        }
    });
    let address = format!("host={} user=postgres dbname=postgres", folder.path().display());
    let store = PostgresStore::open(&address, options().statement_timeout(Duration::from_millis(500)));
    let store = store.await.unwrap();
    let (opened, _) = take(&store).await;
    let claim = ClaimRecord {
        name: NameBuf::new("seat").unwrap(),
        claimant: "Ann".into(),
        token: FencingToken::new(1),
        ttl_ms: 1000,
        since: Instant::from_millis(1),
        seed: SecretSeed(7),
        metadata: Some("x".repeat(300_000).into()),
    };
    let write = Write::Change { scope: Arc::new(Scope::new("t", "b")), change: Change::Claimed(claim) };
    let (slot, epoch, writer) = (Slot::ONLY, opened.epoch, WriterId(1));
    let batch = Arc::new(CommitBatch { slot, epoch, writer, first_seq: 1, writes: vec![write] });
    is_to_be_cut.store(true, Ordering::Relaxed);
    assert_eq!(outcome(&store, &batch).await, CommitOutcome::Unknown);
    assert!(!is_to_be_cut.load(Ordering::Relaxed));
    timeout(Duration::from_secs(20), until_committed(&store, &batch)).await.unwrap();
}

/// Reads until the store refuses for that reason. What was committed in vain stays unknown, without one.
async fn until_refused(store: &PostgresStore, reason: &str) {
    let begun = std::time::Instant::now();
    loop {
        let (scope, filter) = (Scope::new("t", "b"), HistoryFilter::default());
        let page = store.history(HistoryQuery { scope, before: None, limit: 10, filter }).await;
        if page.as_ref().is_err_and(|why| why.to_string().contains(reason)) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{page:?}");
    }
}

async fn until_committed(store: &PostgresStore, batch: &Arc<CommitBatch>) {
    let begun = std::time::Instant::now();
    while outcome(store, batch).await != CommitOutcome::Committed {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on to refuse");
    }
}

#[tokio::test]
async fn settings_that_weaken_promises_are_refused_after_a_reconnection() {
    let mut server = Server::start(&[]);
    let store = open(&server.address()).await.unwrap();
    let (opened, _) = take(&store).await;
    let [first, second, third] = [1, 2, 3].map(|seq| reserves(opened.epoch, seq, 7 + seq));
    until_committed(&store, &first).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockhouse'";
    let role = async |change: &str| {
        let admin = server.connect().await;
        // Apart, so that a connection that is made again at once has the change.
        admin.batch_execute(&format!("ALTER ROLE postgres {change}")).await.unwrap();
        admin.batch_execute(end).await.unwrap();
    };
    role("SET default_transaction_isolation = 'serializable'").await;
    until_refused(&store, "default_transaction_isolation is 'serializable'").await;
    assert_ne!(outcome(&store, &second).await, CommitOutcome::Committed);
    role("RESET default_transaction_isolation").await;
    until_committed(&store, &second).await;

    server.connect().await.batch_execute("ALTER SYSTEM SET fsync = off").await.unwrap();
    server.stop();
    server.start_again();
    until_refused(&store, "fsync is off").await;
    assert_ne!(outcome(&store, &third).await, CommitOutcome::Committed);
    let admin = server.connect().await;
    admin.batch_execute("ALTER SYSTEM RESET fsync").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until_committed(&store, &third).await;
}
