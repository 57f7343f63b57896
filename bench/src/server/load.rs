//! The load generator: one for all. Only the [`Codec`] differs.
//!
//! The generator runs on one thread, with one task for each connection: it reads the answers that are there,
//! lets every client that was answered take its next step, and writes all that in one go.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinHandle, LocalSet};
use tokio::time::{sleep, timeout};

use super::codec::{Codec, Event};
use super::process::Server;
use crate::cpu;
use crate::report::Better;
use crate::rounds::{Aside, Sample};

/// The clients and their work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// TCP connections.
    pub(crate) connections: usize,
    /// Clients on each connection.
    pub(crate) clients_each: usize,
    /// Whether all want the same name, or each its own.
    pub(crate) one_name: bool,
    /// Whether a client waits for the answer to its unlock before it asks again.
    pub(crate) unlock_answered: bool,
    /// How a client that was refused asks again.
    pub(crate) retry: Retry,
    /// Whether every answer waits for the disk, so that the clock on the wall counts and not the CPU.
    pub(crate) on_disk: bool,
    /// The time that is counted.
    pub(crate) measured: Duration,
}

/// How a client of a server without a queue asks again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retry {
    /// At once.
    AtOnce,
    /// After a pause between nothing and 1 ms, then 2 ms, 4 ms, … up to 32 ms.
    BackOff,
}

impl Plan {
    /// 64 connections, a name each, every answer awaited.
    pub(crate) const SEPARATE: Self = Self {
        connections: 64,
        clients_each: 1,
        one_name: false,
        unlock_answered: true,
        retry: Retry::AtOnce,
        on_disk: false,
        measured: Duration::from_secs(1),
    };
}

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_millis(300);
/// The longest time that is counted, if some client has had nothing yet.
const LONGEST: Duration = Duration::from_millis(2500);
/// How long clients may take to part.
const FAREWELL: Duration = Duration::from_secs(3);

/// How long a server may take to be ready after it listens.
pub(crate) const READY: Duration = Duration::from_secs(5);

/// The state that the tasks of a slice share.
struct Shared {
    plan: Plan,
    /// Pairs done, by client; if all want the same name, only those after another client's.
    pairs: Vec<Cell<u64>>,
    last_holder: Cell<usize>,
    stop: Cell<bool>,
    failure: RefCell<Option<anyhow::Error>>,
}

/// The servers of a slice.
pub(crate) struct Measured<'a> {
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// Those whose CPU time counts.
    pub(crate) servers: Vec<&'a Server>,
    /// The one of them whose CPU time is also shown by itself.
    pub(crate) database: Option<&'a Server>,
}

impl<'a> From<&'a Server> for Measured<'a> {
    fn from(server: &'a Server) -> Self {
        Self { address: server.address, servers: vec![server], database: None }
    }
}

/// CPU time so far, or of a slice, in ns.
#[derive(Clone, Copy)]
struct CpuTimes {
    servers: u64,
    database: Option<u64>,
    clients: u64,
}

impl CpuTimes {
    fn so_far(measured: &Measured<'_>) -> Result<Self> {
        let each = measured.servers.iter().map(|server| server.cpu_ns());
        let database = measured.database.map(Server::cpu_ns).transpose()?;
        Ok(Self { servers: each.sum::<Result<u64>>()?, database, clients: cpu::thread_ns() })
    }

    fn since(self, before: Self) -> Self {
        Self {
            servers: self.servers - before.servers,
            database: self.database.zip(before.database).map(|(after, before)| after - before),
            clients: self.clients - before.clients,
        }
    }
}

/// One slice: pairs per second, CPU time of both sides, and how evenly the pairs fell to the clients.
pub(crate) fn slice<C: Codec>(measured: &Measured<'_>, plan: Plan) -> Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, measure::<C>(measured, plan))
}

async fn measure<C: Codec>(measured: &Measured<'_>, plan: Plan) -> Result<Sample> {
    let clients = plan.connections * plan.clients_each;
    let pairs = (0..clients).map(|_| Cell::new(0)).collect();
    let shared = Rc::new(Shared {
        plan,
        pairs,
        last_holder: Cell::new(usize::MAX),
        stop: Cell::new(false),
        failure: RefCell::new(None),
    });
    let connect = |names| tokio::task::spawn_local(connect_patiently::<C>(measured.address, names));
    let connecting: Vec<_> = names(plan).into_iter().map(connect).collect();
    let mut connected = Vec::new();
    for connecting in connecting {
        connected.push(connecting.await??);
    }
    let work = |(connection, (stream, codec))| {
        let first = connection * plan.clients_each;
        let connection = Connection { first, shared: shared.clone(), codec, parted: 0 };
        tokio::task::spawn_local(connection.run(stream))
    };
    let tasks: Vec<_> = connected.into_iter().enumerate().map(work).collect();
    sleep(WARM_UP).await;
    let counts = || shared.pairs.iter().map(Cell::get).collect::<Vec<_>>();
    let (start, before) = (Instant::now(), counts());
    let cpu = CpuTimes::so_far(measured)?;
    loop {
        sleep(plan.measured).await;
        let done = counts().iter().zip(&before).filter(|(after, before)| after > before).count();
        // A slow server gets more time, so that a slice says something about every client.
        if done == clients || start.elapsed() > LONGEST || shared.failure.borrow().is_some() {
            break;
        }
    }
    let (wall, after) = (start.elapsed(), counts());
    let cpu = CpuTimes::so_far(measured)?.since(cpu);
    shared.stop.set(true);
    part(tasks).await;
    if let Some(failure) = shared.failure.take() {
        return Err(failure);
    }
    let done: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    figures(plan, &done, wall, cpu)
}

/// Waits until every client has parted, but not for long.
async fn part(tasks: Vec<JoinHandle<()>>) {
    let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
    let all = async {
        for task in tasks {
            // A task that fails leaves its error behind.
            _ = task.await;
        }
    };
    if timeout(FAREWELL, all).await.is_err() {
        aborts.iter().for_each(AbortHandle::abort);
    }
}

/// The figures of a slice, from the pairs that each client has done, the time on the wall, and the CPU time.
fn figures(plan: Plan, done: &[u64], wall: Duration, cpu: CpuTimes) -> Result<Sample> {
    let sum = done.iter().sum::<u64>() as f64;
    ensure!(sum > 0.0, "not one pair was done");
    let aside = |suffix, unit, value| Aside { suffix, unit, better: Better::Lower, value };
    let rate = sum / wall.as_secs_f64();
    // Both sides share one CPU, so this is the rate of a machine that has nothing else to do; that of the
    // clock on the wall says more about the neighbours. From hand to hand some peers wait rather than work:
    // there the wall counts.
    let value =
        if plan.one_name || plan.on_disk { rate } else { sum * 1e9 / (cpu.servers + cpu.clients) as f64 };
    let cpu_aside = |suffix, ns: u64| aside(suffix, "CPU µs/pair", ns as f64 / 1000.0 / sum);
    let mut sample = Sample::of(value)
        .with(cpu_aside("cpu-server", cpu.servers))
        .with(cpu_aside("cpu-client", cpu.clients));
    sample.asides.extend(cpu.database.map(|ns| cpu_aside("cpu-database", ns)));
    Ok(if plan.one_name {
        sample.with(aside("unfairness", "max/min per client", spread(done)))
    } else if plan.on_disk {
        sample
    } else {
        sample.with(Aside { suffix: "wall", unit: "pairs/s", better: Better::Higher, value: rate })
    })
}

/// How many slices there have been: each has names of its own.
static SLICES: AtomicU32 = AtomicU32::new(0);

/// The name of the first client of the next slice.
pub(crate) fn first_name_of_next() -> String {
    name_of(SLICES.load(Ordering::Relaxed), 0)
}

fn name_of(slice: u32, client: usize) -> String {
    format!("record/{slice:03}/{client:04}")
}

/// The names of the clients of each connection, new ones for each slice.
fn names(plan: Plan) -> Vec<Rc<[String]>> {
    let slice = SLICES.fetch_add(1, Ordering::Relaxed);
    let name = |client: usize| name_of(slice, if plan.one_name { 0 } else { client });
    let of = |connection: usize| {
        (0..plan.clients_each).map(|n| name(connection * plan.clients_each + n)).collect()
    };
    (0..plan.connections).map(of).collect()
}

/// A server that has only just begun to listen may not be ready yet.
pub(crate) async fn connect_patiently<C: Codec>(
    address: SocketAddr,
    names: Rc<[String]>,
) -> Result<(TcpStream, C)> {
    let start = Instant::now();
    loop {
        match connect(address, names.clone()).await {
            Err(_) if start.elapsed() < READY => sleep(Duration::from_millis(50)).await,
            connected => return connected,
        }
    }
}

async fn connect<C: Codec>(address: SocketAddr, names: Rc<[String]>) -> Result<(TcpStream, C)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let codec = C::open(&mut stream, names).await?;
    Ok((stream, codec))
}

/// The most pairs of a client by the fewest; a client that had none counts as if it had half of one.
fn spread(done: &[u64]) -> f64 {
    let most = done.iter().max().map_or(0.0, |most| *most as f64);
    let fewest = done.iter().min().map_or(0.0, |fewest| *fewest as f64);
    most / fewest.max(0.5)
}

/// One connection and its clients.
struct Connection<C> {
    /// The number of its first client.
    first: usize,
    shared: Rc<Shared>,
    codec: C,
    /// How many of its clients are done for good.
    parted: usize,
}

impl<C: Codec> Connection<C> {
    async fn run(mut self, stream: TcpStream) {
        if let Err(error) = self.talk(stream).await
            && !self.shared.stop.get()
        {
            self.shared.failure.borrow_mut().get_or_insert(error);
        }
    }

    async fn talk(&mut self, mut stream: TcpStream) -> Result<()> {
        let (mut input, mut out) = (Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16));
        (0..self.shared.plan.clients_each).for_each(|client| self.codec.lock(client, &mut out));
        let mut refusals = 0;
        loop {
            self.codec.end_turn(&mut out);
            stream.write_all(&out).await?;
            out.clear();
            if stream.read_buf(&mut input).await? == 0 {
                anyhow::bail!("the server hung up");
            }
            let mut used = 0;
            let mut refused = None;
            while let Some(decoded) = self.codec.decode(&input[used..], &mut out).context("answer")? {
                used += decoded.length;
                match decoded.event {
                    Some(Event::Refused(client)) => refused = Some(client),
                    Some(event) => self.step(event, &mut out),
                    None => {}
                }
            }
            input.drain(..used);
            refusals = if refused.is_some() { refusals + 1 } else { 0 };
            if let Some(client) = refused {
                if !self.shared.stop.get() {
                    self.pause(refusals).await;
                }
                self.lock_again(client, &mut out);
            }
            if self.parted == self.shared.plan.clients_each {
                self.codec.end_turn(&mut out);
                self.codec.close(&mut out);
                stream.write_all(&out).await?;
                return Ok(stream.shutdown().await?);
            }
        }
    }

    /// The client's next step after an answer.
    fn step(&mut self, event: Event, out: &mut Vec<u8>) {
        match event {
            Event::Granted(client) if self.shared.plan.unlock_answered => {
                self.codec.unlock(client, true, out);
            }
            Event::Granted(client) => {
                self.codec.unlock(client, false, out);
                self.done(client);
                self.lock_again(client, out);
            }
            Event::Unlocked(client) => {
                self.done(client);
                self.lock_again(client, out);
            }
            Event::Refused(_) => unreachable!("refusals are dealt with by the caller"),
        }
    }

    /// The next pair, unless it is time to part: then the client ends without a lock.
    fn lock_again(&mut self, client: usize, out: &mut Vec<u8>) {
        if self.shared.stop.get() {
            self.parted += 1;
        } else {
            self.codec.lock(client, out);
        }
    }

    fn done(&self, client: usize) {
        let client = self.first + client;
        let last = self.shared.last_holder.replace(client);
        // A client that takes the lock again that it has just left, past all waiters, has handed nothing on.
        if last != client || !self.shared.plan.one_name {
            let pairs = &self.shared.pairs[client];
            pairs.set(pairs.get() + 1);
        }
    }

    async fn pause(&self, refusals: u32) {
        match self.shared.plan.retry {
            Retry::AtOnce => tokio::task::yield_now().await,
            Retry::BackOff => {
                let longest_us = 1000_u64 << (refusals - 1).min(5);
                // Scattered well enough by the clock: its last digits differ from client to client.
                let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos());
                sleep(Duration::from_micros(u64::from(nanos / 7) % longest_us)).await;
            }
        }
    }
}
