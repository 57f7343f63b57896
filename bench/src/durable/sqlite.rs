//! SQLite in this process: what one would write without a server, one transaction for each operation.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use rusqlite::{Connection, params};

use crate::rounds::Sample;
use crate::server::process::Folder;

const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1000);

/// One slice: so many threads share a connection, as there is one writer at a time anyway.
pub(super) fn slice(threads: usize) -> Result<Sample> {
    let folder = Folder::new("sqlite")?;
    let file = Connection::open(folder.path().join("locks.db"))?;
    file.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    file.pragma_update(None, "synchronous", "FULL")?;
    file.execute_batch("CREATE TABLE lock (name TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID")?;
    let (file, stop, pairs) = (Mutex::new(file), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let work = |thread| {
            let name = format!("record/{thread:04}");
            while !stop.load(Ordering::Relaxed) {
                let token = pairs.fetch_add(1, Ordering::Relaxed);
                let run = |sql, token: u64| {
                    let file = file.lock().map_err(|_| anyhow!("another thread has failed"))?;
                    Ok::<_, anyhow::Error>(
                        file.prepare_cached(sql)?.execute(params![name, token.cast_signed()])?,
                    )
                };
                let done = run("INSERT OR IGNORE INTO lock VALUES (?1, ?2)", token)?
                    + run("DELETE FROM lock WHERE name = ?1 AND token = ?2", token)?;
                ensure!(done == 2, "{done} rows instead of 2");
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        thread::sleep(WARM_UP);
        let (start, before) = (Instant::now(), pairs.load(Ordering::Relaxed));
        thread::sleep(MEASURED);
        let (wall, done) = (start.elapsed(), pairs.load(Ordering::Relaxed) - before);
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(Sample::of(done as f64 / wall.as_secs_f64()))
    })
}
