//! `cargo xtask mutants`: a ring that no planted bug can turn red proves nothing. Each
//! `tests/mutants/*.patch` is applied to a copy of the tree, where the ring that the patch names must fail by
//! its own verdict.

pub(crate) mod copy;
mod patch;
mod ring;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::rings::run;
use crate::workspace::tree;
use copy::Copy;
use patch::Patch;
use ring::{Judgement, Programs};

/// The number of patches up to which the usual profile builds them, and so begins with the existing
/// artifacts.
const FEW: usize = 20;

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
    /// Only one of each kind of ring, chosen by the seed
    #[arg(long, conflicts_with = "sample")]
    each: bool,
    /// What chooses the sample, usually a commit's hash
    #[arg(long, value_name = "HASH", default_value = "")]
    seed: String,
    /// Write every patch with its fate to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Go on where that file ends: what it tells as caught is not planted again, unless the patch has changed
    /// since
    #[arg(long, requires = "json")]
    resume: bool,
}

/// The result of one patch.
#[derive(Debug, Serialize, Deserialize)]
struct PatchResult {
    name: String,
    promise: String,
    ring: String,
    /// The SHA-256 of the patch.
    patch: String,
    /// The commit that it was planted in.
    commit: String,
    verdict: Verdict,
    seconds: f64,
    /// The failure of the ring, or the reason why the run did not count.
    how: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Caught,
    /// The ring passed with the bug planted.
    Missed,
    /// No judgement was possible: the patch or the ring is broken.
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
    let all = patch::read_all(&root.join("tests/mutants"))?;
    let mut results = match &args.json {
        Some(json) if args.resume && json.exists() => caught_before(json, &all)?,
        _ => Vec::new(),
    };
    if !results.is_empty() {
        println!("{} were caught before", results.len());
    }
    let mut patches = chosen(all, args)?;
    patches.retain(|patch| results.iter().all(|result: &PatchResult| result.name != patch.name));
    if patches.iter().any(|patch| ring::kind(&patch.ring) == "js") {
        run::prepare(&root)?;
    }
    let copy = Copy::new(&root, patches.len() > FEW)?;
    let commit = tree::head(&root)?;
    let mut done = 0;
    for kind in patches.chunk_by(|a, b| ring::kind(&a.ring) == ring::kind(&b.ring)) {
        // The sound tree is judged before the first bug, once for all patches of a ring.
        copy.sync()?;
        let sound = kind
            .chunk_by(|a, b| a.ring == b.ring)
            .map(|patches| Ok((&*patches[0].ring, Sound::judge(&copy, &patches[0].ring)?)))
            .collect::<Result<BTreeMap<_, _>>>()?;
        for patch in kind {
            let result = plant(&copy, patch, &sound[&*patch.ring], &commit)?;
            done += 1;
            let (word, place) = (result.verdict.word(), format!("{done}/{}", patches.len()));
            println!("{word:<6} {place:>7} {:<44} {:>5.1} s  {}", result.name, result.seconds, result.how);
            results.push(result);
            // The file is written after each patch: the whole takes long, and earlier results must not be
            // lost with the rest.
            if let Some(json) = &args.json {
                results.sort_by(|a, b| a.name.cmp(&b.name));
                fs::write(json, serde_json::to_vec_pretty(&results)?)
                    .with_context(|| format!("cannot write {}", json.display()))?;
            }
        }
        copy.sync()?;
    }
    let caught = results.iter().filter(|result| result.verdict == Verdict::Caught).count();
    println!("{} planted, {caught} caught", results.len());
    Ok(caught == results.len())
}

/// The results of an earlier run for patches that are the same now.
fn caught_before(json: &Path, patches: &[Patch]) -> Result<Vec<PatchResult>> {
    let text = fs::read(json).with_context(|| format!("cannot read {}", json.display()))?;
    let mut results: Vec<PatchResult> =
        serde_json::from_slice(&text).with_context(|| json.display().to_string())?;
    let mut same = Vec::new();
    for patch in patches {
        let digest = digest(&patch.file)?;
        let is_same = |result: &PatchResult| {
            result.verdict == Verdict::Caught && result.name == patch.name && result.patch == digest
        };
        if let Some(place) = results.iter().position(is_same) {
            same.push(results.swap_remove(place));
        }
    }
    Ok(same)
}

fn digest(file: &Path) -> Result<String> {
    let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A ring on the tree without any bug: one that fails then would "catch" everything.
struct Sound {
    programs: Programs,
    judgement: Judgement,
    /// The time that the ring ran.
    time: Duration,
}

impl Sound {
    fn judge(copy: &Copy, ring: &str) -> Result<Self> {
        // A ring of the client builds it, which must not happen in the project while others read it.
        let is_built = !copy.is_for_many && ring::kind(ring) != "js";
        let project = is_built.then(|| copy.project());
        let (programs, (judgement, time)) = match Programs::of(copy, ring) {
            Ok(programs) => {
                let place = project.as_ref().unwrap_or(copy);
                let judged = ring::judge(place, ring, &programs, ring::SOUND_LIMIT)?;
                (programs, judged)
            }
            Err(error) => (Programs::default(), (Judgement::Broken(format!("{error:#}")), Duration::ZERO)),
        };
        println!("sound  {:<44} {judgement}", format!("ring: {ring}"));
        Ok(Self { programs, judgement, time })
    }
}

fn plant(copy: &Copy, patch: &Patch, sound: &Sound, commit: &str) -> Result<PatchResult> {
    let started = Instant::now();
    copy.sync()?;
    let judgement = match &sound.judgement {
        Judgement::Passed => match copy.apply(&patch.file)? {
            None => ring::judge(copy, &patch.ring, &sound.programs, ring::limit(sound.time))?.0,
            Some(problem) => Judgement::Broken(format!("the patch does not apply: {problem}")),
        },
        _ => Judgement::Broken(format!("without the bug its ring does not pass either: {}", sound.judgement)),
    };
    Ok(PatchResult {
        name: patch.name.clone(),
        promise: patch.promise.clone(),
        ring: patch.ring.clone(),
        patch: digest(&patch.file)?,
        commit: commit.to_owned(),
        verdict: match judgement {
            Judgement::Failed(_) => Verdict::Caught,
            Judgement::Passed => Verdict::Missed,
            Judgement::Broken(_) => Verdict::Error,
        },
        seconds: started.elapsed().as_secs_f64(),
        // The folder of the project means nothing to readers elsewhere.
        how: judgement.to_string().replace(&*copy.root.display().to_string(), "."),
    })
}

fn chosen(mut patches: Vec<Patch>, args: &Args) -> Result<Vec<Patch>> {
    if let Some(only) = &args.only {
        patches.retain(|patch| patch.name == *only);
    }
    if let Some(ring) = &args.ring {
        patches.retain(|patch| ring::kind(&patch.ring) == ring);
    }
    if let Some(sample) = args.sample {
        patches.sort_by_key(|patch| rank(&args.seed, &patch.name));
        patches.truncate(sample);
    }
    if args.each {
        patches.sort_by_key(|patch| rank(&args.seed, &patch.name));
        let mut kinds = BTreeSet::new();
        patches.retain(|patch| kinds.insert(ring::kind(&patch.ring).to_owned()));
    }
    if patches.is_empty() {
        bail!("no such patch in tests/mutants");
    }
    // Rings of one kind follow one another, and within them the patches of one ring, so that less is built
    // between them.
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

    fn all() -> Args {
        let seed = String::new();
        Args { only: None, ring: None, sample: None, each: false, seed, json: None, resume: false }
    }

    fn names(seed: &str) -> Vec<String> {
        let args = Args { sample: Some(2), seed: seed.into(), ..all() };
        chosen(patches(25), &args).unwrap().into_iter().map(|patch| patch.name).collect()
    }

    #[test]
    fn the_seed_alone_chooses_the_sample() {
        assert_eq!(names("53ae8c3"), names("53ae8c3"));
        let different = (0..20).map(|n| names(&n.to_string())).collect::<BTreeSet<_>>();
        assert!(different.len() > 10);
    }

    #[test]
    fn a_run_goes_on_with_what_was_not_caught_or_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let patch = |name: &str| {
            let file = folder.path().join(format!("{name}.patch"));
            fs::write(&file, format!("promise: p\nring: core\n\n--- {name}\n")).unwrap();
            Patch { name: name.into(), file, promise: "p".into(), ring: "core".into() }
        };
        let patches = ["caught", "missed", "changed"].map(patch);
        let result = |patch: &Patch| PatchResult {
            name: patch.name.clone(),
            promise: "p".into(),
            ring: "core".into(),
            patch: digest(&patch.file).unwrap(),
            commit: "53ae8c3".into(),
            verdict: if patch.name == "missed" { Verdict::Missed } else { Verdict::Caught },
            seconds: 1.0,
            how: "FAIL".into(),
        };
        let json = folder.path().join("mutants.json");
        let results: Vec<PatchResult> = patches.iter().map(result).collect();
        fs::write(&json, serde_json::to_vec(&results).unwrap()).unwrap();
        fs::write(&patches[2].file, "promise: p\nring: core\n\n--- other\n").unwrap();
        let before = caught_before(&json, &patches).unwrap();
        assert_eq!(before.iter().map(|result| &*result.name).collect::<Vec<_>>(), ["caught"]);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        let args = Args { only: Some("p99".into()), ..all() };
        assert!(chosen(patches(3), &args).is_err());
    }

    #[test]
    fn one_of_each_kind_is_one_of_each_first_word() {
        let args = Args { each: true, ..all() };
        let rings: Vec<_> = chosen(patches(25), &args).unwrap().into_iter().map(|patch| patch.ring).collect();
        assert_eq!(rings, ["core", "oracle"]);
    }
}
