//! The suite `durable`: state that is on the disk before the answer, beside peers that promise the same.

mod caller;
mod crowd;
mod expiry;
mod mixed;
mod restart;
mod sequence;
mod sqlite;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::report::{Better, Figure};
use crate::rounds::{Bench, Contender};
use crate::server::codec::claims::Claims;
use crate::server::codec::etcd::Etcd;
use crate::server::codec::postgres_table::{self, PostgresTable};
use crate::server::codec::redis::Redis;
use crate::server::load::Plan;
use crate::server::process::{Recipe, Server};
use crate::server::{self as servers, contender};

/// Runs the benches whose ids begin with `only`, of that program or one that is built first. With
/// `slow_syncs` only those in which syncs count, where each takes so much longer.
pub fn run(
    program: Option<&Path>,
    rounds: u32,
    only: &str,
    slow_syncs: Option<Duration>,
) -> Result<Vec<Figure>> {
    let wanted = |id: &str| id.starts_with(only);
    servers::on_a_disk(&std::env::temp_dir())?;
    let (program, cpu) = (servers::program_of(program)?, servers::pin()?);
    let mut figures = Vec::new();
    if ["durable-1", "durable-64", "durable-1000"].into_iter().any(wanted) {
        let running = DurableServers::start(&program, cpu, slow_syncs)?;
        for bench in running.benches().into_iter().filter(|bench| wanted(bench.id)) {
            figures.extend(bench.run(rounds)?);
        }
    }
    if wanted("mixed") {
        let ours =
            || servers::lockhouse(&program, Some(cpu), servers::ON_DISK).with_slow_syncs(slow_syncs)?.start();
        let (ours, other) = (ours()?, ours()?);
        figures.extend(mixed::bench(&ours, &other).run(rounds)?);
    }
    if slow_syncs.is_some() {
        return Ok(figures);
    }
    if wanted("http-64") {
        let ours = servers::lockhouse(&program, Some(cpu), servers::IN_MEMORY).start()?;
        let redis = servers::redis(cpu, servers::FORGETFUL)?.start()?;
        let (bare, table) = (
            servers::floor(Some(cpu), &[])?.start()?,
            servers::floor(Some(cpu), &["--floor-claims"])?.start()?,
        );
        figures.extend(http(&ours, &redis, &bare, &table).run(rounds)?);
    }
    for size in restart::SIZES.into_iter().filter(|size| wanted(size.id)) {
        figures.extend(restart::run(&program, cpu, size, rounds)?);
    }
    if wanted("expiry") {
        figures.extend(expiry::run(&program, cpu, rounds)?);
    }
    Ok(figures)
}

/// The servers whose answers are durable.
struct DurableServers {
    ours: Server,
    redis: Server,
    postgres: Server,
    etcd: Server,
    floor: Server,
    rows: Server,
    table: Server,
    has_sqlite: bool,
}

/// Has a bare server keep the rows that ours keeps.
const ROWS: &[&str] = &["--floor-keeps", "{folder}/rows.db", "--floor-rows"];

impl DurableServers {
    fn start(ours: &Path, cpu: usize, slow_syncs: Option<Duration>) -> Result<Self> {
        let start = |recipe: Recipe| recipe.with_slow_syncs(slow_syncs)?.start();
        let postgres = start(servers::postgres(cpu)?)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(postgres_table::create(postgres.address))?;
        Ok(Self {
            ours: start(servers::lockhouse(ours, Some(cpu), servers::ON_DISK))?,
            redis: start(servers::redis(cpu, servers::EVERY_WRITE)?)?,
            postgres,
            etcd: start(servers::etcd(cpu)?)?,
            floor: start(servers::floor(Some(cpu), &["--floor-keeps", "{folder}/records"])?)?,
            rows: start(servers::floor(Some(cpu), ROWS)?)?,
            table: start(servers::floor(Some(cpu), &[ROWS, &["--floor-claims"]].concat())?)?,
            // Its syncs are those of this very process, which nothing makes slower.
            has_sqlite: slow_syncs.is_none(),
        })
    }

    fn benches(&self) -> [Bench<'_>; 3] {
        let Self { ours, redis, postgres, etcd, floor, rows, table, has_sqlite } = self;
        let many = |connections| Plan { connections, on_disk: true, ..Plan::SEPARATE };
        // A thousand clients take turns on a pool of connections, as PostgreSQL wants it.
        let pooled = Plan { connections: 50, clients_each: 20, ..many(0) };
        let ours = |plan| contender::<Claims>("lockhouse", ours, plan);
        let redis = |plan| contender::<Redis>("Redis 7, appendfsync always", redis, plan);
        let postgres_table = |plan| contender::<PostgresTable>("PostgreSQL lock table", postgres, plan);
        let etcd = |plan| contender::<Etcd>("etcd v3lock", etcd, plan);
        let floor = |plan| contender::<Claims>("bare HTTP and fdatasync", floor, plan);
        let rows = |plan| contender::<Claims>("bare HTTP and SQLite", rows, plan);
        let sqlite = |threads| {
            Contender::new("SQLite, a transaction for each operation", move || sqlite::slice(threads))
        };
        let one = many(1);
        let mut of_one = vec![
            ours(one),
            redis(one).target(0.9),
            postgres_table(one).target(0.9),
            etcd(one),
            floor(one),
            rows(one),
            contender::<Claims>("bare HTTP with JSON, a lock table and SQLite", table, one),
        ];
        let few = many(64);
        let mut of_few = vec![
            ours(few),
            redis(few).target(1.2),
            postgres_table(few).target(1.2),
            etcd(few).target(2.5),
            floor(few),
            rows(few),
        ];
        let crowd = many(1000);
        let of_many = vec![
            ours(crowd),
            postgres_table(crowd).target(4.0),
            contender::<PostgresTable>("PostgreSQL lock table, pool of 50", postgres, pooled).target(4.0),
            redis(crowd),
            floor(crowd),
            rows(crowd),
        ];
        if *has_sqlite {
            of_one.push(sqlite(1));
            of_few.push(sqlite(64));
        }
        let bench = |id, contenders| Bench { id, unit: "pairs/s", better: Better::Higher, contenders };
        [bench("durable-1", of_one), bench("durable-64", of_few), bench("durable-1000", of_many)]
    }
}

/// Neither side keeps anything.
fn http<'a>(ours: &'a Server, redis: &'a Server, bare: &'a Server, table: &'a Server) -> Bench<'a> {
    let contenders = vec![
        contender::<Claims>("lockhouse", ours, Plan::SEPARATE),
        contender::<Redis>("Redis 7, 64 connections", redis, Plan::SEPARATE).target(0.8),
        contender::<Claims>("bare HTTP", bare, Plan::SEPARATE),
        contender::<Claims>("bare HTTP with JSON and a lock table", table, Plan::SEPARATE),
    ];
    Bench { id: "http-64", unit: "pairs/CPU s", better: Better::Higher, contenders }
}
