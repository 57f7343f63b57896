//! A client with web locks: it comes to any node, keeps its session alive, and brings its locks back where
//! that has ended.

use std::ops::Range;
use std::sync::Arc;

use lockhouse::fleet::BucketPlace;
use lockhouse::{BucketKey, House};
use random::Random;
use tokio::runtime::Handle;

use super::node::Nodes;
use super::session::{Locks, Session};
use super::tally::Tally;

/// The lease of all agents, and the pause between two pings: the defaults of a server.
pub(super) const LEASE_MS: u64 = 10_000;
pub(super) const HEARTBEAT_MS: u64 = LEASE_MS / 10;

/// A client gives a connection up that has been silent for so long.
const SILENCE_MS: u64 = 3 * HEARTBEAT_MS;

/// How long a node waits for a bucket that moves, and for a connection to another node.
const PATIENCE_MS: u64 = 1000;

/// The pause between two looks for what is waited for.
const LOOK_MS: u64 = 10;

/// A client.
pub(super) struct Client {
    name: String,
    bucket: BucketKey,
    locks: Locks,
    link: Link,
    /// The node that it tries next; its URLs name all of them.
    next_gateway: usize,
    session: Option<Session>,
    sessions: u64,
    /// The secret of the session whose locks it brings back.
    former: Option<Arc<str>>,
    /// The sending of the last pong that is confirmed: it relies on its locks for nine tenths of the lease
    /// after that.
    confirmed_ms: u64,
    /// When its present connection got its welcome.
    welcome_ms: u64,
    /// When it has heard of its node last.
    heard_ms: u64,
    next_ping_ms: u64,
    /// When its next turn is.
    pub(super) due_ms: u64,
    /// Since when it lacks its connection or a lock.
    lacks_since_ms: Option<u64>,
    /// When it had all of its locks for the first time.
    pub(super) first_complete_ms: Option<u64>,
}

#[derive(Clone, Copy)]
enum Link {
    /// None; it looks for a node in its next turn.
    Down,
    /// The gateway waits for the bucket, until then, to be elsewhere than at the node that it has tried.
    Waiting { gateway: usize, until_ms: u64, tried: Option<usize> },
    /// It is connected, perhaps to one that is gone.
    Up { gateway: usize },
}

/// What a client takes its turn with.
pub(super) struct Turn<'a> {
    pub(super) now_ms: u64,
    pub(super) nodes: &'a Nodes,
    pub(super) tally: &'a mut Tally,
    pub(super) random: &'a mut Random,
}

impl Turn<'_> {
    fn pause_ms(&mut self) -> u64 {
        self.random.below(HEARTBEAT_MS as usize) as u64
    }
}

impl Client {
    /// A client that wants these locks, and connects at that instant.
    pub(super) fn new(number: usize, bucket: BucketKey, locks: Range<usize>, at_ms: u64) -> Self {
        let (first, held) = (locks.start, locks.map(|_| None).collect());
        Self {
            name: format!("client-{number}"),
            bucket,
            locks: Locks { first, held },
            link: Link::Down,
            next_gateway: number,
            session: None,
            sessions: 0,
            former: None,
            confirmed_ms: at_ms,
            welcome_ms: at_ms,
            heard_ms: at_ms,
            next_ping_ms: at_ms,
            due_ms: at_ms,
            lacks_since_ms: Some(at_ms),
            first_complete_ms: None,
        }
    }

    pub(super) fn bucket(&self) -> &BucketKey {
        &self.bucket
    }

    /// The number of the first of its locks.
    pub(super) fn first_lock(&self) -> usize {
        self.locks.first
    }

    /// Whether it has its connection and all locks.
    pub(super) fn is_complete(&self) -> bool {
        self.lacks_since_ms.is_none()
    }

    /// Until when it relies on its locks.
    pub(super) fn deadline_ms(&self) -> u64 {
        self.confirmed_ms + LEASE_MS / 10 * 9
    }

    /// Its connection ends, and it connects anew after that pause.
    pub(super) fn disconnect(&mut self, now_ms: u64, pause_ms: u64) {
        self.link = Link::Down;
        self.lacks_since_ms.get_or_insert(now_ms);
        self.due_ms = now_ms + pause_ms;
    }

    /// That node is about to be gone without a word; called in the context of its runtime.
    pub(super) fn loses(&mut self, now_ms: u64, node: usize) {
        let session = self.session.take_if(|session| session.node == node);
        let is_cut = session.is_some()
            || match self.link {
                Link::Up { gateway } | Link::Waiting { gateway, .. } => gateway == node,
                Link::Down => false,
            };
        if let Some(session) = session {
            self.former = Some(session.secret);
        }
        if is_cut {
            self.lacks_since_ms.get_or_insert(now_ms);
            if !matches!(self.link, Link::Down) {
                self.link = Link::Down;
                // It connects anew once that was silent for too long.
                self.due_ms = (self.heard_ms + SILENCE_MS).max(now_ms);
            }
        }
    }

    /// A house of that node has ended: the client hears of it, if it was that of its session.
    pub(super) fn hears_from(&mut self, node: usize, now_ms: u64) {
        if self.session.as_ref().is_some_and(|session| session.node == node) {
            self.due_ms = self.due_ms.min(now_ms);
        }
    }

    /// One turn, which sets the instant of the next one.
    pub(super) fn act(&mut self, turn: &mut Turn<'_>) {
        // A session that ends does so where it is.
        let handle = self.session.as_ref().and_then(|session| turn.nodes.handle(session.node));
        let _context = handle.as_ref().map(Handle::enter);
        if self.lacks_since_ms.is_some() && turn.now_ms >= self.deadline_ms() {
            self.give_up(turn);
        }
        match self.link {
            Link::Down => self.connect(turn),
            Link::Waiting { gateway, until_ms, tried } => self.wait((gateway, until_ms), tried, turn),
            Link::Up { .. } => self.live(turn),
        }
    }

    /// Past its deadline every lock is lost.
    fn give_up(&mut self, turn: &mut Turn<'_>) {
        let lost = self.locks.held.iter_mut().filter_map(Option::take).count();
        if lost > 0 {
            turn.tally.locks_lost += lost as u64;
            (self.session, self.former, self.link) = (None, None, Link::Down);
        }
    }

    /// Tries one node after another.
    fn connect(&mut self, turn: &mut Turn<'_>) {
        turn.tally.attempts += 1;
        let gateway = self.next_gateway % turn.nodes.count();
        self.next_gateway = gateway + 1;
        if turn.nodes.runs(gateway) {
            self.wait((gateway, turn.now_ms + PATIENCE_MS), None, turn);
        } else {
            // It does not answer.
            self.due_ms = turn.now_ms + HEARTBEAT_MS;
        }
    }

    /// The gateway looks for the node that has the bucket.
    fn wait(&mut self, (gateway, until_ms): (usize, u64), tried: Option<usize>, turn: &mut Turn<'_>) {
        if turn.now_ms >= until_ms {
            turn.tally.refusals += 1;
            let pause_ms = turn.pause_ms();
            return self.disconnect(turn.now_ms, pause_ms);
        }
        self.link = Link::Waiting { gateway, until_ms, tried };
        self.due_ms = turn.now_ms + LOOK_MS;
        let (node, house) = match turn.nodes.find(gateway, &self.bucket) {
            BucketPlace::Here(house) => (gateway, house),
            BucketPlace::Moving => return,
            BucketPlace::There(row) => {
                let owner = turn.nodes.number_of(&row.label).filter(|owner| Some(*owner) != tried);
                let Some(owner) = owner else { return };
                turn.tally.hops += 1;
                self.link = Link::Waiting { gateway, until_ms, tried: Some(owner) };
                if !turn.nodes.runs(owner) {
                    // The connection to it is not answered.
                    self.due_ms = turn.now_ms + PATIENCE_MS;
                    return;
                }
                let BucketPlace::Here(house) = turn.nodes.find(owner, &self.bucket) else { return };
                (owner, house)
            }
        };
        self.link = Link::Up { gateway };
        self.welcomed(node, house, turn);
    }

    /// The node that has the bucket answers the hello.
    fn welcomed(&mut self, node: usize, house: House, turn: &mut Turn<'_>) {
        turn.tally.to_nodes += 1;
        turn.tally.to_clients += 1;
        (self.welcome_ms, self.heard_ms) = (turn.now_ms, turn.now_ms);
        self.next_ping_ms = turn.now_ms + turn.pause_ms();
        let Some(handle) = turn.nodes.handle(node) else { return };
        let _context = handle.enter();
        let is_known = |session: &&Session| session.node == node && !session.is_over();
        if let Some(session) = self.session.as_ref().filter(is_known) {
            session.renew();
            turn.tally.resumed += 1;
            self.confirmed_ms = turn.now_ms;
        } else {
            if let Some(session) = self.session.take() {
                self.former = Some(session.secret);
            }
            self.sessions += 1;
            let secret = format!("{}/{}", self.name, self.sessions).into();
            let capacity = 100 + 4 * self.locks.held.len();
            turn.tally.to_nodes += 1;
            self.session = Session::begin(node, house, &self.bucket, (&self.name, secret), capacity);
        }
        self.live(turn);
    }

    fn live(&mut self, turn: &mut Turn<'_>) {
        let now_ms = turn.now_ms;
        let Some(session) = &mut self.session else { return };
        session.take_notices(&mut self.locks, turn.tally);
        session.ask(&self.locks, self.former.as_deref(), turn.tally);
        session.take_notices(&mut self.locks, turn.tally);
        if session.is_over() {
            self.former = self.session.take().map(|session| session.secret);
            // The pauses are spread over the sessions.
            let pause_ms = turn.pause_ms();
            return self.disconnect(now_ms, pause_ms);
        }
        let is_complete = session.is_answered() && self.locks.held.iter().all(Option::is_some);
        if now_ms >= self.next_ping_ms && session.beat() {
            turn.tally.heartbeats += 1;
            if is_complete {
                // The ping confirms the pong to the one before.
                self.confirmed_ms = self.heard_ms;
            }
            (self.heard_ms, self.next_ping_ms) = (now_ms, now_ms + HEARTBEAT_MS);
        }
        if now_ms >= self.heard_ms + SILENCE_MS {
            return self.disconnect(now_ms, 0);
        }
        self.due_ms = if is_complete { self.next_ping_ms.max(now_ms + LOOK_MS) } else { now_ms + LOOK_MS };
        if is_complete && let Some(since_ms) = self.lacks_since_ms.take() {
            self.first_complete_ms.get_or_insert(now_ms);
            (self.former, self.confirmed_ms) = (None, self.confirmed_ms.max(self.welcome_ms));
            turn.tally.longest_gap_ms = turn.tally.longest_gap_ms.max(now_ms - since_ms);
        }
    }
}
