//! `cargo xtask secrets`: no secret stands in a log. The tests leave their logs and what was secret in them
//! in one folder; this looks through it.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args as ClapArgs;
use serde_json::json;
use traces::{Found, Kind};

use crate::Verdict;
use crate::workspace::tree;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Where the traces are, instead of where `cargo xtask test` leaves them
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Fewer logs, or less in them, are not those of the tests.
const LEAST_LOGS: usize = 100;
const LEAST_BYTES: usize = 256 << 10;

/// The number of leaks that are shown.
const SHOWN: usize = 20;

/// Fewer secrets of a kind are not those of the tests: the tests of the server make more.
fn least(kind: Kind) -> usize {
    match kind {
        Kind::SessionSecret => 50,
        Kind::OwnerSecret | Kind::ClaimToken => 20,
        Kind::ApiKey => 10,
        Kind::Token | Kind::PrivateKey => 4,
        Kind::SigningKey | Kind::OperatorSecret | Kind::Ticket => 1,
    }
}

pub(crate) fn run(args: &Args) -> Verdict {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => tree::traces_folder(&tree::root()?)?,
    };
    let found = traces::search(&folder)?;
    for leak in found.leaks.iter().take(SHOWN) {
        println!("error: {}/{leak}", folder.display());
    }
    for (kind, count) in &found.secrets {
        println!("{count:>8} × {}", kind.words());
    }
    let Found { logs, bytes, leaks, .. } = &found;
    if let Some(file) = &args.json {
        let secrets: usize = found.secrets.values().sum();
        let result = json!({"logs": logs, "bytes": bytes, "secrets": secrets, "leaks": leaks.len()});
        std::fs::write(file, result.to_string())?;
    }
    println!("{logs} logs of {} KiB tell {} secrets", bytes >> 10, leaks.len());
    if !leaks.is_empty() {
        return Ok(false);
    }
    enough(&found)?;
    Ok(true)
}

/// Checks that there was enough to search: nothing is found in empty logs.
fn enough(found: &Found) -> anyhow::Result<()> {
    ensure!(
        found.logs >= LEAST_LOGS && found.bytes >= LEAST_BYTES,
        "{} logs of {} bytes prove nothing: the ring rust leaves {LEAST_LOGS} of {LEAST_BYTES} at least",
        found.logs,
        found.bytes
    );
    for kind in Kind::ALL {
        let there = found.secrets.get(&kind).copied().unwrap_or_default();
        ensure!(
            there >= least(kind),
            "{there} secrets of the kind {:?} prove nothing: the rings rust and matrix make {} at least",
            kind.words(),
            least(kind)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_with_nothing_to_find_proves_nothing() {
        let all = || Found {
            logs: LEAST_LOGS,
            bytes: LEAST_BYTES,
            secrets: Kind::ALL.map(|kind| (kind, least(kind))).into(),
            leaks: Vec::new(),
        };
        assert!(enough(&all()).is_ok());
        assert!(enough(&Found { logs: 0, ..all() }).is_err());
        assert!(enough(&Found { bytes: 10, ..all() }).is_err());
        for kind in Kind::ALL {
            let mut few = all();
            few.secrets.remove(&kind);
            assert!(enough(&few).unwrap_err().to_string().contains(kind.words()));
        }
    }
}
