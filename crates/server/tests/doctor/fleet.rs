//! PostgreSQL, and nodes over it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use crate::certificates::Ca;
use crate::doctor::{Found, doctor};
use crate::postgres::Server;
use crate::running::{Running, lockhouse};

struct Place {
    database: Server,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { database: Server::start(settings), folder };
        place.write_secret("secret", '0');
        place
    }

    fn write_secret(&self, name: &str, digit: char) {
        let file = self.folder.path().join(name);
        fs::write(&file, digit.to_string().repeat(32)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn store(&self, user: &str) -> String {
        let folder = self.database.folder().to_str().unwrap().replace('/', "%2F");
        format!("postgres://{user}@{folder}/postgres")
    }

    fn with_environment(&self, mut command: Command) -> Command {
        command
            .env("LOCKHOUSE_STORE", self.store("postgres"))
            .env("LOCKHOUSE_CLUSTER_SECRET_FILE", "secret")
            .env("LOCKHOUSE_CLUSTER_SLOTS", "16");
        command
    }

    fn doctor(&self, options: &[&str]) -> Command {
        self.with_environment(doctor(self.folder.path(), options))
    }

    fn found(&self, options: &[&str]) -> Found {
        Found::by(&mut self.doctor(options))
    }

    fn serve(&self, label: &str) -> Running {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--node", label];
        Running::of(self.with_environment(lockhouse(self.folder.path(), &serve)))
    }

    async fn run(&self, sql: &str) {
        self.database.connect().await.batch_execute(sql).await.unwrap();
    }
}

#[tokio::test]
async fn a_healthy_fleet_has_no_fault_and_an_empty_database_stays_empty() {
    let place = Place::new(&[]);
    let found = place.found(&[]);
    found.is_healthy();
    found.says("schema", "the first start makes it");
    let rows = place.database.connect().await;
    let schemas = rows.query("SELECT FROM pg_namespace WHERE nspname = 'lockhouse'", &[]).await.unwrap();
    assert!(schemas.is_empty());

    let node = place.serve("a");
    let url = format!("http://{}", node.address);
    let (ready, begun) = (format!("{url}/readyz"), Instant::now());
    while reqwest::get(&ready).await.unwrap().status() != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let found = place.found(&["--node", "b", "--server", &url]);
    found.says("schema", "16 slots");
    found.says("nodes", "1 are known");
    found.says("asked server", "answers");
    assert_eq!(found.lines("fault"), [""; 0]);
}

/// The first page of an index is overwritten.
#[tokio::test]
async fn a_damaged_index_is_found_and_said_how_to_mend() {
    let mut place = Place::new(&[]);
    drop(place.serve("a"));
    place.found(&[]).says("indexes", "CREATE EXTENSION amcheck");
    place.run("CREATE EXTENSION amcheck").await;
    place.found(&[]).says("indexes", "amcheck finds all of them sound");
    let looker = place.database.connect().await;
    let sql = "SELECT pg_relation_filepath('lockhouse.history_at_idx')";
    let path: String = looker.query_one(sql, &[]).await.unwrap().get(0);
    looker.batch_execute("CHECKPOINT").await.unwrap();
    place.database.stop();
    let path = place.database.folder().join("data").join(path);
    let mut pages = fs::read(&path).unwrap();
    pages[..8192].fill(0xa5);
    fs::write(&path, pages).unwrap();
    place.database.start_again();
    place.found(&[]).has_fault("indexes", "history_at_idx is damaged: invalid page");
}

#[tokio::test]
async fn a_server_that_is_away_and_a_standby_less_promise_are_named() {
    let mut place = Place::new(&["synchronous_commit=off"]);
    place.found(&[]).has_warning("durability", "synchronous_commit is off");
    place.database.stop();
    place.found(&[]).has_fault("store", "cannot be used");
}

#[tokio::test]
async fn a_database_that_does_not_sync_is_a_fault() {
    Place::new(&["fsync=off"]).found(&[]).has_fault("durability", "fsync is off");
}

#[tokio::test]
async fn an_account_without_rights_is_a_fault() {
    let place = Place::new(&[]);
    place.run("CREATE ROLE weak LOGIN").await;
    let store = place.store("weak");
    let weak = || Found::by(place.doctor(&[]).env("LOCKHOUSE_STORE", &store));
    weak().has_fault("schema", "the account may not make it");
    place.run("CREATE SCHEMA lockhouse").await;
    weak().has_fault("schema", "may not use");
    place.run("ALTER SCHEMA lockhouse OWNER TO weak").await;
    weak().is_healthy();
    place.run("CREATE TABLE lockhouse.foreign_table ()").await;
    weak().has_fault("schema", "none of lockhouse");
    place.run("ALTER ROLE weak CONNECTION LIMIT 3; DROP TABLE lockhouse.foreign_table").await;
    weak().has_fault("connections", "are left for this account");
    place.run("ALTER ROLE weak CONNECTION LIMIT -1").await;
    place.run("ALTER ROLE weak SET default_transaction_isolation = 'serializable'").await;
    weak().has_fault("durability", "serializable");
}

#[tokio::test]
async fn a_node_that_contradicts_the_others_is_a_fault() {
    let place = Place::new(&[]);
    let node = place.serve("a");
    node.log("slot taken");
    place.write_secret("other", '1');
    let found = place.found(&["--node", "b", "--cluster-secret-file", "other"]);
    found.has_fault("nodes", "the cluster secret is not that of the node \"a\"");
    let found = place.found(&["--node", "a", "--advertise", "http://127.0.0.1:9"]);
    found.has_fault("nodes", "cluster.node is \"a\", which the node at ");
    let found = Found::by(place.doctor(&["--node", "b"]).env("LOCKHOUSE_CLUSTER_SLOTS", "17"));
    found.has_fault("schema", "was made with 16");
    let found = place.found(&["--node", "b", "--slot-lease", "2s"]);
    found.has_warning("nodes", "slot lease 3s");
    place.run("UPDATE lockhouse.fleet SET version = 99").await;
    let found = place.found(&["--node", "b"]);
    found.has_fault("schema", "has version 99");
}

#[tokio::test]
async fn a_certificate_has_to_be_for_the_advertised_name_and_of_the_ca_of_the_nodes() {
    let place = Place::new(&[]);
    let folder = place.folder.path();
    let [ca, _] = ["ca", "other"].map(|name| Ca::new(folder, name));
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    let files = ca.sign_for("node", &["a.example"], now - day, now + day * 90);
    fs::set_permissions(folder.join(&files.key), fs::Permissions::from_mode(0o600)).unwrap();
    let found = |host: &str, ca: &str| {
        let url = format!("https://{host}:7420");
        let tls = ["--tls-cert", &files.cert, "--tls-key", &files.key];
        place.found(&[&tls[..], &["--cluster-ca", ca, "--advertise", &url]].concat())
    };
    found("a.example", "ca.pem").is_healthy();
    found("b.example", "ca.pem").has_fault("certificates", "cluster.advertise names b.example");
    found("a.example", "other.pem").has_fault("certificates", "cluster.ca: by other.pem");
}
