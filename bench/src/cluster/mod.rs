//! The suite `cluster`: the server as a node of a fleet over PostgreSQL, beside a table of locks in the same
//! PostgreSQL; and what it costs to come to a node that does not have the bucket.

mod fleet;

use std::path::Path;

use anyhow::{Context, Result};

use self::fleet::Fleet;
use crate::report::{Better, Figure};
use crate::rounds::{Bench, Contender, Sample};
use crate::server as servers;
use crate::server::codec::claims::Claims;
use crate::server::codec::lockhouse::Lockhouse;
use crate::server::codec::postgres_table::{self, PostgresTable};
use crate::server::load::{Measured, Plan, slice};
use crate::server::process::Server;

/// Runs the benches whose ids begin with `only`, of that program or one that is built first.
///
/// # Errors
///
/// A server cannot be started, or does not do what it is asked.
pub fn run(program: Option<&Path>, rounds: u32, only: &str) -> Result<Vec<Figure>> {
    if !["pg-64", "pg-1000", "forwarded"].iter().any(|id| id.starts_with(only)) {
        return Ok(Vec::new());
    }
    servers::on_a_disk(&std::env::temp_dir())?;
    let (program, cpu) = (servers::program_of(program)?, servers::pin()?);
    let postgres = servers::postgres(cpu)?.start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(postgres_table::create(postgres.address))?;
    let running = Running { fleet: Fleet::start(&program, cpu, postgres.address)?, postgres };
    let mut figures = Vec::new();
    for bench in running.benches().into_iter().filter(|bench| bench.id.starts_with(only)) {
        figures.extend(bench.run(rounds)?);
    }
    Ok(figures)
}

/// All servers, which run throughout. The nodes end before the database.
struct Running {
    fleet: Fleet,
    postgres: Server,
}

impl Running {
    fn benches(&self) -> [Bench<'_>; 3] {
        let many = |connections| Plan { connections, on_disk: true, ..Plan::SEPARATE };
        // A thousand clients take turns on a pool of connections, as PostgreSQL wants it.
        let pooled = Plan { connections: 50, clients_each: 20, ..many(0) };
        let bench = |id, contenders| Bench { id, unit: "pairs/s", better: Better::Higher, contenders };
        [
            bench(
                "pg-64",
                vec![self.ours(many(64)), self.table("PostgreSQL lock table", many(64)).target(1.3)],
            ),
            bench(
                "pg-1000",
                vec![
                    self.ours(many(1000)),
                    self.table("PostgreSQL lock table", many(1000)).target(4.0),
                    self.table("PostgreSQL lock table, pool of 50", pooled),
                ],
            ),
            Bench {
                id: "forwarded",
                unit: "CPU µs/pair of the nodes",
                better: Better::Lower,
                contenders: vec![
                    self.web_locks("lockhouse", &self.fleet.other),
                    self.web_locks("directly", &self.fleet.owner).target(2.2),
                ],
            },
        ]
    }

    /// Claims at the node that has their bucket. The CPU of PostgreSQL counts, as does that of the other
    /// node.
    fn ours(&self, plan: Plan) -> Contender<'_> {
        let Self { fleet: Fleet { owner, other, .. }, postgres } = self;
        let (servers, database) = (vec![owner, other, postgres], Some(postgres));
        let measured = Measured { address: owner.address, servers, database };
        Contender::new("lockhouse", move || slice::<Claims>(&measured, plan))
    }

    fn table(&self, name: &'static str, plan: Plan) -> Contender<'_> {
        let postgres = &self.postgres;
        let measured = Measured { database: Some(postgres), ..postgres.into() };
        Contender::new(name, move || slice::<PostgresTable>(&measured, plan))
    }

    /// Web locks through that node. The CPU of both nodes counts.
    fn web_locks(&self, name: &'static str, through: &Server) -> Contender<'_> {
        let servers = vec![&self.fleet.owner, &self.fleet.other];
        let measured = Measured { address: through.address, servers, database: None };
        Contender::new(name, move || cpu_of_servers(slice::<Lockhouse>(&measured, Plan::SEPARATE)?))
    }
}

/// The sample, with the CPU time of the servers as its value.
fn cpu_of_servers(mut sample: Sample) -> Result<Sample> {
    let at = sample.asides.iter().position(|aside| aside.suffix == "cpu-server");
    sample.value = sample.asides.remove(at.context("a sample without the CPU time of the servers")?).value;
    Ok(sample)
}
