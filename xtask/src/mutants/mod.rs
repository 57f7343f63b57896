//! `cargo xtask mutants`: a ring that no planted bug can turn red proves nothing. Each `tests/mutants/*.patch` is applied to a
//! copy of the tree, where the ring that the patch names must fail by its own verdict.

mod copy;
mod patch;
mod ring;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::tree;
use copy::Copy;
use patch::Patch;
use ring::Judgement;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Only the patch of this name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Only those that this ring must catch, such as `crash`
    #[arg(long, value_name = "RING")]
    ring: Option<String>,
    /// Only so many of them, chosen by the seed
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// What chooses the sample, usually a commit's hash
    #[arg(long, value_name = "HASH", default_value = "")]
    seed: String,
    /// Write every patch with its fate to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What became of one patch.
#[derive(Debug, Serialize)]
struct Fate {
    name: String,
    promise: String,
    ring: String,
    verdict: Verdict,
    seconds: f64,
    /// How the ring failed, or why it did not count.
    how: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Caught,
    /// The ring passed with the bug planted.
    Missed,
    /// There was nothing to judge: the patch or the ring is broken.
    Error,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Caught => "caught",
            Verdict::Missed => "MISSED",
            Verdict::Error => "ERROR",
        }
    }
}

pub(crate) fn run(args: &Args) -> crate::Verdict {
    let root = tree::root()?;
    let patches = chosen(patch::read_all(&root.join("tests/mutants"))?, args)?;
    let copy = Copy::new(&root)?;
    let sound = judge_sound_tree(&copy, &patches)?;
    let mut fates = Vec::new();
    for patch in &patches {
        let fate = plant(&copy, patch, &sound[&patch.ring])?;
        println!("{:<6} {:<44} {:>5.1} s  {}", fate.verdict.word(), fate.name, fate.seconds, fate.how);
        fates.push(fate);
    }
    if let Some(json) = &args.json {
        fs::write(json, serde_json::to_vec_pretty(&fates)?)
            .with_context(|| format!("cannot write {}", json.display()))?;
    }
    let caught = fates.iter().filter(|fate| fate.verdict == Verdict::Caught).count();
    println!("{} planted, {caught} caught", fates.len());
    Ok(caught == fates.len())
}

/// Runs each ring once without any bug: one that fails then would "catch" everything.
fn judge_sound_tree(copy: &Copy, patches: &[Patch]) -> Result<BTreeMap<String, Judgement>> {
    let mut sound = BTreeMap::new();
    copy.sync()?;
    for patch in patches {
        if !sound.contains_key(&patch.ring) {
            let judgement = ring::judge(copy, &patch.ring)?;
            println!("sound  {:<44} {judgement}", format!("ring: {}", patch.ring));
            sound.insert(patch.ring.clone(), judgement);
        }
    }
    Ok(sound)
}

fn plant(copy: &Copy, patch: &Patch, sound: &Judgement) -> Result<Fate> {
    let started = Instant::now();
    copy.sync()?;
    let judgement = match sound {
        Judgement::Passed => match copy.apply(&patch.file)? {
            None => ring::judge(copy, &patch.ring)?,
            Some(problem) => Judgement::Broken(format!("the patch does not apply: {problem}")),
        },
        _ => Judgement::Broken(format!("without the bug its ring does not pass either: {sound}")),
    };
    copy.sync()?;
    Ok(Fate {
        name: patch.name.clone(),
        promise: patch.promise.clone(),
        ring: patch.ring.clone(),
        verdict: match judgement {
            Judgement::Failed(_) => Verdict::Caught,
            Judgement::Passed => Verdict::Missed,
            Judgement::Broken(_) => Verdict::Error,
        },
        seconds: started.elapsed().as_secs_f64(),
        how: judgement.to_string(),
    })
}

fn chosen(mut patches: Vec<Patch>, args: &Args) -> Result<Vec<Patch>> {
    if let Some(only) = &args.only {
        patches.retain(|patch| patch.name == *only);
    }
    if let Some(ring) = &args.ring {
        patches.retain(|patch| patch.ring.split(' ').next() == Some(ring));
    }
    if let Some(sample) = args.sample {
        patches.sort_by_key(|patch| rank(&args.seed, &patch.name));
        patches.truncate(sample);
    }
    if patches.is_empty() {
        bail!("no such patch in tests/mutants");
    }
    // Patches of one ring follow one another, so that less is built between them.
    patches.sort_by(|a, b| (&a.ring, &a.name).cmp(&(&b.ring, &b.name)));
    Ok(patches)
}

/// A fixed hash: the same commit chooses the same patches everywhere.
fn rank(seed: &str, name: &str) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(seed.as_bytes());
    hasher.write(&[0]);
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// The name of a patch: its file's, without the extension.
fn name_of(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patches(count: usize) -> Vec<Patch> {
        let patch = |n: usize| Patch {
            name: format!("p{n}"),
            file: format!("p{n}.patch").into(),
            promise: "promise".into(),
            ring: if n < 12 { "core".into() } else { "oracle".into() },
        };
        (0..count).map(patch).collect()
    }

    fn names(seed: &str) -> Vec<String> {
        let args = Args { only: None, ring: None, sample: Some(2), seed: seed.into(), json: None };
        chosen(patches(25), &args).unwrap().into_iter().map(|patch| patch.name).collect()
    }

    #[test]
    fn the_seed_alone_chooses_the_sample() {
        assert_eq!(names("53ae8c3"), names("53ae8c3"));
        let different = (0..20).map(|n| names(&n.to_string())).collect::<std::collections::BTreeSet<_>>();
        assert!(different.len() > 10);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        let args =
            Args { only: Some("p99".into()), ring: None, sample: None, seed: String::new(), json: None };
        assert!(chosen(patches(3), &args).is_err());
    }
}
