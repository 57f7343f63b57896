//! The state of a session, and its beginning.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::core::{AgentId, Command, NewAgent};
use lockhouse::{House, MemoryReservation, Notice, Port, StoreState};
use lockhouse_wire::{ErrorCode, FrameProblem, ServerEvent};
use tokio::sync::watch;
use tokio::time::timeout;

use super::outbound::Outbound;
use super::pacing::Pacing;
use super::table::AgentTable;
use super::verdict::{PendingCall, PendingCalls, SessionEnd, Steal, Verdict};
use super::watches::Watches;
use crate::bounds::INBOX_NOTICES;
use crate::limits::{Refused, announced_ms};
use crate::settings::LimitSettings;
use crate::state::{AppState, Phase};
use crate::websocket::{Admission, Registration};

/// The end of a house that others go on without; none of a house that ends with the server.
pub(super) type HouseEnd = Option<Pin<Box<dyn Future<Output = StoreState> + Send>>>;

/// A session, owned by its task.
pub(super) struct Session {
    pub(super) state: Arc<AppState>,
    /// The house that the bucket of the session is in.
    pub(super) house: House,
    /// Comes once that house has ended, if others go on without it.
    pub(super) house_end: HouseEnd,
    /// Stands before the registration, and so is dropped first: once a resume finds, and reports, that the
    /// session is gone, its agents have ended.
    pub(super) port: Port,
    pub(super) registration: Registration,
    pub(super) admission: Admission,
    /// The secret of the session that the client wanted to resume, which this server does not know.
    pub(super) former_secret: Option<String>,
    pub(super) phase: watch::Receiver<Phase>,
    /// The agent whose lease is the session's.
    pub(super) lease_agent: Option<AgentId>,
    /// The setting that kept it from having one.
    pub(super) no_lease: Option<&'static str>,
    pub(super) table: AgentTable,
    pub(super) outbound: Outbound,
    pub(super) watches: Watches,
    pub(super) pacing: Pacing,
    /// The bounds of the session; later settings count for later sessions.
    pub(super) limits: LimitSettings,
    pub(super) asked: PendingCalls,
    /// The steals that are not answered yet, by the id of their request.
    pub(super) steals: HashMap<u64, Steal>,
    pub(super) notices: VecDeque<Notice>,
    /// Bytes that the client has not taken, as they count for the tenant.
    pub(super) unread: MemoryReservation,
    /// Bytes that the connection had read before their turn at the last look; they count, too.
    pub(super) held_back_bytes: usize,
    /// Set once the session has to end, and why.
    pub(super) over: Option<SessionEnd>,
    /// The number of the last client frame that was processed.
    pub(super) received: u64,
    /// The last such number that the client was sent, and the bytes that were processed since.
    pub(super) acked: u64,
    pub(super) unacked_bytes: usize,
    pub(super) highest_id: u64,
    pub(super) highest_agent: u64,
    pub(super) pings: u64,
    pub(super) answered: u64,
    /// The number of the last resume that was taken and had one.
    pub(super) attempt: u64,
}

/// Why a session does not begin whose lease no store has noted in time.
pub(super) const NOT_NOTED: &str = "the store has not noted the length of the lease";

/// Waits for the end of a house of a fleet, which may come before that of the server.
fn end_of_house(house: House) -> Pin<Box<dyn Future<Output = StoreState> + Send>> {
    Box::pin(async move { house.ended().await })
}

impl Session {
    /// Begins a session, or returns the reason against it: the server or the bucket is full, or the store
    /// cannot note the length of the lease now. Changes of the phase after `phase` was taken reach the
    /// session.
    pub(super) async fn begin(
        state: Arc<AppState>,
        house: House,
        admission: Admission,
        former_secret: Option<String>,
        phase: watch::Receiver<Phase>,
    ) -> Result<Self, &'static str> {
        let limits = state.limiter.settings();
        let registration = state
            .sessions
            .register(admission.scope.clone(), admission.peer(), &limits)
            .map_err(|kind| state.limiter.refuse(kind).word())?;
        let bucket = state
            .bucket_within_limit(&house, &admission.scope)
            .ok_or_else(|| state.limiter.refuse(Refused::BucketsPerTenant).word())?;
        let port = bucket.port_of_session(&registration.secret, INBOX_NOTICES);
        let unread = state.limiter.unread.of(admission.scope.tenant());
        // A server that begins to stop closes the buckets that it finds, and this one may have come after
        // that.
        if *phase.borrow() != Phase::Running {
            port.bucket().close();
        }
        let house_end = state.houses.cluster().is_some().then(|| end_of_house(house.clone()));
        let mut session = Self {
            state,
            house,
            house_end,
            port,
            registration,
            admission,
            former_secret,
            phase,
            lease_agent: None,
            no_lease: None,
            table: AgentTable::default(),
            outbound: Outbound::default(),
            watches: Watches::default(),
            pacing: Pacing::default(),
            limits,
            asked: PendingCalls::default(),
            steals: HashMap::new(),
            notices: VecDeque::new(),
            unread,
            held_back_bytes: 0,
            over: None,
            received: 0,
            acked: 0,
            unacked_bytes: 0,
            highest_id: 0,
            highest_agent: 0,
            attempt: 0,
            pings: 0,
            answered: 0,
        };
        let lease_ms = Some(session.state.config.lease.as_millis());
        session.ask(PendingCall::Lease, Command::Join(NewAgent { client_id: "", lease_ms }));
        // The answer waits until the store knows how long leases last.
        let answered = async {
            while !session.asked.is_empty() && session.over.is_none() {
                session.port.ready().await;
                session.take_notices();
            }
        };
        _ = timeout(limits.hello_timeout, answered).await;
        let has_begun = session.lease_agent.is_some() && session.over.is_none();
        if has_begun { Ok(session) } else { Err(session.no_lease.unwrap_or(NOT_NOTED)) }
    }

    /// Sends an error that a later repetition would meet again.
    pub(super) fn error(&mut self, id: Option<u64>, code: ErrorCode, problem: FrameProblem<'_>) -> Verdict {
        self.push_error(id, code, problem, None)
    }

    /// Sends an error that may be gone after a while.
    pub(super) fn not_now(
        &mut self,
        id: Option<u64>,
        code: ErrorCode,
        problem: FrameProblem<'_>,
        pause: Duration,
    ) -> Verdict {
        self.push_error(id, code, problem, Some(announced_ms(pause)))
    }

    fn push_error(
        &mut self,
        id: Option<u64>,
        code: ErrorCode,
        problem: FrameProblem<'_>,
        retry_after_ms: Option<u64>,
    ) -> Verdict {
        if code == ErrorCode::QuotaExceeded {
            self.state.limiter.refuse(Refused::Frame);
        }
        self.outbound.push(ServerEvent::Error { id, code, retry_after_ms, problem });
        Verdict::GoOn
    }

    /// Asks the bucket, and takes note of the answer and of what came before it.
    pub(super) fn ask(&mut self, asked: PendingCall, command: Command<'_>) -> Verdict {
        let tag = self.asked.add(asked);
        self.port.submit(tag, command);
        self.take_notices()
    }

    /// The lease runs anew. If it is over the session ends, whether or not its end has been reported yet.
    pub(super) fn renew(&mut self) -> Verdict {
        match self.lease_agent {
            Some(agent) => self.ask(PendingCall::Renewal, Command::Renew { agent }),
            None => Verdict::GoOn,
        }
    }

    /// The number of frames that may be carried out before another session's turn.
    pub(super) fn available_frames(&mut self) -> u32 {
        self.pacing.available(&self.state.limiter, self.port.bucket().key().tenant())
    }

    /// Charges for the work done.
    pub(super) fn settle(&mut self) {
        self.pacing.settle(&self.state.limiter, self.port.bucket().key().tenant());
    }

    /// The session has nothing to do in its turn.
    pub(super) fn pass_turn(&mut self) {
        self.pacing.pass(&self.state.limiter, self.port.bucket().key().tenant());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.pass_turn();
    }
}
