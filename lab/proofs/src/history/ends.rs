//! When may something have ended? The earliest instant, out of everything that the history knows to end such
//! a thing.

use std::collections::HashMap;

use super::owners::{OwnerLives, certain};
use super::pair::{History, Op};
use super::record::{Invocation, Mode, Thing};

/// The operations that may have ended things under one name.
#[derive(Debug)]
pub(crate) struct Ends<'a> {
    history: &'a History,
    owners: &'a OwnerLives<'a>,
    bucket: &'a str,
    /// By owner: ends of what it held of this name.
    unlocks: HashMap<&'a str, Instants>,
    /// By owner: what took an exclusive lock in the place of a shared one.
    upgrades: HashMap<&'a str, Instants>,
    claims: HashMap<&'a str, Claim<'a>>,
    claim_of_token: HashMap<u64, &'a str>,
    /// Claims without an answer, by claimant.
    unknown_claims: HashMap<&'a str, GivenUp>,
    unassigns: Instants,
    steals: Steals,
    /// By token.
    breaks: HashMap<u64, Instants>,
}

/// Claims for which no client waits any more. Their maker may take them back as long as they may be made.
#[derive(Debug)]
struct GivenUp {
    /// When the first of them may have run out.
    lives_until: u64,
    taken_back: Instants,
}

#[derive(Debug, Default)]
struct Claim<'a> {
    token: Option<u64>,
    claimant: &'a str,
    ttl_ms: u64,
    lives_until: u64,
    ends: Instants,
}

impl<'a> Ends<'a> {
    pub(crate) fn of(
        history: &'a History,
        owners: &'a OwnerLives<'a>,
        bucket: &'a str,
        ops: &[&'a Op],
    ) -> Self {
        let mut ends = Self {
            history,
            owners,
            bucket,
            unlocks: HashMap::new(),
            upgrades: HashMap::new(),
            claims: HashMap::new(),
            claim_of_token: HashMap::new(),
            unknown_claims: HashMap::new(),
            unassigns: Instants::default(),
            steals: Steals::default(),
            breaks: HashMap::new(),
        };
        for op in ops {
            ends.grants(op);
        }
        for op in ops {
            ends.add(op);
        }
        ends.sort();
        ends
    }

    /// The earliest end of `thing`, which stood at some instant not before `from`.
    pub(crate) fn after(&self, thing: &Thing, token: u64, from: u64) -> u64 {
        let own = match thing {
            Thing::Web { .. } => u64::MAX,
            Thing::Offline { owner, mode } => self.after_offline(owner, *mode, from),
            Thing::Claim { claimant } => {
                match self.claim_of_token.get(&token).and_then(|id| self.claims.get(id)) {
                    Some(claim) => claim.lives_until.min(claim.ends.earliest(from)),
                    None => self
                        .unknown_claims
                        .get(claimant.as_str())
                        .map_or(0, |claims| claims.lives_until.min(claims.taken_back.earliest(from))),
                }
            }
            Thing::Assignment { .. } => return self.unassigns.earliest(from),
        };
        own.min(self.steals.earliest(token, from)).min(self.broken(token, from))
    }

    fn broken(&self, token: u64, from: u64) -> u64 {
        self.breaks.get(&token).map_or(u64::MAX, |breaks| breaks.earliest(from))
    }

    fn after_offline(&self, owner: &str, mode: Mode, from: u64) -> u64 {
        let earliest =
            |ends: &HashMap<&str, Instants>| ends.get(owner).map_or(u64::MAX, |ends| ends.earliest(from));
        let upgraded = if mode == Mode::Shared { earliest(&self.upgrades) } else { u64::MAX };
        let own = earliest(&self.unlocks).min(upgraded);
        // An owner that no client in this history opened may end at any time.
        self.owners
            .get(self.bucket, owner)
            .map_or(0, |owner| own.min(owner.lives_until).min(owner.ends.earliest(from)))
    }

    /// The earliest end of a web lock of which its holder need not have a notice yet.
    pub(crate) fn of_web(&self, op: &Op, token: u64) -> u64 {
        let longest = match op.call {
            Invocation::Request { max_hold_ms: Some(max), .. } => certain(op.invoked.ns, max),
            _ => u64::MAX,
        };
        longest.min(self.steals.earliest(token, op.invoked.ns)).min(self.broken(token, op.invoked.ns))
    }

    pub(crate) fn kill_after(&self, ns: u64) -> u64 {
        self.history.kill_after(ns)
    }

    pub(crate) fn token_of_claim(&self, claim: &str) -> Option<u64> {
        self.claims.get(claim)?.token
    }

    pub(crate) fn claimant_of_claim(&self, claim: &str) -> Option<&'a str> {
        self.claims.get(claim).filter(|claim| claim.token.is_some()).map(|claim| claim.claimant)
    }

    fn grants(&mut self, op: &'a Op) {
        let Invocation::Claim { claimant, ttl_ms, .. } = &op.call else { return };
        if op.is_unknown() {
            let fresh = || GivenUp { lives_until: u64::MAX, taken_back: Instants::default() };
            let claims = self.unknown_claims.entry(claimant).or_insert_with(fresh);
            claims.lives_until = claims.lives_until.min(certain(op.invoked.ns, *ttl_ms));
            let given_up = op.answered.as_ref().map_or(op.invoked.ns, |(at, _)| at.ns);
            claims.taken_back.push((op.closes, given_up));
        } else if let Some((gain, _)) = op.gain()
            && let (Some(id), Some(token)) = (&gain.claim, gain.token)
        {
            let claim = self.claims.entry(id).or_default();
            (claim.token, claim.claimant, claim.ttl_ms) = (Some(token), claimant, *ttl_ms);
            if !gain.again {
                claim.lives_until = claim.lives_until.max(certain(op.invoked.ns, *ttl_ms));
            }
            self.claim_of_token.insert(token, id);
        }
    }

    fn add(&mut self, op: &'a Op) {
        let window = (op.closes, op.invoked.ns);
        match &op.call {
            Invocation::Lock { owner, mode: Mode::Exclusive, .. }
                if op.is_unknown() || op.gain().is_some_and(|(gain, _)| !gain.again) =>
            {
                self.upgrades.entry(owner).or_default().push(window);
            }
            Invocation::Unlock { owner, .. } if op.may_have_ended_something() => {
                self.unlocks.entry(owner).or_default().push(window);
            }
            Invocation::ReleaseClaim { claim, .. } | Invocation::Finalize { claim, .. }
                if op.may_have_ended_something() =>
            {
                self.claims.entry(claim).or_default().ends.push(window);
            }
            Invocation::Renew { claim, .. } if op.gain().is_some() => {
                let claim = self.claims.entry(claim).or_default();
                claim.lives_until = claim.lives_until.max(certain(op.invoked.ns, claim.ttl_ms));
            }
            Invocation::Break { token, .. } if op.may_have_ended_something() => {
                self.breaks.entry(*token).or_default().push(window);
            }
            Invocation::Unassign { .. } if op.may_have_ended_something() => self.unassigns.push(window),
            Invocation::Request { steal: true, .. } => match op.gain().and_then(|(gain, _)| gain.token) {
                Some(token) => self.steals.known.push((token, op.invoked.ns)),
                None if op.is_unknown() => self.steals.unknown.push(window),
                None => {}
            },
            _ => {}
        }
    }

    fn sort(&mut self) {
        let claims = self.claims.values_mut().map(|claim| &mut claim.ends);
        let by_owner = self.unlocks.values_mut().chain(self.upgrades.values_mut());
        let given_up = self.unknown_claims.values_mut().map(|claims| &mut claims.taken_back);
        let breaks = self.breaks.values_mut();
        by_owner.chain(claims).chain(given_up).chain(breaks).for_each(Instants::sort);
        self.unassigns.sort();
        self.steals.known.sort();
        self.steals.unknown.sort();
    }
}

/// Steals, of which one that was granted ends only what had a lower token.
#[derive(Debug, Default)]
struct Steals {
    /// Token and invocation.
    known: Instants,
    unknown: Instants,
}

impl Steals {
    fn earliest(&self, token: u64, from: u64) -> u64 {
        self.known.earliest(token + 1).min(self.unknown.earliest(from))
    }
}

/// Pairs of a key and an instant: the earliest instant among those whose key is high enough, in logarithmic
/// time.
#[derive(Debug, Default)]
pub(crate) struct Instants(Vec<(u64, u64)>);

impl Instants {
    pub(crate) fn push(&mut self, pair: (u64, u64)) {
        self.0.push(pair);
    }

    /// Sorts by key, and makes of each instant the earliest of its own and all after it.
    pub(crate) fn sort(&mut self) {
        self.0.sort_unstable();
        let mut earliest = u64::MAX;
        for (_, instant) in self.0.iter_mut().rev() {
            earliest = earliest.min(*instant);
            *instant = earliest;
        }
    }

    pub(crate) fn earliest(&self, key: u64) -> u64 {
        let first = self.0.partition_point(|(at, _)| *at < key);
        self.0.get(first).map_or(u64::MAX, |(_, instant)| *instant)
    }
}

impl FromIterator<(u64, u64)> for Instants {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}
