//! The invariants that `LockManager` documents, by their numbers, after every command of random sequences.

mod random;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use lockhouse_core::{Effect, Entry, FencingToken, Mode, NameBuf, Outcome, Party, Snapshot, Standing, State};
use proptest::prelude::*;
use random::{Step, World, steps};

/// Held locks and pending requests of each name.
type ByName = BTreeMap<NameBuf, (Vec<Entry>, Vec<Entry>)>;

/// Plays the steps and judges the world after each.
fn after_each(steps: &[Step], mut judge: impl FnMut(&mut World<FixedState>)) {
    let mut world = World::new(FixedState::default());
    for step in steps {
        world.play(step);
        judge(&mut world);
    }
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

fn excludes(held: &[Entry], mode: Mode) -> bool {
    !held.is_empty() && (mode == Mode::Exclusive || held.iter().any(|lock| lock.mode == Mode::Exclusive))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn invariant_1_one_exclusive_holder_or_only_shared_ones(steps in steps()) {
        after_each(&steps, |world| for (held, _) in by_name(world.snapshot()).values() {
            let exclusive = held.iter().filter(|lock| lock.mode == Mode::Exclusive).count();
            assert!(exclusive == 0 || held.len() == 1, "{held:?}");
        });
    }

    #[test]
    fn invariant_2_the_head_of_a_queue_is_not_grantable(steps in steps()) {
        after_each(&steps, |world| for (held, pending) in by_name(world.snapshot()).values() {
            if let (Some(head), false) = (pending.first(), world.closed) {
                assert!(excludes(held, head.mode), "{head:?} waits for none of {held:?}");
            }
        });
    }

    #[test]
    fn invariant_3_a_name_is_known_while_something_of_it_is_held_or_queued(steps in steps()) {
        after_each(&steps, |world| {
            let names = by_name(world.snapshot()).len();
            assert_eq!(world.manager.names(), names);
        });
    }

    #[test]
    fn invariant_4_every_request_is_held_or_pending_once_and_of_a_living_agent(steps in steps()) {
        after_each(&steps, |world| {
            let snapshot = world.snapshot();
            assert_eq!(world.manager.len(), snapshot.held.len() + snapshot.pending.len());
            assert_eq!(world.manager.is_empty(), snapshot.held.is_empty() && snapshot.pending.is_empty());
            let mut places: BTreeMap<NameBuf, u32> = BTreeMap::new();
            for entry in snapshot.pending.iter().chain(&snapshot.held) {
                let Party::Agent(agent) = entry.party else { continue };
                assert!(world.manager.is_alive(agent), "{entry:?}");
            }
            for entry in &snapshot.pending {
                let place = places.entry(entry.name.clone()).or_default();
                *place += 1;
                assert_eq!(entry.state, State::Pending { place: *place });
            }
            let standings: Vec<Standing> = world.requests.iter().map(|id| world.manager.standing(*id)).collect();
            let pending = standings.iter().filter(|standing| **standing == Standing::Pending).count();
            assert_eq!(pending, snapshot.pending.len());
            let tokens: BTreeSet<FencingToken> = standings.iter().filter_map(|standing| match standing {
                Standing::Held(token) => Some(*token),
                _ => None,
            }).collect();
            let shown = snapshot.held.iter().map(|lock| match lock.state {
                State::Held(token) => token,
                State::Pending { .. } => panic!("{lock:?} among the held"),
            });
            assert_eq!(shown.collect::<BTreeSet<_>>(), tokens);
            assert_eq!(tokens.len(), snapshot.held.len());
        });
    }

    #[test]
    fn invariant_5_tokens_strictly_grow_in_the_order_of_the_grants(steps in steps()) {
        let mut world = World::new(FixedState::default());
        let mut last = 0;
        for step in &steps {
            let (outcome, effects) = world.play(step);
            // One command never grants both to the asker and to others, so the order between the two does not matter.
            let told = effects.iter().filter_map(|effect| match effect {
                Effect::Granted { grant, .. } => Some(*grant),
                _ => None,
            });
            let own = match outcome {
                Some(Outcome::Granted(grant)) => Some(grant),
                _ => None,
            };
            for grant in told.chain(own) {
                prop_assert!(grant.token.get() > last, "{} after {}", grant.token, last);
                last = grant.token.get();
            }
        }
    }

    #[test]
    fn nothing_is_left_when_every_agent_has_ended(steps in steps()) {
        let mut world = World::new(FixedState::default());
        steps.iter().for_each(|step| _ = world.play(step));
        for agent in world.agents.clone() {
            world.manager.handle(world.now, lockhouse_core::Command::End { agent });
        }
        prop_assert_eq!((world.manager.len(), world.manager.names()), (0, 0));
        prop_assert_eq!(world.manager.next_timeout(), None);
        prop_assert_eq!(world.snapshot(), Snapshot::default());
    }
}
