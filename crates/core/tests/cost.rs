//! The cost of a command does not grow with unrelated state. The commands are timed, with bounds so wide that
//! only a wrong order of growth exceeds them: a cost linear in the unrelated state grows a hundredfold here.

use std::time::{Duration, Instant as Stopwatch};

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, FencingToken, Instant, LockManager, Mode, Name, NewAgent, NewClaim, NewLocks,
    NewOwner, NewRequest, Outcome, OwnerId, RequestId, SecretSeed, Unlock,
};

const NOW: Instant = Instant::from_millis(0);
/// Caches make the large case slower, too, but not by so much.
const WIDE: u32 = 20;

struct World {
    manager: LockManager<FixedState>,
    agent: AgentId,
}

impl World {
    fn new() -> Self {
        let mut manager = LockManager::new(FixedState::default());
        match manager.handle(NOW, Command::Join(NewAgent::new("only"))) {
            Outcome::Joined(agent) => Self { manager, agent },
            other => panic!("{other:?}"),
        }
    }

    fn request(&mut self, name: &str) -> RequestId {
        self.request_as(name, Mode::Exclusive)
    }

    fn request_as(&mut self, name: &str, mode: Mode) -> RequestId {
        let name = Name::new(name).expect("no hyphen");
        let ask = NewRequest::new(self.agent, name, Acquire::Wait(mode));
        match self.manager.handle(NOW, Command::Request(ask)) {
            Outcome::Granted(grant) => grant.request,
            Outcome::Queued(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn pair(&mut self, name: &str) {
        let request = self.request(name);
        assert_eq!(self.manager.handle(NOW, Command::Release { request }), Outcome::Released { held: true });
    }

    fn open(&mut self, ttl_ms: u64) -> OwnerId {
        let new = NewOwner { label: "owner", metadata: None, ttl_ms, max_ms: None, seed: SecretSeed(1) };
        match self.handle(Command::OpenOwner(new)) {
            Outcome::OwnerOpened(owner) => owner,
            other => panic!("{other:?}"),
        }
    }

    fn lock(&mut self, owner: OwnerId, name: &str, mode: Mode) {
        let locks = [(Name::new(name).expect("no hyphen"), mode)];
        let locked = self.handle(Command::Lock(NewLocks { owner, locks: &locks, metadata: None }));
        assert!(matches!(locked, Outcome::Locked(_)), "{locked:?}");
    }

    fn claim(&mut self, name: &str, ttl_ms: u64) -> FencingToken {
        let name = Name::new(name).expect("no hyphen");
        let new = NewClaim { name, claimant: "claimant", ttl_ms, seed: SecretSeed(1), metadata: None };
        match self.handle(Command::Claim(new)) {
            Outcome::Claimed(grant) => grant.token,
            other => panic!("{other:?}"),
        }
    }

    /// Takes all effects after each command, as a bucket does.
    fn handle(&mut self, command: Command<'_>) -> Outcome {
        let outcome = self.manager.handle(NOW, command);
        while self.manager.poll_effect().is_some() {}
        outcome
    }

    /// As a bucket does, which looks first whether the step is large.
    fn abort(&mut self, request: RequestId) {
        let size = self.manager.size_of_step(&Command::Abort { request }, 1_000);
        assert_eq!(size, 0, "it grants nothing");
        assert_eq!(self.manager.handle(NOW, Command::Abort { request }), Outcome::Aborted { pending: true });
    }
}

/// The shortest of several measurements, so that other processes on the machine do not count.
fn shortest(times: u32, mut measure: impl FnMut() -> Duration) -> Duration {
    (0..times).map(|_| measure()).min().expect("measured at least once")
}

/// The median, so that disturbances of a few measurements by other processes do not count.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Stopwatch::now();
    work();
    started.elapsed()
}

/// Cancels every third of so many waiters on one name, in scattered order. Returns how long each thousand of
/// cancels took.
fn cancel_one_of(waiters: usize) -> Vec<Duration> {
    let mut world = World::new();
    world.request("hot");
    let queued: Vec<RequestId> = (0..waiters).map(|_| world.request_as("hot", Mode::Shared)).collect();
    let third: Vec<RequestId> = queued.into_iter().step_by(3).collect();
    // A stride without a common divisor visits all of them, far from each other.
    let scattered: Vec<RequestId> = (0..third.len()).map(|n| third[n * 7919 % third.len()]).collect();
    let thousands = scattered.chunks(1_000);
    let spent =
        thousands.map(|chunk| timed(|| chunk.iter().for_each(|request| world.abort(*request)))).collect();
    assert_eq!(world.manager.len(), 1 + waiters - third.len());
    spent
}

#[test]
fn a_cancel_among_many_waiters_costs_what_it_costs_among_few() {
    let few = median((0..20).flat_map(|_| cancel_one_of(3_000)).collect()).max(Duration::from_micros(5));
    let many = median(cancel_one_of(300_000));
    assert!(many < few * WIDE, "a thousand cancels: {many:?} among 300,000, {few:?} among 3,000");
}

#[test]
fn a_pair_among_many_unrelated_names_costs_what_it_costs_alone() {
    let pairs = |world: &mut World| timed(|| (0..1_000).for_each(|_| world.pair("mine")));
    let mut alone = World::new();
    let mut crowd = World::new();
    for n in 0..100_000 {
        let name = format!("name {n}");
        crowd.request(&name);
        crowd.request(&name);
    }
    assert_eq!((crowd.manager.names(), crowd.manager.len()), (100_000, 200_000));
    let among_none = shortest(20, || pairs(&mut alone)).max(Duration::from_micros(20));
    let among_many = shortest(20, || pairs(&mut crowd));
    assert!(among_many < among_none * WIDE, "{among_many:?} among 100,000 names, {among_none:?} alone");
}

#[test]
fn the_end_of_a_small_agent_costs_the_same_in_a_crowd() {
    fn ends(world: &mut World) -> Duration {
        let agents: Vec<AgentId> = (0..1_000)
            .map(|n| {
                let joined = world.manager.handle(NOW, Command::Join(NewAgent::new("passer-by")));
                let Outcome::Joined(agent) = joined else { panic!("{joined:?}") };
                let home = std::mem::replace(&mut world.agent, agent);
                world.request(&format!("own {n}"));
                world.agent = home;
                agent
            })
            .collect();
        timed(|| agents.into_iter().for_each(|agent| _ = world.manager.handle(NOW, Command::End { agent })))
    }
    let mut alone = World::new();
    let mut crowd = World::new();
    (0..100_000).for_each(|n| _ = crowd.request(&format!("name {n}")));
    let among_none = shortest(10, || ends(&mut alone)).max(Duration::from_micros(50));
    let among_many = shortest(10, || ends(&mut crowd));
    assert!(among_many < among_none * WIDE, "{among_many:?} among 100,000 names, {among_none:?} alone");
}

#[test]
fn the_end_of_an_owner_costs_its_own_locks_alone() {
    fn ends(world: &mut World) -> Duration {
        let owners: Vec<OwnerId> = (0..1_000).map(|_| world.open(60_000)).collect();
        for (n, owner) in owners.iter().enumerate() {
            world.lock(*owner, &format!("own {n}"), Mode::Exclusive);
            world.lock(*owner, "read by all", Mode::Shared);
        }
        timed(|| owners.into_iter().for_each(|owner| _ = world.handle(Command::EndOwner { owner })))
    }
    let mut alone = World::new();
    let mut crowd = World::new();
    for n in 0..10_000 {
        let owner = crowd.open(60_000);
        (0..10).for_each(|m| crowd.lock(owner, &format!("name {n} {m}"), Mode::Exclusive));
        crowd.lock(owner, "read by all", Mode::Shared);
    }
    let among_none = shortest(10, || ends(&mut alone)).max(Duration::from_micros(50));
    let among_many = shortest(10, || ends(&mut crowd));
    assert!(among_many < among_none * WIDE, "{among_many:?} among 110,000 locks, {among_none:?} alone");
}

#[test]
fn a_lock_that_is_held_already_is_found_at_once_among_many_holders() {
    fn again(world: &mut World, owner: OwnerId) -> Duration {
        timed(|| (0..1_000).for_each(|_| world.lock(owner, "read by all", Mode::Shared)))
    }
    let mut alone = World::new();
    let mut crowd = World::new();
    let [first, other] = [&mut alone, &mut crowd].map(|world| world.open(60_000));
    (0..50_000).for_each(|_| {
        let owner = crowd.open(60_000);
        crowd.lock(owner, "read by all", Mode::Shared);
    });
    let among_none = shortest(20, || again(&mut alone, first)).max(Duration::from_micros(50));
    let among_many = shortest(20, || again(&mut crowd, other));
    assert!(among_many < among_none * WIDE, "{among_many:?} among 50,000 readers, {among_none:?} alone");
    // The release does not look at the other readers either.
    let name = [(Name::new("read by all").expect("no hyphen"), None)];
    let given_back = timed(|| {
        (0..1_000).for_each(|_| {
            crowd.handle(Command::Unlock { owner: other, locks: Unlock::These(&name) });
            crowd.lock(other, "read by all", Mode::Shared);
        });
    });
    assert!(
        given_back < among_none * WIDE * 2,
        "{given_back:?} to give back and take, {among_none:?} to find"
    );
}

#[test]
fn renewing_a_claim_among_many_costs_what_it_costs_alone() {
    fn renews(world: &mut World, token: FencingToken) -> Duration {
        let name = Name::new("mine").expect("no hyphen");
        let renew = Command::RenewClaim { name, token: Some(token) };
        timed(|| {
            for _ in 0..1_000 {
                assert!(matches!(world.handle(renew), Outcome::ClaimRenewed { .. }));
            }
        })
    }
    let mut alone = World::new();
    let mut crowd = World::new();
    (0..100_000).for_each(|n| _ = crowd.claim(&format!("name {n}"), 60_000));
    let [first, other] = [&mut alone, &mut crowd].map(|world| world.claim("mine", 60_000));
    let among_none = shortest(20, || renews(&mut alone, first)).max(Duration::from_micros(50));
    let among_many = shortest(20, || renews(&mut crowd, other));
    assert!(among_many < among_none * WIDE, "{among_many:?} among 100,000 claims, {among_none:?} alone");
}

#[test]
fn a_hundred_thousand_owners_that_expire_at_once_cost_each_what_a_few_cost() {
    fn expire(owners: usize) -> Duration {
        let mut world = World::new();
        for n in 0..owners {
            let owner = world.open(1_000);
            world.lock(owner, &format!("name {n}"), Mode::Exclusive);
            world.lock(owner, "read by all", Mode::Shared);
        }
        world.request("read by all");
        let spent = timed(|| world.manager.handle_timeout(Instant::from_millis(1_000)));
        assert_eq!((world.manager.owners().len(), world.manager.len()), (0, 1));
        spent
    }
    let few = shortest(10, || expire(1_000)).max(Duration::from_micros(100));
    let many = expire(100_000);
    assert!(many < few * 100 * WIDE, "{many:?} for 100,000 owners, {few:?} for 1,000");
}
