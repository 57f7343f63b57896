//! The answers to callers that only look: sizes of steps before they are carried out, counts, and views.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, FencingToken, HolderKind, Instant, Limits, LockManager, Mode, Name, NameBuf,
    NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim, NewRequest, Outcome, OwnerId, Party, RequestId,
    SecretSeed, Unlock, WebLockView,
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
fn held_web_locks_are_counted_and_those_of_remote_agents_apart() {
    let mut world = World::new();
    let (near, far) = (world.join("near", None), world.join("far", None));
    world.manager.mark_remote(far);
    world.owner(&names(2));
    world.request(near, "a", Mode::Shared);
    let held = world.request(far, "a", Mode::Shared);
    world.request(far, "b", Mode::Exclusive);
    world.request(near, "b", Mode::Exclusive);
    assert_eq!((world.manager.held_web_locks(), world.manager.held_remotely()), (3, 2));
    world.manager.handle(NOW, Command::Release { request: held });
    assert_eq!((world.manager.held_web_locks(), world.manager.held_remotely()), (2, 1));
    world.manager.handle(NOW, Command::End { agent: far });
    assert_eq!(
        (world.manager.held_web_locks(), world.manager.held_remotely()),
        (2, 0),
        "the waiter has its turn"
    );
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

#[test]
fn a_name_shows_who_holds_it_oldest_first_and_whether_durably() {
    let mut world = World::new();
    let all = names(3);
    let owner = world.owner(&all[..1]);
    let agent = world.join("reader", None);
    world.request(agent, "0", Mode::Shared);
    world.request(agent, "1", Mode::Exclusive);
    let name = |at: usize| all[at].as_name();
    assert_eq!([0, 1, 2].map(|at| world.manager.holders_of(name(at))), [2, 1, 0]);
    assert_eq!([0, 1, 2].map(|at| world.manager.is_held_durably(name(at))), [true, false, false]);
    let holders = world.manager.first_holders_of(name(0));
    assert_eq!(holders.iter().map(|holder| &*holder.label).collect::<Vec<_>>(), ["Ada", "reader"]);
    assert!(world.manager.first_holders_of(name(2)).is_empty());
    let record = world.manager.lock_of(owner, name(0)).unwrap();
    assert_eq!((record.owner, record.mode), (owner, Mode::Shared));
    assert_eq!(world.manager.token_of_lock(owner, name(0)), Some(record.token));
    assert!(world.manager.lock_of(owner, name(1)).is_none());
    assert_eq!(world.manager.token_of_lock(owner, name(1)), None);
}

#[test]
fn the_kind_of_a_holder_has_a_word_and_only_an_offline_lock_an_owner() {
    let mut world = World::new();
    let (agent, owner) = (world.join("a", None), world.owner(&names(1)));
    let kinds = [Party::Agent(agent), Party::Owner(owner), Party::Claimant].map(HolderKind::from);
    assert_eq!(kinds.map(HolderKind::word), ["web", "offline", "claim"]);
    assert_eq!(kinds.map(HolderKind::owner), [None, Some(owner.to_string()), None]);
}

#[test]
fn assignments_are_found_from_any_bytes_on() {
    let mut world = World::new();
    for resource in ["a", "b", "c"] {
        let name = Name::new(resource).unwrap();
        let (seed, ttl_ms) = (SecretSeed(1), 10);
        let new = NewClaim { name, claimant: "Bob", ttl_ms, seed, metadata: None };
        let Outcome::Claimed(grant) = world.manager.handle(NOW, Command::Claim(new)) else { panic!() };
        world.manager.handle(NOW, Command::Finalize { name, token: Some(grant.token) });
    }
    let from = |start: &[u8]| {
        let found =
            world.manager.assignments_from(start).map(|found| found.name.as_name().display().into_owned());
        found.collect::<Vec<_>>()
    };
    assert_eq!(from(b"b"), ["b", "c"]);
    assert_eq!(from(b"aa"), ["b", "c"]);
    assert_eq!(from(b""), ["a", "b", "c"]);
}

#[test]
fn a_name_is_shown_as_it_is_unless_it_has_control_characters() {
    let shown = |text: &str| Name::new(text).unwrap().display().into_owned();
    assert_eq!([shown("a\"b\\"), shown("a\nb"), shown("é")], ["a\"b\\", "a\\nb", "é"]);
    assert_eq!(format!("{:?}", Name::new("a\"b\\").unwrap()), "\"a\\\"b\\\\\"");
}

#[test]
fn the_first_character_beyond_16_bits_has_two_units() {
    let units = |text| Name::new(text).unwrap().units().collect::<Vec<_>>();
    assert_eq!(units("\u{ffff}"), [0xFFFF]);
    assert_eq!(units("\u{10000}"), [0xD800, 0xDC00]);
}

#[test]
fn names_are_keys_by_their_content() {
    let (one, other) = (NameBuf::new("one").unwrap(), NameBuf::new("other").unwrap());
    assert!(one != other && one == NameBuf::new("one").unwrap());
    let hasher = FixedState::default();
    assert_ne!(hasher.hash_one(&one), hasher.hash_one(&other));
    let map = BTreeMap::from([(one, 1), (other, 2)]);
    assert_eq!(
        ["one", "other", "none"].map(|key| map.get(key.as_bytes()).copied()),
        [Some(1), Some(2), None]
    );
}

/// A world in which agents and owners have done this and that.
fn random_world(seed: u64) -> (World, Vec<AgentId>) {
    let (mut world, mut random) = (World::new(), random::Random::new(seed));
    let agents: Vec<_> = (0..5).map(|number| world.join(&number.to_string(), None)).collect();
    let owned: Vec<_> = (0..random.below(3)).map(|name| NameBuf::new(&name.to_string()).unwrap()).collect();
    world.owner(&owned);
    for ms in 0..60 {
        let agent = agents[random.below(agents.len())];
        let text = random.below(8).to_string();
        let mode = if random.below(2) == 0 { Mode::Shared } else { Mode::Exclusive };
        let request = NewRequest::new(agent, Name::new(&text).unwrap(), Acquire::Wait(mode));
        let command = match world.manager.requests_of(agent).nth(random.below(9)) {
            Some(request) if random.below(2) == 0 => match world.manager.status(request) {
                lockhouse_core::RequestStatus::Pending => Command::Abort { request },
                _ => Command::Release { request },
            },
            _ => Command::Request(request),
        };
        world.manager.handle(Instant::from_millis(ms), command);
        while world.manager.poll_effect().is_some() {}
    }
    (world, agents)
}

fn snapshot(world: &mut World) -> lockhouse_core::Snapshot {
    match world.manager.handle(Instant::from_millis(1_000), Command::Snapshot) {
        Outcome::Snapshot(snapshot) => snapshot,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn a_survey_finds_what_a_snapshot_shows_however_many_parts_it_has() {
    for seed in 0..300 {
        let (mut world, _) = random_world(seed);
        let all = snapshot(&mut world);
        let mut queues = BTreeMap::<NameBuf, u32>::new();
        all.pending.iter().for_each(|entry| *queues.entry(entry.name.clone()).or_default() += 1);
        let mut longest: Vec<_> = queues.values().copied().collect();
        longest.sort_unstable_by(|one, other| other.cmp(one));
        let oldest =
            |entries: &[lockhouse_core::SnapshotEntry]| entries.iter().map(|entry| entry.since).min();
        for part in [1, 2, 7, 1_000] {
            let mut survey = lockhouse_core::Survey::default();
            let mut parts = 0;
            while world.manager.survey(&mut survey, part) {
                parts += 1;
            }
            assert_eq!(parts == 0, part == 1_000, "{parts} parts of {part}");
            let found = world.manager.end_survey(survey);
            assert_eq!(found.contended.iter().map(|it| it.waiting).collect::<Vec<_>>(), longest);
            for name in &found.contended {
                assert_eq!(queues[&name.name], name.waiting);
                assert_eq!(all.held.iter().filter(|entry| entry.name == name.name).count(), name.held);
                let first = all.pending.iter().find(|entry| entry.name == name.name).unwrap();
                assert_eq!(first.since, name.since);
            }
            assert_eq!(found.longest_wait.as_ref().map(|entry| entry.since), oldest(&all.pending));
            assert_eq!(found.oldest.as_ref().map(|entry| entry.since), oldest(&all.held));
            assert!(found.longest_wait.is_none_or(|entry| all.pending.contains(&entry)));
            assert!(found.oldest.is_none_or(|entry| all.held.contains(&entry)));
        }
    }
}

#[test]
fn looks_at_a_name_and_at_agents_show_their_part_of_a_snapshot() {
    for seed in 0..300 {
        let (mut world, agents) = random_world(seed);
        let all = snapshot(&mut world);
        for text in ["0", "1", "2", "3", "4", "5", "6", "7", "8"] {
            let name = Name::new(text).unwrap();
            let of_name = |entries: &[lockhouse_core::SnapshotEntry]| {
                entries.iter().filter(|entry| entry.name.as_name() == name).cloned().collect::<Vec<_>>()
            };
            let found = world.manager.snapshot_of(name);
            assert_eq!((&found.held, &found.pending), (&of_name(&all.held), &of_name(&all.pending)));
            assert_eq!(world.manager.count_of(name), found.held.len() + found.pending.len());
            let least = world.manager.count_of(name) * size_of::<lockhouse_core::SnapshotEntry>();
            assert!(world.manager.bytes_of_snapshot_of(name) >= least);
        }
        for agent in agents.iter().copied() {
            let count = |entries: &[lockhouse_core::SnapshotEntry]| {
                entries.iter().filter(|entry| entry.party == Party::Agent(agent)).count()
            };
            let (_, held, waiting) = world.manager.counts_of(agent).unwrap();
            assert_eq!((held, waiting), (count(&all.held), count(&all.pending)));
        }
        for agent in agents {
            world.manager.handle(Instant::from_millis(1_000), Command::End { agent });
            assert_eq!(world.manager.counts_of(agent), None);
        }
    }
}

#[test]
fn owners_come_page_by_page() {
    let mut world = World::new();
    let owners: Vec<_> = (0..5).map(|_| world.owner(&[])).collect();
    let after = |owner| world.manager.owners_after(owner).map(|it| it.owner).collect::<Vec<_>>();
    assert_eq!(after(None), owners);
    assert_eq!(after(Some(owners[2])), owners[3..]);
    assert_eq!(after(Some(owners[4])), []);
}
