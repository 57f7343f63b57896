//! The session of a client at a node, over a port of the bucket's house.

use std::collections::VecDeque;
use std::sync::Arc;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, Grant, NewAgent, NewReclaim, NewRequest, Outcome, RequestId,
};
use lockhouse::fleet::SlotLease;
use lockhouse::{BucketKey, FencingToken, House, Mode, NameBuf, Notice, Port};

use super::client::LEASE_MS;
use super::tally::Tally;

/// A session.
pub(super) struct Session {
    /// The node.
    pub(super) node: usize,
    house: House,
    lease: Arc<SlotLease>,
    port: Port,
    pub(super) secret: Arc<str>,
    agent: Option<AgentId>,
    has_asked: bool,
    /// How many answers are to come.
    awaited: usize,
    /// Requests that wait in a queue, with the places of their locks.
    queued: Vec<(RequestId, usize)>,
    is_over: bool,
}

/// A lock that a client has.
pub(super) struct HeldLock {
    token: FencingToken,
    ticket: Box<str>,
}

/// The locks that a client wants: the number of the first, and what it has of each.
pub(super) struct Locks {
    pub(super) first: usize,
    pub(super) held: Vec<Option<HeldLock>>,
}

/// The tag of answers that say nothing; others are the place of the lock, and 1.
const OWN: u64 = 0;

impl Session {
    /// Begins a session, in the context of the node's runtime. None if the house is of no fleet.
    pub(super) fn begin(
        node: usize,
        house: House,
        key: &BucketKey,
        (client, secret): (&str, Arc<str>),
        capacity: usize,
    ) -> Option<Self> {
        let lease = house.slot_lease()?.clone();
        let port = house.bucket(key.clone()).port_of_session(&secret, capacity);
        port.submit(OWN, Command::Join(NewAgent { client_id: client, lease_ms: Some(LEASE_MS) }));
        Some(Self {
            node,
            house,
            lease,
            port,
            secret,
            agent: None,
            has_asked: false,
            awaited: 0,
            queued: Vec::new(),
            is_over: false,
        })
    }

    /// Whether it is at its end, as its house is, or as its lease has run out.
    pub(super) fn is_over(&self) -> bool {
        self.is_over || self.house.store_state().is_over()
    }

    /// Whether the client has all that it has asked for.
    pub(super) fn is_answered(&self) -> bool {
        self.has_asked && self.awaited == 0
    }

    /// Renews the lease, if a ping may be sent now; whether it may.
    pub(super) fn beat(&self) -> bool {
        if self.lease.is_mute() || self.house.is_closing() {
            return false;
        }
        self.renew();
        true
    }

    pub(super) fn renew(&self) {
        if let Some(agent) = self.agent {
            self.port.submit(OWN, Command::Renew { agent });
        }
    }

    /// Asks for all locks, once the agent has joined: with the secret of a former session for those that the
    /// client has, and says then that these are all.
    pub(super) fn ask(&mut self, locks: &Locks, former: Option<&str>, tally: &mut Tally) {
        let Some(agent) = self.agent.filter(|_| !self.has_asked) else { return };
        self.has_asked = true;
        self.awaited = locks.held.len();
        tally.to_nodes += locks.held.len() as u64 + u64::from(former.is_some());
        for (place, held) in locks.held.iter().enumerate() {
            let (tag, name) = (place as u64 + 1, name_of(locks.first + place));
            let (name, mode) = (name.as_name(), Mode::Exclusive);
            match held {
                Some(HeldLock { token, ticket }) => {
                    let (token, metadata, max_hold_ms) = (*token, None, None);
                    let reclaim = NewReclaim { agent, name, mode, token, metadata, max_hold_ms };
                    self.port.reclaim(tag, reclaim, ticket);
                }
                None => {
                    let request = NewRequest::new(agent, name, Acquire::Wait(mode));
                    self.port.submit(tag, Command::Request(request));
                }
            }
        }
        if let Some(former) = former {
            self.port.has_reclaimed(former);
        }
    }

    /// Takes what has come.
    pub(super) fn take_notices(&mut self, locks: &mut Locks, tally: &mut Tally) {
        let mut notices = VecDeque::new();
        self.is_over |= self.port.drain(&mut notices).is_err();
        for notice in notices {
            match notice {
                Notice::Answer { outcome: Outcome::Joined(agent), .. } => self.agent = Some(agent),
                Notice::Answer { tag, outcome: Outcome::Granted(grant) } => {
                    self.granted(locks, tag as usize - 1, grant, tally);
                }
                Notice::Answer { tag, outcome: Outcome::Queued(request) } => {
                    self.queued.push((request, tag as usize - 1));
                }
                Notice::Answer { tag, outcome: Outcome::Refused(_) } if tag != OWN => {
                    tally.locks_lost += 1;
                    tally.to_clients += 1;
                    self.awaited -= 1;
                }
                Notice::Answer {
                    outcome: Outcome::Renewed { alive: false } | Outcome::Refused(_), ..
                }
                | Notice::Effect(Effect::AgentEnded { .. })
                | Notice::Over(_) => self.is_over = true,
                Notice::Effect(Effect::Granted { grant, .. }) => {
                    let at = self.queued.iter().position(|(request, _)| *request == grant.request);
                    if let Some(at) = at {
                        let (_, place) = self.queued.swap_remove(at);
                        self.granted(locks, place, grant, tally);
                    }
                }
                Notice::Effect(Effect::Lost { .. }) => tally.locks_lost += 1,
                _ => {}
            }
        }
    }

    fn granted(&mut self, locks: &mut Locks, place: usize, grant: Grant, tally: &mut Tally) {
        let ticket = self.port.ticket(grant.request).unwrap_or_default().into();
        let before = locks.held[place].replace(HeldLock { token: grant.token, ticket });
        if let Some(before) = before {
            tally.reclaimed += 1;
            tally.locks_lost += u64::from(before.token != grant.token);
        }
        tally.to_clients += 1;
        self.awaited -= 1;
    }
}

/// The name of a lock.
#[expect(clippy::expect_used, reason = "no name is too long")]
fn name_of(lock: usize) -> NameBuf {
    NameBuf::new(&format!("lock/{lock}")).expect("it is short")
}
