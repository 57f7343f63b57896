//! A real server with authentication, and the state that is prepared in it for a call.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lockhouse_server::auth::{Authority, Settings};
use lockhouse_server::{Config, Server, StoreChoice, Tls, bind, operator_file};
use serde_json::{Value, json};
use tempfile::TempDir;
use traces::Kind;

use super::credentials::{BUCKET, Credential, Credentials};

/// The timeout of every wait; a working server is faster.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The server and its clients.
pub(super) struct World {
    pub(super) credentials: Credentials,
    pub(super) address: SocketAddr,
    server: Arc<Server>,
    operator: String,
    made: AtomicU64,
    folder: TempDir,
}

/// The values of the words in braces of the tables.
pub(super) type Words = BTreeMap<&'static str, String>;

impl World {
    pub(super) async fn begin() -> Result<Self> {
        log_listener::listen();
        let folder = tempfile::tempdir()?;
        let credentials = Credentials::draw(folder.path())?;
        let authority = Authority::new(&credentials.settings)?;
        let tls = Tls::load(&credentials.tls)?;
        let config = Config { authority: authority.clone(), tls, ..Config::default() };
        let database = folder.path().join("lockhouse.db");
        let server = Server::open(config, &StoreChoice::Sqlite(database.clone())).await?;
        let listener = bind("127.0.0.1:0", &authority).await?;
        let address = listener.local_addr()?;
        tokio::spawn(server.clone().serve(listener, std::future::pending()));
        let operator = fs::read_to_string(operator_file(&database))?;
        traces::secret(Kind::OperatorSecret, &operator);
        let made = AtomicU64::new(0);
        Ok(Self { credentials, address, server, operator, made, folder })
    }

    /// Loads the settings that the server uses from now on.
    pub(super) fn reload(&self, settings: &Settings) -> Result<()> {
        Ok(self.server.reload_auth(Authority::new(settings)?)?)
    }

    fn number(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.path().join(format!("backup-{number}.db"))
    }

    /// Prepares the things that a call may name: an owner with a lock, a claim, an assignment, a free name.
    pub(super) async fn words(&self) -> Result<Words> {
        let number = self.number();
        let name = |what: &str| format!("{what}-{number}");
        let owner = self.make("owners", None, json!({"label": name("label")})).await?;
        let secret = owner["ownerSecret"].as_str().unwrap_or_default();
        let locks =
            json!({"owner": owner["owner"], "locks": [{"name": name("locked"), "mode": "exclusive"}]});
        let locked = self.make("locks", Some(secret), locks).await?;
        let claim = |what| json!({"resource": name(what), "claimant": "Ada"});
        let claimed = self.make("claims", None, claim("claimed")).await?;
        let assigned = self.make("claims", None, claim("assigned")).await?;
        self.make("claims/finalize", None, json!({"resource": name("assigned"), "token": assigned["token"]}))
            .await?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(BTreeMap::from([
            ("bucket", BUCKET.to_owned()),
            ("owner", text(&owner["owner"])),
            ("ownerLabel", name("label")),
            ("ownerSecret", secret.to_owned()),
            ("locked", name("locked")),
            ("fencingToken", text(&locked["locks"][0]["fencingToken"])),
            ("claimed", name("claimed")),
            ("token", text(&claimed["token"])),
            ("assigned", name("assigned")),
            ("free", name("free")),
            ("operator", self.operator.clone()),
            ("file", self.file(number).display().to_string()),
        ]))
    }

    /// Forgets what was made ready, so that no list grows without end.
    pub(super) async fn tidy(&self, words: &Words) -> Result<()> {
        let (http, maker) = self.maker()?;
        let url = format!("https://{}/v1/buckets/{BUCKET}/owners/{}", self.address, words["owner"]);
        let ended = http.delete(url).header("lockhouse-key", maker).bearer_auth(&words["ownerSecret"]).send();
        ended.await?;
        for (path, name) in [("assignments", "assigned"), ("assignments", "claimed")] {
            let url = format!("https://{}/v1/buckets/{BUCKET}/{path}?resource={}", self.address, words[name]);
            http.delete(url).header("lockhouse-key", maker).send().await?;
        }
        let claim = json!({"resource": words["claimed"], "token": words["token"]});
        let url = format!("https://{}/v1/buckets/{BUCKET}/claims/release", self.address);
        let call = http.post(url).header("lockhouse-key", maker).header("content-type", "application/json");
        call.body(claim.to_string()).send().await?;
        Ok(())
    }

    async fn make(&self, path: &str, secret: Option<&str>, body: Value) -> Result<Value> {
        let (http, maker) = self.maker()?;
        let url = format!("https://{}/v1/buckets/{BUCKET}/{path}", self.address);
        let request = http.post(url).header("lockhouse-key", maker);
        let mut request = request.header("content-type", "application/json").body(body.to_string());
        if let Some(secret) = secret {
            request = request.bearer_auth(secret);
        }
        let response = request.send().await?;
        let status = response.status();
        let text = response.text().await?;
        traces::answer(&text);
        ensure!(status.is_success(), "cannot make {path} ready: {status} {text}");
        serde_json::from_str(&text).context("what is made ready is told as JSON")
    }

    fn maker(&self) -> Result<(&reqwest::Client, &str)> {
        let maker: &Credential = self.credentials.named("everything")?;
        Ok((&maker.client.http, maker.text.as_deref().context("it is a key")?))
    }
}

/// The text with the words in place of the braces.
pub(super) fn filled(text: &str, words: &Words) -> String {
    words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(&format!("{{{word}}}"), value))
}
