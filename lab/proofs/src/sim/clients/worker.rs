//! Clients in the server's own process: their web locks, futures and guards die with it.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::{Agent, LockGuard, Loss, Mode, RequestError};
use random::Random;
use tokio_util::sync::CancellationToken;

use super::owner_client::mode;
use crate::history::record::{Gain, Invocation, Reason, What};
use crate::sim::journal::Op;
use crate::sim::server::{NAMES, Place, ServerHandle, ServerLife, Started, WANTED};

/// A client in the server's process, as long as that process lives.
#[derive(Debug)]
pub(crate) struct Worker {
    name: Arc<str>,
    place: Place,
    agents: u64,
    agent: Option<Agent>,
    pending: Vec<Pending>,
    held: Vec<(Op, LockGuard)>,
}

#[derive(Debug)]
struct Pending {
    op: Op,
    steals: bool,
    signal: CancellationToken,
    asked: Started<Result<LockGuard, RequestError>>,
}

impl Worker {
    pub(crate) fn new(life: &ServerLife, number: usize, place: Place) -> Self {
        let name = format!("worker-{number}.{}", life.server.number).into();
        Self { name, place, agents: 0, agent: None, pending: Vec::new(), held: Vec::new() }
    }

    /// Asks for something, gives something back, or gives something up.
    pub(crate) fn act(&mut self, life: &ServerLife, random: &mut Random) {
        self.receive(&life.server);
        match random.below(100) {
            0..55 if self.pending.len() < 3 => self.request(life, random),
            0..85 if !self.held.is_empty() => self.release(life, random),
            85..90 => self.abort(&life.server, random),
            90..95 => self.drop_future(&life.server, random),
            95..97 => self.end_agent(&life.server),
            _ => {}
        }
    }

    /// Takes note of grants, refusals and losses.
    pub(crate) fn receive(&mut self, server: &ServerHandle) {
        let (pending, over): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| !pending.asked.is_over());
        self.pending = pending;
        for Pending { op, asked, .. } in over {
            if let Some(Ok(guard)) = asked.take() {
                self.held.push((op, guard));
            }
        }
        let name = &self.name;
        self.held.retain(|(op, guard)| {
            let Some(loss) = guard.loss() else { return true };
            server.journal.count(match loss {
                Loss::Stolen => "web: stolen",
                Loss::Expired => "web: held too long",
                Loss::Fenced => "web: fenced",
                _ => "web: lost otherwise",
            });
            if let Some(op) = op.filter(|_| !server.is_displaced()) {
                server.journal.lost(name, op, None);
            }
            false
        });
    }

    /// The worker gives back all that it has.
    pub(crate) fn leave(&mut self, life: &ServerLife) {
        self.receive(&life.server);
        while let Some((op, guard)) = self.held.pop() {
            self.record_release(&life.server, op);
            drop(guard);
        }
    }

    pub(crate) fn has_left(&self) -> bool {
        self.pending.is_empty() && self.held.is_empty()
    }

    /// The process is gone, or counts as gone: its belief about held locks does not matter from now on.
    pub(crate) fn is_dead(&self, server: &ServerHandle) {
        server.journal.write(What::ClientKilled { client: self.name.to_string() });
    }

    /// Checks the worker once its house has learnt that it is displaced.
    pub(crate) fn must_know_of_the_end(&mut self, server: &ServerHandle) {
        self.receive(server);
        if !self.pending.is_empty() {
            server.journal.breach(format!(
                "{} requests of {} sleep on, though the house has lost its store",
                self.pending.len(),
                self.name
            ));
        }
        if !self.held.is_empty() {
            server.journal.breach(format!(
                "{} still has {} locks, though the house has lost its store",
                self.name,
                self.held.len()
            ));
        }
    }

    fn request(&mut self, life: &ServerLife, random: &mut Random) {
        let server = &life.server;
        if self.agent.is_none() {
            self.agents += 1;
            match server.bucket(&self.place).agent(&self.name) {
                Ok(agent) => self.agent = Some(agent),
                Err(error) => server.strange(error),
            }
        }
        let Some(agent) = &self.agent else { return };
        let names = if random.percent(10) { NAMES.len() } else { WANTED };
        let name = random.below(names);
        let mut wish = if random.percent(40) { Mode::Shared } else { Mode::Exclusive };
        let signal = CancellationToken::new();
        let mut request = agent.locks().request(NAMES[name]);
        let (mut steals, mut max_hold_ms) = (false, None);
        match random.below(100) {
            0..10 => {
                (steals, wish) = (true, Mode::Exclusive);
                request = request.steal();
            }
            10..35 => request = request.if_available(),
            35..45 => request = request.timeout(Duration::from_millis(1 + random.below(300) as u64)),
            _ => request = request.signal(signal.clone()),
        }
        if random.percent(15) {
            let ms = 20 + random.below(400) as u64;
            max_hold_ms = Some(ms);
            request = request.max_hold(Duration::from_millis(ms));
        }
        let call = Invocation::Request {
            name: NAMES[name].to_owned(),
            mode: mode(wish),
            steal: steals,
            max_hold_ms,
        };
        let op = server.ask(&self.name, &self.place, call);
        let (server, place, request) = (server.clone(), self.place.clone(), request.mode(wish));
        let asked = life.start(async move {
            let result = request.await;
            record_result(&server, &place, op, steals, &result);
            result
        });
        self.pending.push(Pending { op, steals, signal, asked });
    }

    fn release(&mut self, life: &ServerLife, random: &mut Random) {
        let (op, guard) = self.held.swap_remove(random.below(self.held.len()));
        self.record_release(&life.server, op);
        if random.percent(50) {
            drop(guard);
        } else if let Err(Loss::Superseded | Loss::SessionEnded | Loss::Broken { .. }) =
            life.block_on(guard.release())
        {
            life.server.strange("a lock of this process was lost as only those far away are");
        }
    }

    fn record_release(&self, server: &ServerHandle, op: Op) {
        if let Some(of) = op.filter(|_| !server.is_displaced()) {
            let release = server.ask(&self.name, &self.place, Invocation::Release { of });
            server.journal.ok(release, false, Gain::default());
        }
    }

    fn abort(&mut self, server: &ServerHandle, random: &mut Random) {
        if let Some(pending) = random.pick(&self.pending) {
            server.journal.count("web: signals");
            pending.signal.cancel();
        }
    }

    fn drop_future(&mut self, server: &ServerHandle, random: &mut Random) {
        if self.pending.is_empty() {
            return;
        }
        let at = random.below(self.pending.len());
        if self.pending[at].asked.is_over() {
            return;
        }
        let Pending { op, steals, asked, .. } = self.pending.swap_remove(at);
        server.journal.count("futures dropped");
        asked.drop_future();
        if steals {
            // The request may have stolen the lock before it was dropped.
            server.journal.unknown(op);
        } else {
            server.journal.refused(op, Reason::Other);
        }
    }

    fn end_agent(&mut self, server: &ServerHandle) {
        for (op, _) in &self.held {
            self.record_release(server, *op);
        }
        self.held.clear();
        if let Some(agent) = self.agent.take() {
            agent.end();
            server.journal.count("web: agents ended");
        }
    }
}

/// Records the end of a request at once.
fn record_result(
    server: &ServerHandle,
    place: &Place,
    op: Op,
    steals: bool,
    result: &Result<LockGuard, RequestError>,
) {
    let journal = &server.journal;
    let error = match result {
        Ok(guard) => {
            server.check_token(place, guard.fencing_token());
            journal.count("web: granted");
            let token = Some(guard.fencing_token().get());
            journal.ok(op, false, Gain { token, ..Gain::default() });
            return;
        }
        Err(error) => error,
    };
    let class = match error {
        RequestError::Unavailable(_) => "web: unavailable",
        RequestError::TimedOut => "web: timed out",
        RequestError::Aborted => "web: aborted",
        RequestError::AgentEnded => "web: agent ended",
        RequestError::Closed => "refused: closed",
        RequestError::NoStore(_) | RequestError::OutcomeUnknown => {
            journal.count("web: no store");
            return journal.unknown(op);
        }
        RequestError::StoreUnavailable { .. } => {
            journal.count("web: no store for the answer");
            return journal.refused(op, Reason::Unavailable);
        }
        error => return server.strange(error),
    };
    journal.count(class);
    if steals {
        // The request may have stolen the lock before that.
        return journal.unknown(op);
    }
    journal.refused(op, if class == "web: unavailable" { Reason::Busy } else { Reason::Other });
}
