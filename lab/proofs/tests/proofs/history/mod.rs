//! The planted histories of tests/histories: the good ones pass, and of the bad ones the verdict names what
//! is wrong.

mod failover;
mod fence;
mod mutate;
mod naive;

use std::collections::BTreeMap;
use std::path::PathBuf;

use random::Random;
use serde::Deserialize;

use self::naive::Plan;
use proofs::history::breach::Kind;
use proofs::history::record::Event;
use proofs::history::{judge, judge_file, read};

/// The verdict that `tests/histories/verdicts.json` expects for a file.
#[derive(Deserialize)]
struct Wanted {
    /// Parts of the error, for a file that is not judged.
    error: Option<Vec<String>>,
    /// The counts of lost things, overlaps, token regressions and double assignments.
    breaches: Option<[usize; 4]>,
    /// Parts of the accounts.
    #[serde(default)]
    says: Vec<String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/histories")
}

fn wanted() -> BTreeMap<String, Wanted> {
    serde_json::from_slice(&std::fs::read(folder().join("verdicts.json")).unwrap()).unwrap()
}

/// The differences between the expected verdict and the judge's.
fn differences(name: &str, wanted: &Wanted) -> Vec<String> {
    let (text, counts) = match judge_file(&folder().join(name)) {
        Err(error) => (format!("{error:#}"), None),
        Ok(judgement) => {
            let kinds = [Kind::Lost, Kind::Overlap, Kind::TokenRegression, Kind::DoubleAssignment];
            let accounts: Vec<&str> =
                judgement.breaches.iter().map(|breach| breach.account.as_str()).collect();
            (accounts.join("\n"), Some(kinds.map(|kind| judgement.count(kind))))
        }
    };
    let mut wrong = Vec::new();
    if counts != wanted.breaches {
        wrong.push(format!("{name}: {counts:?} instead of {:?}\n{text}", wanted.breaches));
    }
    for part in wanted.error.iter().flatten().chain(&wanted.says) {
        if !text.contains(part.as_str()) {
            wrong.push(format!("{name}: {part:?} is not in\n{text}"));
        }
    }
    wrong
}

#[test]
fn planted_histories_get_their_verdicts() {
    let wrong: Vec<String> = wanted().iter().flat_map(|(name, wanted)| differences(name, wanted)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_planted_history_has_a_verdict_and_every_kind_is_planted() {
    let wanted = wanted();
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".jsonl"))
        .collect();
    files.sort();
    assert_eq!(files, wanted.keys().cloned().collect::<Vec<_>>());
    for nth in 0..4 {
        let planted =
            wanted.values().filter(|wanted| wanted.breaches.is_some_and(|breaches| breaches[nth] > 0));
        assert!(planted.count() >= 3, "fewer than 3 histories with a breach of kind {nth}");
    }
    assert!(wanted.values().filter(|wanted| wanted.breaches == Some([0; 4])).count() >= 4);
}

/// The lines of these events, as clients write them.
fn lines(events: &[Event]) -> Vec<u8> {
    let mut lines = Vec::new();
    for event in events {
        serde_json::to_writer(&mut lines, event).unwrap();
        lines.push(b'\n');
    }
    lines
}

const PLAN: Plan = Plan { clients: 6, names: 4, kills: 3, length_ms: 300 };

#[test]
fn every_event_is_read_as_it_was_written() {
    for event in naive::history(1, &PLAN) {
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(read::event(1, &line).unwrap(), event, "{line}");
    }
}

#[test]
fn the_history_of_a_correct_table_has_no_breach() {
    for seed in 0..SEEDS {
        let judgement = judge(&*lines(&naive::history(seed, &PLAN))).unwrap();
        let accounts: Vec<&str> = judgement.breaches.iter().map(|breach| breach.account.as_str()).collect();
        assert!(accounts.is_empty(), "seed {seed}: {}", accounts.join("\n"));
        println!("{}", judgement.total());
        assert!(judgement.acknowledged >= 50, "seed {seed} proves little: {}", judgement.total());
    }
}

#[test]
fn a_history_with_one_thing_changed_is_a_breach() {
    let mut occasions = [0; mutate::MUTATIONS.len()];
    for seed in 0..SEEDS {
        let events = naive::history(seed, &PLAN);
        for (mutation, occasions) in mutate::MUTATIONS.iter().zip(&mut occasions) {
            let Some(spoilt) = (mutation.spoil)(&events, &mut Random::new(seed)) else { continue };
            *occasions += 1;
            let judgement = judge(&*lines(&spoilt)).unwrap();
            assert!(
                judgement.count(mutation.kind) > 0,
                "seed {seed}, {}: {}",
                mutation.name,
                judgement.total()
            );
        }
    }
    for (mutation, occasions) in mutate::MUTATIONS.iter().zip(occasions) {
        println!("{occasions} occasions: {}", mutation.name);
        assert!(occasions >= SEEDS / 10, "{}: only {occasions} in {SEEDS} histories", mutation.name);
    }
}

/// The number of histories on which the properties are tried.
const SEEDS: u64 = 60;
