//! A resource that checks fencing tokens: a table in a database of its own.

use std::path::Path;

use anyhow::{Context, Result};
use lockhouse::fence::{FenceError, postgres};
use lockhouse::{LockGuard, Mode};
use tokio_postgres::{Client, NoTls};

/// A client's connection to the resource.
#[derive(Debug)]
pub(crate) struct Fence(Client);

impl Fence {
    /// Connects to the server whose socket is in that folder.
    pub(crate) async fn connect(folder: &Path) -> Result<Self> {
        let address = format!("host={} user=postgres dbname=postgres", folder.display());
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
        // Its end shows at the client.
        tokio::spawn(connection);
        Ok(Self(client))
    }

    /// Makes the tables: the fence, and what it guards.
    pub(crate) async fn make(&self) -> Result<()> {
        postgres::create_table(&self.0).await?;
        let table = "create table guarded (resource bytea primary key, token bigint not null)";
        self.0.batch_execute(table).await.context("cannot make a table")
    }

    /// Passes the fence and writes, in one transaction; false if the token is stale.
    pub(crate) async fn pass(&mut self, bucket: &str, guard: &LockGuard) -> Result<bool> {
        let mut resource = format!("{bucket}/").into_bytes();
        resource.extend_from_slice(guard.name().as_wtf8().as_ref());
        let token = guard.fencing_token();
        let transaction = self.0.transaction().await?;
        match postgres::pass(&transaction, &resource, token, guard.mode()).await {
            Ok(()) => {}
            Err(FenceError::Stale { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if guard.mode() == Mode::Exclusive {
            let write = "insert into guarded values ($1, $2) on conflict (resource) do update set token = $2";
            transaction.execute(write, &[&resource, &token.get().cast_signed()]).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }
}
