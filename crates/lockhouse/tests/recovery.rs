//! How the web locks of remote agents come back after a restart, on a clock that is moved by hand. A restart
//! is the taking of the store by another house.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::core::{
    Acquire, AgentId, Command, Effect, LockLoss, LossReason, NewAgent, NewReclaim, NewRequest, Outcome,
    Refusal, RequestId,
};
use lockhouse::store::MemoryStore;
use lockhouse::{
    ClaimError, FencingToken, House, LockError, LockType, ManualClock, Mode, Name, Notice, Options,
    OwnerError, Port, RecordKind,
};

const LEASE: Duration = Duration::from_secs(10);

/// One life of a server, with one session.
struct Life {
    house: House,
    clock: ManualClock,
    port: Port,
    tag: u64,
}

impl Life {
    async fn begin(store: &MemoryStore) -> Self {
        Self::with(store, Options::new()).await
    }

    async fn with(store: &MemoryStore, options: Options) -> Self {
        let clock = ManualClock::default();
        let house = House::open(Arc::new(store.reopen()), options.lease(LEASE).clock(&clock)).await.unwrap();
        let port = house.bucket("default").port(1000);
        Self { house, clock, port, tag: 0 }
    }

    fn recovers(&self) -> Option<Duration> {
        self.house.bucket("default").recovers_for()
    }

    /// The next notice of which there may be several.
    async fn next(&mut self) -> Notice {
        let mut notices = VecDeque::new();
        self.port.ready().await;
        self.port.drain(&mut notices).unwrap();
        assert_eq!(notices.len(), 1, "{notices:?}");
        notices.pop_front().unwrap()
    }

    async fn answer(&mut self) -> Outcome {
        match self.next().await {
            Notice::Answer { tag, outcome } if tag == self.tag => outcome,
            notice => panic!("{notice:?}"),
        }
    }

    async fn ask(&mut self, command: Command<'_>) -> Outcome {
        self.tag += 1;
        self.port.submit(self.tag, command);
        self.answer().await
    }

    async fn join(&mut self, client_id: &str) -> AgentId {
        let Outcome::Joined(agent) = self.ask(Command::Join(NewAgent::new(client_id))).await else {
            panic!()
        };
        agent
    }

    /// A lock that is free; its request, its token and its ticket.
    async fn lock(&mut self, agent: AgentId, name: &str, mode: Mode) -> (RequestId, FencingToken, String) {
        let request = NewRequest::new(agent, Name::new(name).unwrap(), Acquire::Wait(mode));
        let grant = match self.ask(Command::Request(request)).await {
            Outcome::Granted(grant) => grant,
            // The grant is announced once the store knows of the bucket.
            Outcome::Queued(_) => match self.next().await {
                Notice::Effect(Effect::Granted { grant, .. }) => grant,
                notice => panic!("{notice:?}"),
            },
            outcome => panic!("{outcome:?}"),
        };
        (grant.request, grant.token, self.port.ticket(grant.request).unwrap())
    }

    /// The same lock again; its request.
    async fn reclaim(
        &mut self,
        agent: AgentId,
        name: &str,
        mode: Mode,
        token: FencingToken,
        ticket: &str,
    ) -> Result<RequestId, Refusal> {
        let name = Name::new(name).unwrap();
        self.tag += 1;
        let reclaim = NewReclaim { agent, name, mode, token, metadata: None, max_hold_ms: None };
        self.port.reclaim(self.tag, reclaim, ticket);
        match self.answer().await {
            Outcome::Granted(grant) => {
                assert_eq!(grant.token, token);
                Ok(grant.request)
            }
            Outcome::Queued(request) => match self.next().await {
                Notice::Effect(Effect::Granted { grant, .. }) => {
                    assert_eq!((grant.request, grant.token), (request, token));
                    Ok(request)
                }
                notice => panic!("{notice:?}"),
            },
            Outcome::Refused(refusal) => Err(refusal),
            outcome => panic!("{outcome:?}"),
        }
    }
}

#[tokio::test]
async fn a_lock_comes_back_with_its_ticket_and_gets_a_new_one() {
    let store = MemoryStore::new().unwrap();
    let mut life = Life::begin(&store).await;
    assert_eq!(life.recovers(), None);
    let agent = life.join("a").await;
    let (_, token, ticket) = life.lock(agent, "n", Mode::Exclusive).await;
    let mut next = Life::begin(&store).await;
    assert_eq!(next.recovers(), Some(LEASE));
    let agent = next.join("a").await;
    let request = next.reclaim(agent, "n", Mode::Exclusive, token, &ticket).await.unwrap();
    let renewed = next.port.ticket(request).unwrap();
    assert_ne!(renewed, ticket);
    next.clock.advance(LEASE);
    assert_eq!(next.recovers(), None);
    // The recovery was completed: the first ticket is void from now on, and the second one is not.
    next.house.bucket("other").claims().claim("kept", "c", LEASE).await.unwrap();
    let mut last = Life::begin(&store).await;
    let agent = last.join("a").await;
    let old = last.reclaim(agent, "n", Mode::Exclusive, token, &ticket).await;
    assert_eq!(old, Err(Refusal::Superseded));
    last.reclaim(agent, "n", Mode::Exclusive, token, &renewed).await.unwrap();
}

#[tokio::test]
async fn without_a_ticket_nothing_comes_back() {
    let store = MemoryStore::new().unwrap();
    let mut life = Life::begin(&store).await;
    let agent = life.join("a").await;
    let (_, token, ticket) = life.lock(agent, "n", Mode::Exclusive).await;
    let mut next = Life::with(&store, Options::new().tickets(false)).await;
    assert!(!next.house.bucket("default").takes_reclaims());
    let agent = next.join("a").await;
    let refused = next.reclaim(agent, "n", Mode::Exclusive, token, &ticket).await;
    assert_eq!(refused, Err(Refusal::Superseded));
}

#[tokio::test]
async fn a_recovered_durable_hold_goes_before_a_reclaim_whatever_its_token() {
    let store = MemoryStore::new().unwrap();
    let customers = RecordKind::new("customer", LockType::ReadWrite);
    let mut life = Life::begin(&store).await;
    let agent = life.join("a").await;
    let (request, token, ticket) = life.lock(agent, "customer/7", Mode::Exclusive).await;
    life.ask(Command::Release { request }).await;
    let ada = life.house.bucket("default").owners().open("Ada", LEASE * 60).await.unwrap();
    let locks = ada.lock([customers.for_write(7)]).await.unwrap();
    let mut next = Life::begin(&store).await;
    let agent = next.join("a").await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let refused = next.reclaim(agent, "customer/7", mode, token, &ticket).await;
        assert_eq!(refused, Err(Refusal::Superseded), "{mode:?}");
    }
    let owners = next.house.bucket("default").owners();
    let ada = owners.resume(ada.id(), ada.secret()).await.unwrap();
    assert_eq!(ada.locks().await.unwrap()[0].token, locks[0].token);
    // While it recovers, owners are asked to wait, save for what they have.
    let refused = ada.lock([customers.for_write(8)]).await;
    assert!(matches!(refused, Err(LockError::Recovering { .. })), "{refused:?}");
    next.clock.advance(LEASE);
    ada.lock([customers.for_write(8)]).await.unwrap();
}

#[tokio::test]
async fn a_durable_hold_that_ends_during_the_recovery_keeps_older_locks_out() {
    let store = MemoryStore::new().unwrap();
    let customers = RecordKind::new("customer", LockType::ReadWrite);
    let (released, ended, claimed) = ("customer/1", "customer/2", "seat");
    let mut life = Life::begin(&store).await;
    let agent = life.join("a").await;
    let mut before = Vec::new();
    for name in [released, ended, claimed] {
        let (request, token, ticket) = life.lock(agent, name, Mode::Exclusive).await;
        life.ask(Command::Release { request }).await;
        before.push((name, token, ticket));
    }
    let bucket = life.house.bucket("default");
    let ada = bucket.owners().open("Ada", LEASE * 60).await.unwrap();
    let bob = bucket.owners().open("Bob", LEASE * 60).await.unwrap();
    ada.lock([customers.for_write(1)]).await.unwrap();
    bob.lock([customers.for_write(2)]).await.unwrap();
    let claim = bucket.claims().claim("seat", "Eve", LEASE * 60).await.unwrap();

    let mut next = Life::begin(&store).await;
    let bucket = next.house.bucket("default");
    let ada = bucket.owners().resume(ada.id(), ada.secret()).await.unwrap();
    let bob = bucket.owners().resume(bob.id(), bob.secret()).await.unwrap();
    assert_eq!(ada.unlock_all().await.unwrap(), 1);
    assert!(bob.end().await.unwrap());
    bucket.claims().release("seat", claim.token()).await.unwrap();
    let agent = next.join("a").await;
    for (name, token, ticket) in before {
        let refused = next.reclaim(agent, name, Mode::Exclusive, token, &ticket).await;
        assert_eq!(refused, Err(Refusal::Superseded), "{name}");
    }
}

#[tokio::test]
async fn a_claim_that_stands_is_answered_again_to_its_key_while_nothing_else_is_granted() {
    let store = MemoryStore::new().unwrap();
    let mut life = Life::begin(&store).await;
    let agent = life.join("a").await;
    life.lock(agent, "n", Mode::Exclusive).await;
    let claims = life.house.bucket("default").claims();
    let claim = claims.claim("seat", "Ada", LEASE).idempotency_key("first").await.unwrap();

    let next = Life::begin(&store).await;
    let bucket = next.house.bucket("default");
    let claims = bucket.claims();
    let again = claims.claim("seat", "Ada", LEASE).idempotency_key("first").await.unwrap();
    assert_eq!((again.token(), again.fencing_token()), (claim.token(), claim.fencing_token()));
    for (name, key) in [("seat", "second"), ("other", "first")] {
        let refused = claims.claim(name, "Ada", LEASE).idempotency_key(key).await.unwrap_err();
        assert!(matches!(refused, ClaimError::Recovering { .. }), "{name}, {key}: {refused}");
    }
    bucket.close();
    let again = claims.claim("seat", "Ada", LEASE).idempotency_key("first").await.unwrap();
    assert_eq!(again.token(), claim.token());
    let refused = claims.claim("other", "Ada", LEASE).idempotency_key("first").await.unwrap_err();
    assert_eq!(refused, ClaimError::Closed);
}

#[tokio::test]
async fn an_owner_that_lives_is_answered_again_to_its_key_and_after_its_end_a_new_one() {
    let store = MemoryStore::new().unwrap();
    let life = Life::begin(&store).await;
    let owners = life.house.bucket("default").owners();
    let owner = owners.open("Ada", LEASE).idempotency_key("first").await.unwrap();

    let next = Life::begin(&store).await;
    let bucket = next.house.bucket("default");
    let open = |key: &str| bucket.owners().open("Ada", LEASE).idempotency_key(key);
    let of_ada = |key: &str| bucket.owners().open("Ada", LEASE).idempotency_key_of("Ada", key);
    let again = open("first").await.unwrap();
    assert_eq!((again.id(), again.secret()), (owner.id(), owner.secret()));
    assert_ne!(of_ada("first").await.unwrap().id(), owner.id(), "a caller has keys of its own");
    assert!(again.end().await.unwrap());
    let anew = open("first").await.unwrap();
    assert!(anew.id() != owner.id() && anew.secret() != owner.secret());
    bucket.close();
    assert_eq!(open("first").await.unwrap().id(), anew.id());
    assert_eq!(open("second").await.unwrap_err(), OwnerError::Closed);
}

#[tokio::test]
async fn of_conflicting_reclaims_the_higher_token_wins_in_either_order() {
    for lower_first in [true, false] {
        let store = MemoryStore::new().unwrap();
        let mut life = Life::begin(&store).await;
        let agent = life.join("a").await;
        let (request, low, low_ticket) = life.lock(agent, "n", Mode::Exclusive).await;
        life.ask(Command::Release { request }).await;
        let (_, high, high_ticket) = life.lock(agent, "n", Mode::Shared).await;
        assert!(low < high);
        let mut next = Life::begin(&store).await;
        let agent = next.join("a").await;
        if lower_first {
            let lower = next.reclaim(agent, "n", Mode::Exclusive, low, &low_ticket).await.unwrap();
            next.tag += 1;
            let name = Name::new("n").unwrap();
            let reclaim = NewReclaim {
                agent,
                name,
                mode: Mode::Shared,
                token: high,
                metadata: None,
                max_hold_ms: None,
            };
            next.port.reclaim(next.tag, reclaim, &high_ticket);
            let mut notices = VecDeque::new();
            next.port.drain(&mut notices).unwrap();
            let loss = LockLoss { name: name.to_buf(), reason: LossReason::Superseded };
            let lost = Effect::Lost { agent, request: lower, loss: Box::new(loss) };
            assert_eq!(notices.pop_front(), Some(Notice::Effect(lost)));
            let answer = notices.pop_front().unwrap();
            assert!(matches!(answer, Notice::Answer { outcome: Outcome::Granted(_), .. }), "{answer:?}");
        } else {
            next.reclaim(agent, "n", Mode::Shared, high, &high_ticket).await.unwrap();
            let lower = next.reclaim(agent, "n", Mode::Exclusive, low, &low_ticket).await;
            assert_eq!(lower, Err(Refusal::Superseded));
        }
    }
}

#[tokio::test]
async fn only_buckets_with_web_locks_announced_to_remote_clients_recover() {
    let store = MemoryStore::new().unwrap();
    let mut life = Life::begin(&store).await;
    life.house.bucket("quiet").claims().claim("seat", "c", LEASE).await.unwrap();
    let agent = life.join("a").await;
    life.lock(agent, "n", Mode::Exclusive).await;
    let next = Life::begin(&store).await;
    assert_eq!(next.recovers(), Some(LEASE));
    assert_eq!(next.house.bucket("quiet").recovers_for(), None);
    assert_eq!(next.house.bucket("new").recovers_for(), None);
}

#[tokio::test]
async fn after_a_clean_stop_nothing_recovers_and_every_ticket_is_void() {
    let store = MemoryStore::new().unwrap();
    let mut life = Life::begin(&store).await;
    let agent = life.join("a").await;
    let (request, token, ticket) = life.lock(agent, "n", Mode::Exclusive).await;
    life.ask(Command::Release { request }).await;
    assert!(!life.house.bucket("default").is_held_remotely());
    life.house.close().await;
    let mut next = Life::begin(&store).await;
    assert_eq!(next.recovers(), None);
    let agent = next.join("a").await;
    assert!(next.reclaim(agent, "n", Mode::Exclusive, token, &ticket).await.is_err());
    next.lock(agent, "m", Mode::Exclusive).await;
    // Also in a later recovery.
    let mut last = Life::begin(&store).await;
    assert_eq!(last.recovers(), Some(LEASE));
    let agent = last.join("a").await;
    let refused = last.reclaim(agent, "n", Mode::Exclusive, token, &ticket).await;
    assert_eq!(refused, Err(Refusal::Superseded));
}

#[tokio::test]
async fn a_stop_while_a_remote_client_holds_or_may_reclaim_a_lock_is_not_clean() {
    let store = MemoryStore::new().unwrap();
    let mut life = Life::begin(&store).await;
    let agent = life.join("a").await;
    life.lock(agent, "n", Mode::Exclusive).await;
    assert!(life.house.bucket("default").is_held_remotely());
    life.house.close().await;
    let next = Life::begin(&store).await;
    assert_eq!(next.recovers(), Some(LEASE));
    assert!(next.house.bucket("default").is_held_remotely());
    next.house.close().await;
    let last = Life::begin(&store).await;
    assert_eq!(last.recovers(), Some(LEASE));
}

#[tokio::test]
async fn a_recovery_lasts_for_the_longest_lease_of_before() {
    let store = MemoryStore::new().unwrap();
    let mut life = Life::with(&store, Options::new()).await;
    life.tag += 1;
    let lease_ms = Some(60_000);
    life.port.submit(life.tag, Command::Join(NewAgent { client_id: "patient", lease_ms }));
    let Outcome::Joined(agent) = life.answer().await else { panic!() };
    life.lock(agent, "n", Mode::Exclusive).await;
    let next = Life::begin(&store).await;
    assert_eq!(next.recovers(), Some(Duration::from_secs(60)));
    next.clock.advance(Duration::from_secs(59));
    assert_eq!(next.recovers(), Some(Duration::from_secs(1)));
}
