//! Remote clients, with a lease and with tickets: their web locks outlive a crash of the server, if the
//! clients come back in time.

mod receiving;

use std::sync::Arc;

use lockhouse::core::Acquire;
use lockhouse::{FencingToken, Mode, NameBuf};
use lockhouse_wire::{ClientCall, Reclaim, Ticket};
use random::Random;

use super::owner_client::mode;
use super::session::{AGENT, Break, Orphan, Session};
use crate::history::record::{Gain, Invocation, Reason, What};
use crate::sim::journal::Journal;
use crate::sim::ledger::Ledger;
use crate::sim::server::{LATEST_END_MS, NAMES, Place, ServerLife, WANTED};

/// A remote client of web locks; when it dies, another one comes in its place.
#[derive(Debug)]
pub(crate) struct RemoteWebClient {
    label: String,
    /// The name in the history, for each life of the client.
    name: Arc<str>,
    lives: u64,
    place: Place,
    session: Option<Session>,
    /// Sessions that the client has given up, and the server not yet.
    orphans: Vec<Orphan>,
    requests: Vec<Request>,
    queries: Vec<Query>,
    old: Vec<Old>,
    last_tag: u64,
    /// The client does nothing until then.
    paused_until: u64,
    /// No frame passes between the client and the server until then, and no connection begins.
    cut_until: u64,
}

/// A snapshot that was asked for.
#[derive(Debug)]
struct Query {
    tag: u64,
    /// The tags of the locks that were held by then.
    held: Vec<u64>,
}

#[derive(Debug)]
struct Request {
    op: u64,
    name: usize,
    acquire: Acquire,
    max_hold_ms: Option<u64>,
    /// The tag of the latest attempt.
    tag: u64,
    state: RequestState,
}

#[derive(Debug)]
enum RequestState {
    Pending,
    Held(Held),
}

#[derive(Debug)]
struct Held {
    token: FencingToken,
    ticket: Option<(Ticket<'static>, u64)>,
    /// The deadline of the session that it came from, until it is reclaimed.
    until: Option<u64>,
}

/// A lock that it had once.
#[derive(Clone, Debug)]
struct Old {
    name: usize,
    mode: Mode,
    token: FencingToken,
    ticket: Ticket<'static>,
    epoch: u64,
}

/// The beginning of the labels of remote clients.
pub(crate) const REMOTE_LABEL: &str = "tab-";

impl RemoteWebClient {
    pub(crate) fn new(number: usize, place: Place) -> Self {
        let label = format!("{REMOTE_LABEL}{number}");
        Self {
            name: format!("{label}.1").into(),
            label,
            lives: 1,
            place,
            session: None,
            orphans: Vec::new(),
            requests: Vec::new(),
            queries: Vec::new(),
            old: Vec::new(),
            last_tag: 0,
            paused_until: 0,
            cut_until: 0,
        }
    }

    /// Asks for something, gives something back, or gives something up.
    pub(crate) fn act(&mut self, life: &ServerLife, random: &mut Random) {
        if self.is_away(&life.server.journal) {
            return;
        }
        self.receive(life);
        self.connect_if_need_be(life, random);
        let Some(session) = &self.session else { return };
        if !session.is_known() {
            return;
        }
        let pending = self.requests.iter().filter(|request| matches!(request.state, RequestState::Pending));
        match random.below(100) {
            0..47 if pending.count() < 3 => self.request(life, random),
            0..75 => self.release(life, random),
            75..83 => self.abort(life, random),
            83..86 => self.query(life),
            86..92 => self.present_an_old_ticket(life, random),
            92..95 => self.leave_at_once(life),
            95..97 => self.is_killed(life, random),
            _ => {}
        }
    }

    /// Connects, for the first time or again.
    pub(crate) fn connect_if_need_be(&mut self, life: &ServerLife, random: &mut Random) {
        if self.is_away(&life.server.journal) {
            return;
        }
        match &mut self.session {
            Some(session) => session.connect_if_need_be(life, random),
            None => self.session = Some(Session::begin(life, &self.place, &self.label, random)),
        }
    }

    /// Stops the client for this time, like a sleeping laptop.
    pub(crate) fn pause(&mut self, now_ms: u64, ms: u64) {
        self.paused_until = now_ms + ms;
    }

    /// For this time nothing passes between client and server, or their connection breaks off and no other
    /// one begins.
    pub(crate) fn cut(&mut self, journal: &Journal, ms: u64, random: &mut Random) {
        self.cut_until = journal.now_ms() + ms;
        let Some(session) = &mut self.session else { return };
        match random.below(4) {
            0 => {
                journal.count("web: connection broken off for the client");
                session.break_off(Break::ForTheClient, random);
            }
            1 => {
                journal.count("web: connection broken off");
                session.break_off(Break::ForBoth, random);
            }
            _ => session.set_stalled(true),
        }
    }

    /// The faults are over.
    pub(crate) fn is_back(&mut self) {
        self.paused_until = 0;
        self.is_uncut();
    }

    /// Answers pings and connects again, as far as the client runs and nothing is cut.
    pub(crate) fn time_has_passed(&mut self, life: &ServerLife, random: &mut Random) {
        let journal = &life.server.journal;
        self.nothing_comes(journal, Some(life));
        self.receive(life);
        if self.session.is_some() {
            self.connect_if_need_be(life, random);
        }
        self.check_sessions(life);
    }

    /// No session ends before its client has given it up, nor long after that.
    fn check_sessions(&mut self, life: &ServerLife) {
        let journal = &life.server.journal;
        if let Some(session) = self.session.take_if(|session| session.is_missed(life)) {
            let deadline = session.deadline_ms().unwrap_or_default();
            journal.breach(format!(
                "a session has ended, but its client, {}, counts on it until {deadline} ms",
                self.name
            ));
            self.hold_until(deadline);
        }
        self.orphans.retain(|orphan| {
            let after = life.ran_ms() - orphan.since_ms;
            if !life.has_session(&orphan.id) {
                return false;
            }
            let is_too_long = after > orphan.lease_ms + LATEST_END_MS;
            if is_too_long {
                journal.breach(format!(
                    "a session of {} goes on {after} ms after its client has gone, with a lease of {} ms",
                    self.label, orphan.lease_ms
                ));
            }
            !is_too_long
        });
    }

    /// Time has passed; none if the server was not there.
    pub(crate) fn nothing_comes(&mut self, journal: &Journal, life: Option<&ServerLife>) {
        if journal.now_ms() >= self.paused_until {
            self.check_deadlines(journal, life);
        }
        if journal.now_ms() >= self.cut_until {
            self.is_uncut();
        }
    }

    fn is_uncut(&mut self) {
        self.cut_until = 0;
        if let Some(session) = &self.session {
            session.set_stalled(false);
        }
    }

    /// Whether it has a session, and a connection on which everything passes.
    pub(crate) fn is_connected(&self) -> bool {
        self.cut_until == 0 && self.session.as_ref().is_some_and(Session::is_open)
    }

    /// Reads what the server has sent.
    pub(crate) fn receive(&mut self, life: &ServerLife) {
        let journal = &life.server.journal;
        if self.is_away(journal) {
            return;
        }
        self.check_deadlines(journal, Some(life));
        let Some(session) = &mut self.session else { return };
        for frame in session.read(&life.server) {
            self.take(life, frame);
        }
        if !self.session.as_ref().is_some_and(Session::is_open) {
            self.queries.clear();
        }
    }

    /// The connection is gone, and the next answer comes from another life of the server.
    pub(crate) fn server_is_gone(&mut self) {
        self.orphans.clear();
        self.queries.clear();
        if let Some(session) = &mut self.session {
            session.disconnect();
        }
    }

    /// Gives back and gives up everything.
    pub(crate) fn leave(&mut self, life: &ServerLife, random: &mut Random) {
        self.receive(life);
        self.connect_if_need_be(life, random);
        while let Some(at) =
            self.requests.iter().position(|request| matches!(request.state, RequestState::Held(_)))
        {
            self.release_at(life, at);
        }
    }

    pub(crate) fn has_left(&self) -> bool {
        self.requests.is_empty() && self.orphans.is_empty() && self.queries.is_empty()
    }

    /// The last word of its last life.
    pub(crate) fn says_goodbye(&mut self, life: &ServerLife) {
        self.leave_at_once(life);
    }

    /// Whether it counts on a lock, and may: it is not about to read that it lost it.
    pub(crate) fn holds(&self, now_ms: u64) -> bool {
        if self.session.as_ref().is_none_or(Session::has_unread) {
            return false;
        }
        let of_session = self.session.as_ref().and_then(Session::deadline_ms).unwrap_or_default();
        self.requests.iter().any(|request| match &request.state {
            RequestState::Held(held) => held.until.unwrap_or(of_session) > now_ms,
            _ => false,
        })
    }

    /// The requests that the client still waits for.
    pub(crate) fn waits(&self) -> String {
        format!("{}: {:?}, {:?}", self.name, self.requests, self.queries)
    }

    fn is_away(&self, journal: &Journal) -> bool {
        journal.now_ms() < self.paused_until.max(self.cut_until)
    }

    /// Past its deadline the client ends the session itself, and every lock of it is lost.
    fn check_deadlines(&mut self, journal: &Journal, life: Option<&ServerLife>) {
        let now = journal.now_ms();
        let is_over = |session: &Session| session.deadline_ms().is_some_and(|deadline| deadline < now);
        if let Some(session) = self.session.take_if(|session| is_over(session)) {
            journal.count("web: sessions past their deadline");
            self.hold_until(session.deadline_ms().unwrap_or_default());
            self.orphans.extend(life.and_then(|life| session.abandon(life)));
            self.queries.clear();
        }
        let passed = |request: &Request| match &request.state {
            RequestState::Held(Held { until: Some(until), .. }) => (*until < now).then_some(*until),
            _ => None,
        };
        for at in (0..self.requests.len()).rev() {
            if let Some(until) = passed(&self.requests[at]) {
                journal.lost(&self.name, self.requests[at].op, Some(until));
                self.forget(at);
            }
        }
    }

    /// Locks are held until then, unless they are reclaimed; pending requests are sent again, except steals.
    fn hold_until(&mut self, deadline_ms: u64) {
        for request in &mut self.requests {
            request.tag = 0;
            if let RequestState::Held(held) = &mut request.state {
                held.until.get_or_insert(deadline_ms);
            }
        }
    }

    fn next_tag(&mut self) -> u64 {
        self.last_tag += 2;
        self.last_tag
    }

    fn request(&mut self, life: &ServerLife, random: &mut Random) {
        let name = random.below(WANTED);
        let wish = if random.percent(40) { Mode::Shared } else { Mode::Exclusive };
        let acquire = match random.below(100) {
            0..10 => Acquire::Steal,
            10..30 => Acquire::IfAvailable(wish),
            _ => Acquire::Wait(wish),
        };
        let max_hold_ms = random.percent(15).then(|| 20 + random.below(400) as u64);
        let call = Invocation::Request {
            name: NAMES[name].to_owned(),
            mode: mode(acquire.mode()),
            steal: acquire == Acquire::Steal,
            max_hold_ms,
        };
        life.server.journal.count("commands");
        // The request goes on over the lives of the server.
        let op = life.server.journal.invoke(&self.name, 0, self.place.label, call);
        let state = RequestState::Pending;
        self.requests.push(Request { op, name, acquire, max_hold_ms, tag: 0, state });
        self.send(life, self.requests.len() - 1);
    }

    fn release(&mut self, life: &ServerLife, random: &mut Random) {
        let is_held = |request: &Request| matches!(request.state, RequestState::Held(_));
        let held: Vec<usize> = (0..self.requests.len()).filter(|at| is_held(&self.requests[*at])).collect();
        if let Some(at) = random.pick(&held) {
            life.server.journal.count("commands");
            self.release_at(life, *at);
        }
    }

    fn release_at(&mut self, life: &ServerLife, at: usize) {
        let request = &self.requests[at];
        let RequestState::Held(held) = &request.state else { return };
        let release = life.server.journal.invoke(
            &self.name,
            0,
            self.place.label,
            Invocation::Release { of: request.op },
        );
        life.server.journal.ok(Some(release), false, Gain::default());
        // A reclaim that is under way is given back once it is answered.
        if held.until.is_none() && request.tag > 0 {
            self.give_back(request.tag);
        }
        self.forget(at);
    }

    fn give_back(&mut self, tag: u64) {
        if let Some(session) = &mut self.session {
            session.call(ClientCall::Release { id: tag, reply: false });
        }
    }

    fn abort(&mut self, life: &ServerLife, random: &mut Random) {
        let can = |request: &Request| {
            matches!(request.state, RequestState::Pending) && request.acquire != Acquire::Steal
        };
        let pending: Vec<usize> = (0..self.requests.len()).filter(|at| can(&self.requests[*at])).collect();
        let Some(at) = random.pick(&pending).copied() else { return };
        let journal = &life.server.journal;
        journal.count("web: aborted");
        journal.refused(Some(self.requests[at].op), Reason::Other);
        // A grant that crosses the abort is given back.
        let Request { tag, .. } = self.requests.remove(at);
        if let Some(session) = self.session.as_mut().filter(|_| tag > 0) {
            session.call(ClientCall::Abort { id: tag });
        }
    }

    /// Asks for a snapshot, in which everything has to be that is held all the time until it comes.
    fn query(&mut self, life: &ServerLife) {
        let tag = self.next_tag();
        let is_held = |request: &&Request| match &request.state {
            RequestState::Held(held) => held.until.is_none(),
            RequestState::Pending => false,
        };
        let held = self.requests.iter().filter(is_held).map(|request| request.tag).collect();
        if self.session.as_mut().is_some_and(|session| session.query(tag)) {
            life.server.journal.count("web: queries");
            self.queries.push(Query { tag, held });
        }
    }

    /// Presents a ticket that is void, or that belongs to another lock.
    fn present_an_old_ticket(&mut self, life: &ServerLife, random: &mut Random) {
        let tag = self.next_tag() + 1;
        let since = life.server.disk.ledger(Ledger::tickets_since);
        let Some(mut old) = random.pick(&self.old).cloned() else { return };
        let is_void = old.epoch < since || old.epoch == life.server.epoch;
        if !is_void {
            match random.below(3) {
                0 => old.name = (old.name + 1) % WANTED,
                1 => old.token = FencingToken::new(old.token.get() + 1),
                _ => {
                    old.mode = if old.mode == Mode::Shared { Mode::Exclusive } else { Mode::Shared };
                }
            }
        }
        let Some(session) = &mut self.session else { return };
        let Ok(name) = NameBuf::new(NAMES[old.name]) else { return };
        let (mode, token) = (old.mode, old.token);
        life.server.journal.count("web: void tickets");
        session.is_void(tag);
        session.call(ClientCall::Reclaim(Reclaim {
            id: tag,
            agent: AGENT,
            name,
            mode,
            token,
            ticket: old.ticket,
            metadata: None,
            max_hold_ms: None,
        }));
    }

    /// Ends the session with a goodbye, and begins anew.
    fn leave_at_once(&mut self, life: &ServerLife) {
        let journal = life.server.journal.clone();
        for at in (0..self.requests.len()).rev() {
            match &self.requests[at].state {
                RequestState::Held(_) => {
                    let call = Invocation::Release { of: self.requests[at].op };
                    let release = journal.invoke(&self.name, 0, self.place.label, call);
                    journal.ok(Some(release), false, Gain::default());
                }
                RequestState::Pending if self.requests[at].acquire == Acquire::Steal => {
                    journal.unknown(Some(self.requests[at].op));
                }
                RequestState::Pending => journal.refused(Some(self.requests[at].op), Reason::Other),
            }
            self.forget(at);
        }
        if let Some(mut session) = self.session.take() {
            session.bye();
            self.orphans.extend(session.abandon(life));
        }
        self.queries.clear();
        journal.write(What::ClientEnded { client: self.name.to_string() });
        self.lives_again();
    }

    /// Ends the client without a goodbye; the server only sees that no frame comes any more.
    fn is_killed(&mut self, life: &ServerLife, random: &mut Random) {
        let journal = &life.server.journal;
        journal.count("web: clients killed");
        journal.gives_up(&self.name);
        journal.write(What::ClientKilled { client: self.name.to_string() });
        while !self.requests.is_empty() {
            self.forget(self.requests.len() - 1);
        }
        if let Some(mut session) = self.session.take() {
            let how = if random.percent(50) { Break::ForBoth } else { Break::ForTheClient };
            session.break_off(how, random);
            self.orphans.extend(session.abandon(life));
        }
        self.queries.clear();
        self.lives_again();
    }

    fn lives_again(&mut self) {
        self.lives += 1;
        self.name = format!("{}.{}", self.label, self.lives).into();
    }

    fn at(&self, tag: u64) -> Option<usize> {
        self.requests.iter().position(|request| request.tag == tag)
    }

    fn forget(&mut self, at: usize) {
        self.keep_ticket(at);
        self.requests.remove(at);
    }

    fn keep_ticket(&mut self, at: usize) {
        let Request { name, acquire, state, .. } = &self.requests[at];
        if let RequestState::Held(Held { token, ticket: Some((ticket, epoch)), .. }) = state {
            let (name, mode, token, ticket) = (*name, acquire.mode(), *token, ticket.clone());
            self.old.push(Old { name, mode, token, ticket, epoch: *epoch });
        }
    }
}
