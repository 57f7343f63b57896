//! The ticker of a house, tick by tick.

use std::collections::VecDeque;

use lockhouse_core::{
    Acquire, AgentId, Command, Effect, FencingToken, Grant, Mode, Name, NameBuf, NewAgent, NewClaim,
    NewOwner, NewRequest, Outcome, OwnerId, Refusal, RequestId, RequestStatus, SecretSeed,
};

use super::ticker::{BUCKETS_AT_ONCE, Ticked};
use super::*;
use crate::engine::bucket::shared::Shared;
use crate::engine::clock::ManualClock;
use crate::store::MemoryStore;
use crate::{Notice, Port};

/// A house whose time is moved by hand; its ticker never comes to run, as these tests never wait.
struct World {
    house: House,
    port: Port,
    agent: Option<AgentId>,
    owner: Option<OwnerId>,
}

impl World {
    fn new() -> Self {
        let house = House::with_clock(Bounds::default(), Clock::manual(ManualClock::default()));
        let port = house.bucket("default").port(1000);
        Self { house, port, agent: None, owner: None }
    }

    fn join(&self, lease_ms: u64) -> AgentId {
        self.port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: Some(lease_ms) }));
        match self.notices().pop() {
            Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) => agent,
            other => panic!("{other:?}"),
        }
    }

    fn claim(&self, name: &str, ttl_ms: u64) -> FencingToken {
        let name = NameBuf::new(name).unwrap();
        let name = name.as_name();
        let new = NewClaim { name, claimant: "ada", ttl_ms, seed: SecretSeed(1), metadata: None };
        self.port.submit(0, Command::Claim(new));
        match self.notices().pop() {
            Some(Notice::Answer { outcome: Outcome::Claimed(claim), .. }) => claim.token,
            other => panic!("{other:?}"),
        }
    }

    fn open(&self) -> OwnerId {
        let new =
            NewOwner { label: "ada", metadata: None, ttl_ms: LENGTH_MS, max_ms: None, seed: SecretSeed(1) };
        self.port.submit(0, Command::OpenOwner(new));
        match self.notices().pop() {
            Some(Notice::Answer { outcome: Outcome::OwnerOpened(owner), .. }) => owner,
            other => panic!("{other:?}"),
        }
    }

    /// Requests a name with a longest hold.
    fn hold(&self) -> RequestId {
        let agent = self.join(3_600_000);
        let name = NameBuf::new("n").unwrap();
        let request = NewRequest::new(agent, name.as_name(), Acquire::Wait(Mode::Exclusive));
        self.port.submit(0, Command::Request(NewRequest { max_hold_ms: Some(LENGTH_MS), ..request }));
        match self.notices().pop() {
            Some(Notice::Answer { outcome: Outcome::Granted(Grant { request, .. }), .. }) => request,
            Some(Notice::Answer { outcome: Outcome::Queued(request), .. }) => request,
            other => panic!("{other:?}"),
        }
    }

    fn bucket(&self) -> &Arc<Shared> {
        &self.port.bucket().0
    }

    /// Time goes on without a tick.
    fn advance(&self, ms: u64) {
        self.house.inner.environment.clock.advance(ms);
    }

    fn tick_after(&self, ms: u64) {
        self.advance(ms);
        self.house.inner.tick(usize::MAX);
    }

    fn notices(&self) -> Vec<Notice> {
        let mut notices = VecDeque::new();
        self.port.drain(&mut notices).unwrap();
        notices.into()
    }

    /// The ticks of 100 ms until an agent ends.
    fn ticks_until_an_end(&self) -> u32 {
        (1..1000)
            .find(|_| {
                self.tick_after(100);
                self.notices().iter().any(|notice| matches!(notice, Notice::Effect(_)))
            })
            .expect("no agent has ended in 100 s")
    }
}

#[tokio::test]
async fn a_bucket_made_while_the_house_closes_is_closed_before_it_is_found() {
    let world = World::new();
    world.house.inner.begin_to_close();
    let bucket = world.house.inner.bucket("new".into(), usize::MAX).expect("there is no bound");
    let name = NameBuf::new("n").unwrap();
    let outcome = bucket.handle(Command::Claim(NewClaim {
        name: name.as_name(),
        claimant: "ada",
        ttl_ms: 60_000,
        seed: SecretSeed(1),
        metadata: None,
    }));
    assert_eq!(outcome, Outcome::Refused(Refusal::Closed));
}

#[tokio::test]
async fn a_lease_ends_with_the_first_tick_after_the_one_that_reaches_it() {
    let world = World::new();
    world.join(1000);
    assert_eq!(world.ticks_until_an_end(), 11);
}

#[tokio::test]
async fn a_renewal_that_waited_through_a_stall_is_in_time() {
    let world = World::new();
    let agent = world.join(1000);
    world.tick_after(100);
    // The process stands still for a minute; the ticker comes to run before the pending renewal does.
    world.tick_after(60_000);
    world.tick_after(100);
    world.port.submit(1, Command::Renew { agent });
    assert_eq!(world.notices(), [Notice::Answer { tag: 1, outcome: Outcome::Renewed { alive: true } }]);
    assert_eq!(world.ticks_until_an_end(), 11);
}

#[tokio::test]
async fn a_lease_that_is_nearly_over_survives_a_stall_in_which_its_renewal_waits() {
    let world = World::new();
    let agent = world.join(500);
    (0..4).for_each(|_| world.tick_after(100));
    world.tick_after(60_000);
    world.port.submit(1, Command::Renew { agent });
    assert_eq!(world.notices(), [Notice::Answer { tag: 1, outcome: Outcome::Renewed { alive: true } }]);
}

/// What ends by time, begun or renewed in a bucket: whether it has ended.
type HasEnded = Box<dyn Fn(&World) -> bool>;

type Begin = fn(&World) -> HasEnded;

/// Leases, longest holds and TTLs of half a second: each way to begin or to renew one.
fn deadlines() -> [(&'static str, Begin); 7] {
    fn agent_ended(agent: AgentId) -> HasEnded {
        Box::new(move |world| !world.bucket().with(|state| state.is_alive(agent)))
    }
    fn owner_ended(owner: OwnerId) -> HasEnded {
        Box::new(move |world| !world.bucket().with(|state| state.manager().owner(owner).is_some()))
    }
    fn hold_ended(request: RequestId) -> HasEnded {
        Box::new(move |world| world.bucket().with(|state| state.status(request)) == RequestStatus::Ended)
    }
    [
        ("a join", |world| agent_ended(world.join(LENGTH_MS))),
        ("a renewal", |world| {
            let agent = world.agent.expect("the agent joined before");
            world.port.submit(1, Command::Renew { agent });
            agent_ended(agent)
        }),
        ("an opening", |world| owner_ended(world.open())),
        ("a touch", |world| {
            let owner = world.owner.expect("the owner was opened before");
            world.port.submit(1, Command::Touch { owner });
            owner_ended(owner)
        }),
        ("a claim", |world| {
            world.claim("seat", LENGTH_MS);
            Box::new(|world| {
                let seat = NameBuf::new("seat").unwrap();
                world.bucket().with(|state| state.manager().claim_of(seat.as_name()).is_none())
            })
        }),
        ("a longest hold", |world| hold_ended(world.hold())),
        ("a longest hold granted by a release", |world| {
            let first = world.hold();
            let second = world.hold();
            world.port.submit(1, Command::Release { request: first });
            hold_ended(second)
        }),
    ]
}

const LENGTH_MS: u64 = 500;

#[tokio::test]
async fn a_ticker_that_stalls_before_and_after_it_cuts_no_deadline_short() {
    for (what, begin) in deadlines() {
        for before_ms in [0, 1, 450, 499, 500, 3000] {
            for after_ms in [1, 45, 100, 450, 3000] {
                let mut world = World::new();
                world.join(3_600_000);
                world.agent = Some(world.join(LENGTH_MS));
                world.owner = Some(world.open());
                world.advance(before_ms);
                let has_ended = begin(&world);
                let mut passed_ms = 0;
                for pause_ms in std::iter::once(after_ms).chain(std::iter::repeat(100)) {
                    assert!(
                        !has_ended(&world) || passed_ms >= LENGTH_MS,
                        "{what} lasted {passed_ms} ms, stalls of {before_ms} and {after_ms} ms"
                    );
                    if has_ended(&world) {
                        break;
                    }
                    assert!(passed_ms < 10_000, "{what} does not end");
                    world.tick_after(pause_ms);
                    passed_ms += pause_ms;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_claim_made_between_two_ticks_has_its_whole_ttl() {
    let world = World::new();
    world.join(1000);
    world.house.inner.environment.clock.advance(80);
    let seat = NameBuf::new("seat").unwrap();
    let claim = |tag| {
        let new = NewClaim {
            name: seat.as_name(),
            claimant: "ada",
            ttl_ms: 100,
            seed: SecretSeed(tag),
            metadata: None,
        };
        world.port.submit(tag, Command::Claim(new));
        match world.notices().pop() {
            Some(Notice::Answer { outcome: Outcome::Claimed(claim), .. }) => Some(claim.expires.as_millis()),
            _ => None,
        }
    };
    assert_eq!(claim(1), Some(180));
    world.tick_after(20);
    assert_eq!(claim(2), None, "20 ms later");
    world.tick_after(80);
    assert_eq!(claim(3), Some(280), "100 ms later");
}

#[tokio::test]
async fn a_claim_made_right_after_a_stall_ends_no_lease() {
    let world = World::new();
    let agent = world.join(500);
    world.house.inner.environment.clock.advance(60_000);
    let seat = NameBuf::new("seat").unwrap();
    let new =
        NewClaim { name: seat.as_name(), claimant: "ada", ttl_ms: 100, seed: SecretSeed(1), metadata: None };
    world.port.submit(1, Command::Claim(new));
    world.house.inner.tick(usize::MAX);
    world.notices();
    world.port.submit(2, Command::Renew { agent });
    assert_eq!(world.notices(), [Notice::Answer { tag: 2, outcome: Outcome::Renewed { alive: true } }]);
}

#[tokio::test]
async fn a_renewal_of_a_claim_that_waited_through_a_stall_is_in_time() {
    let world = World::new();
    world.join(60_000);
    let token = world.claim("seat", 1000);
    (0..7).for_each(|_| world.tick_after(100));
    // With 300 ms left the process stands still, and the pending renewal comes to run before the ticker does.
    world.house.inner.environment.clock.advance(5000);
    let seat = NameBuf::new("seat").unwrap();
    world.port.submit(1, Command::RenewClaim { name: seat.as_name(), token: Some(token) });
    match world.notices().pop() {
        Some(Notice::Answer { outcome: Outcome::ClaimRenewed { expires }, .. }) => {
            assert_eq!(expires.as_millis(), 700 + 200 + 1000);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_claim_made_right_after_a_stall_ends_no_other_claim() {
    let world = World::new();
    world.join(60_000);
    let token = world.claim("seat", 300);
    world.house.inner.environment.clock.advance(5000);
    world.claim("another seat", 300);
    let seat = NameBuf::new("seat").unwrap();
    world.port.submit(1, Command::Finalize { name: seat.as_name(), token: Some(token) });
    let notice = world.notices().pop();
    assert!(matches!(notice, Some(Notice::Answer { outcome: Outcome::Finalized(_), .. })), "{notice:?}");
}

/// A bucket of its own with one agent that has a lease.
fn lonely(world: &World, key: BucketKey, lease_ms: u64) -> (Port, impl Fn(&Port) -> bool) {
    let port = world.house.bucket(key).port(10);
    port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: Some(lease_ms) }));
    let has_ended = |port: &Port| {
        let mut notices = VecDeque::new();
        port.drain(&mut notices).unwrap();
        notices.iter().any(|notice| matches!(notice, Notice::Effect(Effect::AgentEnded { .. })))
    };
    assert!(!has_ended(&port));
    (port, has_ended)
}

#[tokio::test]
async fn time_goes_on_for_others_while_a_crowd_ends_in_parts() {
    let world = World::new();
    let crowd: Vec<_> = (0..100).map(|_| world.join(1000)).collect();
    let (other, has_ended) = lonely(&world, "other".into(), 1250);
    (0..10).for_each(|_| world.tick_after(100));
    let (mut ended, mut ticks, mut ticks_of_the_other) = (0, 0, None);
    // A tick of 100 ms, and only two parts between them.
    while ended < crowd.len() - 1 {
        ticks += 1;
        world.house.inner.environment.clock.advance(100);
        assert_eq!(world.house.inner.tick(2), Ticked::Wholly);
        world.house.inner.sweep(2);
        world.house.inner.sweep(2);
        ended += world.notices().iter().filter(|notice| matches!(notice, Notice::Effect(_))).count();
        if has_ended(&other) {
            ticks_of_the_other = Some(ticks);
        }
        if ticks == 2 {
            // Leases break late, never early: an agent that the crowd has not come to yet may be renewed.
            world.port.submit(1, Command::Renew { agent: crowd[99] });
            assert_eq!(
                world.notices(),
                [Notice::Answer { tag: 1, outcome: Outcome::Renewed { alive: true } }]
            );
        }
        assert!(ticks < 100, "only {ended} have ended");
    }
    // The tick by which it ends comes after the one that reaches it: at 1300 ms, by 1250 ms.
    assert_eq!(ticks_of_the_other, Some(4));
    assert!(ticks > 20, "{ticks}");
    while world.house.inner.sweep(2) {}
    assert_eq!((ended, world.notices()), (99, Vec::new()), "one was renewed");
}

#[tokio::test]
async fn a_tenant_with_many_crowds_has_no_more_turns_than_one_with_one() {
    let world = World::new();
    let key = |tenant: &str, bucket: usize| BucketKey {
        bucket: bucket.to_string(),
        partition: format!("\u{1f}{tenant}\u{1f}\u{1f}\u{1f}{bucket}"),
    };
    let loud: Vec<_> = (0..40).map(|bucket| lonely(&world, key("loud", bucket), 200).0).collect();
    let (quiet, has_ended) = lonely(&world, key("quiet", 0), 200);
    for most in [usize::MAX, 0] {
        world.house.inner.environment.clock.advance(200);
        while world.house.inner.tick(most) == Ticked::InPart {}
    }
    let parts = (1..100).find(|_| {
        world.house.inner.sweep(1);
        has_ended(&quiet)
    });
    assert_eq!(parts, Some(2), "its turn is the second one");
    while world.house.inner.sweep(1) {}
    assert!(loud.iter().all(has_ended));
}

#[tokio::test]
async fn a_tick_over_many_buckets_lets_others_go_on_between_them() {
    let world = World::new();
    let crowd: Vec<_> =
        (0..3 * BUCKETS_AT_ONCE).map(|bucket| world.house.bucket(&*bucket.to_string()).port(10)).collect();
    for port in &crowd {
        port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: Some(200) }));
    }
    world.house.inner.environment.clock.advance(200);
    let mut parts = 1;
    while world.house.inner.tick(usize::MAX) == Ticked::InPart {
        parts += 1;
    }
    assert_eq!(parts, 3);
    world.house.inner.environment.clock.advance(200);
    let mut ended = 0;
    for part in 1..=3 {
        world.house.inner.tick(usize::MAX);
        let mut notices = VecDeque::new();
        crowd.iter().for_each(|port| port.drain(&mut notices).unwrap());
        ended += notices.iter().filter(|notice| matches!(notice, Notice::Effect(_))).count();
        assert_eq!(ended, part * BUCKETS_AT_ONCE, "as many in each part");
    }
}

#[tokio::test]
async fn tokens_reveal_nothing_of_other_partitions() {
    let house = House::new();
    let token = |partition: &str| {
        let key = BucketKey { bucket: "b".to_owned(), partition: partition.to_owned() };
        let port = house.bucket(key).port(10);
        port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: None }));
        let mut notices = VecDeque::new();
        port.drain(&mut notices).unwrap();
        let Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) = notices.pop_back() else {
            panic!()
        };
        let name = Name::new("n").unwrap();
        port.submit(1, Command::Request(NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive))));
        port.drain(&mut notices).unwrap();
        match notices.pop_back() {
            Some(Notice::Answer { outcome: Outcome::Granted(grant), .. }) => grant.token.get(),
            other => panic!("{other:?}"),
        }
    };
    // The bucket is dropped after each.
    let busy: Vec<_> = (0..3).map(|_| token("busy")).collect();
    assert!(busy[0] < busy[1] && busy[1] < busy[2], "{busy:?}");
    assert_eq!(token("quiet"), busy[0], "the first one of a partition");
}

#[tokio::test]
async fn tokens_reveal_nothing_of_other_tenants_after_a_restart() {
    let store = MemoryStore::new().unwrap();
    // A clock by which both lives begin at the same time, and with the same tokens.
    let options = Options::new().clock(&ManualClock::new());
    let open = async || House::open(Arc::new(store.reopen()), options.clone()).await.unwrap();
    let token = async |house: &House, tenant: &str| {
        let partition = format!("\u{1f}{tenant}\u{1f}\u{1f}\u{1f}");
        let bucket = house.bucket(BucketKey { bucket: "b".to_owned(), partition });
        let agent = bucket.agent("a").unwrap();
        agent.locks().request("n").await.unwrap().fencing_token().get()
    };
    let house = open().await;
    let busy: Vec<_> =
        [token(&house, "busy").await, token(&house, "busy").await, token(&house, "busy").await].into();
    assert!(busy[0] < busy[1] && busy[1] < busy[2], "{busy:?}");
    house.close().await;
    let house = open().await;
    assert_eq!(token(&house, "quiet").await, busy[0], "the first one of a tenant");
    assert!(token(&house, "busy").await > busy[2]);
}

#[tokio::test]
async fn time_runs_on_without_deadlines_and_never_backwards() {
    let world = World::new();
    world.house.inner.environment.clock.advance(5000);
    assert_eq!(world.house.now().as_millis(), 5000);
    world.join(1000);
    world.tick_after(60_000);
    let ticks = world.ticks_until_an_end();
    assert!(ticks <= 10, "{ticks}");
    let before = world.house.now();
    world.house.inner.environment.clock.advance(50);
    assert_eq!(world.house.now(), before.plus_millis(50), "it runs freely again, from where it was");
}

#[tokio::test]
async fn a_crowd_goes_on_until_the_heirs_have_been_granted_what_it_left() {
    let world = World::new();
    let names = ["a", "b", "c", "d"].map(|name| Name::new(name).unwrap());
    let request = |agent, name| {
        let request = NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive));
        world.port.submit(1, Command::Request(request));
    };
    names.iter().for_each(|name| request(world.join(200), *name));
    world.port.submit(0, Command::Join(NewAgent { client_id: "", lease_ms: None }));
    let Some(Notice::Answer { outcome: Outcome::Joined(heir), .. }) = world.notices().pop() else { panic!() };
    names.iter().for_each(|name| request(heir, *name));
    world.tick_after(200);
    world.notices();
    let grants = || {
        let notices = world.notices();
        notices.iter().filter(|notice| matches!(notice, Notice::Effect(Effect::Granted { .. }))).count()
    };
    assert_eq!((world.house.inner.tick(2), grants()), (Ticked::Wholly, 0));
    let parts: Vec<_> = (0..3).map(|_| (world.house.inner.sweep(2), grants())).collect();
    assert_eq!(parts, [(true, 0), (true, 2), (false, 2)]);
    assert_eq!(world.house.inner.tick(2), Ticked::NothingLeft);
}
