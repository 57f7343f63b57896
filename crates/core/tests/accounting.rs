//! The memory that a manager says that it takes, the bounds of what a command adds to it, and the bounds of
//! what there may be.

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, AssignmentRecord, Change, ClaimRecord, Command, FencingToken, Instant, Limits,
    LockManager, LockRecord, Mode, Name, NameBuf, NewAgent, NewClaim, NewLocks, NewOwner, NewReclaim,
    NewRequest, Outcome, OwnerId, OwnerRecord, Refusal, ReplayError, SecretSeed,
};

type Manager = LockManager<FixedState>;

const NOW: Instant = Instant::from_millis(0);

/// Long enough for no text to be stored in the place of its pointer.
const SHORT: usize = 100;
const LONG: usize = 1100;

fn manager() -> Manager {
    with(Limits { label_bytes: LONG, metadata_bytes: LONG, ..Limits::DEFAULT })
}

fn with(limits: Limits) -> Manager {
    LockManager::with_limits(FixedState::default(), limits)
}

fn name(text: &str) -> NameBuf {
    NameBuf::new(text).unwrap()
}

fn join(manager: &mut Manager) -> AgentId {
    match manager.handle(NOW, Command::Join(NewAgent::new("a"))) {
        Outcome::Joined(agent) => agent,
        other => panic!("{other:?}"),
    }
}

fn new_owner<'a>(label: &'a str, metadata: Option<&'a str>) -> NewOwner<'a> {
    NewOwner { label, metadata, ttl_ms: 1000, max_ms: None, seed: SecretSeed(1) }
}

fn open(manager: &mut Manager) -> OwnerId {
    match manager.handle(NOW, Command::OpenOwner(new_owner("o", None))) {
        Outcome::OwnerOpened(owner) => owner,
        other => panic!("{other:?}"),
    }
}

fn wait(agent: AgentId, name: Name<'_>) -> NewRequest<'_> {
    NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive))
}

fn new_claim<'a>(name: Name<'a>, claimant: &'a str, metadata: Option<&'a str>) -> NewClaim<'a> {
    NewClaim { name, claimant, ttl_ms: 1000, seed: SecretSeed(1), metadata }
}

fn reclaim(agent: AgentId, name: Name<'_>, token: u64) -> NewReclaim<'_> {
    NewReclaim {
        agent,
        name,
        mode: Mode::Exclusive,
        token: FencingToken::new(token),
        metadata: None,
        max_hold_ms: None,
    }
}

/// A manager that recovers, and has given tokens up to 5.
fn recovering() -> Manager {
    let mut manager = manager();
    manager.continue_tokens_above(5);
    manager.begin_recovery(Instant::from_millis(1000));
    manager
}

/// Carries the command out in a manager; how much that adds is at most what was said before, and not much
/// less. The manager as it is then.
fn carried_out(mut manager: Manager, command: Command<'_>) -> Manager {
    let (before, most) = (manager.bytes(), manager.most_bytes_of(&command));
    let outcome = manager.handle(NOW, command);
    assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    let added = manager.bytes() - before;
    // What is not used of it are slots: of extras, of an owner.
    assert!((added..added + 400).contains(&most), "{added} bytes, {most} were expected: {command:?}");
    manager
}

/// The command of each kind that brings a text along, in a manager in which it may come.
fn with_text(text: &str) -> Vec<(&'static str, usize, Manager)> {
    let (plain, long) = (name("n"), name(text));
    let (plain, long) = (plain.as_name(), long.as_name());
    let metadata = Some(text);
    let agent = |mut manager: Manager| (join(&mut manager), manager);
    let owner = |mut manager: Manager| (open(&mut manager), manager);
    let mut all = Vec::new();
    let mut add = |what, copies, manager, command: Command<'_>| {
        all.push((what, copies, carried_out(manager, command)));
    };
    add("client id", 1, manager(), Command::Join(NewAgent { client_id: text, lease_ms: None }));
    add("label of an owner", 1, manager(), Command::OpenOwner(new_owner(text, None)));
    add("metadata of an owner", 1, manager(), Command::OpenOwner(new_owner("", metadata)));
    let (a, m) = agent(manager());
    add("name of a request", 1, m, Command::Request(wait(a, long)));
    let (a, m) = agent(manager());
    add("metadata of a request", 1, m, Command::Request(NewRequest { metadata, ..wait(a, plain) }));
    let (a, m) = agent(recovering());
    let steal = NewRequest { acquire: Acquire::Steal, ..wait(a, long) };
    add("name of a steal in a recovery", 2, m, Command::Request(steal));
    let (o, m) = owner(manager());
    let locks = [(long, Mode::Exclusive)];
    add("name of a lock", 1, m, Command::Lock(NewLocks { owner: o, locks: &locks, metadata: None }));
    let (o, m) = owner(manager());
    let locks = [(plain, Mode::Exclusive)];
    add("metadata of a lock", 1, m, Command::Lock(NewLocks { owner: o, locks: &locks, metadata }));
    add("name of a claim", 1, manager(), Command::Claim(new_claim(long, "c", None)));
    add("claimant", 1, manager(), Command::Claim(new_claim(plain, text, None)));
    add("metadata of a claim", 1, manager(), Command::Claim(new_claim(plain, "c", metadata)));
    let (a, m) = agent(recovering());
    add("name of a reclaim", 2, m, Command::Reclaim(reclaim(a, long, 5)));
    let (a, m) = agent(recovering());
    add("metadata of a reclaim", 1, m, Command::Reclaim(NewReclaim { metadata, ..reclaim(a, plain, 5) }));
    all
}

#[test]
fn each_text_counts_by_its_length_and_no_command_adds_more_than_was_said() {
    let (short, long) = ("t".repeat(SHORT), "t".repeat(LONG));
    for ((what, copies, short), (_, _, long)) in with_text(&short).into_iter().zip(with_text(&long)) {
        assert_eq!(long.bytes() - short.bytes(), copies * (LONG - SHORT), "{what}");
    }
}

#[test]
fn an_assignment_counts_with_its_name_and_its_claimant() {
    let assigned = |name_units: usize, claimant_bytes: usize| {
        let mut manager = manager();
        let (name, claimant) = (name(&"n".repeat(name_units)), "c".repeat(claimant_bytes));
        let claim = Command::Claim(new_claim(name.as_name(), &claimant, None));
        let Outcome::Claimed(claim) = manager.handle(NOW, claim) else { panic!() };
        let finalize = Command::Finalize { name: name.as_name(), token: Some(claim.token) };
        assert!(matches!(manager.handle(NOW, finalize), Outcome::Finalized(_)));
        manager.bytes()
    };
    let least = assigned(SHORT, SHORT);
    assert!(least > 2 * SHORT, "the assignment itself counts, too: {least} bytes");
    assert_eq!(assigned(LONG, SHORT) - least, LONG - SHORT);
    assert_eq!(assigned(SHORT, LONG) - least, LONG - SHORT);
}

#[test]
fn a_recovery_counts_with_each_lock_that_is_reclaimed() {
    let names = ["first", "second", "third"].map(name);
    let (mut one, mut other) = (recovering(), manager());
    let (agent, elsewhere) = (join(&mut one), join(&mut other));
    let mut more = Vec::new();
    for (token, name) in (1..).zip(&names) {
        let outcome = one.handle(NOW, Command::Reclaim(reclaim(agent, name.as_name(), token)));
        assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
        other.handle(NOW, Command::Request(wait(elsewhere, name.as_name())));
        more.push(one.bytes() - other.bytes());
    }
    // The token, and the fence with its name.
    let each = more[0];
    assert!((size_of::<FencingToken>() + size_of::<NameBuf>()..200).contains(&each), "{each} bytes");
    assert_eq!(more, [each, 2 * each, 3 * each]);
}

#[test]
fn a_snapshot_is_estimated_with_the_metadata_of_all() {
    let estimated = |bytes: usize| {
        let mut manager = manager();
        let agent = join(&mut manager);
        let metadata = "m".repeat(bytes);
        let name = name("n");
        let request = NewRequest { metadata: Some(&metadata), ..wait(agent, name.as_name()) };
        manager.handle(NOW, Command::Request(request));
        manager.bytes_of_snapshot()
    };
    assert_eq!(estimated(LONG) - estimated(SHORT), LONG - SHORT);
}

#[test]
fn owners_are_none_of_the_agents_that_have_a_bound() {
    let mut manager = with(Limits { agents: 2, ..Limits::DEFAULT });
    (0..3).for_each(|_| _ = open(&mut manager));
    join(&mut manager);
    join(&mut manager);
    let refused = manager.handle(NOW, Command::Join(NewAgent::new("")));
    assert_eq!(refused, Outcome::Refused(Refusal::TooManyAgents { limit: 2 }));
}

#[test]
fn offline_locks_are_entries_that_have_a_bound() {
    let mut manager = with(Limits { entries: 1, ..Limits::DEFAULT });
    let owner = open(&mut manager);
    let names = ["a", "b"].map(name);
    let lock = |manager: &mut Manager, name: &NameBuf| {
        let locks = [(name.as_name(), Mode::Exclusive)];
        manager.handle(NOW, Command::Lock(NewLocks { owner, locks: &locks, metadata: None }))
    };
    assert!(matches!(lock(&mut manager, &names[0]), Outcome::Locked(_)));
    assert_eq!(lock(&mut manager, &names[1]), Outcome::Refused(Refusal::TooManyEntries { limit: 1 }));
}

#[test]
fn what_came_back_beyond_the_bounds_can_be_locked_again() {
    let mut manager = with(Limits { entries: 1, names: 1, ..Limits::DEFAULT });
    let owner = OwnerId::new(1);
    let names = ["a", "b"].map(name);
    manager.replay(NOW, &Change::OwnerOpened(owner_record(owner))).unwrap();
    for (token, name) in (2..).zip(&names) {
        manager.replay(NOW, &Change::Locked(lock_record(owner, name, Mode::Exclusive, token))).unwrap();
    }
    let locks = names.each_ref().map(|name| (name.as_name(), Mode::Exclusive));
    let again = manager.handle(NOW, Command::Lock(NewLocks { owner, locks: &locks, metadata: None }));
    assert!(matches!(again, Outcome::Locked(_)), "{again:?}");
}

#[test]
fn of_a_name_that_is_listed_twice_the_stronger_mode_counts_in_either_order() {
    for modes in [[Mode::Exclusive, Mode::Shared], [Mode::Shared, Mode::Exclusive]] {
        let mut manager = manager();
        let owner = open(&mut manager);
        let name = name("n");
        let locks = modes.map(|mode| (name.as_name(), mode));
        let locked = manager.handle(NOW, Command::Lock(NewLocks { owner, locks: &locks, metadata: None }));
        let Outcome::Locked(locked) = locked else { panic!("{locked:?}") };
        assert!(locked.iter().all(|lock| lock.mode == Mode::Exclusive), "{locked:?}");
    }
}

#[test]
fn the_highest_token_from_before_is_reclaimed_unless_its_lock_was_stolen_since() {
    let name = name("n");
    let mut manager = recovering();
    let agent = join(&mut manager);
    let above = manager.handle(NOW, Command::Reclaim(reclaim(agent, name.as_name(), 6)));
    assert_eq!(above, Outcome::Refused(Refusal::UnknownToken));
    let last = manager.handle(NOW, Command::Reclaim(reclaim(agent, name.as_name(), 5)));
    assert!(matches!(last, Outcome::Granted(_)), "{last:?}");

    let mut manager = recovering();
    let (thief, victim) = (join(&mut manager), join(&mut manager));
    let steal = NewRequest { acquire: Acquire::Steal, ..wait(thief, name.as_name()) };
    assert!(matches!(manager.handle(NOW, Command::Request(steal)), Outcome::Granted(_)));
    let stolen = manager.handle(NOW, Command::Reclaim(reclaim(victim, name.as_name(), 5)));
    assert_eq!(stolen, Outcome::Refused(Refusal::Superseded));
}

#[test]
fn requests_are_listed_by_their_agent() {
    let mut manager = manager();
    let (one, other) = (join(&mut manager), join(&mut manager));
    let names = ["a", "b"].map(name);
    let mut ids = Vec::new();
    for agent in [one, other] {
        for name in &names {
            match manager.handle(NOW, Command::Request(wait(agent, name.as_name()))) {
                Outcome::Granted(grant) => ids.push(grant.request),
                Outcome::Queued(request) => ids.push(request),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(manager.requests_of(one).collect::<Vec<_>>(), ids[..2]);
    assert_eq!(manager.requests_of(other).collect::<Vec<_>>(), ids[2..]);
    manager.handle(NOW, Command::End { agent: one });
    // The slot of the agent has another one now.
    let next = join(&mut manager);
    assert_eq!(next.slot(), one.slot());
    manager.handle(NOW, Command::Request(wait(next, names[0].as_name())));
    assert_eq!(manager.requests_of(one).count(), 0);
}

#[test]
fn effects_are_there_until_they_are_polled() {
    let mut manager = manager();
    join(&mut manager);
    assert!(!manager.has_effects());
    open(&mut manager);
    assert!(manager.has_effects());
    while manager.poll_effect().is_some() {}
    assert!(!manager.has_effects());
}

fn owner_record(owner: OwnerId) -> OwnerRecord {
    OwnerRecord {
        owner,
        label: "".into(),
        metadata: None,
        ttl_ms: 1000,
        since: NOW,
        ends: None,
        seed: SecretSeed(0),
    }
}

fn lock_record(owner: OwnerId, name: &NameBuf, mode: Mode, token: u64) -> LockRecord {
    LockRecord {
        name: name.clone(),
        owner,
        mode,
        token: FencingToken::new(token),
        since: NOW,
        metadata: None,
    }
}

#[test]
fn replay_refuses_what_excludes_what_is_there() {
    let mut manager = manager();
    let (one, other, name) = (OwnerId::new(1), OwnerId::new(2), name("n"));
    for owner in [one, other] {
        manager.replay(NOW, &Change::OwnerOpened(owner_record(owner))).unwrap();
    }
    let mut replay = |change: Change| manager.replay(NOW, &change);
    let lock = |owner, mode, token| Change::Locked(lock_record(owner, &name, mode, token));
    let claim = |name: &NameBuf, token| {
        Change::Claimed(ClaimRecord {
            name: name.clone(),
            claimant: "c".into(),
            token: FencingToken::new(token),
            ttl_ms: 1000,
            since: NOW,
            seed: SecretSeed(0),
            metadata: None,
        })
    };
    assert_eq!(replay(lock(one, Mode::Shared, 3)), Ok(()));
    assert_eq!(replay(lock(one, Mode::Exclusive, 4)), Ok(()), "the sole reader becomes writer");
    assert_eq!(replay(lock(one, Mode::Shared, 5)), Ok(()));
    assert_eq!(replay(lock(other, Mode::Shared, 6)), Ok(()));
    assert_eq!(replay(lock(one, Mode::Shared, 7)), Ok(()), "a reader among readers stays one");
    let excluded = Err(ReplayError::Excluded(name.clone()));
    assert_eq!(replay(lock(one, Mode::Exclusive, 8)), excluded);
    assert_eq!(replay(claim(&name, 9)), excluded, "a claim of a locked name");
    let seat = NameBuf::new("seat").unwrap();
    let assigned = AssignmentRecord {
        name: seat.clone(),
        claimant: "c".into(),
        token: FencingToken::new(10),
        since: NOW,
        seed: SecretSeed(0),
    };
    assert_eq!(replay(Change::Assigned(assigned)), Ok(()));
    assert_eq!(replay(claim(&seat, 11)), Err(ReplayError::Excluded(seat.clone())), "an assigned name");
}

#[test]
fn the_faults_of_a_replay_say_what_they_are_about() {
    let name = name("n");
    let faults = [
        (ReplayError::NumberGivenTwice(7), "the number 7 was given twice"),
        (ReplayError::UnknownOwner(OwnerId::new(7)), "there is no owner 7"),
        (ReplayError::Excluded(name.clone()), "\"n\" is held already, so that it cannot be held in this way"),
        (ReplayError::NotThere(name), "of \"n\" nothing of the kind was there to end"),
        (ReplayError::NoNumberLeft(7), "no number is left above 7"),
    ];
    for (fault, text) in faults {
        assert_eq!(fault.to_string(), text);
    }
}
