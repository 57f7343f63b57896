//! Calls of the HTTP API whose answers are taken as they come.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::RequestBuilder;
use serde_json::Value;

use crate::ws::PATIENCE;

/// A client with one connection.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    buckets: String,
    key: String,
}

impl Http {
    pub(super) fn new(address: SocketAddr, key: &str) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(PATIENCE).pool_max_idle_per_host(1).no_proxy();
        let client =
            client.pool_idle_timeout(Duration::from_secs(5)).build().context("cannot make a client")?;
        Ok(Self { client, buckets: format!("http://{address}/v1/buckets"), key: key.to_owned() })
    }

    pub(super) async fn post(
        &self,
        bucket: &str,
        path: &str,
        secret: Option<&str>,
        body: &Value,
    ) -> Result<String> {
        let request = self.client.post(format!("{}/{bucket}/{path}", self.buckets));
        self.answer(request.header("content-type", "application/json").body(body.to_string()), secret).await
    }

    pub(super) async fn get(
        &self,
        bucket: &str,
        path: &str,
        query: &[(&str, &str)],
        secret: Option<&str>,
    ) -> Result<String> {
        self.answer(self.client.get(format!("{}/{bucket}/{path}", self.buckets)).query(query), secret).await
    }

    pub(super) async fn delete(&self, bucket: &str, path: &str, query: &[(&str, &str)]) -> Result<String> {
        self.answer(self.client.delete(format!("{}/{bucket}/{path}", self.buckets)).query(query), None).await
    }

    /// The same as an owner; a refusal is an error.
    pub(super) async fn delete_with(&self, bucket: &str, path: &str, secret: &str) -> Result<()> {
        let answer =
            self.answer(self.client.delete(format!("{}/{bucket}/{path}", self.buckets)), Some(secret));
        let answer = answer.await?;
        ensure!(answer.is_empty() || !answer.contains("\"code\""), "{path} is refused: {answer}");
        Ok(())
    }

    /// The body of the answer; a refusal has its status in it.
    async fn answer(&self, request: RequestBuilder, secret: Option<&str>) -> Result<String> {
        let mut request = request.header("lockhouse-key", &self.key);
        if let Some(secret) = secret {
            request = request.bearer_auth(secret);
        }
        let text = request.send().await?.text().await?;
        traces::answer(&text);
        Ok(text)
    }
}
