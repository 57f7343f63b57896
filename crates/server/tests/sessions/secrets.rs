//! No log holds a secret, however talkative the server is and whatever is done with it. `cargo xtask test`
//! looks through the logs of all tests in the same way; here is one server that meets every kind of secret,
//! used rightly and wrongly.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use jsonwebtoken::{EncodingKey, Header, encode};
use lockhouse_server::auth::NewKey;
use lockhouse_server::{Server, StoreChoice, bind, operator_file};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use traces::Kind;

use crate::program;
use crate::sessions::support::keys::TwoTenants;
use crate::sessions::support::{Client, PATIENCE, config};

const ISSUER: &str = r#"
[[auth.jwt]]
id = "idp"
algorithm = "HS256"
key_file = "signing.key"
issuer = "idp"
audience = "lockhouse"
"#;

/// The server, and the folders for what it needs and for what it leaves.
struct World {
    child: Child,
    address: SocketAddr,
    files: tempfile::TempDir,
    traces: tempfile::TempDir,
    http: reqwest::Client,
    key: String,
    token: String,
}

fn settings(hash: &str) -> String {
    format!(
        "[[auth.keys]]\nid = \"ada\"\nhash = \"{hash}\"\nbuckets = {{ \"*\" = [\"request\", \"query\", \"offline\", \"claim\", \"operate\"] }}\n{ISSUER}"
    )
}

/// With a letter of its last part changed.
fn forged(credential: &str) -> String {
    let (rest, last) = credential.split_at(credential.len() - 9);
    let other = if last.starts_with('a') { 'b' } else { 'a' };
    format!("{rest}{other}{}", &last[1..])
}

impl World {
    fn start() -> Self {
        let (files, traces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let key = NewKey::draw("ada").unwrap();
        let signing_key = NewKey::draw("signing").unwrap().text;
        fs::write(files.path().join("signing.key"), &signing_key).unwrap();
        fs::write(files.path().join("f.toml"), settings(&key.hash)).unwrap();
        let mut command = Command::new(program::lockhouse());
        command.args(["serve", "--listen", "127.0.0.1:0", "--lease", "1s", "--drain", "0s"]);
        command.args(["--config", "f.toml", "--store", "sqlite:lockhouse.db"]).current_dir(files.path());
        let log = File::create(traces.path().join("server.log")).unwrap();
        command.env("RUST_LOG", traces::MOST_TALKATIVE).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening http://").unwrap().parse().unwrap();
        let http = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
        let token = token(&signing_key, "$");
        let world = Self { child, address, files, traces, http, key: key.text, token };
        let operator = fs::read_to_string(world.files.path().join("lockhouse.db.operator")).unwrap();
        world.note(&[(Kind::ApiKey, &world.key), (Kind::Token, &world.token)]);
        world.note(&[(Kind::SigningKey, &signing_key), (Kind::OperatorSecret, &operator)]);
        world
    }

    fn note(&self, secrets: &[(Kind, &str)]) {
        traces::note(self.traces.path(), secrets);
        secrets.iter().for_each(|(kind, secret)| traces::secret(*kind, secret));
    }

    async fn next(&self, client: &mut Client) -> Value {
        let frame = client.next().await;
        // The client has left it to those who look through all tests.
        traces::answer_in(self.traces.path(), &frame.to_string());
        frame
    }

    async fn hello(&self, hello: Value) -> (Client, Value) {
        let mut client = Client::open(self.address, "").await;
        client.send(hello).await;
        let first = self.next(&mut client).await;
        (client, first)
    }

    async fn call(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
        let url = format!("http://{}/v1/{path}", self.address);
        let mut request = self.http.request(method, url).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let text = request.body(body.to_owned()).send().await.unwrap().text().await.unwrap();
        traces::answer_in(self.traces.path(), &text);
        traces::answer(&text);
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Everything that a WebSocket can do with secrets.
    async fn sessions(&self) {
        let (mut client, welcome) = self.hello(json!({"type": "hello", "credential": self.key})).await;
        client.join(1).await;
        client.request(1, 1, "n").await;
        let granted = self.next(&mut client).await;
        assert!(granted["ticket"].is_string(), "{granted}");
        client.call(json!({"type": "request", "id": 2, "agent": 1, "name": "n", "steal": true})).await;
        assert_eq!(self.next(&mut client).await["code"], "forbidden");
        client.send(json!({"type": "hello", "credential": self.key})).await;
        assert_eq!(self.next(&mut client).await["type"], "error");

        let secret = welcome["secret"].as_str().unwrap();
        for (credential, secret) in
            [(&self.key, secret.to_owned()), (&self.token, secret.to_owned()), (&self.key, forged(secret))]
        {
            let resume = json!({"session": welcome["session"], "secret": secret, "received": 0});
            self.hello(json!({"type": "hello", "credential": credential, "resume": resume})).await;
        }
        for credential in [
            forged(&self.key),
            forged(&self.token),
            self.token.replacen("ey", "ez", 1),
            self.key.to_uppercase(),
        ] {
            let (_, first) = self.hello(json!({"type": "hello", "credential": credential})).await;
            assert_eq!(first["type"], "fatal", "{first}");
        }
        // Where it does not belong.
        for hello in [
            json!({"type": "hello", "credential": [self.key]}),
            json!({"type": "hello", "credential": format!("{} {}", self.key, self.token)}),
            json!({"type": "hello", "credential": self.key, "resume": {"secret": secret}}),
        ] {
            self.hello(hello).await;
        }
        let (mut other, _) = self.hello(json!({"type": "hello", "credential": self.token})).await;
        other.join(1).await;
        let ticket = granted["ticket"].as_str().unwrap();
        for ticket in [ticket.to_owned(), forged(ticket)] {
            let reclaim = json!({"type": "reclaim", "id": 9, "agent": 1, "name": "n", "mode": "exclusive", "ticket": ticket, "token": granted["token"]});
            other.call(reclaim).await;
        }
        other.call(json!({"type": "release", "id": 77, "reply": true})).await;
        while other.next().await["id"] != 77 {}
    }

    /// Everything that a caller can do with secrets.
    async fn calls(&self) {
        let key = ("lockhouse-key", &*self.key);
        let bearer = |secret: &str| format!("Bearer {secret}");
        let owner = self.call(Method::POST, "buckets/b/owners", &[key], r#"{"label": "Ada"}"#).await;
        let (id, secret) = (owner["owner"].as_str().unwrap(), owner["ownerSecret"].as_str().unwrap());
        let claim = self
            .call(Method::POST, "buckets/b/claims", &[key], r#"{"resource": "s", "claimant": "Ada"}"#)
            .await;
        let token = claim["token"].as_str().unwrap();
        let locks = json!({"owner": id, "locks": [{"name": "n", "mode": "exclusive"}]}).to_string();
        let place = format!("buckets/b/owners/{id}");
        let heartbeat = format!("{place}/heartbeat");
        for credential in [
            vec![key],
            vec![("authorization", &*bearer(&self.token))],
            vec![("lockhouse-key", &*forged(&self.key))],
            vec![("lockhouse-key", &*forged(&self.token))],
            vec![("authorization", &*bearer(&forged(&self.token)))],
            vec![("authorization", &*format!("Basic {}", self.key))],
            vec![],
        ] {
            for secret in [bearer(&forged(secret)), bearer(secret), secret.to_owned()] {
                let headers = [&credential[..], &[("authorization", &*secret)]].concat();
                self.call(Method::POST, &heartbeat, &headers, "").await;
                self.call(Method::POST, "buckets/b/locks", &headers, &locks).await;
                self.call(Method::POST, "backup", &headers, r#"{"file": "/nowhere/b.db"}"#).await;
            }
            for token in [forged(token), token.to_owned(), format!("{token}0")] {
                let body = json!({"resource": "s", "token": token}).to_string();
                self.call(Method::POST, "buckets/b/claims/renew", &credential, &body).await;
                self.call(Method::POST, "buckets/b/claims/renew", &credential, &body[..body.len() - 1]).await;
            }
            // Where they do not belong.
            self.call(Method::GET, &format!("buckets/b/query?key={}", self.key), &credential, "").await;
            self.call(Method::POST, "buckets/b/owners", &credential, &json!({"label": [secret]}).to_string())
                .await;
        }
        let body = json!({"resource": "s", "token": token}).to_string();
        self.call(Method::POST, "buckets/b/claims/finalize", &[key], &body).await;
        let owners = [key, ("authorization", &*bearer(secret))];
        self.call(Method::DELETE, &place, &owners, "").await;
        let operator = fs::read_to_string(self.files.path().join("lockhouse.db.operator")).unwrap();
        for secret in [forged(&operator), operator] {
            let file = json!({"file": self.files.path().join("backup.db")}).to_string();
            self.call(Method::POST, "backup", &[key, ("authorization", &*bearer(&secret))], &file).await;
        }
    }

    /// Settings in which secrets stand where they do not belong.
    async fn reloads(&self) {
        let file = self.files.path().join("f.toml");
        let before = fs::read_to_string(&file).unwrap();
        let signing_key = self.files.path().join("signing.key");
        let secret = fs::read_to_string(&signing_key).unwrap();
        for wrong in [
            settings(&self.key),
            format!("allowed_origins = [\"{}\"]\n{before}", self.key),
            format!("{}{before}", self.key),
            format!("{before}key = \"{secret}\"\n"),
            format!("{before}leeway = \"{}\"\n", self.key),
        ] {
            fs::write(&file, wrong).unwrap();
            self.hang_up("the server goes on as it was").await;
        }
        fs::write(&file, before).unwrap();
        fs::write(&signing_key, &secret[..20]).unwrap();
        self.hang_up("the server goes on as it was").await;
        fs::write(&signing_key, secret).unwrap();
        self.hang_up("reloaded").await;
    }

    /// SIGHUP; returns once the log says so once more.
    async fn hang_up(&self, said: &str) {
        use rustix::process::{Pid, Signal, kill_process};
        let log = self.traces.path().join("server.log");
        let count = || fs::read_to_string(&log).unwrap().matches(said).count();
        let (before, begin) = (count(), SystemTime::now());
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
        while count() == before {
            assert!(begin.elapsed().unwrap() < PATIENCE, "the log does not say {said:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The process may have ended before.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn token(signing_key: &str, subject: &str) -> String {
    let exp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 600;
    let claims = json!({"iss": "idp", "aud": "lockhouse", "sub": subject, "tenant": "default", "exp": exp, "buckets": {"*": ["request", "offline", "claim"]}});
    encode(&Header::default(), &claims, &EncodingKey::from_secret(signing_key.as_bytes())).unwrap()
}

fn leaks(traces: &Path) -> Vec<String> {
    let found = traces::search(traces).unwrap();
    // Keys of certificates are another server's.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::PrivateKey) {
        assert!(found.secrets.contains_key(&kind), "there was no {kind:?} to be told");
    }
    assert!(found.bytes > 10_000, "{} bytes of logs", found.bytes);
    found.leaks.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn no_log_holds_a_secret() {
    let mut world = World::start();
    world.sessions().await;
    world.calls().await;
    world.reloads().await;
    world.child.kill().unwrap();
    world.child.wait().unwrap();
    traces::leave(&fs::read(world.traces.path().join("server.log")).unwrap());
    let leaks = leaks(world.traces.path());
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[tokio::test]
async fn a_server_that_is_shown_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let store = StoreChoice::Sqlite(file.clone());
    let config = config(500);
    let listener = bind("127.0.0.1:0", &config.authority).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::open(config, &store).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(server.clone().serve(listener, async { _ = stopped.await }));
    let operator = fs::read_to_string(operator_file(&file)).unwrap();
    let request = reqwest::Client::new().post(format!("http://{address}/v1/buckets/b/owners"));
    let request = request.header("content-type", "application/json").header("idempotency-key", "k");
    let opened =
        request.body(json!({"label": "Ada"}).to_string()).send().await.unwrap().text().await.unwrap();
    traces::answer(&opened);
    let opened: Value = serde_json::from_str(&opened).unwrap();
    let secret = opened["ownerSecret"].as_str().unwrap();
    let shown = format!("{server:?}");
    assert!(shown.contains("Operator") && shown.contains("Answer"), "{shown}");
    assert!(!shown.contains(&operator) && !shown.contains(secret), "{shown}");
    stop.send(()).unwrap();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_list_of_sessions_shows_neither_a_session_nor_its_secret_nor_a_key() {
    let world = TwoTenants::with(lockhouse_server::LimitSettings::default(), 10_000).await;
    let (loud, quiet) = (world.loud("").await, world.quiet("").await);
    let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
    let url = format!("http://{}/v1/buckets/default/sessions", world.server.address);
    let answer = http.get(url).header("lockhouse-key", &world.loud).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "the other one is of another tenant: {text}");
    assert_eq!(list["sessions"][0]["credential"], "loud");
    for client in [&loud, &quiet] {
        for secret in ["session", "secret"] {
            assert!(!text.contains(client.welcome[secret].as_str().unwrap()), "{secret}: {text}");
        }
    }
    assert!(!text.contains(&world.loud) && !text.contains(&world.quiet), "{text}");
}
