//! A session at a node, over a port of its house: the server's part of the protocol, and the socket, which
//! looks at the slot lease whenever it is handed a message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, EndReason, Grant, NewAgent, NewReclaim, NewRequest, Outcome, RequestId,
};
use lockhouse::fleet::SlotLease;
use lockhouse::{Bucket, House, Mode, Notice, Port};

use super::model::Plant;
use super::wire::{Call, Event, Input, Resume, ToClient, ToNode, Wire};

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) secret: Arc<str>,
    house: House,
    lease: Arc<SlotLease>,
    port: Port,
    lease_ms: u64,
    /// None until the house has noted the lease.
    agent: Option<AgentId>,
    wire: Option<Arc<Wire>>,
    /// What is not handed to the socket yet.
    outbound: VecDeque<ToClient>,
    /// Calls that came before the agent.
    early: VecDeque<Call>,
    unacknowledged: VecDeque<(u64, Event)>,
    sent: u64,
    received: u64,
    pings: u64,
    answered: u64,
    next_ping_ms: u64,
    /// By the client's number.
    requests: BTreeMap<u64, RequestId>,
    former_secret: Option<Arc<str>>,
    is_over: bool,
}

/// The tag of answers that say nothing to a client; others are the client's numbers.
const OWN: u64 = 0;

impl Session {
    pub(super) fn begin(
        bucket: &Bucket,
        house: House,
        lease_ms: u64,
        (client, secret): (&str, Arc<str>),
        former_secret: Option<Arc<str>>,
        wire: Arc<Wire>,
    ) -> Option<Self> {
        let lease = bucket.slot_lease()?.clone();
        let port = bucket.port_of_session(&secret, 1000);
        port.submit(OWN, Command::Join(NewAgent { client_id: client, lease_ms: Some(lease_ms) }));
        Some(Self {
            secret,
            house,
            lease,
            port,
            lease_ms,
            agent: None,
            wire: Some(wire),
            outbound: VecDeque::new(),
            early: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            sent: 0,
            received: 0,
            pings: 0,
            answered: 0,
            next_ping_ms: 0,
            requests: BTreeMap::new(),
            former_secret,
            is_over: false,
        })
    }

    /// Another connection of the client resumes the session. False if its lease is over.
    pub(super) fn resume(&mut self, resume: &Resume, wire: Arc<Wire>) -> bool {
        self.renew();
        self.take_notices();
        if self.is_over || self.agent.is_none() {
            return false;
        }
        if let Some(former) = self.wire.replace(wire) {
            former.break_off();
        }
        self.outbound.clear();
        self.welcome(true);
        self.acknowledged(resume.received);
        let again = self.unacknowledged.iter().map(|(seq, event)| (*seq, event.clone()));
        self.outbound.extend(again.map(|(seq, event)| ToClient::Event { seq, event }));
        true
    }

    /// One turn, at that instant, and at that of the node's own clock. False if the session is over.
    pub(super) fn serve(&mut self, now_ms: u64, local_ms: u64, plant: Option<Plant>) -> bool {
        self.read(now_ms);
        self.take_notices();
        // As in the server: the end of a house ends its sessions.
        if self.is_over || self.house.store_state().is_over() {
            return false;
        }
        self.beat(local_ms, plant);
        self.hand_over(now_ms, plant);
        true
    }

    /// The session ends, and its client notices that the connection does.
    pub(super) fn end(self) {
        if let Some(wire) = &self.wire {
            wire.break_off();
        }
    }

    fn read(&mut self, now_ms: u64) {
        while let Some(wire) = &self.wire {
            match wire.next_of_node(now_ms) {
                Input::Nothing => return,
                Input::Closed => {
                    self.wire = None;
                    self.outbound.clear();
                }
                Input::Message(ToNode::Hello { .. }) => {}
                Input::Message(ToNode::Pong { n, ack }) => {
                    self.answered = self.answered.max(n);
                    self.acknowledged(ack);
                    self.renew();
                }
                Input::Message(ToNode::Call { seq, call }) => {
                    if seq == self.received + 1 {
                        self.received = seq;
                        self.early.push_back(call);
                        self.carry_out();
                    }
                }
            }
        }
    }

    fn carry_out(&mut self) {
        let Some(agent) = self.agent else { return };
        while let Some(call) = self.early.pop_front() {
            match call {
                Call::Request { id, name } => {
                    let acquire = Acquire::Wait(Mode::Exclusive);
                    let request = NewRequest::new(agent, name.as_name(), acquire);
                    self.port.submit(id, Command::Request(request));
                }
                Call::Reclaim { id, name, token, ticket } => {
                    let (name, mode) = (name.as_name(), Mode::Exclusive);
                    let (max_hold_ms, metadata) = (None, None);
                    let reclaim = NewReclaim { agent, name, mode, token, max_hold_ms, metadata };
                    self.port.reclaim(id, reclaim, &ticket);
                }
                Call::Reclaimed => {
                    if let Some(secret) = self.former_secret.take() {
                        self.port.has_reclaimed(&secret);
                    }
                }
                Call::Release { id } => {
                    // A request that is not known yet has its answer among the notices.
                    self.take_notices();
                    if let Some(request) = self.requests.remove(&id) {
                        self.port.submit(OWN, Command::Release { request });
                        self.port.submit(OWN, Command::Abort { request });
                    }
                }
            }
        }
    }

    fn renew(&mut self) {
        if let Some(agent) = self.agent {
            self.port.submit(OWN, Command::Renew { agent });
        }
    }

    fn take_notices(&mut self) {
        let mut notices = VecDeque::new();
        self.is_over |= self.port.drain(&mut notices).is_err();
        for notice in notices {
            match notice {
                Notice::Answer { outcome: Outcome::Joined(agent), .. } => {
                    self.agent = Some(agent);
                    self.welcome(false);
                    self.carry_out();
                }
                Notice::Answer { tag, outcome: Outcome::Granted(grant) } => {
                    self.requests.insert(tag, grant.request);
                    self.granted(tag, grant);
                }
                Notice::Answer { tag, outcome: Outcome::Queued(request) } => {
                    self.requests.insert(tag, request);
                }
                Notice::Answer { tag, outcome: Outcome::Refused(refusal) } if tag != OWN => {
                    let is_reclaim = matches!(
                        refusal,
                        lockhouse::core::Refusal::Superseded
                            | lockhouse::core::Refusal::NotRecovering
                            | lockhouse::core::Refusal::UnknownToken
                    );
                    self.push(if is_reclaim { Event::Lost { id: tag } } else { Event::Refused { id: tag } });
                }
                Notice::Answer {
                    outcome: Outcome::Renewed { alive: false } | Outcome::Refused(_), ..
                } => {
                    self.is_over = true;
                }
                Notice::Effect(Effect::Granted { grant, .. }) => {
                    if let Some(id) = self.id_of(grant.request) {
                        self.granted(id, grant);
                    }
                }
                Notice::Effect(Effect::Lost { request, .. }) => {
                    if let Some(id) = self.id_of(request) {
                        self.requests.remove(&id);
                        self.push(Event::Lost { id });
                    }
                }
                Notice::Effect(Effect::AgentEnded { reason: EndReason::Expired, .. }) | Notice::Over(_) => {
                    self.is_over = true;
                }
                _ => {}
            }
        }
    }

    fn id_of(&self, request: RequestId) -> Option<u64> {
        self.requests.iter().find(|(_, known)| **known == request).map(|(id, _)| *id)
    }

    fn granted(&mut self, id: u64, grant: Grant) {
        let ticket = self.port.ticket(grant.request);
        self.push(Event::Granted { id, token: grant.token, ticket });
    }

    fn push(&mut self, event: Event) {
        self.sent += 1;
        let seq = self.sent;
        self.unacknowledged.push_back((seq, event.clone()));
        if self.wire.is_some() {
            self.outbound.push_back(ToClient::Event { seq, event });
        }
    }

    fn acknowledged(&mut self, ack: u64) {
        while self.unacknowledged.pop_front_if(|(seq, _)| *seq <= ack).is_some() {}
    }

    fn welcome(&mut self, resumed: bool) {
        let (secret, received, lease_ms) = (self.secret.clone(), self.received, self.lease_ms);
        self.outbound.push_front(ToClient::Welcome { secret, resumed, received, lease_ms });
    }

    /// Pings, unless the ping before is not handed over yet, or the house has begun to close.
    fn beat(&mut self, local_ms: u64, plant: Option<Plant>) {
        if self.house.is_closing() && plant != Some(Plant::ClosingHousePings) {
            return;
        }
        let waits = self.outbound.iter().any(|message| !matches!(message, ToClient::Event { .. }));
        if self.agent.is_none() || self.wire.is_none() || waits || local_ms < self.next_ping_ms {
            return;
        }
        self.next_ping_ms = local_ms + self.lease_ms / 10;
        self.pings += 1;
        let (n, answered, ack) = (self.pings, self.answered, self.received);
        self.outbound.push_front(ToClient::Ping { n, answered, ack });
    }

    /// The socket: what is said is fixed by now, and goes only while the node may speak.
    fn hand_over(&mut self, now_ms: u64, plant: Option<Plant>) {
        let Some(wire) = &self.wire else { return };
        let goes = |message: &mut ToClient| {
            !self.lease.is_mute()
                || match message {
                    ToClient::Welcome { .. } => plant == Some(Plant::UncheckedWelcome),
                    ToClient::Ping { .. } => plant == Some(Plant::UncheckedPing),
                    ToClient::Event { .. } => false,
                }
        };
        while let Some(message) = self.outbound.pop_front_if(goes) {
            wire.send_to_client(now_ms, message);
        }
    }
}
