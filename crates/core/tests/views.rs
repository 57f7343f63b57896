//! The answers to callers that only look: sizes of steps before they are carried out, counts, and views.

#![allow(clippy::unwrap_used, reason = "tests")]

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, FencingToken, Instant, Limits, LockManager, Mode, Name, NameBuf, NewAgent,
    NewLocks, NewOwner, NewReclaim, NewRequest, Outcome, OwnerId, RequestId, SecretSeed, Unlock, WebLockView,
};

const NOW: Instant = Instant::from_millis(0);
const LATER: Instant = Instant::from_millis(10);

struct World {
    manager: LockManager<FixedState>,
}

impl World {
    fn new() -> Self {
        Self::with(Limits::DEFAULT)
    }

    fn with(limits: Limits) -> Self {
        Self { manager: LockManager::with_limits(FixedState::default(), limits) }
    }

    fn join(&mut self, client_id: &str, lease_ms: Option<u64>) -> AgentId {
        let Outcome::Joined(agent) =
            self.manager.handle(NOW, Command::Join(NewAgent { client_id, lease_ms }))
        else {
            panic!()
        };
        agent
    }

    fn request(&mut self, agent: AgentId, name: &str, mode: Mode) -> RequestId {
        let request = NewRequest::new(agent, Name::new(name).unwrap(), Acquire::Wait(mode));
        match self.manager.handle(NOW, Command::Request(request)) {
            Outcome::Queued(request) => request,
            Outcome::Granted(grant) => grant.request,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// An owner with shared locks on these names.
    fn owner(&mut self, names: &[NameBuf]) -> OwnerId {
        let new = NewOwner { label: "Ada", metadata: None, ttl_ms: 10, max_ms: None, seed: SecretSeed(1) };
        let Outcome::OwnerOpened(owner) = self.manager.handle(NOW, Command::OpenOwner(new)) else { panic!() };
        let locks: Vec<_> = names.iter().map(|name| (name.as_name(), Mode::Shared)).collect();
        let locked = Command::Lock(NewLocks { owner, locks: &locks, metadata: None });
        assert!(matches!(self.manager.handle(NOW, locked), Outcome::Locked(_)));
        owner
    }

    fn release(&self, request: RequestId, most: usize) -> usize {
        self.manager.size_of_step(&Command::Release { request }, most)
    }

    fn abort(&self, request: RequestId, most: usize) -> usize {
        self.manager.size_of_step(&Command::Abort { request }, most)
    }
}

fn names(count: usize) -> Vec<NameBuf> {
    (0..count).map(|name| NameBuf::new(&name.to_string()).unwrap()).collect()
}

#[test]
fn the_size_of_an_end_is_all_that_the_agent_has() {
    let mut world = World::new();
    let (one, other) = (world.join("one", None), world.join("other", None));
    ["a", "b", "c"].iter().for_each(|name| _ = world.request(one, name, Mode::Exclusive));
    world.request(other, "a", Mode::Exclusive);
    let size = |agent| world.manager.size_of_step(&Command::End { agent }, 2);
    assert_eq!((size(one), size(other)), (3, 1));
}

#[test]
fn the_size_of_a_steal_is_the_number_of_its_victims_up_to_the_most() {
    let mut world = World::new();
    let agent = world.join("", None);
    (0..3).for_each(|_| _ = world.request(agent, "n", Mode::Shared));
    let steal = |name| NewRequest::new(agent, Name::new(name).unwrap(), Acquire::Steal);
    let size = |name, most| world.manager.size_of_step(&Command::Request(steal(name)), most);
    assert_eq!((size("n", 10), size("n", 2), size("free", 10)), (3, 2, 0));
    let waits = NewRequest::new(agent, Name::new("n").unwrap(), Acquire::Wait(Mode::Exclusive));
    assert_eq!(world.manager.size_of_step(&Command::Request(waits), 10), 0);
}

#[test]
fn the_size_of_a_release_is_the_number_of_readers_that_it_lets_in() {
    let mut world = World::new();
    let agent = world.join("", None);
    let held = world.request(agent, "n", Mode::Exclusive);
    let readers: Vec<_> = (0..5).map(|_| world.request(agent, "n", Mode::Shared)).collect();
    assert_eq!([3, 5, 6].map(|most| world.release(held, most)), [3, 5, 0], "few enough are not counted");
    assert_eq!(world.abort(readers[0], 4), 0, "the holder stays in the way");
    world.request(agent, "n", Mode::Exclusive);
    world.request(agent, "n", Mode::Shared);
    assert_eq!(world.release(held, 6), 5, "up to the next writer");
}

#[test]
fn the_size_of_an_abort_is_the_number_of_readers_behind_it() {
    let mut world = World::new();
    let agent = world.join("", None);
    let held = world.request(agent, "n", Mode::Shared);
    let other = world.request(agent, "n", Mode::Shared);
    let writer = world.request(agent, "n", Mode::Exclusive);
    let readers: Vec<_> = (0..5).map(|_| world.request(agent, "n", Mode::Shared)).collect();
    assert_eq!([3, 5, 6].map(|most| world.abort(writer, most)), [3, 5, 5]);
    assert_eq!(world.abort(readers[2], 4), 0);
    assert_eq!([held, other].map(|held| world.release(held, 4)), [0, 0], "a writer comes next");
    assert_eq!(world.release(readers[0], 4), 0);
}

#[test]
fn a_release_beside_another_holder_lets_no_reader_in_while_a_recovery_is_settled() {
    let mut world = World::new();
    world.manager.continue_tokens_above(10);
    world.manager.begin_recovery(LATER);
    let agent = world.join("", None);
    let name = Name::new("n").unwrap();
    let held = [1, 2].map(|token| {
        let (mode, token) = (Mode::Shared, FencingToken::new(token));
        let back = NewReclaim { agent, name, mode, token, metadata: None, max_hold_ms: None };
        match world.manager.handle(NOW, Command::Reclaim(back)) {
            Outcome::Granted(grant) => grant.request,
            outcome => panic!("{outcome:?}"),
        }
    });
    (0..5).for_each(|_| _ = world.request(agent, "n", Mode::Shared));
    assert_eq!(world.manager.recovers_until(), Some(LATER));
    assert_eq!(world.manager.size_of_next_end(LATER), 0, "it goes on");
    world.manager.handle(NOW, Command::EndRecovery);
    assert_eq!(world.manager.recovers_until(), None);
    assert_eq!(held.map(|held| world.release(held, 3)), [0, 0]);
    assert_eq!(world.manager.size_of_next_end(LATER), 5, "the queue of the next name");
}

#[test]
fn the_size_of_the_next_end_by_time_is_that_of_the_first_that_is_due() {
    let mut world = World::with(Limits { locks_ended_at_once: 2, ..Limits::DEFAULT });
    assert_eq!(world.manager.size_of_next_end(LATER), 0);
    let agent = world.join("", Some(10));
    ["a", "b", "c"].iter().for_each(|name| _ = world.request(agent, name, Mode::Exclusive));
    assert_eq!(world.manager.size_of_next_end(NOW), 0, "nothing is due");
    assert_eq!(world.manager.size_of_next_end(LATER), 3);
    world.manager.handle(NOW, Command::End { agent });
    let holds = NewRequest {
        max_hold_ms: Some(5),
        ..NewRequest::new(agent, Name::new("a").unwrap(), Acquire::Wait(Mode::Exclusive))
    };
    let agent = world.join("", None);
    world.manager.handle(NOW, Command::Request(NewRequest { agent, ..holds }));
    assert_eq!(world.manager.size_of_next_end(LATER), 1, "a longest hold");
    world.manager.handle(NOW, Command::End { agent });
    world.owner(&names(3));
    assert_eq!(world.manager.size_of_next_end(LATER), 2, "more of them end in parts");
}

#[test]
fn void_locks_are_counted_until_they_are_swept() {
    let mut world = World::with(Limits { locks_ended_at_once: 1, ..Limits::DEFAULT });
    let all = names(6);
    let (one, other) = (world.owner(&all), world.owner(&all[..3]));
    let named: Vec<_> = all[..2].iter().map(|name| (name.as_name(), None)).collect();
    world.manager.handle(NOW, Command::Unlock { owner: one, locks: Unlock::These(&named) });
    assert_eq!(world.manager.void_locks(), 2);
    let spared = [all[2].as_name()];
    world.manager.handle(NOW, Command::Unlock { owner: one, locks: Unlock::AllBut(&spared) });
    assert_eq!(world.manager.void_locks(), 5);
    world.manager.handle(NOW, Command::EndOwner { owner: other });
    assert_eq!((world.manager.void_locks(), world.manager.len()), (8, 9));
    for left in (0..8).rev() {
        world.manager.sweep(NOW, 1);
        assert_eq!(world.manager.void_locks(), left);
    }
    assert_eq!(world.manager.len(), 1);
}

#[test]
fn a_request_shows_its_name_and_once_it_is_held_its_lock() {
    let mut world = World::new();
    let (one, other) = (world.join("one", None), world.join("other", None));
    let (held, waits) = (world.request(one, "n", Mode::Exclusive), world.request(other, "n", Mode::Shared));
    let name = Name::new("n").unwrap();
    let WebLockView { name: shown, client_id, mode, token } = world.manager.web_lock(held).unwrap();
    assert_eq!((shown, client_id, mode, token.get()), (name, "one", Mode::Exclusive, 1));
    assert!(world.manager.web_lock(waits).is_none());
    assert_eq!([held, waits].map(|request| world.manager.name_of(request)), [Some(name); 2]);
    assert_eq!([one, other].map(|agent| world.manager.client_id_of(agent)), [Some("one"), Some("other")]);
    assert_eq!(world.manager.last_token(), 1);
    world.manager.handle(NOW, Command::End { agent: one });
    assert_eq!((world.manager.name_of(held), world.manager.client_id_of(one)), (None, None));
    assert_eq!(world.manager.last_token(), 2, "of the one that waited");
}

#[test]
fn the_bounds_and_the_end_of_a_manager_are_shown() {
    let limits = Limits { agents: 7, ..Limits::DEFAULT };
    let mut world = World::with(limits);
    assert_eq!((world.manager.limits(), world.manager.is_closed()), (&limits, false));
    world.manager.handle(NOW, Command::Close);
    assert!(world.manager.is_closed());
}

#[test]
fn a_snapshot_is_charged_for_its_entries_its_metadata_and_its_names() {
    let mut world = World::new();
    let agent = world.join("", None);
    let (name, metadata) = ("n".repeat(1000), "m".repeat(1000));
    let before = world.manager.bytes_of_snapshot();
    let request = NewRequest {
        metadata: Some(&metadata),
        ..NewRequest::new(agent, Name::new(&name).unwrap(), Acquire::Wait(Mode::Exclusive))
    };
    world.manager.handle(NOW, Command::Request(request));
    assert!(world.manager.bytes_of_snapshot() >= before + 2000 + Limits::DEFAULT.label_bytes);
}
