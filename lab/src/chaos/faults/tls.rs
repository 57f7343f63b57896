//! Authority and certificates of the database are renewed under load, step by step, as a person does it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::Fault;
use crate::chaos::network::{DATABASES, NODES, address};
use crate::chaos::storm::Storm;
use crate::cluster::postgres::Server;

/// The longest that a node may take to be connected again.
const PATIENCE: Duration = Duration::from_secs(20);

const END: &str =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lockhouse'";

/// The nodes with connections that began after an instant, and whether all of them are secured.
const CONNECTED: &str = "SELECT host(client_addr), bool_and(ssl)
    FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
    WHERE application_name = 'lockhouse' AND backend_start > $1::text::timestamptz GROUP BY 1";

impl Storm {
    /// After each step all connections are ended, and new ones are made. No slot moves for that.
    pub(in crate::chaos) fn renew_certificates(&mut self) -> Result<Fault> {
        let before = self.come_to_rest()?;
        self.databases.certificates.add_authority()?;
        let mut ended = self.connect_anew("nodes believe a second authority")?;
        self.databases.certificates.sign()?;
        self.runtime.block_on(async {
            read_again(self.databases.primary()?).await?;
            read_again(self.databases.standby()?).await
        })?;
        ended += self.connect_anew("servers have certificates of the second authority")?;
        self.databases.certificates.drop_former()?;
        ended += self.connect_anew("nodes believe the second authority only")?;
        let after = self.moves()?;
        let text = format!(
            "authority and certificates of the database are renewed, and {ended} connections are ended meanwhile"
        );
        ensure!(after == before, "{text}, but slots have moved: {before:?} became {after:?}");
        Ok(Fault { text, has_hit: Some(ended >= 3 * NODES.len() as i64) })
    }

    /// Ends all connections of nodes, and waits until each has new ones; how many were ended.
    fn connect_anew(&mut self, step: &str) -> Result<i64> {
        let primary = self.databases.primary()?;
        let ended = self.runtime.block_on(async {
            let client = primary.connect().await;
            let at: String = client.query_one("SELECT clock_timestamp()::text", &[]).await?.get(0);
            let ended: i64 = client.query_one(END, &[]).await?.get(0);
            let begun = Instant::now();
            let all: BTreeSet<String> = NODES.map(address).into();
            loop {
                let rows = client.query(CONNECTED, &[&at]).await?;
                let secured = rows.iter().filter(|row| row.get(1)).map(|row| row.get(0)).collect();
                ensure!(rows.iter().all(|row| row.get(1)), "{step}: a connection has no TLS");
                if all == secured {
                    return anyhow::Ok(ended);
                }
                ensure!(
                    begun.elapsed() < PATIENCE,
                    "{step}: only {secured:?} connect to {} within {PATIENCE:?}",
                    DATABASES.join(" or ")
                );
                sleep(Duration::from_millis(20)).await;
            }
        })?;
        self.goes_on(Instant::now())?;
        Ok(ended)
    }
}

/// As `pg_ctl reload` does.
async fn read_again(server: &Server) -> Result<()> {
    let client = server.connect().await;
    let loaded = "SELECT pg_conf_load_time()::text";
    let before: String = client.query_one(loaded, &[]).await?.get(0);
    client.batch_execute("SELECT pg_reload_conf()").await?;
    let begun = Instant::now();
    while server.connect().await.query_one(loaded, &[]).await?.get::<_, String>(0) == before {
        ensure!(begun.elapsed() < PATIENCE, "a server does not read its settings again");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
