//! A connection between a client and a node, in both directions: in order, slow, and broken off at any time.

use std::collections::VecDeque;
use std::sync::Arc;

use lockhouse::{FencingToken, NameBuf};
use parking_lot::Mutex;
use random::Random;

/// A message to a node.
#[derive(Clone, Debug)]
pub(super) enum ToNode {
    /// The first one.
    Hello {
        client: Arc<str>,
        resume: Option<Resume>,
    },
    Pong {
        n: u64,
        ack: u64,
    },
    Call {
        seq: u64,
        call: Call,
    },
}

/// The session that a client had.
#[derive(Clone, Debug)]
pub(super) struct Resume {
    pub(super) secret: Arc<str>,
    pub(super) received: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Call {
    Request {
        id: u64,
        name: NameBuf,
    },
    Reclaim {
        id: u64,
        name: NameBuf,
        token: FencingToken,
        ticket: String,
    },
    /// No further reclaim comes.
    Reclaimed,
    Release {
        id: u64,
    },
}

/// A message to a client.
#[derive(Clone, Debug)]
pub(super) enum ToClient {
    Welcome { secret: Arc<str>, resumed: bool, received: u64, lease_ms: u64 },
    Ping { n: u64, answered: u64, ack: u64 },
    Event { seq: u64, event: Event },
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Granted { id: u64, token: FencingToken, ticket: Option<String> },
    Lost { id: u64 },
    Refused { id: u64 },
}

/// What an end of a wire finds.
#[derive(Debug)]
pub(super) enum Input<T> {
    Nothing,
    Message(T),
    Closed,
}

#[derive(Debug)]
pub(super) struct Wire(Mutex<State>);

#[derive(Debug)]
struct State {
    random: Random,
    is_calm: bool,
    to_node: VecDeque<(u64, ToNode)>,
    to_client: VecDeque<(u64, ToClient)>,
    is_broken: bool,
}

impl Wire {
    pub(super) fn new(seed: u64, is_calm: bool) -> Arc<Self> {
        let (to_node, to_client) = (VecDeque::new(), VecDeque::new());
        let random = Random::new(seed);
        Arc::new(Self(Mutex::new(State { random, is_calm, to_node, to_client, is_broken: false })))
    }

    pub(super) fn send_to_node(&self, now_ms: u64, message: ToNode) {
        let mut state = self.0.lock();
        let behind = state.to_node.back().map(|(due, _)| *due);
        let due_ms = state.due(now_ms, behind);
        if !state.is_broken {
            state.to_node.push_back((due_ms, message));
        }
    }

    pub(super) fn send_to_client(&self, now_ms: u64, message: ToClient) {
        let mut state = self.0.lock();
        let behind = state.to_client.back().map(|(due, _)| *due);
        let due_ms = state.due(now_ms, behind);
        if !state.is_broken {
            state.to_client.push_back((due_ms, message));
        }
    }

    pub(super) fn next_of_node(&self, now_ms: u64) -> Input<ToNode> {
        let mut state = self.0.lock();
        let State { to_node, is_broken, .. } = &mut *state;
        next(to_node, *is_broken, now_ms)
    }

    pub(super) fn next_of_client(&self, now_ms: u64) -> Input<ToClient> {
        let mut state = self.0.lock();
        let State { to_client, is_broken, .. } = &mut *state;
        next(to_client, *is_broken, now_ms)
    }

    /// The connection breaks off; what is on its way to either side may still arrive.
    pub(super) fn break_off(&self) {
        let mut state = self.0.lock();
        state.is_broken = true;
        if state.random.percent(50) {
            state.to_node.clear();
        }
        if state.random.percent(50) {
            state.to_client.clear();
        }
    }
}

impl State {
    fn due(&mut self, now_ms: u64, behind: Option<u64>) -> u64 {
        let slow = match self.random.below(100) {
            0 if !self.is_calm => 100 + self.random.below(2500) as u64,
            1..5 => self.random.below(120) as u64,
            _ => 1 + self.random.below(8) as u64,
        };
        (now_ms + slow).max(behind.unwrap_or_default())
    }
}

fn next<T>(queue: &mut VecDeque<(u64, T)>, is_broken: bool, now_ms: u64) -> Input<T> {
    match queue.pop_front_if(|(due, _)| *due <= now_ms) {
        Some((_, message)) => Input::Message(message),
        None if is_broken && queue.is_empty() => Input::Closed,
        None => Input::Nothing,
    }
}
