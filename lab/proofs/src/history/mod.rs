//! `cargo xtask check-history`: judges a history that clients wrote while their server was killed and started
//! again.
//!
//! ```text
//! lines ──read──▶ events ──pair──▶ operations ──story, per name──▶ facts and sights ──▶ overlaps, keeping,
//!                                      │                                                assignments
//!                                      └──────────────────────────────────────────────▶ tokens, per bucket
//! A restore of a backup or a failover begins a new stretch; all but tokens and web locks is judged within
//! each. What outlives failovers is judged once more.
//! ```
//! docs/histories.md describes the format and the rules. No module here knows how lockhouse works inside.

mod assignments;
pub mod breach;
mod ends;
mod keeping;
mod overlaps;
mod owners;
mod pair;
pub mod read;
pub mod record;
mod story;
mod tokens;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::Verdict;
use crate::evidence;
use breach::{Breach, Kind, Reporter};
use owners::OwnerLives;
use pair::History;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The history, as docs/histories.md describes it
    #[arg(value_name = "FILE")]
    history: PathBuf,
    /// Write the result to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: &Args) -> Verdict {
    let judgement = judge_file(&args.history)?;
    judgement.show();
    if let Some(path) = &args.json {
        evidence::write(path, judgement.json())?;
    }
    println!("{}", judgement.total());
    Ok(judgement.breaches.is_empty())
}

/// The number of breaches that are reported in full.
const SHOWN: usize = 50;

/// The findings of the judge.
#[derive(Debug)]
pub struct Findings {
    pub events: usize,
    /// The number of answers that were durable acknowledgements.
    pub acknowledged: usize,
    /// The number of calls that present a token to the fence.
    passes: usize,
    pub breaches: Vec<Breach>,
}

/// Judges a file.
///
/// # Errors
///
/// The file cannot be read, is malformed, or proves too little.
pub fn judge_file(path: &Path) -> anyhow::Result<Findings> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    judge(BufReader::with_capacity(1 << 20, file)).with_context(|| path.display().to_string())
}

/// Judges the lines of a history.
///
/// # Errors
///
/// As for [`judge_file`].
pub fn judge(lines: impl BufRead) -> anyhow::Result<Findings> {
    let history = History::read(lines)?;
    if history.acknowledged == 0 {
        bail!("proves nothing: none of the {} events is a durable acknowledgement", history.events);
    }
    judge_history(&history)
}

/// Judges the events of a history that was never written down; the number of an event stands for that of its
/// line. It is one of many that were played: nothing in it need have become durable.
///
/// # Errors
///
/// As for [`judge_file`], otherwise.
pub fn judge_events(events: impl IntoIterator<Item = record::Event>) -> anyhow::Result<Findings> {
    judge_history(&History::of(events)?)
}

fn judge_history(history: &History) -> anyhow::Result<Findings> {
    refuse_too_little(history)?;
    let reporter = Reporter::of(history);
    let mut breaches = Vec::new();
    tokens::judge(history, &reporter, &mut breaches);
    overlaps::fence::judge(history, &reporter, &mut breaches);
    if history.restores.is_empty() && history.failovers.is_empty() {
        judge_stretch(history, &reporter, &mut breaches);
    } else {
        history.stretches().iter().for_each(|stretch| judge_stretch(stretch, &reporter, &mut breaches));
        // Web locks that are held over a restore are judged before and after it, and others with what
        // outlives a failover.
        let mut reported = HashSet::new();
        breaches.retain(|breach| reported.insert(breach.account.clone()));
    }
    Ok(Findings {
        events: history.events,
        acknowledged: history.acknowledged,
        passes: history.passes.len(),
        breaches,
    })
}

fn judge_stretch(history: &History, reporter: &Reporter, breaches: &mut Vec<Breach>) {
    let owners = OwnerLives::of(history);
    keeping::judge_owners(history, &owners, reporter, breaches);
    for story in story::stories(history, &owners) {
        overlaps::judge(&story, reporter, breaches);
        keeping::judge(&story, reporter, breaches);
        assignments::judge(&story, reporter, breaches);
    }
}

/// A history without a look at what became of its acknowledgements would pass whatever the server did.
fn refuse_too_little(history: &History) -> anyhow::Result<()> {
    let last_kill = history.kills.last().copied().unwrap_or(0);
    let durable = history.ops.iter().filter(|op| op.gain().is_some_and(|(_, durable)| durable));
    for bucket in durable.map(|op| op.bucket.as_str()).collect::<std::collections::BTreeSet<_>>() {
        let shown =
            |after| history.readouts.iter().any(|readout| readout.bucket == bucket && readout.began > after);
        if !shown(last_kill) {
            bail!(
                "proves too little: bucket {bucket:?} has durable acknowledgements, but no read-out after the server's last start"
            );
        }
    }
    Ok(())
}

impl Findings {
    pub fn count(&self, kind: Kind) -> usize {
        self.breaches.iter().filter(|breach| breach.kind == kind).count()
    }

    /// Prints the breaches in full.
    pub fn show(&self) {
        for breach in self.breaches.iter().take(SHOWN) {
            println!("{}\n", breach.account);
        }
        if self.breaches.len() > SHOWN {
            println!("and {} breaches more\n", self.breaches.len() - SHOWN);
        }
    }

    /// The whole result in one line.
    pub fn total(&self) -> String {
        format!("{} events, {}", self.events, self.verdict())
    }

    /// The counts of acknowledged things and of breaches.
    pub fn verdict(&self) -> String {
        let past_the_fence = match self.passes {
            0 => String::new(),
            _ => format!(" {} overlaps past the fence,", self.count(Kind::OverlapPastFence)),
        };
        format!(
            "{} acknowledged, {} lost, {} overlaps,{past_the_fence} {} token regressions, {} double assignments",
            self.acknowledged,
            self.count(Kind::Lost),
            self.count(Kind::Overlap),
            self.count(Kind::TokenRegression),
            self.count(Kind::DoubleAssignment)
        )
    }

    /// The counts of breaches, for a history whose clients pass a fence.
    pub fn chaos(&self) -> String {
        format!(
            "{} lost, {} overlaps past the fence, {} overlaps among running clients, {} token regressions, {} double assignments",
            self.count(Kind::Lost),
            self.count(Kind::OverlapPastFence),
            self.count(Kind::Overlap),
            self.count(Kind::TokenRegression),
            self.count(Kind::DoubleAssignment)
        )
    }

    /// The same for programs.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "events": self.events,
            "acknowledged": self.acknowledged,
            "lost": self.count(Kind::Lost),
            "overlaps": self.count(Kind::Overlap),
            "overlapsPastTheFence": self.count(Kind::OverlapPastFence),
            "tokenRegressions": self.count(Kind::TokenRegression),
            "doubleAssignments": self.count(Kind::DoubleAssignment),
            "breaches": self.breaches.iter().map(|breach| &breach.account).collect::<Vec<_>>(),
        })
    }
}
