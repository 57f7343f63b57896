//! `cargo xtask matrix`: every route and every frame with every kind of credential, against a real server.
//!
//! The required outcome of each cell is computed from the table of the needs of each route and from the
//! permissions of a credential; the server has no say in it. A route or frame that the server or its
//! documents know and the table does not, or the other way round, is wrong as well.

mod certificates;
mod credentials;
mod frames;
mod http;
mod table;
mod world;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;
use xtask::workspace::tree;

use self::world::World;
use crate::Verdict;

/// A run with fewer cells has proved nothing.
const LEAST_CELLS: u64 = 2000;

/// The number of wrong cells after which no more are checked: each may cost a full timeout.
const ENOUGH: usize = 8;

/// The number of wrong cells that are shown.
const SHOWN: usize = 20;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Write the result here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The number of cells, and the wrong ones.
#[derive(Debug, Default)]
struct RunTally {
    cells: u64,
    wrong: Vec<String>,
}

impl RunTally {
    /// Counts a cell, and notes the complaint about it.
    fn judge(&mut self, wrong: Option<String>) {
        self.cells += 1;
        self.wrong.extend(wrong);
    }

    fn wrong(&mut self, why: String) {
        self.judge(Some(why));
    }
}

pub(crate) fn run(args: &Args) -> Verdict {
    let root = tree::root()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let tally = runtime.block_on(async {
        let world = World::begin().await?;
        let mut tally = RunTally::default();
        http::check_document(&world, &mut tally).await?;
        frames::check_document(&root, &mut tally)?;
        http::run(&world, &mut tally).await?;
        frames::run(&world, &mut tally).await?;
        Ok::<_, anyhow::Error>(tally)
    })?;
    for why in tally.wrong.iter().take(SHOWN) {
        println!("wrong: {why}");
    }
    let (cells, wrong) = (tally.cells, tally.wrong.len());
    if let Some(file) = &args.json {
        std::fs::write(file, json!({"cells": cells, "wrong": wrong}).to_string())?;
    }
    println!("{cells} cells, {wrong} wrong");
    if wrong > 0 {
        return Ok(false);
    }
    anyhow::ensure!(
        cells >= LEAST_CELLS,
        "a run of {cells} cells proves nothing: there are {LEAST_CELLS} at least"
    );
    Ok(true)
}
