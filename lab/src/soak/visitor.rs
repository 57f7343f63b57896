//! A visitor of the crowd, which comes, asks, holds, releases, and goes or breaks off, again and again.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};
use lockhouse::core::{Acquire, Mode};
use random::Random;
use tokio::time::{sleep, timeout};

use super::tally::Shared;
use crate::ws::{Client, PATIENCE, Received};

/// The number of visitors that share a bucket.
const PER_BUCKET: usize = 50;

/// Names in each bucket.
const NAMES: usize = 20;

pub(super) struct Visitor {
    pub(super) number: usize,
    pub(super) address: SocketAddr,
    pub(super) random: Random,
    pub(super) shared: Rc<Shared>,
}

/// The end of a visit.
enum End {
    Close,
    Goodbye,
    /// Without a word, and for good: its lease ends it.
    Cut,
    /// Without a word, but it comes back for its lock.
    Resume,
}

impl Visitor {
    /// Visits until it is over.
    pub(super) async fn run(mut self) {
        while !self.shared.is_over() {
            if let Err(error) = self.visit().await {
                self.shared.failed(&error);
                sleep(Duration::from_millis(200)).await;
            }
        }
    }

    /// Machines are many: each has an address of its own.
    fn from(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, 1 + (self.number % 16) as u8)
    }

    fn query(&self) -> String {
        format!("?bucket=soak-{}", self.number / PER_BUCKET)
    }

    async fn visit(&mut self) -> Result<()> {
        let (from, query) = (self.from(), self.query());
        let mut client =
            Client::begin(self.address, from, &query, &format!("visitor {}", self.number)).await?;
        let _present = self.shared.comes(self.number);
        let rounds = 2 + self.random.below(12);
        for _ in 0..rounds {
            if self.shared.is_over() {
                break;
            }
            if let Some(held) = self.ask(&mut client).await? {
                client.idle(Duration::from_millis(self.random.below(300) as u64)).await?;
                self.let_go(&mut client, held).await?;
            }
            client.idle(Duration::from_millis(200 + self.random.below(1800) as u64)).await?;
            if self.random.percent(5) {
                self.look(&mut client).await?;
            }
            self.shared.add(|tally| tally.rounds += 1);
        }
        self.leave(client, from, &query).await
    }

    /// Looks at all of its bucket.
    async fn look(&mut self, client: &mut Client) -> Result<()> {
        let id = client.query(false).await?;
        loop {
            match timeout(PATIENCE, client.receive()).await {
                Ok(received) => match received? {
                    Received::Snapshot { id: answered, more } if answered == id => {
                        if !more {
                            return Ok(());
                        }
                    }
                    other => bail!("query {id} was answered with {other:?}"),
                },
                Err(_) => bail!("query {id} was not answered for {} s", PATIENCE.as_secs()),
            }
        }
    }

    /// Asks in one of the ways; the lock, if it was granted.
    async fn ask(&mut self, client: &mut Client) -> Result<Option<u64>> {
        let name = format!("name {}", self.random.below(NAMES));
        let acquire = match self.random.below(10) {
            0..4 => Acquire::Wait(Mode::Exclusive),
            4..7 => Acquire::Wait(Mode::Shared),
            _ => Acquire::IfAvailable(Mode::Exclusive),
        };
        let id = client.request(&name, acquire).await?;
        if matches!(acquire, Acquire::Wait(_)) && self.random.percent(10) {
            // Changes its mind, perhaps too late.
            client.abort(id).await?;
            client.release(id).await?;
            return self.given_up(client, id).await;
        }
        match timeout(PATIENCE, client.receive()).await {
            Ok(received) => match received? {
                Received::Granted { id: granted, .. } if granted == id => {
                    self.shared.add(|tally| tally.granted += 1);
                    Ok(Some(id))
                }
                Received::Refused { id: refused } if refused == id => {
                    self.shared.add(|tally| tally.refused += 1);
                    Ok(None)
                }
                other => bail!("request {id} was answered with {other:?}"),
            },
            Err(_) => bail!("request {id} was not answered for {} s", PATIENCE.as_secs()),
        }
    }

    /// A grant may have been under way; then the lock is held, and released.
    async fn given_up(&mut self, client: &mut Client, id: u64) -> Result<Option<u64>> {
        loop {
            match timeout(PATIENCE, client.receive()).await {
                Ok(received) => match received? {
                    Received::Granted { id: granted, .. } if granted == id => {}
                    Received::Released { id: released, .. } if released == id => {
                        self.shared.add(|tally| tally.given_up += 1);
                        return Ok(None);
                    }
                    other => bail!("request {id}, which was given up, was answered with {other:?}"),
                },
                Err(_) => bail!("release {id} was not answered for {} s", PATIENCE.as_secs()),
            }
        }
    }

    async fn let_go(&mut self, client: &mut Client, id: u64) -> Result<()> {
        client.release(id).await?;
        match timeout(PATIENCE, client.receive()).await {
            Ok(received) => match received? {
                Received::Released { id: released, held: true } if released == id => Ok(()),
                other => bail!("release {id} was answered with {other:?}"),
            },
            Err(_) => bail!("release {id} was not answered for {} s", PATIENCE.as_secs()),
        }
    }

    async fn leave(&mut self, mut client: Client, from: Ipv4Addr, query: &str) -> Result<()> {
        let end = match self.random.below(10) {
            0..3 => End::Close,
            3..6 => End::Goodbye,
            6..8 => End::Cut,
            _ => End::Resume,
        };
        match end {
            End::Close => client.close().await,
            End::Goodbye => client.goodbye().await,
            End::Cut => {
                drop(client.cut());
                self.shared.add(|tally| tally.cut += 1);
                Ok(())
            }
            End::Resume => {
                let held = self.ask(&mut client).await?;
                let session = client.cut();
                let Some(mut client) = Client::resume(self.address, from, query, session).await? else {
                    bail!("a session was gone long before its lease ended");
                };
                self.shared.add(|tally| tally.resumed += 1);
                if let Some(id) = held {
                    self.let_go(&mut client, id).await?;
                }
                client.close().await
            }
        }
    }
}
