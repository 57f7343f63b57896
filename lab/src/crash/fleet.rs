//! The worker processes: started, stopped for a while, killed and replaced, and asked to end.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use proofs::history::record::What;
use rustix::process::{Pid, Signal, kill_process};

use super::journal::HistoryWriter;
use super::recorder::now;
use super::worker::CLIENTS;

/// All workers, and what they are started with.
pub(crate) struct Workers {
    starting: Starting,
    seed: u64,
    journal: Arc<HistoryWriter>,
    workers: Vec<Worker>,
    started: u64,
}

/// A process of clients.
struct Worker {
    name: String,
    child: Child,
    /// Reads what it writes, until its end.
    reader: Option<JoinHandle<()>>,
}

type Spawn = dyn Fn(usize, &[&str]) -> Result<Child>;

/// How workers are started.
pub(crate) struct Starting {
    /// Starts the program with these arguments, of which the last are those of the worker, for a place among
    /// all of them.
    pub(crate) spawn: Box<Spawn>,
    pub(crate) arguments: Vec<String>,
    /// The clients of a worker.
    pub(crate) clients: &'static [&'static str],
}

impl Starting {
    /// Processes of this machine, with a server at that URL.
    pub(super) fn at(url: &str) -> Self {
        let spawn = |_, arguments: &[&str]| {
            // The program itself, also if another one has taken its place on the disk meanwhile.
            let mut command = Command::new("/proc/self/exe");
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            command.spawn().context("cannot start a worker")
        };
        let arguments = ["crash-worker", "--url", url].map(str::to_owned).into();
        Self { spawn: Box::new(spawn), arguments, clients: &CLIENTS }
    }
}

/// The time that a worker has after the request to end.
const END_LIMIT: Duration = Duration::from_secs(15);

impl Workers {
    pub(crate) fn start(
        starting: Starting,
        seed: u64,
        count: usize,
        journal: Arc<HistoryWriter>,
    ) -> Result<Self> {
        let mut fleet = Self { starting, seed, journal, workers: Vec::new(), started: 0 };
        for place in 0..count {
            let worker = fleet.worker(place)?;
            fleet.workers.push(worker);
        }
        Ok(fleet)
    }

    fn worker(&mut self, place: usize) -> Result<Worker> {
        self.started += 1;
        let name = format!("w{}", self.started);
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(self.started * 101);
        let seed = seed.to_string();
        let mut arguments: Vec<&str> = self.starting.arguments.iter().map(String::as_str).collect();
        arguments.extend(["--name", &name, "--seed", &seed]);
        let mut child = (self.starting.spawn)(place, &arguments)?;
        let lines = child.stdout.take().context("a worker has no output")?;
        let journal = self.journal.clone();
        let reader = std::thread::spawn(move || read(lines, &journal));
        Ok(Worker { name, child, reader: Some(reader) })
    }

    /// SIGSTOP.
    pub(crate) fn stop(&self, index: usize) -> Result<()> {
        self.at(index).signal(Signal::STOP)
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self, index: usize) -> Result<()> {
        self.at(index).signal(Signal::CONT)
    }

    /// SIGKILL; another worker takes its place.
    pub(crate) fn kill(&mut self, index: usize) -> Result<()> {
        let index = index % self.workers.len();
        let fresh = self.worker(index)?;
        let mut worker = std::mem::replace(&mut self.workers[index], fresh);
        // Stopped first, so that there is an instant up to which it certainly lived and after which it does
        // nothing.
        worker.signal(Signal::STOP)?;
        worker.wait_until_stopped()?;
        let at = now();
        worker.child.kill()?;
        worker.child.wait()?;
        worker.drain();
        for client in self.starting.clients {
            let client = format!("{}-{client}", worker.name);
            self.journal.write(at, What::ClientKilled { client });
        }
        Ok(())
    }

    /// Sends all workers the end, and waits for their last words.
    pub(crate) fn end(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            drop(worker.child.stdin.take());
        }
        let deadline = Instant::now() + END_LIMIT;
        for worker in &mut self.workers {
            let status = loop {
                if let Some(status) = worker.child.try_wait()? {
                    break status;
                }
                ensure!(Instant::now() < deadline, "worker {} does not end", worker.name);
                std::thread::sleep(Duration::from_millis(5));
            };
            ensure!(status.success(), "worker {} failed: {status}", worker.name);
            worker.drain();
        }
        Ok(())
    }

    fn at(&self, index: usize) -> &Worker {
        &self.workers[index % self.workers.len()]
    }
}

fn read(lines: ChildStdout, journal: &HistoryWriter) {
    for line in BufReader::new(lines).split(b'\n') {
        // A pipe whose other end is dead just ends.
        let Ok(line) = line else { return };
        journal.take(&line);
    }
}

impl Worker {
    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot signal worker {}", self.name))
    }

    /// Until no thread of it runs, be it that it has died meanwhile.
    fn wait_until_stopped(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "worker {} ended by itself: {ended:?}", self.name);
        let folder = format!("/proc/{}/task", self.child.id());
        let is_stopped = || -> Result<bool> {
            for thread in std::fs::read_dir(&folder)? {
                let stat = std::fs::read_to_string(thread?.path().join("stat"))?;
                if !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 'Z'])) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        while !is_stopped().with_context(|| format!("worker {} is gone", self.name))? {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits until all that it wrote has been read; it has ended.
    fn drain(&mut self) {
        if let Some(reader) = self.reader.take() {
            // Were there a panic, lines would be missing, and the run would have done too little.
            let _ = reader.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
