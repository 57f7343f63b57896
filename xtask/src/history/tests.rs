//! The planted histories of tests/histories: the good ones pass, and of the bad ones the verdict names what is wrong.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::breach::Kind;
use super::judge_file;

/// What `tests/histories/verdicts.json` asks of a file.
#[derive(Deserialize)]
struct Wanted {
    /// Parts of the error, for a file that is not judged.
    error: Option<Vec<String>>,
    /// How many are lost, overlap, regress, are assigned twice.
    breaches: Option<[usize; 4]>,
    /// Parts of the accounts.
    #[serde(default)]
    says: Vec<String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/histories")
}

fn wanted() -> BTreeMap<String, Wanted> {
    serde_json::from_slice(&std::fs::read(folder().join("verdicts.json")).unwrap()).unwrap()
}

/// The differences between what is wanted and what the judge says.
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
fn planted_histories_are_judged_as_they_must_be() {
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
