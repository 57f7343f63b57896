//! The invariants that `LockManager` documents, by their numbers, after every command of random sequences.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquired, AssignmentRecord, Change, ClaimRecord, Command, Effect, FencingToken, Instant, LockManager,
    LockState, Mode, NameBuf, Outcome, OwnerRecord, OwnerView, Party, RequestStatus, SecretSeed, Snapshot,
    SnapshotEntry,
};
use proptest::prelude::*;
use random::commands::{Action, Durable, Story};

use crate::player::{Player, cases, stories};

/// Held locks and pending requests of each name.
type ByName = BTreeMap<NameBuf, (Vec<SnapshotEntry>, Vec<SnapshotEntry>)>;

/// Plays the story and checks the manager after each step, once nothing is left to be done in parts: that may
/// be some steps later.
fn after_each(story: &Story, mut check: impl FnMut(&mut Player<FixedState>)) {
    let mut player = Player::new(&story.start, FixedState::default());
    for (at, step) in story.steps.iter().enumerate() {
        player.play(step);
        if at % 3 == 0 {
            settle(&mut player);
        }
        if player.manager.next_timeout() != Some(Instant::default()) {
            check(&mut player);
        }
    }
}

/// Processes all that is processed in parts, but ends nothing for its time.
fn settle(player: &mut Player<FixedState>) {
    assert!(player.manager.handle_timeout_in_part(Instant::default(), player.now, usize::MAX));
    assert!(player.manager.sweep(player.now, usize::MAX));
    player.take_effects();
    player.labels.look(&player.present());
}

fn by_name(snapshot: Snapshot) -> ByName {
    let mut names = ByName::new();
    for lock in snapshot.held {
        names.entry(lock.name.clone()).or_default().0.push(lock);
    }
    for request in snapshot.pending {
        names.entry(request.name.clone()).or_default().1.push(request);
    }
    names
}

fn excludes(held: &[SnapshotEntry], mode: Mode) -> bool {
    !held.is_empty() && (mode == Mode::Exclusive || held.iter().any(|lock| lock.mode == Mode::Exclusive))
}

fn token(lock: &SnapshotEntry) -> FencingToken {
    match lock.state {
        LockState::Held(token) => token,
        LockState::Pending { .. } => panic!("{lock:?} among the held"),
    }
}

/// The state that must survive a restart, as the facts that restore it.
fn facts(manager: &LockManager<FixedState>, names: &BTreeSet<NameBuf>) -> Vec<Change> {
    let owner = |view: OwnerView<'_>| OwnerRecord {
        owner: view.owner,
        label: view.label.into(),
        metadata: view.metadata.map(Into::into),
        ttl_ms: view.ttl_ms,
        since: view.since,
        ends: view.ends,
        seed: view.seed,
    };
    let mut facts: Vec<Change> = manager.owners().map(|view| Change::OwnerOpened(owner(view))).collect();
    facts.extend(manager.owners().flat_map(|owner| manager.locks_of(owner.owner)).map(Change::Locked));
    facts.extend(names.iter().filter_map(|name| {
        let view = manager.claim_of(name.as_name())?;
        Some(Change::Claimed(ClaimRecord {
            name: name.clone(),
            claimant: view.claimant.into(),
            token: view.token,
            ttl_ms: view.ttl_ms,
            since: view.since,
            seed: view.seed,
            metadata: view.metadata.map(Into::into),
        }))
    }));
    facts.extend(manager.assignments().map(|view| {
        Change::Assigned(AssignmentRecord {
            name: view.name.clone(),
            claimant: view.claimant.into(),
            token: view.token,
            since: view.since,
            seed: view.seed,
        })
    }));
    facts
}

/// The durable state, in an order that does not depend on its history.
fn durable(manager: &LockManager<FixedState>, names: &BTreeSet<NameBuf>) -> BTreeSet<String> {
    facts(manager, names).iter().map(|fact| format!("{fact:?}")).collect()
}

fn compact(player: &Player<FixedState>) -> Vec<Change> {
    facts(&player.manager, &player.names)
}

/// Plays all of the story.
fn at_the_end_of(story: &Story) -> Player<FixedState> {
    let mut player = Player::new(&story.start, FixedState::default());
    story.steps.iter().for_each(|step| _ = player.play(step));
    player
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn invariant_1_one_exclusive_holder_or_only_shared_ones(story in stories()) {
        after_each(&story, |player| for (held, _) in by_name(player.snapshot()).values() {
            let exclusive = held.iter().filter(|lock| lock.mode == Mode::Exclusive).count();
            assert!(exclusive == 0 || held.len() == 1, "{held:?}");
        });
    }

    #[test]
    fn invariant_2_the_head_of_a_queue_is_not_grantable(story in stories()) {
        after_each(&story, |player| for (held, pending) in by_name(player.snapshot()).values() {
            if let (Some(head), false) = (pending.first(), player.closed || player.manager.is_recovering()) {
                assert!(excludes(held, head.mode), "{head:?} waits for none of {held:?}");
            }
        });
    }

    #[test]
    fn invariant_3_a_name_is_known_while_something_of_it_is_held_or_queued(story in stories()) {
        after_each(&story, |player| {
            let names = by_name(player.snapshot()).len();
            assert_eq!(player.manager.names(), names);
        });
    }

    #[test]
    fn invariant_4_every_request_is_held_or_pending_once_and_of_a_living_agent(story in stories()) {
        after_each(&story, |player| {
            let snapshot = player.snapshot();
            assert_eq!(player.manager.len(), snapshot.held.len() + snapshot.pending.len());
            assert_eq!(player.manager.is_empty(), snapshot.held.is_empty() && snapshot.pending.is_empty());
            let mut places: BTreeMap<NameBuf, u32> = BTreeMap::new();
            for entry in snapshot.pending.iter().chain(&snapshot.held) {
                match entry.party {
                    Party::Agent(agent) => assert!(player.manager.is_alive(agent), "{entry:?}"),
                    Party::Owner(owner) => assert!(player.manager.owner(owner).is_some(), "{entry:?}"),
                    Party::Claimant => assert!(player.manager.claim_of(entry.name.as_name()).is_some(), "{entry:?}"),
                }
            }
            for entry in &snapshot.pending {
                let place = places.entry(entry.name.clone()).or_default();
                *place += 1;
                assert_eq!(entry.state, LockState::Pending { place: *place });
            }
            let statuses: Vec<RequestStatus> = player.labels.requests().map(|id| player.manager.status(id)).collect();
            let pending = statuses.iter().filter(|status| **status == RequestStatus::Pending).count();
            assert_eq!(pending, snapshot.pending.len());
            let tokens: BTreeSet<FencingToken> = statuses.iter().filter_map(|status| match status {
                RequestStatus::Held(token) => Some(*token),
                _ => None,
            }).collect();
            let is_web = |lock: &&SnapshotEntry| matches!(lock.party, Party::Agent(_));
            let shown: Vec<FencingToken> = snapshot.held.iter().filter(is_web).map(token).collect();
            assert_eq!(shown.iter().copied().collect::<BTreeSet<_>>(), tokens);
            assert_eq!(tokens.len(), shown.len());
        });
    }

    #[test]
    fn invariant_5_tokens_strictly_grow_in_the_order_of_the_grants(story in stories()) {
        let mut player = Player::new(&story.start, FixedState::default());
        let (mut last, mut reserved) = (0, player.manager.reserved_up_to());
        for step in &story.steps {
            let (outcome, effects) = player.play(step);
            if matches!(step.action, Action::Durable(Durable::Restart { .. })) {
                reserved = player.manager.reserved_up_to();
            }
            let mut given = Vec::new();
            for effect in &effects {
                match effect {
                    Effect::Granted { grant, .. } => given.push(grant.token.get()),
                    Effect::Change(change) => {
                        if let Change::TokensReserved { up_to } = **change {
                            prop_assert!(up_to > reserved);
                            reserved = up_to;
                        }
                    }
                    _ => {}
                }
            }
            let own = match &outcome {
                // A reclaimed lock keeps its token.
                Some(Outcome::Granted(_)) if matches!(step.action, Action::Durable(Durable::Reclaim { .. })) => vec![],
                Some(Outcome::Granted(grant)) => vec![grant.token.get()],
                Some(Outcome::OwnerOpened(owner)) => vec![owner.get()],
                Some(Outcome::Claimed(grant)) => vec![grant.token.get()],
                Some(Outcome::Locked(locks)) => {
                    let mut new: Vec<u64> =
                        locks.iter().filter(|lock| lock.how != Acquired::AlreadyHeld).map(|lock| lock.token.get()).collect();
                    // A name that was requested twice is answered twice.
                    new.sort();
                    new.dedup();
                    new
                }
                _ => vec![],
            };
            // A command that sweeps an expired claim may grant to others, but only before its own grant.
            for token in given.into_iter().chain(own) {
                prop_assert!(token > last, "{token} after {last}");
                prop_assert!(token <= reserved, "{token} above {reserved}");
                last = token;
            }
        }
    }

    #[test]
    fn invariant_6_the_reported_changes_give_the_durable_state(story in stories()) {
        let mut player = Player::new(&story.start, FixedState::default());
        for (at, step) in story.steps.iter().enumerate() {
            player.play(step);
            if at % 16 == 0 || at + 1 == story.steps.len() {
                settle(&mut player);
                let there_is = durable(&player.manager, &player.names);
                prop_assert_eq!(&durable(&player.restored(&player.stored), &player.names), &there_is);
                prop_assert_eq!(&durable(&player.restored(&compact(&player)), &player.names), &there_is);
            }
        }
    }

    #[test]
    fn a_seed_finds_its_owners_while_they_live(story in stories()) {
        let mut seeds = BTreeSet::new();
        after_each(&story, |player| {
            seeds.extend(player.manager.owners().map(|owner| owner.seed.0));
            for seed in seeds.iter().copied().map(SecretSeed) {
                let live = player.manager.owners().filter(|owner| owner.seed == seed);
                let found = player.manager.owners_of_seed(seed);
                assert_eq!(found.collect::<Vec<_>>(), live.collect::<Vec<_>>());
            }
        });
    }

    #[test]
    fn nothing_is_left_when_every_agent_has_ended(story in stories()) {
        let mut player = at_the_end_of(&story);
        for agent in player.labels.agents() {
            player.manager.handle(player.now, Command::End { agent });
        }
        for owner in player.owners.clone() {
            player.manager.handle(player.now, Command::EndOwner { owner });
        }
        for (name, token) in player.claims.clone() {
            let name = name.as_name();
            player.manager.handle(player.now, Command::ReleaseClaim { name, token: Some(token) });
            player.manager.handle(player.now, Command::Unassign { name, token: None });
        }
        player.manager.handle(player.now, Command::EndRecovery);
        settle(&mut player);
        prop_assert_eq!((player.manager.owners().len(), player.manager.assignments().len()), (0, 0));
        prop_assert_eq!((player.manager.len(), player.manager.names()), (0, 0));
        prop_assert_eq!(player.manager.next_timeout(), None);
        prop_assert_eq!(player.snapshot(), Snapshot::default());
        prop_assert_eq!(player.manager.bytes(), 0);
    }

    #[test]
    fn what_it_takes_follows_from_what_there_is(story in stories()) {
        let mut player = at_the_end_of(&story);
        for agent in player.labels.agents() {
            player.manager.handle(player.now, Command::End { agent });
        }
        player.manager.handle(player.now, Command::EndRecovery);
        settle(&mut player);
        let assigned = player.manager.assignments().map(|it| it.claimant.len() + it.name.as_name().as_wtf8().len());
        prop_assert!(player.manager.bytes() >= assigned.sum());
        prop_assert_eq!(player.restored(&compact(&player)).bytes(), player.manager.bytes());
    }
}
