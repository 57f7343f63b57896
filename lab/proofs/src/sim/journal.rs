//! The requests of the simulated clients and the answers, written down as they happen, for the judge of
//! histories.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockhouse::Secret;
use parking_lot::Mutex;

use super::tally::Tally;
use crate::history::record::{Completion, Event, Gain, Invocation, Reason, What};

/// The journal of one schedule. Each event in it has an instant of its own, in the order of the events.
#[derive(Debug)]
pub struct Journal(Mutex<Page>);

#[derive(Debug)]
struct Page {
    now_ms: u64,
    /// Sets apart what happens within one millisecond.
    nth: u64,
    last_op: u64,
    events: Vec<Event>,
    open: BTreeMap<u64, Open>,
    /// The ids under which secrets of claims stand in the history.
    claims: Vec<(Secret, String)>,
    breaches: Vec<String>,
    tally: Tally,
    notes: Option<Vec<(u64, String)>>,
}

/// A question that was not answered yet.
#[derive(Debug)]
struct Open {
    client: Arc<str>,
    life: u64,
}

/// The number of a request; none if the request is not in the journal.
pub type Op = Option<u64>;

impl Journal {
    /// An empty one; with notes beside the history, if it is to be read by people.
    pub fn new(with_notes: bool) -> Self {
        Self(Mutex::new(Page {
            now_ms: 1000,
            nth: 0,
            last_op: 0,
            events: Vec::new(),
            open: BTreeMap::new(),
            claims: Vec::new(),
            breaches: Vec::new(),
            tally: Tally::new(),
            notes: with_notes.then(Vec::new),
        }))
    }

    pub fn now_ms(&self) -> u64 {
        self.0.lock().now_ms
    }

    pub fn advance(&self, ms: u64) {
        let mut page = self.0.lock();
        page.now_ms += ms;
        page.nth = 0;
    }

    pub fn count(&self, class: &'static str) {
        self.0.lock().tally.add(class, 1);
    }

    pub fn counted(&self, class: &'static str) -> u64 {
        self.0.lock().tally.of(class)
    }

    /// A note for readers of the trace.
    pub fn note(&self, text: impl FnOnce() -> String) {
        let mut page = self.0.lock();
        let at = page.stamp();
        if let Some(notes) = &mut page.notes {
            notes.push((at, text()));
        }
    }

    /// Notes a breach, independently of the judge of histories.
    pub fn breach(&self, what: impl Into<String>) {
        let mut page = self.0.lock();
        let at = page.stamp();
        let what = format!("{} (at {}.{:06} ms)", what.into(), at / 1_000_000, at % 1_000_000);
        page.breaches.push(what);
    }

    pub fn invoke(&self, client: &Arc<str>, life: u64, bucket: &str, call: Invocation) -> u64 {
        let mut page = self.0.lock();
        page.last_op += 1;
        let op = page.last_op;
        page.open.insert(op, Open { client: client.clone(), life });
        page.push(What::Invoke { client: client.to_string(), op, bucket: bucket.to_owned(), call });
        op
    }

    /// Only the first answer counts; whether this is it.
    pub fn answer(&self, op: u64, answer: Completion) -> bool {
        let mut page = self.0.lock();
        let Some(Open { client, .. }) = page.open.remove(&op) else { return false };
        page.push(What::Answer { client: client.to_string(), op, answer });
        true
    }

    /// Whether the answer is in the journal.
    pub fn ok(&self, op: Op, durable: bool, gain: Gain) -> bool {
        op.is_some_and(|op| self.answer(op, Completion::Ok { durable, gain }))
    }

    pub fn refused(&self, op: Op, reason: Reason) {
        if let Some(op) = op {
            self.answer(op, Completion::Refused { reason, token: None, claimant: None });
        }
    }

    pub fn unknown(&self, op: Op) {
        if let Some(op) = op {
            self.answer(op, Completion::Unknown);
        }
    }

    /// The client will never get the answers that it has not got by now.
    pub fn gives_up(&self, client: &Arc<str>) {
        self.close(|open| open.client == *client);
    }

    /// The ended life of the server gives no more answers: its open requests stay unanswered.
    pub fn life_is_over(&self, life: u64) {
        self.close(|open| open.life == life);
    }

    pub fn lost(&self, client: &Arc<str>, op: u64, deadline_ms: Option<u64>) {
        let deadline = deadline_ms.map(|ms| ms * 1_000_000);
        self.0.lock().push(What::Lost { client: client.to_string(), op, deadline });
    }

    pub fn write(&self, what: What) {
        self.0.lock().push(what);
    }

    /// An instant of its own.
    pub fn stamp(&self) -> u64 {
        self.0.lock().stamp()
    }

    /// The id under which that secret stands in the history, and whether it is new.
    pub fn id_of_claim(&self, secret: &Secret) -> (String, bool) {
        let mut page = self.0.lock();
        if let Some((_, id)) = page.claims.iter().find(|(known, _)| known == secret) {
            return (id.clone(), false);
        }
        let id = format!("claim-{}", page.claims.len() + 1);
        page.claims.push((secret.clone(), id.clone()));
        (id, true)
    }

    /// All events, and the notes.
    pub fn close_journal(&self) -> Written {
        let mut page = self.0.lock();
        let page = &mut *page;
        Written {
            events: std::mem::take(&mut page.events),
            breaches: std::mem::take(&mut page.breaches),
            tally: std::mem::replace(&mut page.tally, Tally::new()),
            notes: page.notes.take().unwrap_or_default(),
        }
    }

    fn close(&self, which: impl Fn(&Open) -> bool) {
        let ops: Vec<u64> =
            self.0.lock().open.iter().filter(|(_, open)| which(open)).map(|(op, _)| *op).collect();
        ops.into_iter().for_each(|op| _ = self.answer(op, Completion::Unknown));
    }
}

/// The content of a closed journal.
#[derive(Debug)]
pub struct Written {
    pub events: Vec<Event>,
    pub breaches: Vec<String>,
    pub tally: Tally,
    pub notes: Vec<(u64, String)>,
}

impl Page {
    fn stamp(&mut self) -> u64 {
        self.nth += 1;
        self.now_ms * 1_000_000 + self.nth
    }

    fn push(&mut self, what: What) {
        let at = self.stamp();
        self.events.push(Event { at, what });
    }
}

impl Written {
    /// Of a schedule that could not be played.
    pub fn of_breach(what: String) -> Self {
        Self { events: Vec::new(), breaches: vec![what], tally: Tally::new(), notes: Vec::new() }
    }
}
