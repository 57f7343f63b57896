//! How the PostgreSQL store comes to its server: which of several, by TLS, and with which password.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::Change;
use lockhouse_store::{
    CommitBatch, CommitOutcome, Fatal, Fleet, JoinError, NewNode, Opened, PostgresFleet, PostgresOpenError,
    PostgresOptions, PostgresStore, RecoveredRow, Scope, Slot, Store, StoreUnavailable, Write, WriterId,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::time::sleep;

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
    let node = NewNode {
        label: "a".into(),
        address: "https://a.example".into(),
        slot_lease: Duration::from_secs(3),
        secret_mark: [7; 32],
    };
    for _ in 0..3 {
        let joined = Fleet::join(&fleet, &node).await.map(|life| life.id());
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
