//! The record of a client: each call before it is sent, each answer as it arrives, each loss as it is known.
//!
//! A line goes to stdout in one write, so that a process that is killed leaves whole lines. The parent
//! gathers them.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proofs::history::record::{Completion, Event, Gain, Invocation, Reason, What};

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The clock counts from the start of the machine.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The pen of one client.
#[derive(Debug)]
pub(crate) struct Recorder {
    client: String,
    last_op: u64,
}

impl Recorder {
    pub(crate) fn new(client: String) -> Self {
        Self { client, last_op: 0 }
    }

    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// Writes a call down that is about to be sent; its number.
    pub(crate) fn invoke(&mut self, bucket: &str, call: Invocation) -> u64 {
        self.invoke_at(now(), bucket, call)
    }

    /// The same, with an instant that was taken before.
    pub(crate) fn invoke_at(&mut self, at: u64, bucket: &str, call: Invocation) -> u64 {
        self.last_op += 1;
        let (client, bucket) = (self.client.clone(), bucket.to_owned());
        write(&Event { at, what: What::Invoke { client, op: self.last_op, bucket, call } });
        self.last_op
    }

    pub(crate) fn answer(&self, op: u64, answer: Completion) {
        self.answer_at(now(), op, answer);
    }

    pub(crate) fn answer_at(&self, at: u64, op: u64, answer: Completion) {
        write(&Event { at, what: What::Answer { client: self.client.clone(), op, answer } });
    }

    pub(crate) fn refused(&self, op: u64, reason: Reason) {
        self.answer(op, refusal(reason));
    }

    pub(crate) fn lost_at(&self, at: u64, op: u64, deadline: Option<u64>) {
        write(&Event { at, what: What::Lost { client: self.client.clone(), op, deadline } });
    }

    pub(crate) fn ended(self) {
        write(&Event { at: now(), what: What::ClientEnded { client: self.client } });
    }
}

pub(crate) fn refusal(reason: Reason) -> Completion {
    Completion::Refused { reason, token: None, claimant: None }
}

pub(crate) fn durable(gain: Gain) -> Completion {
    Completion::Ok { durable: true, gain }
}

/// An event as a line in the format that its readers expect.
pub(crate) fn line(event: &Event) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).expect("an event is made of strings and numbers");
    line.push(b'\n');
    line
}

fn write(event: &Event) {
    // Without a parent there is no reader; the end of stdin shows that, too.
    let _ = std::io::stdout().lock().write_all(&line(event));
}

/// The times at which this process did not run. A stopped client cannot know of a loss; the fence is there
/// for that case. The client's locks count as held until the stop.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    lease: Duration,
    pauses: Arc<Mutex<Pauses>>,
}

#[derive(Debug)]
struct Pauses {
    last_beat: u64,
    /// From one beat to the next, where that took too long.
    pauses: Vec<(u64, u64)>,
}

const BEAT: Duration = Duration::from_millis(2);
/// A process that runs beats more often than this part of the lease; a tenth of it is what its clock and the
/// server's may differ by.
const PAUSE: u32 = 25;

impl Pulse {
    /// Starts to beat on the runtime of the clients, so that what delays them delays it.
    pub(crate) fn start(lease: Duration) -> Self {
        let pauses = Arc::new(Mutex::new(Pauses { last_beat: now(), pauses: Vec::new() }));
        let pulse = Self { lease, pauses };
        let beating = pulse.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                beating.beat();
            }
        });
        pulse
    }

    /// When the deadline of a lock that is lost now may have passed unnoticed: at the beginning of the first
    /// pause within a lease.
    pub(crate) fn stopped_at(&self) -> Option<u64> {
        let recent = self.beat().saturating_sub(self.lease.as_nanos() as u64);
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.pauses.iter().find(|(_, to)| *to >= recent).map(|(from, _)| *from)
    }

    fn beat(&self) -> u64 {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        let last = std::mem::replace(&mut pauses.last_beat, now);
        if now - last > (self.lease / PAUSE).as_nanos() as u64 {
            pauses.pauses.push((last, now));
        }
        now
    }
}
