//! What a node knows of the others by its polls, and what follows from that. Knows no store, no clock and no
//! tasks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lockhouse_store::{FleetRows, NodeId, NodeRow, Slot, SlotRow, Stillness};
use sha2::{Digest, Sha256};

/// A node is about to be entitled to slots for this part of the join delay before it is.
const SOON: u32 = 3;

/// What a node knows of the others.
#[derive(Debug)]
pub(super) struct Membership {
    own: NodeId,
    /// How long a node has to renew without a gap before slots are its.
    join_delay: Duration,
    known: HashMap<NodeId, Known>,
    /// The stillness of other nodes that may be found as former owners of slots, as it was last seen.
    seen: HashMap<NodeId, Seen>,
    /// Former owners of slots, with the answer to the first poll that did not find them any more: what they
    /// have committed was sent before.
    gone: HashMap<NodeId, Duration>,
    /// The answer to the first poll.
    first_answered: Option<Duration>,
    /// The slots that are for this node, and those that will be soon, by the nodes that are there now.
    share: Share,
    share_soon: Share,
}

/// The slots that are for one node, among nodes of these labels. They are looked for anew only where other
/// nodes are entitled, or another number of slots is there: each takes a hash for every node.
#[derive(Debug, Default)]
struct Share {
    labels: Vec<Box<str>>,
    /// Of each slot whether it is this node's.
    is_own: Vec<bool>,
}

/// How long a node was seen standing still.
#[derive(Clone, Copy, Debug)]
struct Seen {
    lasts: Duration,
    slot_lease: Duration,
}

#[derive(Debug)]
struct Known {
    stillness: Stillness,
    /// Since when it has renewed without a gap.
    steady_since: Duration,
}

/// When a poll was sent and answered, on a clock of patience.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) sent: Duration,
    pub(super) answered: Duration,
    /// How long ago the poll before was sent, when this one was answered, however long the process stood
    /// still.
    pub(super) gap: Duration,
}

/// What a poll leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The nodes that are to be declared dead, if their counter is still that one.
    pub(super) bury: Vec<(NodeId, u64)>,
    /// The free slots that are this node's.
    pub(super) take: Vec<Take>,
    /// The slots of other nodes that are this node's, in the order in which they are to be asked for.
    pub(super) ask: Vec<(NodeId, Slot)>,
}

/// A slot that is to be taken, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Take {
    pub(super) slot: Slot,
    pub(super) epoch: u64,
    /// For how long its former owner may still believe in its right: what is left of its slot lease beyond
    /// the time for which this node has seen it standing still or gone. Zero if the slot has no owner.
    pub(super) wait: Duration,
    /// The same of an owner whose name was lost with a failover, which was before this node joined.
    pub(super) wait_if_restored: Duration,
}

impl Membership {
    /// Of a node, whose process has seen a former life of its own standing still.
    pub(super) fn new(own: NodeId, join_delay: Duration, outlived: Option<&NodeRow>) -> Self {
        let mute = |node: &NodeRow| (node.id, Seen { lasts: node.slot_lease, slot_lease: node.slot_lease });
        let seen = outlived.map(mute).into_iter().collect();
        Self {
            own,
            join_delay,
            known: HashMap::new(),
            seen,
            gone: HashMap::new(),
            first_answered: None,
            share: Share::default(),
            share_soon: Share::default(),
        }
    }

    /// A poll has found these rows. `is_served` says of a slot
    /// whether this node serves it, or is about to; `is_mute` whether no commit of its own was confirmed in
    /// time.
    pub(super) fn polled(
        &mut self,
        poll: Poll,
        rows: &FleetRows,
        is_mute: bool,
        is_served: impl Fn(Slot) -> bool,
    ) -> Plan {
        if is_mute {
            // Where this node cannot renew, others may stand still for the same reason.
            self.known.values_mut().for_each(|known| known.stillness = Stillness::default());
        }
        let answered = poll.answered;
        self.look_at_nodes(poll, &rows.nodes);
        let mut plan = Plan { bury: self.to_bury(&rows.nodes), ..Plan::default() };
        let living: HashMap<NodeId, &NodeRow> = rows.nodes.iter().map(|node| (node.id, node)).collect();
        let former: HashSet<NodeId> = rows.slots.iter().filter_map(|slot| slot.owner).collect();
        self.seen.retain(|node, _| living.contains_key(node) || former.contains(node));
        self.gone.retain(|node, _| former.contains(node));
        for node in former.into_iter().filter(|node| !living.contains_key(node)) {
            self.gone.entry(node).or_insert(answered);
        }
        self.first_answered.get_or_insert(answered);
        let entitled = self.entitled(answered, rows);
        // A free slot waits for a node that is about to be entitled to it, so that it does not move twice
        // where nodes start together, or one starts as another stops.
        let soon = self.entitled(answered + self.join_delay / SOON, rows);
        let own = living.get(&self.own).map(|node| &*node.label);
        self.share.look_for(own, &entitled, &rows.slots);
        self.share_soon.look_for(own, &soon, &rows.slots);
        let shares = self.share.is_own.iter().copied().zip(self.share_soon.is_own.iter().copied());
        for (row, (is_for_this_node, will_be)) in rows.slots.iter().zip(shares) {
            let owner = row.owner.filter(|owner| living.contains_key(owner));
            let is_own = owner == Some(self.own);
            let is_free_for_it = is_for_this_node && will_be;
            match owner {
                // The answer to the take was lost, or the house has ended.
                _ if is_own && !is_served(row.slot) => plan.take.push(self.take(row, answered)),
                _ if is_own => {}
                Some(other) if is_for_this_node => plan.ask.push((other, row.slot)),
                None if is_free_for_it && !is_served(row.slot) => plan.take.push(self.take(row, answered)),
                _ => {}
            }
        }
        plan
    }

    /// Whether slots may be given to this node, as the last poll has it.
    pub(super) fn is_entitled(&self) -> bool {
        !self.share.labels.is_empty()
    }

    fn look_at_nodes(&mut self, Poll { sent, answered, gap }: Poll, nodes: &[NodeRow]) {
        let ids: HashSet<NodeId> = nodes.iter().map(|node| node.id).collect();
        self.known.retain(|node, _| ids.contains(node));
        // One whose row has gone was declared dead by a node that has seen it standing still for its slot
        // lease: it has not renewed after a poll that was sent less than that before. Of an earlier poll it
        // is not known.
        self.seen.retain(|node, seen| {
            ids.contains(node) || seen.lasts >= seen.slot_lease || gap <= seen.slot_lease / 2
        });
        for node in nodes {
            let known = self
                .known
                .entry(node.id)
                .or_insert_with(|| Known { stillness: Stillness::default(), steady_since: answered });
            known.stillness.polled(sent, answered, node.counter);
            let still = known.stillness.lasts();
            if still >= node.slot_lease / 2 {
                known.steady_since = answered;
            }
            if node.id != self.own {
                self.seen.insert(node.id, Seen { lasts: still, slot_lease: node.slot_lease });
            }
        }
    }

    fn to_bury(&self, nodes: &[NodeRow]) -> Vec<(NodeId, u64)> {
        let has_stood_still =
            |node: &&NodeRow| self.seen.get(&node.id).is_some_and(|seen| seen.lasts >= node.slot_lease);
        let still = nodes.iter().filter(has_stood_still);
        still.map(|node| (node.id, node.counter)).collect()
    }

    /// The labels of the nodes that slots may be given to. A node that owns slots stays one of them until it
    /// is declared dead: a pause below its slot lease moves no slot.
    fn entitled<'n>(&self, now: Duration, FleetRows { nodes, slots }: &'n FleetRows) -> Vec<&'n str> {
        let owners: HashSet<NodeId> = slots.iter().filter_map(|slot| slot.owner).collect();
        let is_steady = |node: &&NodeRow| {
            self.known
                .get(&node.id)
                .is_some_and(|known| now.saturating_sub(known.steady_since) >= self.join_delay)
        };
        let is_entitled = |node: &&NodeRow| owners.contains(&node.id) || is_steady(node);
        nodes.iter().filter(is_entitled).map(|node| &*node.label).collect()
    }

    fn take(&self, row: &SlotRow, now: Duration) -> Take {
        let since = |instant: Option<&Duration>| instant.map_or(Duration::ZERO, |at| now.saturating_sub(*at));
        let seen = |owner: &NodeId| self.seen.get(owner).map_or(Duration::ZERO, |seen| seen.lasts);
        let still = |owner: NodeId| seen(&owner) + since(self.gone.get(&owner));
        Take {
            slot: row.slot,
            epoch: row.epoch,
            wait: row.owner.map_or(Duration::ZERO, |owner| row.slot_lease.saturating_sub(still(owner))),
            wait_if_restored: match row.owner {
                Some(_) => Duration::ZERO,
                None => row.slot_lease.saturating_sub(since(self.first_answered.as_ref())),
            },
        }
    }
}

impl Share {
    /// Of the node with the label `own`, if it lives.
    fn look_for(&mut self, own: Option<&str>, labels: &[&str], slots: &[SlotRow]) {
        // No node is for any slot before it is entitled.
        let labels = if own.is_some_and(|own| labels.contains(&own)) { labels } else { &[] };
        let is_known = self.labels.iter().map(|label| &**label).eq(labels.iter().copied());
        if !is_known || self.is_own.len() != slots.len() {
            self.labels = labels.iter().map(|label| (*label).into()).collect();
            let is_own = |row: &SlotRow| own.is_some() && owner_of(row.slot, labels) == own;
            self.is_own = slots.iter().map(is_own).collect();
        }
    }
}

/// The node that a slot is for, by its label: the one with the highest hash of both (rendezvous hashing), so
/// that a node that comes or goes moves no slots but its own. None without any node.
///
/// The hash is SHA-256 of the number of the slot, 2 bytes with the highest first, and the label.
pub fn owner_of<'n>(slot: Slot, labels: &[&'n str]) -> Option<&'n str> {
    let weight = |label: &&str| -> [u8; 32] {
        Sha256::new().chain_update(slot.get().to_be_bytes()).chain_update(label.as_bytes()).finalize().into()
    };
    labels.iter().copied().max_by_key(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(3);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn node(id: u64, counter: u64) -> NodeRow {
        NodeRow {
            id: NodeId(id),
            label: format!("node-{id}").into(),
            address: "".into(),
            slot_lease: LEASE,
            secret_mark: [0; 32],
            counter,
        }
    }

    fn slots(count: u16, owner: impl Fn(u16) -> Option<u64>) -> Vec<SlotRow> {
        let row = |slot| SlotRow {
            slot: Slot::new(slot),
            epoch: 1,
            owner: owner(slot).map(NodeId),
            slot_lease: LEASE,
            clean: true,
        };
        (0..count).map(row).collect()
    }

    struct World {
        membership: Membership,
        at: Duration,
        last: Option<Duration>,
        /// How long the process stood still since, of which its patience knows nothing.
        pause: Duration,
        is_mute: bool,
    }

    impl World {
        /// Of node 1.
        fn new() -> Self {
            Self::after_a_delay_of(LEASE)
        }

        fn after_a_delay_of(join_delay: Duration) -> Self {
            let membership = Membership::new(NodeId(1), join_delay, None);
            Self { membership, at: ms(0), last: None, pause: ms(0), is_mute: false }
        }

        /// A quarter of a second later, the counters as they are given.
        fn poll(&mut self, counters: &[u64], slots: &[SlotRow], served: &[u16]) -> Plan {
            self.at += ms(250);
            let nodes = counters.iter().zip(1..).map(|(counter, id)| node(id, *counter)).collect();
            let rows = FleetRows { nodes, slots: slots.to_vec() };
            let is_served = |slot: Slot| served.contains(&slot.get());
            let gap = self.last.replace(self.at).map_or(Duration::MAX, |last| self.at + self.pause - last);
            self.pause = ms(0);
            let poll = Poll { sent: self.at, answered: self.at, gap };
            self.membership.polled(poll, &rows, self.is_mute, is_served)
        }
    }

    #[test]
    fn slots_are_taken_once_a_node_has_renewed_for_the_join_delay() {
        let mut world = World::new();
        let free = slots(8, |_| None);
        for counter in 0..12 {
            assert_eq!(world.poll(&[counter], &free, &[]), Plan::default(), "{counter}");
        }
        let plan = world.poll(&[12], &free, &[3]);
        let taken: Vec<_> = plan.take.iter().map(|take| (take.slot.get(), take.wait)).collect();
        assert_eq!(taken, [0, 1, 2, 4, 5, 6, 7].map(|slot| (slot, ms(0))));
    }

    #[test]
    fn a_free_slot_waits_for_a_node_that_is_about_to_be_entitled_to_it() {
        let (free, labels) = (slots(64, |_| None), ["node-1", "node-2"]);
        let is_first = |take: &Take| owner_of(take.slot, &labels) == Some("node-1");
        // The second node joins so many polls of 250 ms after the first one.
        for (later, waits) in [(1, true), (4, true), (5, false)] {
            let mut world = World::new();
            let mut plan = Plan::default();
            for counter in 0..=12 {
                let counters = if counter < later { &[counter][..] } else { &[counter, counter] };
                plan = world.poll(counters, &free, &[]);
            }
            assert_eq!(plan.take.iter().all(is_first), waits, "{later}");
            assert_eq!(plan.take.len() == 64, !waits, "{later}");
        }
    }

    #[test]
    fn a_node_that_comes_asks_for_what_is_its_and_others_do_not() {
        let mut world = World::new();
        let of_other = slots(64, |_| Some(2));
        let mut plan = Plan::default();
        for counter in 0..=12 {
            plan = world.poll(&[counter, counter], &of_other, &[]);
        }
        assert!(plan.take.is_empty() && plan.bury.is_empty());
        assert!((16..48).contains(&plan.ask.len()), "{}", plan.ask.len());
        let labels = ["node-1", "node-2"];
        assert!(
            plan.ask.iter().all(|(of, slot)| *of == NodeId(2) && owner_of(*slot, &labels) == Some("node-1"))
        );
        let mut of_this = World::new();
        let (own, served) = (slots(64, |_| Some(1)), (0..64).collect::<Vec<_>>());
        for counter in 0..=12 {
            assert_eq!(of_this.poll(&[counter, counter], &own, &served), Plan::default());
        }
    }

    #[test]
    fn a_pause_of_a_node_below_its_lease_moves_none_of_its_slots() {
        let mut world = World::new();
        let labels = ["node-1", "node-2"];
        let owner = |slot| if owner_of(Slot::new(slot), &labels) == Some("node-1") { 1 } else { 2 };
        let shared_out = slots(64, |slot| Some(owner(slot)));
        let own: Vec<u16> = (0..64).filter(|slot| owner(*slot) == 1).collect();
        (0..=12).for_each(|counter| _ = world.poll(&[counter, counter], &shared_out, &own));
        // The counter of the second node stands still for 2.75 of 3 s, and moves again.
        for (counter, other) in (13..24).map(|counter| (counter, 12)).chain((24..40).map(|it| (it, it))) {
            assert_eq!(world.poll(&[counter, other], &shared_out, &own), Plan::default(), "{counter}");
        }
    }

    #[test]
    fn a_node_is_buried_after_its_lease_and_who_has_seen_that_waits_no_longer() {
        let mut world = World::new();
        let of_other = slots(8, |_| Some(2));
        for counter in 0..=11 {
            assert_eq!(world.poll(&[counter, 7], &of_other, &[]).bury, []);
        }
        assert_eq!(world.poll(&[12, 7], &of_other, &[]).bury, [(NodeId(2), 7)]);
        // Its row is gone.
        let plan = world.poll(&[13], &of_other, &[]);
        assert_eq!(plan.take.len(), 8);
        assert!(plan.take.iter().all(|take| take.wait.is_zero()));
        // Another node has not seen it, and waits from its first poll on.
        let mut later = World::after_a_delay_of(ms(1000));
        let plans: Vec<_> = (0..=12).map(|counter| later.poll(&[counter], &of_other, &[])).collect();
        assert!(plans[..4].iter().all(|plan| plan.take.is_empty()));
        for (plan, wait) in plans[4..].iter().zip([2000, 1750, 1500]) {
            assert!(plan.take.len() == 8 && plan.take.iter().all(|take| take.wait == ms(wait)), "{plan:?}");
        }
        assert!(plans[12].take.iter().all(|take| take.wait.is_zero()));
    }

    #[test]
    fn the_stillness_of_a_time_in_which_the_node_itself_could_not_renew_does_not_count() {
        let mut world = World::new();
        let of_other = slots(8, |_| Some(2));
        (0..=2).for_each(|counter| _ = world.poll(&[counter, counter], &of_other, &[]));
        // The store answers polls, and takes no commit.
        world.is_mute = true;
        assert!((0..20).all(|_| world.poll(&[2, 2], &of_other, &[]).bury.is_empty()));
        world.is_mute = false;
        for counter in 3..14 {
            assert_eq!(world.poll(&[counter, 2], &of_other, &[]).bury, [], "{counter}");
        }
        assert_eq!(world.poll(&[14, 2], &of_other, &[]).bury, [(NodeId(2), 2)]);
    }

    #[test]
    fn slots_that_a_new_generation_has_freed_wait_from_the_first_poll_on() {
        let mut world = World::after_a_delay_of(ms(1000));
        let plans: Vec<_> =
            (0..=12).map(|counter| world.poll(&[counter], &slots(2, |_| None), &[])).collect();
        let waits = |plan: &Plan| plan.take.iter().map(|take| take.wait_if_restored).collect::<Vec<_>>();
        assert_eq!(waits(&plans[4]), [ms(2000); 2]);
        assert_eq!(waits(&plans[12]), [ms(0); 2]);
        assert!(plans.iter().all(|plan| plan.take.iter().all(|take| take.wait.is_zero())));
    }

    #[test]
    fn who_has_seen_a_part_of_the_stillness_waits_for_the_rest_unless_its_polls_have_a_gap() {
        for (gap, pause, wait) in [
            (ms(250), ms(0), ms(500)),
            (LEASE / 2, ms(0), ms(500)),
            (LEASE / 2 + ms(1), ms(0), LEASE),
            (ms(250), LEASE / 2, LEASE),
        ] {
            let mut world = World::after_a_delay_of(ms(250));
            let of_other = slots(8, |_| Some(2));
            (0..=2).for_each(|counter| _ = world.poll(&[counter, counter], &of_other, &[]));
            (3..=12).for_each(|counter| _ = world.poll(&[counter, 2], &of_other, &[]));
            // Another node has declared it dead.
            (world.at, world.pause) = (world.at + gap - ms(250), pause);
            let mut plan = world.poll(&[13], &of_other, &[]);
            let gone_at = world.at;
            // A gap makes this node one that has to renew for a while before it takes anything.
            for counter in 14..=27 {
                if plan.take.is_empty() {
                    plan = world.poll(&[counter], &of_other, &[]);
                }
            }
            assert_eq!(plan.take.len(), 8);
            let waited = world.at - gone_at;
            let left = wait.saturating_sub(waited);
            assert!(!left.is_zero() && plan.take.iter().all(|take| take.wait == left), "{gap:?} {plan:?}");
        }
    }

    #[test]
    fn who_has_outlived_its_former_life_waits_no_longer() {
        for (outlived, wait) in [(Some(node(2, 7)), ms(0)), (None, LEASE - ms(250))] {
            let mut world = World::new();
            world.membership = Membership::new(NodeId(1), ms(250), outlived.as_ref());
            world.poll(&[0], &slots(2, |_| Some(2)), &[]);
            let plan = world.poll(&[1], &slots(2, |_| Some(2)), &[]);
            assert!(plan.take.len() == 2 && plan.take.iter().all(|take| take.wait == wait), "{plan:?}");
        }
    }

    #[test]
    fn a_slot_that_is_owned_and_not_served_is_taken_anew_with_all_patience() {
        let mut world = World::new();
        let plan = world.poll(&[1], &slots(2, |_| Some(1)), &[0]);
        assert_eq!(plan.take, [Take { slot: Slot::new(1), epoch: 1, wait: LEASE, wait_if_restored: ms(0) }]);
    }

    #[test]
    fn a_node_that_goes_moves_only_its_own_slots() {
        let (all, left) = (["a", "b", "c"], ["a", "c"]);
        for slot in (0..256).map(Slot::new) {
            let before = owner_of(slot, &all).unwrap();
            assert!(before == "b" || owner_of(slot, &left) == Some(before));
        }
        assert_eq!(owner_of(Slot::new(0), &[]), None);
    }
}
