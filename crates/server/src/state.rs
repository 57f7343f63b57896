//! The state of a server that handlers and sessions need.

use std::sync::Arc;

use axum::http::HeaderMap;
use lockhouse::store::DatabaseFile;
use lockhouse::{Bucket, BucketKey, House, MemoryBudget};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::access::{Denied, Initiator, check_host, check_origin};
use crate::audit::Audit;
use crate::auth::Authority;
use crate::config::Config;
use crate::houses::Houses;
use crate::http::history::turns::HistoryTurns;
use crate::http::views::recent::RecentViews;
use crate::idempotency::IdempotencyStore;
use crate::limits::{Limiter, house_options};
use crate::metrics::{Texts, meters};
use crate::random::random_hex;
use crate::store::Operator;
use crate::warm_buckets::WarmBuckets;
use crate::websocket::{SessionRegistry, Turns};

/// The lock tables, the sessions, and how far the server is in its life.
#[derive(Debug)]
pub(crate) struct AppState {
    pub(crate) config: Config,
    authority: watch::Sender<Arc<Authority>>,
    pub(crate) houses: Houses,
    /// The database file, if the state is in one.
    pub(crate) file: Option<DatabaseFile>,
    /// The proof of an operator, who may make a backup.
    pub(crate) operator: Option<Operator>,
    /// Names this life of the server.
    pub(crate) epoch: String,
    pub(crate) sessions: SessionRegistry,
    /// When clients come again whose connections are closed for a while.
    pub(crate) turns: Turns,
    pub(crate) tasks: TaskTracker,
    /// The answers to requests with an `Idempotency-Key`.
    pub(crate) idempotency: Arc<IdempotencyStore>,
    /// The buckets that calls have asked for lately.
    pub(crate) warm_buckets: WarmBuckets,
    /// The audit log of denials.
    pub(crate) audit: Arc<Audit>,
    /// The bounds, and the use of each.
    pub(crate) limiter: Arc<Limiter>,
    /// Who may look at the history.
    pub(crate) history_turns: HistoryTurns,
    /// What dashboards have asked for lately.
    pub(crate) recent_views: RecentViews,
    /// What scrapes are answered with.
    pub(crate) metrics: Texts,
    phase: watch::Sender<Phase>,
}

/// The phase of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The server grants.
    Running,
    /// The server grants nothing any more and waits for locks to be released.
    Draining,
    /// The server closes every connection.
    Stopping,
}

impl AppState {
    /// Over these lock tables.
    pub(crate) fn new(config: Config, house: House) -> Arc<Self> {
        Self::over_file(config, Houses::One(house), None, None)
    }

    /// Over the lock tables of a database file or a fleet.
    pub(crate) fn over_file(
        config: Config,
        houses: Houses,
        file: Option<DatabaseFile>,
        operator: Option<Operator>,
    ) -> Arc<Self> {
        let limiter = Arc::new(Limiter::new(config.limits));
        if let Some(budget) = houses.memory_budget() {
            budget.set(config.limits.table_bytes());
        }
        Arc::new(Self {
            authority: watch::Sender::new(Arc::new(config.authority.clone())),
            config,
            houses,
            file,
            operator,
            epoch: random_hex::<16>(),
            sessions: SessionRegistry::default(),
            turns: Turns::new(),
            tasks: TaskTracker::new(),
            idempotency: Arc::default(),
            warm_buckets: WarmBuckets::default(),
            audit: Arc::new(Audit::new(limiter.clone())),
            limiter,
            history_turns: HistoryTurns::default(),
            recent_views: RecentViews::default(),
            metrics: Texts::default(),
            phase: watch::Sender::new(Phase::Running),
        })
    }

    /// Over empty lock tables, without durable state.
    pub(crate) fn empty(config: Config) -> Arc<Self> {
        let budget = MemoryBudget::new(config.limits.table_bytes());
        let meters = meters(&config.metrics);
        let house =
            House::with_options(&house_options(&config.limits, &budget, meters.as_ref(), &config.history));
        Self::new(config, house)
    }

    /// The authority that decides at present.
    pub(crate) fn authority(&self) -> Arc<Authority> {
        self.authority.borrow().clone()
    }

    pub(crate) fn authorities(&self) -> watch::Receiver<Arc<Authority>> {
        self.authority.subscribe()
    }

    /// Without authentication the `Host` keeps away pages that were given this machine's address under a name
    /// of their own. With authentication they have no credential, and the server may have any name.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Denied> {
        if self.authority().is_open() { check_host(headers, &self.config.allowed_origins) } else { Ok(()) }
    }

    pub(crate) fn check_place(&self, headers: &HeaderMap) -> Result<(), Denied> {
        self.check_host(headers)?;
        check_origin(headers, &self.config.allowed_origins)
    }

    /// The initiator of a request with this head.
    pub(crate) fn initiator(&self, headers: &HeaderMap) -> Initiator {
        Initiator::of(headers, self.config.tls.is_some())
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Another authority decides from now on; all sessions are revalidated by it.
    pub(crate) fn set_authority(&self, authority: Authority) {
        self.authority.send_replace(Arc::new(authority));
    }

    /// Revalidates all sessions.
    pub(crate) fn revalidate(&self) {
        self.authority.send_modify(|_| {});
    }

    /// The step to [`Phase::Draining`]. A bucket that comes after it is closed by the session that it is made
    /// for.
    pub(crate) fn stop_granting(&self) {
        self.phase.send_if_modified(|phase| {
            let is_running = *phase == Phase::Running;
            if is_running {
                *phase = Phase::Draining;
            }
            is_running
        });
        self.houses.all().iter().flat_map(House::buckets).for_each(|bucket| bucket.close());
    }

    /// The bucket of that key in this house; none if it is not in use, and its tenant has as many in use as
    /// it may, in all houses together.
    pub(crate) fn bucket_within_limit(&self, house: &House, key: &BucketKey) -> Option<Bucket> {
        let most = self.limiter.settings().buckets_per_tenant as usize;
        let elsewhere = match &self.houses {
            Houses::One(_) => 0,
            fleet => {
                let count = |house: &House| house.count_buckets_of(key.tenant());
                // Each count is of a moment of its own.
                fleet.all().iter().map(count).sum::<usize>().saturating_sub(count(house))
            }
        };
        house.bucket_within_limit(key.clone(), most.saturating_sub(elsewhere))
    }

    /// The step to [`Phase::Stopping`]. It ends the sessions, whose clients go on to believe in their web
    /// locks until the next server has decided; so nothing may be granted any more by then, however the end
    /// came.
    pub(crate) fn close_connections(&self) {
        self.stop_granting();
        self.phase.send_replace(Phase::Stopping);
    }
}
