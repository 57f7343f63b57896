//! The requests and locks of a connection: the calls of their handles, and the events of the server.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use lockhouse_core::{Acquire, FencingToken, Limits, NameBuf, Refusal};
use lockhouse_wire::{
    ClientCall, EndedReason, ErrorCode, FrameProblem, HolderView, LostReason, ServerEvent, Ticket,
    WebLockRequest, WireLimits,
};
use tokio::sync::Notify;

use super::breach::ProtocolViolation;
use super::lease::Deadline;
use super::outbox::BACKLOG_FRAMES;
use super::reclaim::Proof;
use super::state::State;
use crate::error::{Quota, RequestError, Unavailable};
use crate::loss::Loss;
use crate::snapshot::Holder;

/// A request or lock, for as long as a future or a guard stands for it.
#[derive(Debug)]
pub(crate) struct RequestEntry {
    /// The agent, as its handle knows it.
    pub(crate) agent: u64,
    /// With its number in the present session.
    pub(crate) ask: WebLockRequest<'static>,
    pub(crate) stage: Stage,
    /// The future that waits, for the grant or for the answer to a release.
    waker: Option<Waker>,
    /// The listener for a loss.
    heard: Option<Arc<Notify>>,
    /// The proof with which it can be reclaimed.
    pub(crate) proof: Option<Box<Proof>>,
    /// While a reclaim is not answered, the deadline of the session in which the lock was granted.
    pub(crate) due: Option<Deadline>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Stage {
    /// The server was asked, or will be.
    Pending,
    /// The future has not taken note yet.
    Granted(FencingToken),
    /// Lost before the future took note.
    LostUnseen(FencingToken, Loss),
    Held,
    /// A release was sent whose answer is waited for.
    Releasing,
    Released,
    Lost(Loss),
    Failed(RequestError),
}

/// The end of a session, for its locks.
#[derive(Debug)]
pub(crate) struct SessionEnd {
    pub(crate) loss: Loss,
    /// Until when locks that can be reclaimed are held.
    pub(crate) deadline: Option<Deadline>,
    /// Whether this side sees the end before the server can grant the locks to others: they were held until
    /// now. An end that the server tells of may be an earlier one.
    pub(crate) is_seen_in_time: bool,
}

impl SessionEnd {
    /// An end that the server tells of.
    pub(crate) fn announced(loss: Loss) -> Self {
        Self { loss, deadline: None, is_seen_in_time: false }
    }

    /// An end at the session's own deadline, which is earlier than the server's.
    pub(crate) fn overdue(loss: Loss) -> Self {
        Self { loss, deadline: None, is_seen_in_time: true }
    }
}

/// The content of a request.
#[derive(Clone, Debug)]
pub(crate) struct NewAsk {
    pub(crate) name: NameBuf,
    pub(crate) acquire: Acquire,
    pub(crate) metadata: Option<String>,
    pub(crate) max_hold_ms: Option<u64>,
}

/// The calls of agents, futures and guards.
impl State {
    /// Makes a request; its key.
    pub(crate) fn request(&mut self, agent: u64, ask: NewAsk) -> Result<u64, RequestError> {
        self.expire_if_overdue();
        self.check_limits(agent, &ask)?;
        let number = self.join_again_if_refused(agent);
        let id = self.next_id();
        let NewAsk { name, acquire, metadata, max_hold_ms } = ask;
        let ask = WebLockRequest {
            id,
            agent: number,
            name,
            acquire,
            metadata: metadata.map(Into::into),
            max_hold_ms,
        };
        // `check_limits` has found the agent.
        if let Some(entry) = self.agents.get_mut(&agent) {
            entry.requests.insert(id);
        }
        self.send(ClientCall::Request(ask.clone()));
        let entry = RequestEntry {
            agent,
            ask,
            stage: Stage::Pending,
            waker: None,
            heard: None,
            proof: None,
            due: None,
        };
        self.entries.insert(id, entry);
        Ok(id)
    }

    /// A request that would end the connection or could never be granted is not even sent.
    fn check_limits(&self, agent: u64, ask: &NewAsk) -> Result<(), RequestError> {
        let entry = self.agents.get(&agent).ok_or(RequestError::AgentEnded)?;
        let units = ask.name.as_name().unit_count();
        let bytes = ask.metadata.as_ref().map_or(0, String::len);
        let refusal = if units > self.limits.name_units {
            Refusal::NameTooLong { units, limit: self.limits.name_units }
        } else if bytes > self.limits.metadata_bytes {
            Refusal::MetadataTooLong { bytes, limit: self.limits.metadata_bytes }
        } else if entry.requests.len() >= self.limits.requests_per_agent as usize {
            Refusal::TooManyRequests { limit: self.limits.requests_per_agent }
        } else if self.session.as_ref().is_some_and(|session| session.outbox.is_full()) {
            return Err(RequestError::Quota(Quota {
                field: "connection".to_owned(),
                value: format!("{BACKLOG_FRAMES} frames wait to be sent"),
                rule: "it cannot take one more request".to_owned(),
            }));
        } else {
            return Ok(());
        };
        Err(RequestError::Quota(Quota::of(&refusal).expect("each of these is about a bound")))
    }

    /// Whether the request has been granted or has failed.
    pub(crate) fn poll_grant(&mut self, key: u64, waker: &Waker) -> Poll<Result<FencingToken, RequestError>> {
        self.expire_if_overdue();
        let Some(entry) = self.entries.get_mut(&key) else {
            return Poll::Ready(Err(RequestError::AgentEnded));
        };
        match std::mem::replace(&mut entry.stage, Stage::Pending) {
            Stage::Granted(token) => {
                entry.stage = Stage::Held;
                Poll::Ready(Ok(token))
            }
            Stage::LostUnseen(token, loss) => {
                entry.stage = Stage::Lost(loss);
                Poll::Ready(Ok(token))
            }
            Stage::Failed(error) => {
                self.remove(key);
                Poll::Ready(Err(error))
            }
            _ => {
                self.displaced.extend(entry.waker.replace(waker.clone()));
                Poll::Pending
            }
        }
    }

    /// The future or the guard has gone: the request leaves its queue, the lock is released.
    pub(crate) fn forget(&mut self, key: u64) {
        let Some(entry) = self.remove(key) else { return };
        let id = entry.ask.id;
        match entry.stage {
            Stage::Pending => self.send(ClientCall::Abort { id }),
            Stage::Granted(_) | Stage::Held => self.send(ClientCall::Release { id, reply: false }),
            _ => {}
        }
    }

    /// Sends a release whose answer [`poll_released`](Self::poll_released) awaits.
    pub(crate) fn begin_release(&mut self, key: u64) {
        self.expire_if_overdue();
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.stage == Stage::Held
        {
            entry.stage = Stage::Releasing;
            let id = entry.ask.id;
            self.send(ClientCall::Release { id, reply: true });
        }
    }

    pub(crate) fn poll_released(&mut self, key: u64, waker: &Waker) -> Poll<Result<(), Loss>> {
        self.expire_if_overdue();
        let Some(entry) = self.entries.get_mut(&key) else { return Poll::Ready(Err(Loss::Terminated)) };
        match &entry.stage {
            Stage::Released => Poll::Ready(Ok(())),
            Stage::Lost(loss) => Poll::Ready(Err(loss.clone())),
            _ => {
                self.displaced.extend(entry.waker.replace(waker.clone()));
                Poll::Pending
            }
        }
    }

    pub(crate) fn loss(&mut self, key: u64) -> Option<Loss> {
        self.expire_if_overdue();
        match &self.entries.get(&key)?.stage {
            Stage::Lost(loss) => Some(loss.clone()),
            _ => None,
        }
    }

    /// Resolves when the lock is lost.
    pub(crate) fn listen(&mut self, key: u64) -> Result<Arc<Notify>, Loss> {
        if let Some(loss) = self.loss(key) {
            return Err(loss);
        }
        let entry = self.entries.get_mut(&key).ok_or(Loss::Terminated)?;
        Ok(entry.heard.get_or_insert_default().clone())
    }

    /// Ends a watch.
    pub(crate) fn send_abort(&mut self, id: u64) {
        self.send(ClientCall::Abort { id });
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends a frame in the present session. Without one, the next begins with all that is alive then.
    pub(crate) fn send(&mut self, call: ClientCall<'static>) {
        if let Some(session) = &mut self.session {
            session.outbox.push(call);
        }
    }

    fn remove(&mut self, key: u64) -> Option<RequestEntry> {
        let mut entry = self.entries.remove(&key)?;
        self.renumbered.remove(&entry.ask.id);
        self.displaced.extend(entry.waker.take());
        if let Some(agent) = self.agents.get_mut(&entry.agent) {
            agent.requests.remove(&key);
        }
        Some(entry)
    }

    /// The key of the request with this number in the present session.
    pub(crate) fn key(&self, id: u64) -> Option<u64> {
        let key = self.renumbered.get(&id).copied().unwrap_or(id);
        self.entries.get(&key).filter(|entry| entry.ask.id == id).map(|_| key)
    }
}

/// The events of the server, and the effects of a session's end.
impl State {
    pub(crate) fn happened(&mut self, event: ServerEvent<'_>) -> Result<(), ProtocolViolation> {
        match event {
            ServerEvent::Granted { id, token, ticket } => self.granted(id, token, ticket)?,
            ServerEvent::Refused { id, holders, queued } => {
                let holders = holders.into_iter().map(holder).collect();
                let queued = u32::try_from(queued).unwrap_or(u32::MAX);
                if let Some(key) = self.key(id) {
                    self.fail(key, RequestError::Unavailable(Unavailable { holders, queued }));
                }
            }
            ServerEvent::Released { id, held } => self.released(id, held),
            ServerEvent::Lost { id, reason, why } => {
                if let Some(key) = self.key(id) {
                    self.answered(key);
                    self.lost(key, loss_of(reason, why.as_deref()));
                }
            }
            // A lease is the whole session's.
            ServerEvent::Ended { reason: EndedReason::Expired, .. } => self.end_session(Loss::Expired, None),
            ServerEvent::Ended { agent: number, reason: EndedReason::Broken } => {
                let ended = self.agents.iter().find(|(_, entry)| entry.number == number);
                if let Some(agent) = ended.map(|(agent, _)| *agent) {
                    self.end_agent(agent, &Loss::Broken { reason: None });
                }
                self.close_if_unused();
            }
            ServerEvent::Error { id: Some(id), code, problem, retry_after_ms } => {
                if let Some(session) = &mut self.session {
                    session.outbox.answered(id);
                }
                let is_unknown = code == ErrorCode::UnknownAgent;
                let refusal = is_unknown.then(|| self.refused_join_of(id)).flatten();
                let error = refusal.unwrap_or_else(|| refused(code, &problem, retry_after_ms));
                if !self.fail_look(id, &error)
                    && let Some(key) = self.key(id)
                {
                    self.failed(key, error);
                }
            }
            // Of all that is sent here only a join is answered so. The requests of its agent are
            // answered by an error that the agent is unknown.
            ServerEvent::Error { id: None, code, problem, retry_after_ms } => {
                self.refused_join = Some(refused(code, &problem, retry_after_ms));
            }
        }
        Ok(())
    }

    fn granted(
        &mut self,
        id: u64,
        token: FencingToken,
        ticket: Option<Ticket<'_>>,
    ) -> Result<(), ProtocolViolation> {
        if id > self.last_id {
            return Err(ProtocolViolation(format!("it granted request {id}, which was never made")));
        }
        let key = self.key(id);
        match key.and_then(|key| self.entries.get_mut(&key)) {
            Some(entry) if entry.due.is_some() => {
                let release = entry.reclaimed(token, ticket)?;
                release.into_iter().for_each(|release| self.send(release));
            }
            Some(entry) if entry.stage == Stage::Pending => {
                entry.stage = Stage::Granted(token);
                entry.proof = ticket.map(|ticket| Box::new(Proof::new(token, ticket)));
                self.wakers.extend(entry.waker.take());
            }
            Some(RequestEntry { stage: Stage::Failed(_), .. }) | None => {
                // The future of the request has gone.
                self.send(ClientCall::Release { id, reply: false });
            }
            Some(_) => return Err(ProtocolViolation(format!("it granted request {id} twice"))),
        }
        Ok(())
    }

    fn released(&mut self, id: u64, held: bool) {
        if let Some(key) = self.key(id)
            && let Some(entry) = self.entries.get_mut(&key)
            && entry.stage == Stage::Releasing
        {
            // A loss would have been announced before.
            entry.stage = if held { Stage::Released } else { Stage::Lost(Loss::Terminated) };
            self.wakers.extend(entry.waker.take());
        }
    }

    pub(crate) fn lost(&mut self, key: u64, loss: Loss) {
        self.ended(key, &SessionEnd::announced(loss));
    }

    pub(crate) fn ended(&mut self, key: u64, end: &SessionEnd) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.end(end);
        self.wakers.extend(entry.waker.take());
        self.heard.extend(entry.heard.take());
    }

    /// The server's error about the request with this key.
    fn failed(&mut self, key: u64, error: RequestError) {
        if self.answered(key) {
            self.lost(key, Loss::Superseded);
        } else {
            self.fail(key, error);
        }
    }

    fn fail(&mut self, key: u64, error: RequestError) {
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.stage == Stage::Pending
        {
            entry.stage = Stage::Failed(error);
            self.wakers.extend(entry.waker.take());
        }
    }

    /// The agent has ended, by whomever: its requests fail, its locks are lost.
    pub(crate) fn end_agent(&mut self, agent: u64, loss: &Loss) {
        let Some(gone) = self.agents.remove(&agent) else { return };
        for key in gone.requests {
            self.fail(key, RequestError::AgentEnded);
            if let Some(entry) = self.entries.get_mut(&key)
                && let Stage::Granted(_) = entry.stage
            {
                entry.stage = Stage::Failed(RequestError::AgentEnded);
            }
            self.lost(key, loss.clone());
        }
    }

    /// The session has ended. Held locks are lost, unless there is a deadline until which they are held and
    /// they can be reclaimed. Pending requests are made again in the next session, unless they have failed
    /// with this one.
    pub(crate) fn lose_requests(
        &mut self,
        unsent_steals: &HashSet<u64>,
        end: &SessionEnd,
        failure: Option<&RequestError>,
    ) {
        for entry in self.entries.values_mut() {
            if let Some(deadline) = end.deadline.filter(|_| entry.is_reclaimable()) {
                entry.hold_until(deadline);
                continue;
            }
            entry.due = None;
            let stays = entry.ask.acquire != Acquire::Steal || unsent_steals.contains(&entry.ask.id);
            match (&entry.stage, failure) {
                // A grant that no future has taken note of is asked for again, rather than handed over with
                // its loss.
                (Stage::Pending | Stage::Granted(_), None) if stays => entry.stage = Stage::Pending,
                (Stage::Pending, None) => entry.stage = Stage::Failed(RequestError::OutcomeUnknown),
                (Stage::Pending, Some(failure)) => entry.stage = Stage::Failed(failure.clone()),
                _ => entry.end(end),
            }
            if entry.stage != Stage::Pending {
                self.wakers.extend(entry.waker.take());
                self.heard.extend(entry.heard.take());
            }
        }
    }

    /// Numbers grow in the order of sending, and reclaims go before requests that may be older.
    pub(crate) fn renumber(&mut self) {
        self.renumbered.clear();
        let (reclaims, requests): (Vec<_>, Vec<_>) =
            self.entries.iter_mut().partition(|(_, entry)| entry.due.is_some());
        for (key, entry) in reclaims.into_iter().chain(requests) {
            self.last_id += 1;
            entry.ask.id = self.last_id;
            // All agents join the fresh session under their first numbers.
            entry.ask.agent = entry.agent;
            self.renumbered.insert(self.last_id, *key);
        }
    }

    /// All pending requests are made in the fresh session, in their order.
    pub(crate) fn ask_requests_anew(&mut self) {
        let Some(session) = &mut self.session else { return };
        for entry in self.entries.values().filter(|entry| entry.stage == Stage::Pending) {
            session.outbox.push(ClientCall::Request(entry.ask.clone()));
        }
    }
}

impl RequestEntry {
    /// The lock has ended with the session, as this side knows.
    fn end(&mut self, end: &SessionEnd) {
        if end.is_seen_in_time && self.stage == Stage::Releasing {
            // The lock was held until its release was asked for.
            self.stage = Stage::Released;
        } else {
            self.lose(end.loss.clone());
        }
    }

    fn lose(&mut self, loss: Loss) {
        match self.stage {
            Stage::Granted(token) => self.stage = Stage::LostUnseen(token, loss),
            Stage::Held | Stage::Releasing => self.stage = Stage::Lost(loss),
            Stage::Pending | Stage::LostUnseen(..) | Stage::Released | Stage::Lost(_) | Stage::Failed(_) => {}
        }
    }
}

fn loss_of(reason: LostReason, why: Option<&str>) -> Loss {
    match reason {
        LostReason::Stolen => Loss::Stolen,
        LostReason::Expired => Loss::Expired,
        LostReason::Broken => Loss::Broken { reason: why.map(Arc::from) },
        LostReason::Superseded => Loss::Superseded,
    }
}

fn holder(view: HolderView<'_>) -> Holder {
    Holder {
        kind: view.kind,
        client_id: view.client_id.into_owned(),
        mode: view.mode,
        since: view.since,
        expires_at: view.expires_at,
        metadata: view.metadata.map(Cow::into_owned),
    }
}

/// The error of the request for an error of the server.
pub(crate) fn refused(
    code: ErrorCode,
    problem: &FrameProblem<'_>,
    retry_after_ms: Option<u64>,
) -> RequestError {
    match code {
        ErrorCode::Unavailable => RequestError::StoreUnavailable {
            why: problem.message.clone().into_owned(),
            retry_after: Duration::from_millis(retry_after_ms.unwrap_or_default()),
        },
        ErrorCode::UnknownAgent => RequestError::AgentEnded,
        ErrorCode::Closing => RequestError::Closed,
        ErrorCode::QuotaExceeded => RequestError::Quota(Quota {
            field: problem.field.as_deref().unwrap_or("server").to_owned(),
            value: problem.value.as_deref().unwrap_or("one more").to_owned(),
            rule: problem.rule.as_deref().unwrap_or(&problem.message).to_owned(),
        }),
        _ => RequestError::Refused(problem.message.clone().into_owned()),
    }
}

/// The bounds of the server, in the terms of the core.
pub(super) fn limits(wire: &WireLimits) -> Limits {
    let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    Limits {
        name_units: size(wire.name_units),
        metadata_bytes: size(wire.metadata_bytes),
        requests_per_agent: u32::try_from(wire.requests_per_agent).unwrap_or(u32::MAX),
        ..Limits::DEFAULT
    }
}
