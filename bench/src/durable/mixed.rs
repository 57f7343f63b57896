//! The cost of a client with durable claims for clients that take web locks on other names of its bucket.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::sequence::{pairs, percentile};
use crate::report::Better;
use crate::rounds::{Aside, Bench, Contender, Sample};
use crate::server::codec::claims::Claims;
use crate::server::codec::lockhouse::Lockhouse;
use crate::server::process::Server;

const MEASURED: Duration = Duration::from_millis(1500);
/// The first web lock of a bucket is announced once the store knows that there are some.
const WARM_UP: usize = 10;

/// `other` is a server of its own on the same CPU: what the durable client costs from there, it costs by the
/// CPU alone.
pub(super) fn bench<'a>(server: &'a Server, other: &'a Server) -> Bench<'a> {
    let contenders = vec![
        Contender::new("lockhouse", || measure(server, Some(server))),
        Contender::new("without the durable client", || measure(server, None)).target(1.5),
        Contender::new("the durable client on another server", || measure(server, Some(other))),
    ];
    Bench { id: "mixed", unit: "µs/pair, p50", better: Better::Lower, contenders }
}

fn measure(server: &Server, durable: Option<&Server>) -> Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_mixed = durable.is_some();
    let (web, durable) = LocalSet::new().block_on(&runtime, async {
        let stop = Rc::new(Cell::new(false));
        let web = spawn_local(pairs::<Lockhouse>(server.address, "web", stop.clone()));
        let durable = durable.map(|it| spawn_local(pairs::<Claims>(it.address, "durable", stop.clone())));
        sleep(MEASURED).await;
        stop.set(true);
        let durable = match durable {
            Some(durable) => durable.await??,
            None => Vec::new(),
        };
        anyhow::Ok((web.await??, durable))
    })?;
    ensure!(web.len() > 2 * WARM_UP, "only {} pairs", web.len());
    ensure!(is_mixed != durable.is_empty(), "{} durable pairs", durable.len());
    let web = &web[WARM_UP..];
    let p99 = Aside { suffix: "p99", unit: "µs/pair", better: Better::Lower, value: percentile(web, 0.99) };
    Ok(Sample::of(percentile(web, 0.5)).with(p99))
}
