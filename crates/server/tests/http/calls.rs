//! A client that knows nothing but HTTP.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::process::ServerProcess;

/// Nothing that is waited for takes so long on a working server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server and the bucket `default` of it.
pub(crate) struct Api {
    pub(crate) server: ServerProcess,
    client: Client,
}

/// The answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The status, and the code of the problem if it is one.
    pub(crate) fn outcome(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn text(&self, key: &str) -> String {
        self.body[key].as_str().unwrap_or_else(|| panic!("no {key} in {self:?}")).to_owned()
    }
}

/// An owner as the client that began it knows it.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) id: String,
    pub(crate) secret: String,
}

fn client() -> Client {
    Client::builder().timeout(PATIENCE).build().unwrap()
}

impl Api {
    pub(crate) fn new() -> Self {
        Self::over(ServerProcess::start("10s"))
    }

    pub(crate) fn over(server: ServerProcess) -> Self {
        Self { server, client: client() }
    }

    /// SIGKILL, and another server at the same address, with connections of its own.
    pub(crate) fn restart(&mut self) {
        self.server.restart();
        self.client = client();
    }

    /// Another server at the address of one that has ended, with connections of its own.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_again(&mut self) {
        self.server.start_again();
        self.client = client();
    }

    /// `path` below the bucket, or from the root if it begins with a slash.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        self.try_send(method, path, headers, body).await.unwrap()
    }

    /// As [`send`](Self::send), of a server that may go.
    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> reqwest::Result<Answer> {
        let base = if path.starts_with('/') {
            self.server.url()
        } else {
            self.server.url() + "/v1/buckets/default/"
        };
        let mut request = self.client.request(method, base + path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        traces::answer(&text);
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, headers, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], Some(body.to_string())).await
    }

    pub(crate) async fn post_as(&self, owner: &Owner, path: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {}", owner.secret);
        let headers = [("content-type", "application/json"), ("authorization", &*bearer)];
        self.send(Method::POST, path, &headers, Some(body.to_string())).await
    }

    pub(crate) async fn as_owner(&self, method: Method, owner: &Owner, path: &str) -> Answer {
        let bearer = format!("Bearer {}", owner.secret);
        self.send(method, path, &[("authorization", &*bearer)], None).await
    }

    pub(crate) async fn open(&self, new: Value) -> Owner {
        let opened = self.post("owners", new).await;
        assert_eq!(opened.status, 201, "{opened:?}");
        Owner { id: opened.text("owner"), secret: opened.text("ownerSecret") }
    }

    pub(crate) async fn owner(&self, label: &str) -> Owner {
        self.open(json!({"label": label})).await
    }

    /// Locks a record of the kind `customer`.
    pub(crate) async fn lock(&self, owner: &Owner, id: &str, intent: &str) -> Answer {
        let locks = [json!({"kind": "customer", "id": id, "intent": intent})];
        self.post_as(owner, "locks", json!({"owner": owner.id, "locks": locks})).await
    }

    /// The names of the offline locks.
    pub(crate) async fn locked(&self) -> Vec<String> {
        let list = self.get("locks").await;
        assert_eq!(list.status, 200, "{list:?}");
        list.body["locks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lock| lock["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) async fn claim(&self, resource: &str, claimant: &str) -> Answer {
        self.post("claims", json!({"resource": resource, "claimant": claimant})).await
    }

    /// `renew`, `release` or `finalize`.
    /// An answer that goes on, with its status 200.
    pub(crate) async fn stream(&self, path: &str) -> reqwest::Response {
        let url = format!("{}/v1/buckets/default/{path}", self.server.url());
        self.client.get(url).send().await.unwrap().error_for_status().unwrap()
    }

    pub(crate) async fn with_token(&self, what: &str, resource: &str, token: &str) -> Answer {
        self.post(&format!("claims/{what}"), json!({"resource": resource, "token": token})).await
    }
}
