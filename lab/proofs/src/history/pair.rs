//! From lines to operations: each invocation with its answer, and until when one without an answer may still
//! have been done.

mod failovers;
mod stretches;

use std::collections::HashMap;
use std::io::BufRead;

use super::read::{self, Malformed};
use super::record::{Completion, Event, Found, Gain, Invocation, Reason, What};
use failovers::Failover;
use stretches::Restore;

/// An instant and its line in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTime {
    pub(crate) ns: u64,
    pub(crate) line: usize,
}

/// An operation of a client.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) client: String,
    pub(crate) bucket: String,
    pub(crate) call: Invocation,
    pub(crate) invoked: EventTime,
    pub(crate) answered: Option<(EventTime, Completion)>,
    /// After this instant it is not done any more, if it was not done before.
    pub(crate) closes: u64,
    /// Of a request: the first instant at which its client certainly does not hold it any more.
    pub(crate) let_go: u64,
}

impl Op {
    /// The gain in the answer, and whether it is durable, if the operation was certainly executed.
    pub(crate) fn gain(&self) -> Option<(&Gain, bool)> {
        match &self.answered {
            Some((_, Completion::Ok { gain, durable })) => Some((gain, *durable)),
            _ => None,
        }
    }

    pub(crate) fn refusal(&self) -> Option<Reason> {
        match &self.answered {
            Some((_, Completion::Refused { reason, .. })) => Some(*reason),
            _ => None,
        }
    }

    /// Whether the outcome is unknown: the operation may have been executed.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.answered, None | Some((_, Completion::Unknown)))
    }

    /// Whether the operation may have changed something.
    pub(crate) fn may_have_ended_something(&self) -> bool {
        self.is_unknown() || self.gain().is_some_and(|(gain, _)| gain.was != Some(false))
    }
}

/// The state of a bucket as the server showed it.
#[derive(Clone, Debug)]
pub(crate) struct Readout {
    pub(crate) bucket: String,
    pub(crate) began: u64,
    pub(crate) at: EventTime,
    pub(crate) found: Vec<Found>,
}

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) ops: Vec<Op>,
    pub(crate) readouts: Vec<Readout>,
    /// The passes of the fence, each with the request whose token it presents, as indices of `ops`.
    pub(crate) passes: Vec<(usize, usize)>,
    /// When the server was killed, in order.
    pub(crate) kills: Vec<u64>,
    /// The restores of backups, in order.
    pub(crate) restores: Vec<Restore>,
    /// The failovers of the database, in order.
    pub(crate) failovers: Vec<Failover>,
    pub(crate) events: usize,
    /// The number of answers that were durable acknowledgements.
    pub(crate) acknowledged: usize,
    /// When it begins.
    pub(crate) origin: u64,
}

impl History {
    /// Reads the lines of a history.
    ///
    /// # Errors
    ///
    /// A line that is malformed, or contradicts an earlier one.
    pub(crate) fn read(mut lines: impl BufRead) -> anyhow::Result<Self> {
        let mut reader = Reader::default();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            if lines.read_until(b'\n', &mut text)? == 0 {
                break;
            }
            let text = std::str::from_utf8(&text).map_err(|error| {
                Malformed::new(line, "the line", format!("no text ({error})"), "must be UTF-8")
            })?;
            if !text.trim().is_empty() {
                reader.take(line, read::event(line, text.trim_end())?)?;
            }
        }
        Ok(reader.finish()?)
    }

    /// Takes events in the order in which a file would have them.
    ///
    /// # Errors
    ///
    /// An event that contradicts an earlier one.
    pub(crate) fn of(events: impl IntoIterator<Item = Event>) -> anyhow::Result<Self> {
        let mut reader = Reader::default();
        for (index, event) in events.into_iter().enumerate() {
            reader.take(index + 1, event)?;
        }
        Ok(reader.finish()?)
    }

    /// The first kill of the server after `ns`, or never.
    pub(crate) fn kill_after(&self, ns: u64) -> u64 {
        let next = self.kills.partition_point(|kill| *kill <= ns);
        self.kills.get(next).copied().unwrap_or(u64::MAX)
    }
}

#[derive(Default)]
struct Reader {
    history: History,
    clients: HashMap<String, Client>,
    server: Vec<(EventTime, bool)>,
    owners: HashMap<(String, String), usize>,
}

/// The state of a client while the history is read.
struct Client {
    ops: HashMap<u64, usize>,
    last: u64,
    ended: Option<u64>,
}

impl Reader {
    fn take(&mut self, line: usize, event: Event) -> Result<(), Malformed> {
        let at = EventTime { ns: event.at, line };
        let history = &mut self.history;
        history.origin = if history.events == 0 { at.ns } else { history.origin.min(at.ns) };
        history.events += 1;
        match event.what {
            What::Invoke { client, op, bucket, call } => self.invoke(at, client, op, bucket, call),
            What::Answer { client, op, answer } => self.answer(at, &client, op, answer),
            What::Lost { client, op, deadline } => self.lost(at, &client, op, deadline),
            What::ClientEnded { client } | What::ClientKilled { client } => {
                self.client(at, &client)?.ended = Some(at.ns);
                Ok(())
            }
            What::ServerStarted { .. } => {
                self.server.push((at, true));
                Ok(())
            }
            What::ServerKilled => {
                self.server.push((at, false));
                Ok(())
            }
            What::Restored { above } => {
                self.history.restores.push(Restore { at: at.ns, above });
                Ok(())
            }
            What::FailedOver { from, until, above } => {
                self.history.failovers.push(Failover { from, at: at.ns, until, above });
                Ok(())
            }
            // Clients and servers have to do right by any clock.
            What::ClocksShifted { .. } => Ok(()),
            What::Readout { bucket, began, found } => {
                self.history.readouts.push(Readout { bucket, began, at, found });
                Ok(())
            }
        }
    }

    /// The client, whose events must be in order, with none after its end.
    fn client(&mut self, at: EventTime, name: &str) -> Result<&mut Client, Malformed> {
        if !self.clients.contains_key(name) {
            self.clients.insert(name.to_owned(), Client { ops: HashMap::new(), last: 0, ended: None });
        }
        // The entry is there: it was inserted just now.
        let client = self.clients.get_mut(name).expect("a client that was just entered");
        if client.ended.is_some() {
            return Err(Malformed::new(
                at.line,
                "client",
                format!("{name:?}"),
                "it has ended on an earlier line",
            ));
        }
        if at.ns < client.last {
            let rule = format!("must not be before the earlier line of the same client ({})", client.last);
            return Err(Malformed::new(at.line, "at", at.ns.to_string(), rule));
        }
        client.last = at.ns;
        Ok(client)
    }

    fn invoke(
        &mut self,
        at: EventTime,
        client: String,
        op: u64,
        bucket: String,
        call: Invocation,
    ) -> Result<(), Malformed> {
        let index = self.history.ops.len();
        let known = self.client(at, &client)?;
        if known.ops.insert(op, index).is_some() {
            return Err(Malformed::new(at.line, "op", op.to_string(), "this client has used it before"));
        }
        if let Invocation::Release { of } | Invocation::Pass { of } = call {
            let held = known.ops.get(&of).copied();
            let request = self.request(at, held, "of", of)?;
            if matches!(call, Invocation::Release { .. }) {
                request.let_go = request.let_go.min(at.ns);
            } else if let Some(held) = held {
                self.history.passes.push((index, held));
            }
        }
        let op = Op { client, bucket, call, invoked: at, answered: None, closes: u64::MAX, let_go: u64::MAX };
        self.history.ops.push(op);
        Ok(())
    }

    fn answer(
        &mut self,
        at: EventTime,
        client: &str,
        number: u64,
        answer: Completion,
    ) -> Result<(), Malformed> {
        let index = self.client(at, client)?.ops.get(&number).copied();
        let Some(index) = index else {
            return Err(Malformed::new(at.line, "op", number.to_string(), "this client never invoked it"));
        };
        let op = &mut self.history.ops[index];
        if op.answered.is_some() {
            return Err(Malformed::new(at.line, "op", number.to_string(), "it was answered before"));
        }
        if let Completion::Ok { gain, durable } = &answer {
            check_gain(at.line, &op.call, gain)?;
            self.history.acknowledged += usize::from(*durable && !matches!(op.call, Invocation::Look { .. }));
            if let (Invocation::OpenOwner { .. }, Some(owner)) = (&op.call, &gain.owner)
                && self.owners.insert((op.bucket.clone(), owner.clone()), index).is_some()
            {
                return Err(Malformed::new(
                    at.line,
                    "owner",
                    format!("{owner:?}"),
                    "another owner has this id",
                ));
            }
        }
        op.answered = Some((at, answer));
        Ok(())
    }

    fn lost(
        &mut self,
        at: EventTime,
        client: &str,
        number: u64,
        deadline: Option<u64>,
    ) -> Result<(), Malformed> {
        let index = self.client(at, client)?.ops.get(&number).copied();
        let request = self.request(at, index, "op", number)?;
        request.let_go = request.let_go.min(at.ns).min(deadline.unwrap_or(u64::MAX));
        Ok(())
    }

    fn request(
        &mut self,
        at: EventTime,
        index: Option<usize>,
        field: &str,
        number: u64,
    ) -> Result<&mut Op, Malformed> {
        let op = index.and_then(|index| self.history.ops.get_mut(index));
        let request = op.filter(|op| matches!(op.call, Invocation::Request { .. }));
        request.ok_or_else(|| {
            Malformed::new(
                at.line,
                field,
                number.to_string(),
                "must be an earlier request of the same client",
            )
        })
    }

    fn finish(mut self) -> Result<History, Malformed> {
        self.check_lives()?;
        self.check_restores()?;
        self.check_owners()?;
        self.history.failovers.sort_by_key(|failover| failover.at);
        let kills = self.server.iter().filter(|(_, started)| !started);
        self.history.kills = kills.map(|(at, _)| at.ns).collect();
        let mut history = self.history;
        for index in 0..history.ops.len() {
            let op = &history.ops[index];
            let client = &self.clients[&op.client];
            let closes = match &op.answered {
                Some((at, Completion::Unknown)) => history.kill_after(at.ns),
                Some((at, _)) => at.ns,
                // Until it is known to have ended, the client may have sent it to a later server as well.
                None => client.ended.map_or(u64::MAX, |ended| history.kill_after(ended)),
            };
            // A client without any further event may be gone, and its locks with it.
            let let_go = op.let_go.min(client.ended.unwrap_or(client.last));
            let op = &mut history.ops[index];
            (op.closes, op.let_go) = (closes, let_go);
        }
        Ok(history)
    }

    /// The server's lives follow one after the other, and the file ends with a read-out of the last.
    fn check_lives(&mut self) -> Result<(), Malformed> {
        self.server.sort_by_key(|(at, _)| at.ns);
        let mut runs = false;
        for (at, started) in &self.server {
            if *started == runs {
                let value = if runs { "serverStarted" } else { "serverKilled" };
                let rule = if runs { "the server runs already" } else { "the server does not run" };
                return Err(Malformed::new(at.line, "event", value, rule));
            }
            runs = *started;
        }
        Ok(())
    }

    /// No backup is restored while the server runs.
    fn check_restores(&mut self) -> Result<(), Malformed> {
        self.history.restores.sort_by_key(|restore| restore.at);
        for restore in &self.history.restores {
            let before = self.server.partition_point(|(at, _)| at.ns < restore.at);
            if before.checked_sub(1).is_some_and(|last| self.server[last].1) {
                let (line, value) = (self.server[before - 1].0.line, restore.at.to_string());
                return Err(Malformed::new(line, "at", value, "a backup is restored while the server runs"));
            }
        }
        Ok(())
    }

    /// A client that acts as an owner must have opened it; else its lease would not be known.
    fn check_owners(&self) -> Result<(), Malformed> {
        for op in &self.history.ops {
            if let Some(owner) = op.call.owner()
                && !self.owners.contains_key(&(op.bucket.clone(), owner.to_owned()))
            {
                let rule = "must be the id in the answer to an openOwner of the same bucket";
                return Err(Malformed::new(op.invoked.line, "owner", format!("{owner:?}"), rule));
            }
        }
        Ok(())
    }
}

/// The facts that an answer must contain for the judge to be able to judge.
fn check_gain(line: usize, call: &Invocation, gain: &Gain) -> Result<(), Malformed> {
    let missing = |field: &str, there: bool, what: &str| {
        if there {
            Ok(())
        } else {
            Err(Malformed::new(line, field, "missing", format!("{what} must have it")))
        }
    };
    match call {
        Invocation::Request { .. } => missing("token", gain.token.is_some(), "a granted request"),
        Invocation::Lock { .. } => missing("token", gain.token.is_some(), "a granted lock"),
        Invocation::OpenOwner { .. } => missing("owner", gain.owner.is_some(), "the answer to openOwner"),
        Invocation::Claim { .. } => {
            missing("token", gain.token.is_some(), "a granted claim")?;
            missing("claim", gain.claim.is_some(), "a granted claim")
        }
        Invocation::Finalize { .. } => {
            missing("token", gain.token.is_some(), "a finalized claim")?;
            missing("claimant", gain.claimant.is_some(), "a finalized claim")
        }
        Invocation::Look { name } => {
            missing("found", gain.found.is_some(), "the answer to a look")?;
            match gain.found.iter().flatten().find(|found| found.name != *name) {
                None => Ok(()),
                Some(other) => {
                    let rule = format!("the look was at {name:?}");
                    Err(Malformed::new(line, "name", format!("{:?}", other.name), rule))
                }
            }
        }
        _ => Ok(()),
    }
}
