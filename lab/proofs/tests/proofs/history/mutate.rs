//! Histories of a correct table, each with one thing changed that no server may do.

use std::collections::{HashMap, HashSet};

use random::Random;

use proofs::history::breach::Kind;
use proofs::history::record::{Completion, Event, Found, Gain, Invocation, Mode, Reason, Thing, What};

/// A way to spoil a history. The result is none where the history gives no occasion.
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    /// The breach that the judge must find, perhaps among others.
    pub(crate) kind: Kind,
    pub(crate) spoil: fn(&[Event], &mut Random) -> Option<Vec<Event>>,
}

pub(crate) const MUTATIONS: &[Mutation] = &[
    Mutation { name: "an offline lock is missing in the end", kind: Kind::Lost, spoil: forget_lock },
    Mutation { name: "an assignment is missing in the end", kind: Kind::Lost, spoil: forget_assignment },
    Mutation { name: "an unlocked lock is there in the end", kind: Kind::Lost, spoil: undo_unlock },
    Mutation { name: "a claim within its TTL is unknown", kind: Kind::Lost, spoil: forget_claim },
    Mutation { name: "two grants swap their tokens", kind: Kind::TokenRegression, spoil: swap_tokens },
    Mutation { name: "a grant repeats a token", kind: Kind::TokenRegression, spoil: repeat_token },
    Mutation { name: "a web lock is never released", kind: Kind::Overlap, spoil: hold_on },
    Mutation { name: "a lost claim becomes final", kind: Kind::DoubleAssignment, spoil: finalize_lost },
    Mutation {
        name: "a claim becomes somebody else's",
        kind: Kind::DoubleAssignment,
        spoil: change_claimant,
    },
];

/// An operation with the places of its events.
struct Op<'a> {
    client: &'a str,
    number: u64,
    call: &'a Invocation,
    invoked: usize,
    answer: Option<(usize, &'a Completion)>,
}

impl Op<'_> {
    fn gain(&self) -> Option<&Gain> {
        match self.answer {
            Some((_, Completion::Ok { gain, .. })) => Some(gain),
            _ => None,
        }
    }

    fn is_unknown(&self) -> bool {
        !matches!(self.answer, Some((_, Completion::Ok { .. } | Completion::Refused { .. })))
    }

    fn answered(&self) -> usize {
        self.answer.map_or(usize::MAX, |(at, _)| at)
    }

    fn granted(&self) -> Option<u64> {
        let grants = matches!(
            self.call,
            Invocation::Request { .. } | Invocation::Lock { .. } | Invocation::Claim { .. }
        );
        self.gain().filter(|gain| grants && !gain.again)?.token
    }

    /// The token of the hold that it may have broken.
    fn breaks(&self) -> Option<u64> {
        match self.call {
            Invocation::Break { token, .. } => Some(*token),
            _ => None,
        }
    }
}

fn ops(events: &[Event]) -> Vec<Op<'_>> {
    let mut ops: Vec<Op<'_>> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match &event.what {
            What::Invoke { client, op, call, .. } => {
                ops.push(Op { client, number: *op, call, invoked: at, answer: None });
            }
            What::Answer { client, op: number, answer } => {
                let op = ops.iter_mut().rev().find(|op| op.client == client && op.number == *number).unwrap();
                op.answer = Some((at, answer));
            }
            _ => {}
        }
    }
    ops
}

fn readout(events: &mut [Event]) -> &mut Vec<Found> {
    match &mut events.last_mut().unwrap().what {
        What::Readout { found, .. } => found,
        other => panic!("the last event is {other:?}"),
    }
}

fn forget(
    events: &[Event],
    random: &mut Random,
    must_be_there: impl Fn(&Found) -> bool,
) -> Option<Vec<Event>> {
    let mut events = events.to_vec();
    let found = readout(&mut events);
    let places: Vec<usize> = (0..found.len()).filter(|at| must_be_there(&found[*at])).collect();
    found.remove(*random.pick(&places)?);
    Some(events)
}

fn forget_lock(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = ops(events);
    let long = |op: &&Op<'_>| matches!(op.call, Invocation::OpenOwner { ttl_ms: 60_000, .. });
    let owners: HashSet<&str> =
        all.iter().filter(long).filter_map(|op| op.gain()?.owner.as_deref()).collect();
    let unsure: HashSet<&str> =
        all.iter().filter(|op| op.is_unknown()).filter_map(|op| op.call.owner()).collect();
    let granted: HashSet<u64> = all.iter().filter_map(Op::granted).collect();
    let broken: HashSet<u64> = all.iter().filter_map(Op::breaks).collect();
    forget(events, random, |found| match &found.thing {
        Thing::Offline { owner, .. } => {
            let owner = owner.as_str();
            found.name != "n0"
                && !broken.contains(&found.token)
                && granted.contains(&found.token)
                && owners.contains(owner)
                && !unsure.contains(owner)
        }
        _ => false,
    })
}

fn forget_assignment(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = ops(events);
    let unsure = |name: &str| {
        all.iter().any(|op| {
            op.is_unknown() && matches!(op.call, Invocation::Unassign { name: other } if other == name)
        })
    };
    let granted = |token| {
        let finalized = |op: &&Op<'_>| matches!(op.call, Invocation::Finalize { .. });
        all.iter().filter(finalized).any(|op| op.gain().is_some_and(|gain| gain.token == Some(token)))
    };
    forget(events, random, |found| {
        matches!(found.thing, Thing::Assignment { .. }) && !unsure(&found.name) && granted(found.token)
    })
}

fn undo_unlock(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = ops(events);
    let mut back = Vec::new();
    for lock in &all {
        let (Invocation::Lock { owner, name, mode }, Some(token)) = (lock.call, lock.granted()) else {
            continue;
        };
        let is_end = |op: &Op<'_>| match op.call {
            Invocation::Unlock { owner: who, name: which } => who == owner && which == name,
            Invocation::Break { token: broken, .. } => *broken == token,
            _ => false,
        };
        let unlocked = all.iter().any(|op| {
            is_end(op) && op.invoked > lock.answered() && op.gain().is_some_and(|gain| gain.was == Some(true))
        });
        if unlocked {
            let thing = Thing::Offline { owner: owner.clone(), mode: *mode };
            back.push(Found { name: name.clone(), thing, token });
        }
    }
    let back = random.pick(&back)?.clone();
    let mut events = events.to_vec();
    readout(&mut events).push(back);
    Some(events)
}

fn forget_claim(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = ops(events);
    let mut places = Vec::new();
    for claim in &all {
        let (Invocation::Claim { name, ttl_ms: 60_000, .. }, Some(gain)) = (claim.call, claim.gain()) else {
            continue;
        };
        let about = |op: &&Op<'_>| {
            matches!(op.call, Invocation::Renew { claim, .. } | Invocation::ReleaseClaim { claim, .. } | Invocation::Finalize { claim, .. }
                if Some(claim) == gain.claim.as_ref())
        };
        if all.iter().any(|op| op.breaks().is_some_and(|broken| Some(broken) == gain.token)) {
            continue;
        }
        // No operation can have ended the thing before the first one that asks for it again.
        if let Some(first) = all.iter().find(about).filter(|op| name != "n0" && op.gain().is_some()) {
            places.push(first.answered());
        }
    }
    let at = *random.pick(&places)?;
    let mut events = events.to_vec();
    let What::Answer { answer, .. } = &mut events[at].what else { panic!("not an answer") };
    *answer = Completion::Refused { reason: Reason::ClaimExpired, token: None, claimant: None };
    Some(events)
}

fn swap_tokens(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (one, two) = sequential_grants(events, random)?;
    let mut events = events.to_vec();
    let (first, second) = (*token_at(&mut events, one), *token_at(&mut events, two));
    *token_at(&mut events, one) = second;
    *token_at(&mut events, two) = first;
    Some(events)
}

fn repeat_token(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (one, two) = sequential_grants(events, random)?;
    let mut events = events.to_vec();
    *token_at(&mut events, two) = *token_at(&mut events, one);
    Some(events)
}

/// The answers to two grants, one of which was answered before the other was asked for.
fn sequential_grants(events: &[Event], random: &mut Random) -> Option<(usize, usize)> {
    let all = ops(events);
    let grants: Vec<&Op<'_>> = all.iter().filter(|op| op.granted().is_some()).collect();
    let one = random.pick(&grants)?;
    let after: Vec<_> =
        grants.iter().filter(|two| events[two.invoked].at > events[one.answered()].at).collect();
    Some((one.answered(), random.pick(&after)?.answered()))
}

fn token_at(events: &mut [Event], at: usize) -> &mut u64 {
    match &mut events[at].what {
        What::Answer { answer: Completion::Ok { gain, .. }, .. } => gain.token.as_mut().unwrap(),
        other => panic!("no grant: {other:?}"),
    }
}

fn hold_on(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = ops(events);
    let mut released = HashMap::new();
    for op in &all {
        if let Invocation::Release { of } = op.call {
            released.insert((op.client, *of), op);
        }
    }
    // The operations that were granted a web lock that was released later, on names without steals.
    let holders = all.iter().filter_map(|op| {
        let Invocation::Request { name, mode, .. } = op.call else { return None };
        let release = released.get(&(op.client, op.number))?;
        (op.granted().is_some() && name != "n0").then_some((op, *release, name, *mode))
    });
    let holders: Vec<_> = holders.collect();
    let followed = holders.iter().filter(|(_, release, name, _)| {
        holders.iter().any(|(next, next_release, next_name, mode)| {
            next_name == name
                && *mode == Mode::Exclusive
                && next.invoked > release.invoked
                && events[next_release.invoked].at > events[next.answered()].at
        })
    });
    let releases: Vec<_> = followed.map(|(_, release, ..)| *release).collect();
    let release = random.pick(&releases)?;
    let (from, to) = (release.invoked, release.answered());
    let remaining = events.iter().enumerate().filter(|(at, _)| *at != from && *at != to);
    Some(remaining.map(|(_, event)| event.clone()).collect())
}

fn finalize_lost(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = ops(events);
    let mut places = Vec::new();
    for last in &all {
        let (Invocation::Finalize { name, claim }, Some((at, Completion::Refused { .. }))) =
            (last.call, last.answer)
        else {
            continue;
        };
        let Some(own) =
            all.iter().find(|op| op.gain().is_some_and(|gain| gain.claim.as_ref() == Some(claim)))
        else {
            continue;
        };
        let (Invocation::Claim { claimant, .. }, Some(token)) = (own.call, own.granted()) else { continue };
        let another = all.iter().any(|op| {
            matches!(op.call, Invocation::Claim { name: which, .. } if which == name)
                && op.granted().is_some_and(|other| other > token)
                && events[op.answered().min(events.len() - 1)].at < events[last.invoked].at
        });
        if another {
            places.push((at, token, claimant.clone()));
        }
    }
    let (at, token, claimant) = random.pick(&places)?.clone();
    let mut events = events.to_vec();
    let What::Answer { answer, .. } = &mut events[at].what else { panic!("not an answer") };
    let gain = Gain { token: Some(token), claimant: Some(claimant), ..Gain::default() };
    *answer = Completion::Ok { durable: true, gain };
    Some(events)
}

fn change_claimant(events: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = ops(events);
    let finalized = |op: &&Op<'_>| matches!(op.call, Invocation::Finalize { .. }) && op.gain().is_some();
    let places: Vec<usize> = all.iter().filter(finalized).map(Op::answered).collect();
    let at = *random.pick(&places)?;
    let mut events = events.to_vec();
    let What::Answer { answer: Completion::Ok { gain, .. }, .. } = &mut events[at].what else {
        panic!("no gain")
    };
    gain.claimant = Some("somebody else".to_owned());
    Some(events)
}
