//! The entry for speakers of agents of the outside, such as the sessions of a server.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::RandomState;
use lockhouse_core::{Command, Holder, LockManager, Name, NewRequest, Outcome};

use crate::engine::absence::SessionHash;
use crate::engine::bucket::Bucket;
use crate::engine::inbox::{Inbox, Notice, Overflowed};
use crate::engine::memory::MemoryReservation;

/// All that a server's session needs of a bucket.
///
/// All messages to the agents of a port come through one ordered queue, outcomes included, so that an answer
/// and a later loss can never be swapped. Dropping the port ends its agents.
///
/// Over a store, messages that depend on something not yet durable come later: messages about one name keep
/// their order, and messages about different names need not. A request whose grant has to wait is answered as
/// queued, and the grant follows as an effect. Other answers come when they may: their tags say which is
/// which. Still, that an agent has joined comes before its end, and the loss of a lock before the answer to a
/// release that finds it lost.
///
/// The end of an agent, and the answer to a release of a lock that is held, never wait. A grant or a loss
/// that waited for the store when its agent ended never comes, and no more does the grant of a lock that was
/// released before it could be announced.
#[derive(Debug)]
pub struct Port {
    bucket: Bucket,
    inbox: Arc<Inbox>,
}

/// From whom a steal takes its name, if it is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stolen {
    /// How many hold it.
    pub holders: usize,
    /// The first of them.
    pub first: Vec<Holder>,
    /// Holders of before a restart might have come back for it.
    pub is_recovering: bool,
}

impl Bucket {
    /// A port for a session of the outside, whose inbox holds at most `capacity` notices.
    pub fn port(&self, capacity: usize) -> Port {
        Port::new(self.clone(), capacity, None)
    }

    /// As [`port`](Self::port), of a session that a later life of the house recognises by this secret: see
    /// [`Port::has_reclaimed`].
    pub fn port_of_session(&self, secret: &str, capacity: usize) -> Port {
        Port::new(self.clone(), capacity, self.0.session_hash(secret))
    }
}

impl Port {
    fn new(bucket: Bucket, capacity: usize, session: Option<SessionHash>) -> Self {
        Self { bucket, inbox: Arc::new(Inbox::new(capacity, session)) }
    }

    /// Carries out a command at once. The outcome is the [`Notice::Answer`] with this tag.
    ///
    /// Requests, aborts and releases must be those of agents that joined through this port. Owners and claims
    /// are not for ports.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, if the command sets the bucket's first deadline.
    pub fn submit(&self, tag: u64, command: Command<'_>) {
        self.bucket.0.submit(&self.inbox, tag, command, |_| true);
    }

    /// As [`submit`](Self::submit), of a request that steals; returns the holders whose locks it stole. With
    /// `spares` a name that an offline lock or a claim holds is not stolen: the result is `None`, and nothing
    /// has happened.
    #[must_use]
    pub fn steal(&self, tag: u64, request: NewRequest<'_>, spares: bool) -> Option<Stolen> {
        let name = request.name;
        // The holders are looked at before the command is carried out.
        self.name_comes_up(name);
        let mut stolen = Stolen::default();
        let fits = |manager: &LockManager<RandomState>| {
            stolen = Stolen {
                holders: manager.holders_of(name),
                first: manager.first_holders_of(name),
                is_recovering: manager.recovers_until().is_some(),
            };
            !spares || !manager.is_held_durably(name)
        };
        self.bucket.0.submit(&self.inbox, tag, Command::Request(request), fits).then_some(stolen)
    }

    /// Looks at all that is held and pending, as by `Command::Snapshot`. The answer takes that memory as long
    /// as it waits for the store, even if the port is dropped meanwhile.
    pub fn look(&self, tag: u64, memory: Arc<MemoryReservation>) {
        self.bucket.0.look(&self.inbox, tag, memory);
    }

    /// A snapshot that is to come is asked for that name: if a list says that it is held, it shows that.
    pub fn name_comes_up(&self, name: Name<'_>) {
        let now = self.bucket.0.environment.clock.stamp();
        self.bucket.0.with(|state| state.name_comes_up(now, name));
    }

    /// Answers a command that was not even carried out.
    pub(crate) fn answer(&self, tag: u64, outcome: Outcome) {
        self.bucket.0.with(|state| state.announce(&self.inbox, Notice::Answer { tag, outcome }));
    }

    /// Moves all notices to `into`; never waits.
    ///
    /// # Errors
    ///
    /// [`Overflowed`] once notices were lost.
    pub fn drain(&self, into: &mut VecDeque<Notice>) -> Result<(), Overflowed> {
        self.inbox.drain(into)
    }

    /// Waits until there is something to drain.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is taken. Only the latest caller is woken.
    pub async fn ready(&self) {
        self.inbox.ready().await;
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The bucket that this is a port of.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let (agents, lease_ended) = (self.inbox.take_agents(), self.inbox.lease_has_ended());
        for agent in agents {
            if lease_ended {
                // They end with the one that bears the lease of all.
                self.bucket.0.with(|state| state.agent_falls_silent(agent));
            }
            self.submit(0, Command::End { agent });
        }
    }
}
