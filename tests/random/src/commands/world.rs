//! Random worlds: weighted commands that keep locks contended, with stale and foreign identities among them.

use lockhouse_core::{Acquire, Limits, Mode, NameBuf};

use super::durable::DurableView;
use super::step::{Action, Ask, FOREIGN, Label, Start, Step};
use crate::Random;

/// The things that the next command may refer to.
#[derive(Debug)]
pub struct View<'a> {
    /// The present instant.
    pub now_ms: u64,
    /// Agents that live.
    pub alive: &'a [Label],
    /// Requests that hold their lock.
    pub held: &'a [Label],
    /// Requests that wait.
    pub pending: &'a [Label],
    /// When something is due next.
    pub next_due_ms: Option<u64>,
    /// Labels of agents below this one have been given away.
    pub next_agent: Label,
    /// Labels of requests below this one have been given away.
    pub next_request: Label,
    /// The things that owners and claimants may refer to.
    pub durable: &'a DurableView,
}

/// The parameters of a world: its size, its bounds, and the weight of time in it.
#[derive(Debug)]
pub struct World {
    /// The start of its manager.
    pub start: Start,
    /// The number of its steps.
    pub length: usize,
    names: Vec<NameBuf>,
    agents: usize,
    crowd: usize,
    leases: usize,
    holds: usize,
    close_at: Option<usize>,
    /// The percentage of commands of owners and claimants.
    durable: usize,
    /// Whether owners have many locks, measured by how many end at once.
    pub(super) has_many_locks: bool,
}

impl World {
    /// Draws a world.
    pub fn new(random: &mut Random) -> Self {
        let large = random.percent(2);
        let has_many_locks = random.percent(22);
        let (names, agents, length, crowd) = if large {
            (20 + random.below(60), 20 + random.below(60), 3000, 400)
        } else if has_many_locks {
            (3 + random.below(8), 2 + random.below(3), 60 + random.below(240), 24)
        } else {
            (1 + random.below(4), 2 + random.below(5), 60 + random.below(240), 24)
        };
        let limits = match random.percent(42) {
            // Few locks are many where fewer may end at once.
            _ if has_many_locks => Limits { locks_ended_at_once: 1 + random.below(3), ..Limits::DEFAULT },
            true => tiny(random),
            false => Limits::DEFAULT,
        };
        let timed = random.percent(60);
        let length_of_close = length - random.below(length / 10);
        let token_mark = if random.percent(20) { random.next_u64() >> 16 } else { 0 };
        Self {
            start: Start { limits, hash_seed: random.next_u64(), token_mark },
            length,
            names: (0..names).map(|_| name(random)).collect(),
            agents,
            crowd,
            leases: if timed { random.below(80) } else { 0 },
            holds: if timed { random.below(40) } else { 0 },
            close_at: random.percent(60).then_some(length_of_close),
            has_many_locks,
            durable: if has_many_locks || random.percent(75) { 20 + random.below(70) } else { 0 },
        }
    }

    /// The `nth` step of this world.
    pub fn step(&self, nth: usize, random: &mut Random, view: &View<'_>) -> Step {
        let at_ms = self.instant(random, view);
        let action = if self.close_at == Some(nth) {
            Action::Close
        } else if random.percent(self.durable) {
            Action::Durable(self.durable(random, view.durable, |random| self.reclaim(random, view)))
        } else {
            self.action(random, view)
        };
        Step { at_ms, action }
    }

    fn instant(&self, random: &mut Random, view: &View<'_>) -> u64 {
        let boundary = view.next_due_ms.filter(|_| random.percent(15));
        match boundary {
            // Just before, exactly at and just after a deadline.
            Some(due) if due < u64::MAX => (due + random.below(3) as u64).saturating_sub(1).max(view.now_ms),
            _ => view.now_ms + random.below(4) as u64,
        }
    }

    fn action(&self, random: &mut Random, view: &View<'_>) -> Action {
        let crowded = view.held.len() + view.pending.len() > self.crowd;
        let joins = if view.alive.len() < self.agents { 12 } else { 2 };
        let requests = if view.alive.is_empty() { 4 } else { 40 };
        let ends = if crowded { 8 } else { 3 };
        let weights = [joins, requests, 9, 22, 6, ends, 3, 8];
        match weighted(random, &weights) {
            0 => self.join(random, view),
            1 if crowded => release(random, view),
            1 => Action::Request(self.ask(random, view)),
            2 => Action::Abort { request: target(random, view.pending, view) },
            3 => release(random, view),
            4 => Action::Renew { agent: agent(random, view) },
            5 => Action::End { agent: agent(random, view) },
            6 => Action::Snapshot,
            _ => Action::Timeout,
        }
    }

    fn join(&self, random: &mut Random, view: &View<'_>) -> Action {
        let lease_ms = random.percent(self.leases).then(|| length_ms(random, 60));
        Action::Join { agent: view.next_agent, client_id: format!("client {}", random.below(5)), lease_ms }
    }

    fn ask(&self, random: &mut Random, view: &View<'_>) -> Ask {
        let mode = if random.percent(50) { Mode::Exclusive } else { Mode::Shared };
        // Requests that wait only because the manager recovers are seldom enough.
        let if_available = if view.durable.recovering { 150 } else { 20 };
        let acquire = match weighted(random, &[70, if_available, 16]) {
            0 => Acquire::Wait(mode),
            1 => Acquire::IfAvailable(mode),
            _ => Acquire::Steal,
        };
        // In a world with large limits no name is too long, so a name that is too long comes apart.
        let too_long = random
            .percent(1)
            .then(|| long_name(self.start.limits.name_units.saturating_add(1 + random.below(3))));
        Ask {
            request: view.next_request,
            agent: agent(random, view),
            name: too_long.unwrap_or_else(|| self.name(random)),
            acquire,
            metadata: self.metadata(random),
            max_hold_ms: random.percent(self.holds).then(|| length_ms(random, 30)),
        }
    }

    fn reclaim(&self, random: &mut Random, view: &View<'_>) -> Ask {
        let ask = self.ask(random, view);
        // Reclaims meet most often on a name that all of them use.
        let name = if random.percent(40) { self.names[0].clone() } else { ask.name };
        Ask { acquire: Acquire::Wait(ask.acquire.mode()), name, ..ask }
    }

    pub(super) fn name(&self, random: &mut Random) -> NameBuf {
        self.names[random.below(self.names.len())].clone()
    }

    pub(super) fn metadata(&self, random: &mut Random) -> Option<String> {
        let metadata_bytes = self.start.limits.metadata_bytes.min(4);
        random.percent(15).then(|| "m".repeat(random.below(metadata_bytes + 2)))
    }
}

fn release(random: &mut Random, view: &View<'_>) -> Action {
    Action::Release { request: target(random, view.held, view) }
}

/// Mostly one of those; else any request that there ever was, whatever its status, or a foreign one.
fn target(random: &mut Random, mostly: &[Label], view: &View<'_>) -> Label {
    match random.pick(mostly) {
        Some(label) if random.percent(85) => *label,
        _ => any_below(random, view.next_request),
    }
}

fn agent(random: &mut Random, view: &View<'_>) -> Label {
    match random.pick(view.alive) {
        Some(label) if random.percent(95) => *label,
        _ => any_below(random, view.next_agent),
    }
}

fn any_below(random: &mut Random, next: Label) -> Label {
    if random.percent(10) { FOREIGN } else { random.below(next) }
}

fn tiny(random: &mut Random) -> Limits {
    Limits {
        name_units: 1 + random.below(8),
        requests_per_agent: 1 + random.below(4) as u32,
        entries: 2 + random.below(6) as u32,
        names: 1 + random.below(3) as u32,
        agents: 1 + random.below(4) as u32,
        metadata_bytes: random.below(4),
        owners: 1 + random.below(4) as u32,
        locks_per_owner: random.below(3) as u32,
        locks_per_command: 1 + random.below(3),
        locks_ended_at_once: random.below(3),
        label_bytes: 2 + random.below(10),
        ttl_ms: (1, 300 + random.below(200) as u64),
        assignments: 1 + random.below(2) as u32,
    }
}

/// Mostly a few ticks; now and then nothing, or for ever.
pub(super) fn length_ms(random: &mut Random, usual: usize) -> u64 {
    match weighted(random, &[90, 8, 2]) {
        0 => 1 + random.below(usual) as u64,
        1 => 0,
        _ => u64::MAX,
    }
}

fn name(random: &mut Random) -> NameBuf {
    const ODD: [&[u16]; 12] = [
        &[],
        &[0],
        &[0x20],
        // A lone high and a lone low surrogate, both in the wrong order, and a pair.
        &[0xD800],
        &[0xDFFF],
        &[0xDE00, 0xD83D],
        &[0xD83D, 0xDE00],
        // Alike to the eye, but not equal: composed and decomposed, U+2010 for the hyphen.
        &[0xE9],
        &[0x65, 0x301],
        &[0x2010, 0x61],
        &[0x61, 0x2D],
        &[0xFFFF],
    ];
    let mut units = ODD[random.below(ODD.len())].to_vec();
    match random.below(4) {
        0 => {}
        1 => units = format!("n{}", random.below(100)).encode_utf16().collect(),
        // Around the 22 bytes that a name may have without memory of its own.
        2 => units.extend(std::iter::repeat_n(0x61, 19 + random.below(5))),
        _ => units.push(0x61 + random.below(26) as u16),
    }
    // No name here begins with a hyphen-minus, so none is reserved.
    NameBuf::from_units(&units).unwrap_or_else(|reserved| panic!("{units:x?}: {reserved}"))
}

fn long_name(units: usize) -> NameBuf {
    NameBuf::from_units(&vec![0xE9; units]).unwrap_or_else(|reserved| panic!("{reserved}"))
}

pub(super) fn weighted(random: &mut Random, weights: &[usize]) -> usize {
    let mut at = random.below(weights.iter().sum());
    for (index, weight) in weights.iter().enumerate() {
        if at < *weight {
            return index;
        }
        at -= weight;
    }
    weights.len() - 1
}
