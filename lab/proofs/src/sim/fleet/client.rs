//! A client of web locks, which keeps to the protocol: it counts its lease from the sending of the last pong
//! that a later ping has confirmed, brings its locks back after a move or a death, and gives up in time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockhouse::{BucketKey, FencingToken, NameBuf};
use random::Random;

use super::judge::{Belief, Judge};
use super::wire::{Call, Event, Input, Resume, ToClient, ToNode, Wire};

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: Arc<str>,
    pub(super) key: BucketKey,
    /// How fast its clock goes, in thousandths.
    rate: u64,
    random: Random,
    wire: Option<Arc<Wire>>,
    /// Whether the present connection has its welcome.
    is_welcomed: bool,
    /// When the present connection sent its hello.
    hello_ms: u64,
    /// When the present connection has last brought anything, or was begun.
    heard_ms: u64,
    /// Whether it gives a connection up that brings nothing, and looks for another node.
    notices_silence: bool,
    session: Option<Known>,
    /// By number.
    requests: BTreeMap<u64, Request>,
    last_id: u64,
    connects_at_ms: u64,
    /// Nothing of it runs until then.
    pub(super) paused_until_ms: u64,
    /// How many names of its bucket clients want.
    names: usize,
    /// How many locks it wants at once.
    most: usize,
    /// How often it gives a lock back, in thousandths of its turns.
    pub(super) gives_back: usize,
    /// How many locks it was granted.
    pub(super) grants: u64,
}

/// What outlives a connection. All times are those of the client's own clock.
#[derive(Debug)]
struct Known {
    secret: Arc<str>,
    lease_ms: u64,
    confirmed_ms: u64,
    pongs: VecDeque<(u64, u64)>,
    sent: u64,
    unacknowledged: VecDeque<(u64, Call)>,
    received: u64,
}

#[derive(Debug)]
struct Request {
    /// The name among those that all clients want.
    name: usize,
    state: RequestState,
}

#[derive(Debug)]
enum RequestState {
    Pending,
    Held { token: FencingToken, ticket: Option<String>, due_ms: Option<u64> },
}

impl Client {
    pub(super) fn new(number: usize, key: BucketKey, names: usize, rate: u64, seed: u64) -> Self {
        Self {
            name: format!("client-{number}").into(),
            key,
            rate,
            random: Random::new(seed),
            wire: None,
            is_welcomed: false,
            hello_ms: 0,
            heard_ms: 0,
            notices_silence: !number.is_multiple_of(3),
            session: None,
            requests: BTreeMap::new(),
            last_id: 0,
            connects_at_ms: 0,
            paused_until_ms: 0,
            names,
            most: 1 + number % 2,
            gives_back: if number.is_multiple_of(2) { 2 } else { 15 },
            grants: 0,
        }
    }

    /// One turn. Returns the locks that the client relies on now.
    pub(super) fn act(&mut self, now_ms: u64, judge: &mut Judge) -> Vec<Belief> {
        if now_ms < self.paused_until_ms {
            return Vec::new();
        }
        let local_ms = self.local(now_ms);
        self.give_up_in_time(now_ms, judge);
        self.receive(now_ms, judge);
        self.give_up_silence(now_ms, judge);
        self.use_locks(now_ms, judge);
        self.beliefs(local_ms)
    }

    /// Whether it looks for a node to connect to.
    pub(super) fn wants_connection(&self, now_ms: u64) -> bool {
        self.wire.is_none() && now_ms >= self.connects_at_ms.max(self.paused_until_ms)
    }

    /// It has found no node, and tries again later.
    pub(super) fn waits(&mut self, now_ms: u64) {
        self.connects_at_ms = now_ms + 50 + self.random.below(100) as u64;
    }

    /// It has found a node.
    pub(super) fn connect(&mut self, now_ms: u64, wire: &Arc<Wire>, judge: &mut Judge) {
        judge.count("connections");
        self.hello_ms = self.local(now_ms);
        self.heard_ms = self.hello_ms;
        let resume = self
            .session
            .as_ref()
            .map(|known| Resume { secret: known.secret.clone(), received: known.received });
        wire.send_to_node(now_ms, ToNode::Hello { client: self.name.clone(), resume });
        (self.wire, self.is_welcomed) = (Some(wire.clone()), false);
        self.waits(now_ms);
    }

    /// Its connection breaks off.
    pub(super) fn break_off(&mut self) {
        if let Some(wire) = &self.wire {
            wire.break_off();
        }
    }

    fn local(&self, now_ms: u64) -> u64 {
        now_ms * self.rate / 1000
    }

    /// A lock is relied on until the deadline of its session, or of the one in which it was granted.
    fn beliefs(&self, local_ms: u64) -> Vec<Belief> {
        let deadline_ms = self.session.as_ref().map_or(0, Known::deadline_ms);
        let believes = |request: &Request| match &request.state {
            RequestState::Held { token, due_ms, .. } if local_ms < due_ms.unwrap_or(deadline_ms) => {
                let (client, name) = (self.name.clone(), self.name_of(request.name));
                Some(Belief { client, name, token: token.get() })
            }
            _ => None,
        };
        self.requests.values().filter_map(believes).collect()
    }

    /// Three heartbeats without a ping: another node may have the bucket.
    fn give_up_silence(&mut self, now_ms: u64, judge: &mut Judge) {
        let Some(known) = self.session.as_ref().filter(|_| self.notices_silence) else { return };
        if self.wire.is_some() && self.local(now_ms) > self.heard_ms + 3 * known.lease_ms / 10 {
            judge.count("connections that were silent");
            self.break_off();
            self.wire = None;
            self.waits(now_ms);
        }
    }

    fn name_of(&self, name: usize) -> String {
        format!("{} {name}", self.key.bucket)
    }

    fn give_up_in_time(&mut self, now_ms: u64, judge: &mut Judge) {
        let local_ms = self.local(now_ms);
        if self.session.as_ref().is_some_and(|known| local_ms >= known.deadline_ms()) {
            judge.count("sessions past their deadline");
            judge.note(|| format!("{} ends its session", self.name));
            self.session = None;
            self.break_off();
            self.wire = None;
            self.requests.retain(|_, request| match &request.state {
                RequestState::Held { due_ms, .. } => due_ms.is_some_and(|due_ms| local_ms < due_ms),
                RequestState::Pending => false,
            });
        }
        let overdue = |_: &u64, request: &mut Request| match &request.state {
            RequestState::Held { due_ms: Some(due_ms), .. } => local_ms >= *due_ms,
            _ => false,
        };
        let overdue: Vec<u64> = self.requests.extract_if(.., overdue).map(|(id, _)| id).collect();
        for id in overdue {
            judge.count("reclaims past their deadline");
            // A grant that still comes is given back.
            self.call(now_ms, Call::Release { id });
        }
    }

    fn receive(&mut self, now_ms: u64, judge: &mut Judge) {
        while let Some(wire) = self.wire.clone() {
            match wire.next_of_client(now_ms) {
                Input::Nothing => return,
                Input::Closed => {
                    self.wire = None;
                    self.waits(now_ms);
                }
                Input::Message(message) => {
                    self.heard_ms = self.local(now_ms);
                    self.message(now_ms, message, &wire, judge);
                }
            }
        }
    }

    fn message(&mut self, now_ms: u64, message: ToClient, wire: &Wire, judge: &mut Judge) {
        let local_ms = self.local(now_ms);
        match message {
            ToClient::Welcome { secret, resumed, received, lease_ms } => {
                self.is_welcomed = true;
                if resumed && self.session.as_ref().is_some_and(|known| known.secret == secret) {
                    judge.count("resumed");
                    judge.note(|| format!("{} resumes its session", self.name));
                    self.resumed(now_ms, received, wire);
                } else {
                    self.begins(now_ms, secret, lease_ms, judge);
                }
            }
            ToClient::Ping { n, answered, ack } => {
                let Some(known) = &mut self.session else { return };
                known.acknowledged(ack);
                while let Some((_, sent_ms)) = known.pongs.pop_front_if(|(of, _)| *of <= answered) {
                    known.confirmed_ms = known.confirmed_ms.max(sent_ms);
                }
                known.pongs.push_back((n, local_ms));
                wire.send_to_node(now_ms, ToNode::Pong { n, ack: known.received });
            }
            ToClient::Event { seq, event } => {
                let Some(known) = &mut self.session else { return };
                if seq == known.received + 1 {
                    known.received = seq;
                    self.event(now_ms, event, judge);
                }
            }
        }
    }

    fn resumed(&mut self, now_ms: u64, received: u64, wire: &Wire) {
        let Some(known) = &mut self.session else { return };
        known.confirmed_ms = known.confirmed_ms.max(self.hello_ms);
        known.pongs.clear();
        known.acknowledged(received);
        for (seq, call) in known.unacknowledged.clone() {
            wire.send_to_node(now_ms, ToNode::Call { seq, call });
        }
    }

    /// A new session: held locks are brought back, then the rest is asked for again.
    fn begins(&mut self, now_ms: u64, secret: Arc<str>, lease_ms: u64, judge: &mut Judge) {
        let deadline_ms = self.session.as_ref().map(Known::deadline_ms);
        let had_session = self.session.is_some();
        judge.note(|| format!("{} begins session {secret}, instead of one: {had_session}", self.name));
        self.session = Some(Known {
            secret,
            lease_ms,
            confirmed_ms: self.hello_ms,
            pongs: VecDeque::new(),
            sent: 0,
            unacknowledged: VecDeque::new(),
            received: 0,
        });
        let former = std::mem::take(&mut self.requests);
        let mut pending = Vec::new();
        for request in former.into_values() {
            match request.state {
                RequestState::Pending => pending.push(request.name),
                RequestState::Held { token, ticket: Some(ticket), due_ms } => {
                    judge.count("reclaims");
                    let due_ms = due_ms.or(deadline_ms);
                    let id = self.next_id();
                    let name = self.resource(request.name);
                    let state = RequestState::Held { token, ticket: Some(ticket.clone()), due_ms };
                    self.requests.insert(id, Request { name: request.name, state });
                    self.call(now_ms, Call::Reclaim { id, name, token, ticket });
                }
                RequestState::Held { ticket: None, .. } => {}
            }
        }
        if had_session {
            self.call(now_ms, Call::Reclaimed);
        }
        pending.into_iter().for_each(|name| self.request(now_ms, name));
    }

    fn event(&mut self, now_ms: u64, event: Event, judge: &mut Judge) {
        match event {
            Event::Granted { id, token, ticket } => {
                let Some(request) = self.requests.get_mut(&id) else {
                    return self.call(now_ms, Call::Release { id });
                };
                let is_new = matches!(request.state, RequestState::Pending);
                let name = request.name;
                request.state = RequestState::Held { token, ticket, due_ms: None };
                if is_new {
                    self.grants += 1;
                    judge.count("granted");
                    judge.begins(&self.name, &self.name_of(name), token.get());
                } else {
                    judge.count("reclaimed");
                    judge.note(|| format!("{} has brought token {token} back", self.name));
                }
            }
            Event::Lost { id } => {
                judge.count("lost");
                judge.note(|| format!("{} has lost request {id}", self.name));
                self.requests.remove(&id);
            }
            Event::Refused { id } => {
                self.requests.remove(&id);
            }
        }
    }

    /// Asks for names, writes with them, and gives them back.
    fn use_locks(&mut self, now_ms: u64, judge: &mut Judge) {
        if self.session.is_some() && self.requests.len() < self.most && self.random.percent(4) {
            let name = self.random.below(self.names);
            if self.requests.values().all(|request| request.name != name) {
                judge.count("commands");
                self.request(now_ms, name);
            }
        }
        let is_held = |(_, request): &(&u64, &Request)| {
            matches!(request.state, RequestState::Held { due_ms: None, .. })
        };
        let held: Vec<u64> = self.requests.iter().filter(is_held).map(|(id, _)| *id).collect();
        if let Some(id) = self.random.pick(&held).copied()
            && self.random.below(1000) < self.gives_back
        {
            judge.count("commands");
            let request = self.requests.remove(&id);
            judge.note(|| format!("{} gives {request:?} back", self.name));
            self.call(now_ms, Call::Release { id });
        }
    }

    fn request(&mut self, now_ms: u64, name: usize) {
        let id = self.next_id();
        self.requests.insert(id, Request { name, state: RequestState::Pending });
        let name = self.resource(name);
        self.call(now_ms, Call::Request { id, name });
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    #[expect(clippy::unwrap_used, reason = "no name is too long")]
    fn resource(&self, name: usize) -> NameBuf {
        NameBuf::new(&self.name_of(name)).unwrap()
    }

    /// Sends it now, or with the next connection.
    fn call(&mut self, now_ms: u64, call: Call) {
        let Some(known) = &mut self.session else { return };
        known.sent += 1;
        known.unacknowledged.push_back((known.sent, call.clone()));
        if let Some(wire) = self.wire.as_ref().filter(|_| self.is_welcomed) {
            wire.send_to_node(now_ms, ToNode::Call { seq: known.sent, call });
        }
    }
}

impl Known {
    fn deadline_ms(&self) -> u64 {
        self.confirmed_ms + self.lease_ms / 10 * 9
    }

    fn acknowledged(&mut self, ack: u64) {
        while self.unacknowledged.pop_front_if(|(seq, _)| *seq <= ack).is_some() {}
    }
}
