//! The meaning of an input, the calls to the bucket, and the end of a session.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use lockhouse::core::{Acquire, Holder, Party};
use lockhouse::{MemoryReservation, Stolen};
use lockhouse_wire::{FatalCode, FrameProblem, SnapshotQuery};

use crate::audit::short;
use crate::websocket::{Farewell, WebSocketConnection};

/// The meaning of an input for the connection.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing.
    GoOn,
    /// The connection broke off.
    Lost,
    /// The client closes the connection.
    Closed(Option<u16>),
    /// The client is done.
    Bye,
    /// The server stops.
    Stop,
    /// The house of the session has ended: another node has the bucket, or will have it.
    Moved,
    /// A binary message came.
    Unsupported,
    /// The connection ends with this error.
    Fatal(FatalCode, FrameProblem<'static>),
}

/// A call to the bucket. Answers come in the order of the calls, except that an answer which rests on a
/// change that is not durable yet comes later.
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
    /// A snapshot for all watches up to that one, and the memory for it.
    Watches(u64, Arc<MemoryReservation>),
    /// A question that was answered without the bucket, as the store could not write. The bucket's answer is
    /// still to come, and the client does not wait for it.
    Answered,
    /// Of the session's lease.
    Renewal,
}

/// The tag of calls whose answers no client waits for. Other calls have higher ones.
pub(super) const UNAWAITED: u64 = 0;

/// The calls to the bucket that are not answered yet, by their tags. While the store cannot write there may
/// be many, and each is found at once.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    calls: HashMap<u64, PendingCall, RandomState>,
    /// The tags of the questions: queries, and requests that are not to wait.
    questions: BTreeSet<u64>,
    /// The calls that were answered without the bucket.
    answered: usize,
    /// Whether a snapshot for the watches is among them.
    has_watches: bool,
    last_tag: u64,
}

impl PendingCalls {
    /// The tag for a call that is about to be made.
    pub(super) fn add(&mut self, call: PendingCall) -> u64 {
        self.last_tag += 1;
        if call.is_question() {
            self.questions.insert(self.last_tag);
        }
        self.has_watches |= matches!(call, PendingCall::Watches(..));
        self.calls.insert(self.last_tag, call);
        self.last_tag
    }

    /// The call with that tag, which is answered.
    pub(super) fn remove(&mut self, tag: u64) -> Option<PendingCall> {
        let call = self.calls.remove(&tag)?;
        match &call {
            PendingCall::Watches(..) => self.has_watches = false,
            PendingCall::Answered => self.answered -= 1,
            call if call.is_question() => _ = self.questions.remove(&tag),
            _ => {}
        }
        Some(call)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many answers of the bucket are still to come.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// For how many of them the client waits.
    pub(super) fn awaited(&self) -> usize {
        self.calls.len() - self.answered
    }

    pub(super) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    pub(super) fn has_watches(&self) -> bool {
        self.has_watches
    }

    /// The ids of all questions, in their order, which are answered now. The memory of queries is free again.
    pub(super) fn answer_questions(&mut self) -> Vec<u64> {
        let tags = std::mem::take(&mut self.questions);
        self.answered += tags.len();
        let ids = tags.into_iter().filter_map(|tag| {
            let call = std::mem::replace(self.calls.get_mut(&tag)?, PendingCall::Answered);
            match call {
                PendingCall::Query(SnapshotQuery { id, .. }, _) | PendingCall::Request { id, .. } => Some(id),
                _ => None,
            }
        });
        ids.collect()
    }
}

impl PendingCall {
    /// Whether its client is not to be left waiting.
    fn is_question(&self) -> bool {
        matches!(self, Self::Query(..) | Self::Request { acquire: Acquire::IfAvailable(_), .. })
    }
}

/// The reason why a session has to end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// The house has lost its store, and with it every lock. Other reasons do not count beside this one.
    StoreLost,
    LeaseExpired,
    /// The client has more to take than a session may have.
    SlowReader,
    /// The sessions of its tenant have more than they may have together, and it has much of it.
    SlowTenant,
}

/// A steal that takes something from others, to be noted unless it is refused.
pub(super) struct Steal {
    pub(super) name: String,
    /// The number of holders that lose the name.
    pub(super) lost: u64,
    /// The first of the holders, and the kind of lock that each of them has.
    pub(super) victims: String,
    /// Holders from before a restart might have come back for the name.
    pub(super) is_recovering: bool,
}

/// The end of a connection, seen from its session.
pub(super) enum Parting {
    /// The session goes on over another connection.
    Replaced(Box<WebSocketConnection>),
    /// The session goes on without one.
    Detached(LastWords),
    /// The session ends as well.
    Ended(LastWords),
}

/// The last words to a connection.
pub(super) enum LastWords {
    /// The connection is gone already.
    None,
    /// The client has closed the connection.
    AnswerClose,
    Farewell(Farewell),
}

impl Steal {
    /// A steal of a name, as the audit log records it.
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
            // The server that has the store now, or will have it, takes reclaims: to the client it is as if
            // this server had died.
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
