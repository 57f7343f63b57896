//! The JavaScript client in Chromium beside Chromium's own `navigator.locks`, by a script of Node.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::process::{self, Server, program, show};
use super::root;
use crate::floor::ECHO;
use crate::report::{Better, Figure};

#[derive(Debug, Deserialize)]
struct Samples {
    ours: Vec<f64>,
    native: Vec<f64>,
    echo: Vec<f64>,
}

/// The rows `js-*`.
pub(super) fn run(ours: &Server, echo: &Server, rounds: u32) -> Result<Vec<Figure>> {
    let node = program("node", &[], "nodejs")?;
    program("chromium", &[], "chromium")?;
    let root = root();
    if !root.join("clients/js/node_modules/playwright-core").exists() {
        let mut install = Command::new("npm");
        install.args(["ci", "--prefix"]).arg(root.join("clients/js"));
        show(&install);
        process::run(install.stdout(Stdio::null()))?;
    }
    let mut script = Command::new(node);
    script
        .arg(root.join("bench/js/locks.mjs"))
        .arg(format!("http://{}", ours.address))
        .arg(format!("ws://{}{ECHO}", echo.address))
        .arg(rounds.to_string());
    show(&script);
    let output = script.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "measuring in Chromium failed: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().context("the script printed nothing")?;
    let samples: BTreeMap<String, Samples> = serde_json::from_str(last)?;
    let figures = |(id, samples): (String, Samples)| {
        let (native, echo) = match &*id {
            "js-1000" => (Some(10.0), None),
            _ => (None, Some(0.9)),
        };
        let beside = |peer, target| Figure::new(id.clone(), peer, "pairs/s", Better::Higher, target);
        [
            beside("Chromium navigator.locks", native).with_samples(samples.ours.clone(), samples.native),
            beside("bare WebSocket echo, sequential", echo).with_samples(samples.ours, samples.echo),
        ]
    };
    Ok(samples.into_iter().flat_map(figures).collect())
}
