//! `cargo xtask soak-crowd`: the process of all visitors. The process answers each line of its input with a
//! report of their work, as a line of JSON.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use random::Random;
use tokio::task::LocalSet;

use super::tally::Shared;
use super::visitor::Visitor;
use crate::Verdict;
use crate::serving::{questions, send_report};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    visitors: usize,
    #[arg(long)]
    seed: u64,
    /// How many come in a second until all are there
    #[arg(long)]
    per_second: usize,
}

pub(crate) fn run(args: &Args) -> Verdict {
    super::measure::raise_open_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, visit(args))?;
    Ok(true)
}

async fn visit(args: &Args) -> Result<()> {
    let shared = Shared::new(args.visitors);
    let mut asked = questions();
    let mut visitors = Vec::with_capacity(args.visitors);
    let coming = async {
        for number in 0..args.visitors {
            let random = Random::new(args.seed.wrapping_add(number as u64));
            let visitor = Visitor { number, address: args.address, random, shared: shared.clone() };
            visitors.push(tokio::task::spawn_local(visitor.run()));
            if number % 10 == 9 {
                tokio::time::sleep(Duration::from_secs(1) * 10 / args.per_second as u32).await;
            }
        }
    };
    let answering = async {
        // An empty line is a question, the end of the input the end.
        while asked.recv().await.is_some() {
            send_report(&shared.tally())?;
        }
        anyhow::Ok(())
    };
    let (answered, ()) = tokio::join!(answering, coming);
    answered?;
    shared.end();
    for visitor in visitors {
        visitor.await.context("a visitor fell over")?;
    }
    send_report(&shared.tally())
}
