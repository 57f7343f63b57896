//! What an input means, what was asked, and how a session ends.

use std::sync::Arc;

use lockhouse::core::{Acquire, Holder, Party};
use lockhouse::{MemoryReservation, Stolen};
use lockhouse_wire::{FatalCode, FrameProblem, SnapshotQuery};

use crate::audit::short;
use crate::websocket::{Farewell, WebSocketConnection};

/// What an input means for the connection.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing.
    GoOn,
    /// It broke off.
    Lost,
    /// The client closes it.
    Closed(Option<u16>),
    /// The client is done.
    Bye,
    /// The server stops.
    Stop,
    /// A binary message came.
    Unsupported,
    /// It ends with this.
    Fatal(FatalCode, FrameProblem<'static>),
}

/// What was asked of the bucket. Answers come in the order of the questions, except that one which rests on
/// something that is not kept yet comes later.
#[derive(Clone, Debug)]
pub(super) enum PendingCall {
    /// The agent that bears the session's lease.
    Lease,
    Join {
        agent: u64,
    },
    Leave {
        agent: u64,
    },
    Request {
        id: u64,
        agent: u64,
        acquire: Acquire,
    },
    Reclaim {
        id: u64,
        agent: u64,
    },
    Abort {
        id: u64,
    },
    Release {
        id: u64,
        reply: bool,
    },
    /// With the memory for the snapshot.
    Query(SnapshotQuery, Arc<MemoryReservation>),
    /// A snapshot for all watches, and the memory for it.
    Watches(Arc<MemoryReservation>),
    /// Something whose answer is of no interest.
    Nothing,
}

/// Why a session has to end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// The house has lost its store, and with it every lock. Whatever else ends the session does not count
    /// beside this.
    StoreLost,
    LeaseExpired,
    /// It has more to take than a session may have.
    SlowReader,
    /// The sessions of its tenant have more than they may have together, and it has much of it.
    SlowTenant,
}

/// A steal that takes something from others, to be noted unless it is refused.
pub(super) struct Steal {
    pub(super) name: String,
    /// How many lose the name.
    pub(super) lost: u64,
    /// The first of them, and what each of them has there.
    pub(super) victims: String,
    /// Holders of before a restart might have come back for it.
    pub(super) is_recovering: bool,
}

/// How a connection ends, seen from its session.
pub(super) enum Parting {
    /// The session goes on over another connection.
    Replaced(Box<WebSocketConnection>),
    /// The session goes on without one.
    Detached(LastWords),
    /// The session ends as well.
    Ended(LastWords),
}

/// What the connection is told at its end.
pub(super) enum LastWords {
    /// It is gone already.
    None,
    /// The client has closed it.
    AnswerClose,
    Farewell(Farewell),
}

impl Steal {
    /// Of a name, as it is told.
    pub(super) fn new(name: String, stolen: &Stolen) -> Self {
        let victim = |holder: &Holder| {
            let what = match holder.party {
                Party::Agent(_) => "web lock",
                Party::Owner(_) => "offline lock",
                Party::Claimant => "claim",
            };
            format!("{what} of {}", holder.label)
        };
        let victims: Vec<String> = stolen.first.iter().map(victim).collect();
        let (lost, victims) = (stolen.holders as u64, short(victims.join(", ")));
        Self { name, lost, victims, is_recovering: stolen.is_recovering }
    }
}

impl SessionEnd {
    pub(super) fn verdict(self) -> Verdict {
        let (code, message) = match self {
            // Whoever has the store now, or will have it, takes reclaims: to the client it is as if the
            // server had died.
            Self::StoreLost => return Verdict::Stop,
            Self::LeaseExpired => {
                (FatalCode::LeaseExpired, "no ping was answered for the length of the lease")
            }
            Self::SlowReader => {
                (FatalCode::SlowReader, "more frames wait for their acknowledgement than a session may have")
            }
            Self::SlowTenant => (
                FatalCode::SlowReader,
                "more waits to be taken than the sessions of a tenant may have together, and much of it in this one",
            ),
        };
        Verdict::Fatal(code, FrameProblem::with_message(message))
    }
}
