//! From the start of the program to its first answer, after a crash with many locks held, and the memory that
//! they then take.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::crowd::{self, End};
use crate::report::{Better, Figure};
use crate::rounds::{Aside, Bench, Contender, Sample};
use crate::server as servers;
use crate::server::process::{Folder, Recipe};

/// So many locks.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) id: &'static str,
    locks: usize,
}

pub(super) const SIZES: [Size; 4] = [
    Size { id: "restart-1k", locks: 1_000 },
    Size { id: "restart-10k", locks: 10_000 },
    Size { id: "restart-100k", locks: 100_000 },
    Size { id: "restart-1M", locks: 1_000_000 },
];

/// How long a start may take.
const LONGEST: Duration = Duration::from_secs(120);

pub(super) fn run(program: &Path, cpu: usize, size: Size, rounds: u32) -> Result<Vec<Figure>> {
    let recipe = servers::lockhouse(program, Some(cpu), servers::ON_DISK);
    let ours = Crashing::new(recipe, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200")?;
    let redis = Crashing::new(servers::redis(cpu, servers::EVERY_WRITE)?, "PING\r\n", "+PONG")?;
    ours.fill(|address| crowd::lock(address, size.locks, End::in_a_month()))?;
    redis.fill(|address| crowd::set(address, size.locks, End::in_a_month()))?;
    let contenders = vec![
        Contender::new("lockhouse", || ours.restart()),
        Contender::new("Redis 7, appendfsync always", || redis.restart()),
    ];
    Bench { id: size.id, unit: "ms", better: Better::Lower, contenders }.run(rounds)
}

/// A server that is killed and started again over what it has left.
struct Crashing {
    recipe: Recipe,
    folder: Rc<Folder>,
    /// The question to it, and the beginning of the answer once it is ready.
    question: &'static str,
    answer: &'static str,
}

impl Crashing {
    fn new(recipe: Recipe, question: &'static str, answer: &'static str) -> Result<Self> {
        let folder = Rc::new(Folder::new(recipe.name)?);
        Ok(Self { recipe, folder, question, answer })
    }

    fn fill(&self, fill: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
        let server = self.recipe.spawn(self.folder.clone())?;
        self.wait(server.address)?;
        fill(server.address)?;
        server.kill();
        Ok(())
    }

    fn restart(&self) -> Result<Sample> {
        let start = Instant::now();
        let server = self.recipe.spawn(self.folder.clone())?;
        self.wait(server.address)?;
        let took = start.elapsed();
        let memory = server.memory()? as f64 / f64::from(1 << 20);
        server.kill();
        let memory = Aside { suffix: "memory", unit: "MiB resident", better: Better::Lower, value: memory };
        Ok(Sample::of(took.as_secs_f64() * 1000.0).with(memory))
    }

    fn wait(&self, address: SocketAddr) -> Result<()> {
        let start = Instant::now();
        while !self.is_ready(address) {
            ensure!(start.elapsed() < LONGEST, "{} is not ready after {LONGEST:?}", self.recipe.name);
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// One that does not listen yet is not ready either.
    fn is_ready(&self, address: SocketAddr) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(LONGEST))?;
            stream.write_all(self.question.as_bytes())?;
            let mut answer = vec![0; self.answer.len()];
            stream.read_exact(&mut answer)?;
            Ok::<_, std::io::Error>(answer == self.answer.as_bytes())
        };
        ask().unwrap_or(false)
    }
}
