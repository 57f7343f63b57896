//! Promise 4 with real processes: every batch that was confirmed to a process is there after SIGKILL.

use std::path::Path;

use crate::place::Folder;
use crate::place::process::{Process, part, report};
use crate::place::writer::{PARTS, Writer};

const KILLS: u64 = 10;

#[tokio::test]
async fn a_batch_reported_as_committed_survives_a_kill() {
    if let Some(file) = part() {
        return write_for_ever(&file).await;
    }
    let folder = Folder::new();
    let file = folder.file("lockhouse.db");
    let mut next = 1;
    let mut epochs = Vec::new();
    for round in 0..KILLS {
        let mut process = Process::start("kill::a_batch_reported_as_committed_survives_a_kill", &file);
        // Killed while it opens the file, or while it writes, sooner or later.
        let mut reported = Vec::new();
        while reported.len() as u64 != round * round {
            reported.push(process.hear().unwrap().parse::<u64>().unwrap());
        }
        process.kill();
        while let Some(line) = process.hear() {
            reported.push(line.parse().unwrap());
        }
        if !file.exists() {
            assert_eq!(reported, [], "killed before there was a file");
            continue;
        }
        let writer = Writer::open(&file).await;
        let found: Vec<u64> = writer.found.keys().copied().collect();
        assert!(writer.found.values().all(|locks| *locks == PARTS), "a batch is there in part");
        let last = reported.last().copied().unwrap_or(next - 1);
        // One more number may have been stored without a confirmation.
        assert!((last..=last + 1).contains(&(found.len() as u64)), "{last} were told, {} found", found.len());
        assert!(found.iter().copied().eq(1..=found.len() as u64));
        epochs.push(writer.opened.epoch);
        next = found.len() as u64 + 1;
        writer.close().await;
    }
    assert!(next > 250, "too little was written to prove anything: {next}");
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

/// The log after a loss of power: it may end anywhere, and anything may follow its end.
#[tokio::test]
async fn a_log_that_was_cut_off_leaves_whole_batches_and_none_after_a_missing_one() {
    let folder = Folder::new();
    let (file, log) = (folder.file("lockhouse.db"), folder.file("lockhouse.db-wal"));
    let mut writer = Writer::open(&file).await;
    // The file itself has the first; the log has the rest.
    writer.keep(1, 100).await.unwrap();
    writer.close().await;
    let mut writer = Writer::open(&file).await;
    for number in 2..=60 {
        writer.keep(number, 500).await.unwrap();
    }
    let (content, logged) = (std::fs::read(&file).unwrap(), std::fs::read(&log).unwrap());
    writer.close().await;
    let mut found = Vec::new();
    // The log is longer than the part that was written.
    let written = logged.len() - logged.iter().rev().take_while(|byte| **byte == 0).count();
    for cut in (0..=40).map(|part| written * part / 40) {
        let mut rest = logged[..cut].to_vec();
        rest.resize(logged.len(), 0xA5);
        std::fs::write(&file, &content).unwrap();
        std::fs::write(&log, rest).unwrap();
        let writer = Writer::open(&file).await;
        assert!(writer.found.values().all(|locks| *locks == PARTS), "a batch is there in part");
        assert!(writer.found.keys().copied().eq(1..=writer.found.len() as u64));
        found.push(writer.found.len());
        writer.close().await;
    }
    assert!(found.is_sorted() && found[0] == 1 && found[40] == 60, "{found:?}");
    found.dedup();
    assert!(found.len() > 20, "{found:?}");
}

/// The other process: stores one number after the other, and reports each.
async fn write_for_ever(file: &Path) {
    let mut writer = Writer::open(file).await;
    for number in writer.found.len() as u64 + 1.. {
        assert_eq!(writer.keep(number, 200).await, Ok(lockhouse_store::CommitOutcome::Committed));
        report(&number.to_string());
    }
}
