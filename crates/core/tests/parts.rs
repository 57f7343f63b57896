//! No call handles more locks than its part: the ends of owners with very many locks, their releases, and the
//! end of a recovery for which very many wait.

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, Change, Command, Effect, FencingToken, Instant, LockManager, Mode, Name, NameBuf, NewAgent,
    NewLocks, NewOwner, NewRequest, Outcome, OwnerId, SecretSeed, Unlock,
};

const NOW: Instant = Instant::from_millis(0);
const MANY: usize = 100_000;
const PART: usize = 60;

struct World {
    manager: LockManager<FixedState>,
    owner: OwnerId,
    names: Vec<NameBuf>,
}

impl World {
    /// An owner with very many locks.
    fn new() -> Self {
        let mut manager = LockManager::new(FixedState::default());
        let new = NewOwner { label: "", metadata: None, ttl_ms: 1000, max_ms: None, seed: SecretSeed(1) };
        let Outcome::OwnerOpened(owner) = manager.handle(NOW, Command::OpenOwner(new)) else { panic!() };
        let names: Vec<NameBuf> = (0..MANY).map(|n| NameBuf::new(&format!("n/{n}")).unwrap()).collect();
        for names in names.chunks(PART) {
            let locks: Vec<_> = names.iter().map(|name| (name.as_name(), Mode::Exclusive)).collect();
            let locked =
                manager.handle(NOW, Command::Lock(NewLocks { owner, locks: &locks, metadata: None }));
            assert!(matches!(locked, Outcome::Locked(_)), "{locked:?}");
        }
        let mut world = Self { manager, owner, names };
        world.changes();
        world
    }

    fn changes(&mut self) -> Vec<Change> {
        let effects = std::iter::from_fn(|| self.manager.poll_effect());
        let change = |effect| match effect {
            Effect::Change(change) => Some(*change),
            _ => None,
        };
        effects.filter_map(change).collect()
    }

    /// Sweeps to the end; returns how many calls that took.
    fn sweep(&mut self) -> usize {
        for calls in 1.. {
            let before = self.manager.len();
            let is_done = self.manager.sweep(NOW, PART);
            assert!(before - self.manager.len() <= PART);
            assert!(self.changes().len() <= PART + 1);
            if is_done {
                return calls;
            }
        }
        unreachable!("it comes to an end")
    }
}

#[test]
fn the_end_of_an_owner_is_one_change_and_its_locks_end_in_parts() {
    let mut world = World::new();
    let ended = world.manager.handle(NOW, Command::EndOwner { owner: world.owner });
    assert_eq!(ended, Outcome::Ended { alive: true });
    assert_eq!((world.manager.len(), world.changes().len()), (MANY, 1));
    assert_eq!(world.sweep(), MANY.div_ceil(PART));
    assert_eq!((world.manager.len(), world.manager.bytes()), (0, 0));
}

#[test]
fn an_owner_that_expires_ends_likewise() {
    let mut world = World::new();
    let at = Instant::from_millis(1000);
    assert!(world.manager.handle_timeout_in_part(at, at, PART));
    assert_eq!((world.manager.len(), world.changes().len()), (MANY, 1));
    assert_eq!(world.manager.owners().len(), 0);
    assert_eq!(world.sweep(), MANY.div_ceil(PART));
}

#[test]
fn the_release_of_all_but_some_is_one_change_and_they_end_in_parts() {
    let mut world = World::new();
    let spared = [world.names[7].as_name(), world.names[3].as_name()];
    let unlock = Command::Unlock { owner: world.owner, locks: Unlock::AllBut(&spared) };
    assert_eq!(world.manager.handle(NOW, unlock), Outcome::Unlocked { count: MANY - 2 });
    assert_eq!((world.manager.len(), world.changes().len()), (MANY, 1));
    assert_eq!(world.sweep(), (MANY - 2).div_ceil(PART));
    let left: Vec<_> = world.manager.locks_of(world.owner).map(|lock| lock.name).collect();
    assert_eq!(left, [world.names[3].clone(), world.names[7].clone()], "the oldest first");
}

#[test]
fn the_release_of_a_thousand_is_one_change_and_they_end_in_parts() {
    let mut world = World::new();
    let locks: Vec<(Name<'_>, Option<FencingToken>)> =
        world.names[..1000].iter().map(|name| (name.as_name(), None)).collect();
    let unlock = Command::Unlock { owner: world.owner, locks: Unlock::These(&locks) };
    assert_eq!(world.manager.handle(NOW, unlock), Outcome::Unlocked { count: 1000 });
    assert_eq!((world.manager.len(), world.changes().len()), (MANY, 1));
    assert_eq!(world.sweep(), 1000_usize.div_ceil(PART));
    assert_eq!(world.manager.len(), MANY - 1000);
}

#[test]
fn the_names_that_wait_for_the_end_of_a_recovery_are_processed_in_parts() {
    let mut manager = LockManager::new(FixedState::default());
    manager.begin_recovery(Instant::from_millis(1000));
    let Outcome::Joined(agent) = manager.handle(NOW, Command::Join(NewAgent::new(""))) else { panic!() };
    for number in 0..MANY {
        let name = NameBuf::new(&format!("n/{number}")).unwrap();
        let request = NewRequest::new(agent, name.as_name(), Acquire::Wait(Mode::Exclusive));
        manager.handle(NOW, Command::Request(request));
    }
    assert_eq!(manager.handle(NOW, Command::EndRecovery), Outcome::RecoveryEnded { was: true });
    let granted = |manager: &mut LockManager<_>| {
        let effects = std::iter::from_fn(|| manager.poll_effect());
        effects.filter(|effect| matches!(effect, Effect::Granted { .. })).count()
    };
    assert_eq!(granted(&mut manager), 0);
    // Only the name that is asked for is processed by a request.
    let name = Name::new("n/99999").unwrap();
    let late = NewRequest::new(agent, name, Acquire::IfAvailable(Mode::Exclusive));
    assert!(matches!(manager.handle(NOW, Command::Request(late)), Outcome::Refused(_)));
    assert_eq!(granted(&mut manager), 1);
    let mut all = 1;
    while manager.next_timeout() == Some(NOW) {
        manager.handle_timeout_in_part(NOW, NOW, PART);
        let part = granted(&mut manager);
        assert!(part <= PART, "{part}");
        all += part;
    }
    assert_eq!(all, MANY);
}
