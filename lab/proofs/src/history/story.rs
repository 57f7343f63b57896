//! The whole story of one name in a history: the facts that certainly held, the sights of it, and the ends
//! that are possible.

use std::collections::HashMap;

use super::ends::Ends;
use super::owners::OwnerLives;
use super::pair::{History, Op, Readout};
use super::record::{Completion, Found, Invocation, Mode, Reason, Thing};

/// A bucket's name, and all that was done to it.
pub(crate) struct Story<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) name: &'a str,
    /// By invocation.
    pub(crate) ops: Vec<&'a Op>,
    /// By beginning.
    pub(crate) sights: Vec<Sight<'a>>,
    /// By the instant from which each is certain.
    pub(crate) facts: Vec<Fact<'a>>,
    pub(crate) owners: &'a OwnerLives<'a>,
    pub(crate) ends: Ends<'a>,
}

/// The source of a fact in the history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Op(&'a Op),
    Readout(&'a Readout),
}

impl Source<'_> {
    /// The two instants between which the server did what the source shows.
    pub(crate) fn window(self) -> (u64, u64) {
        match self {
            Self::Op(op) => (op.invoked.ns, op.closes),
            Self::Readout(readout) => (readout.began, readout.at.ns),
        }
    }
}

/// A state that certainly lasted from one instant to another.
#[derive(Clone, Debug)]
pub(crate) struct Fact<'a> {
    pub(crate) thing: Thing,
    pub(crate) token: u64,
    pub(crate) source: Source<'a>,
    /// Certainly there from here,
    pub(crate) since: u64,
    /// to here: later it may have ended in one of the ways that are known.
    pub(crate) until: u64,
    /// Only seen: its grant was answered elsewhere, or never.
    pub(crate) seen: bool,
}

/// A moment at which the server showed something of the name.
#[derive(Clone, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) source: Source<'a>,
    pub(crate) view: View<'a>,
}

/// The things that a sight shows or denies.
#[derive(Clone, Debug)]
pub(crate) enum View<'a> {
    /// All things of the name.
    All(Vec<&'a Found>),
    /// This thing, perhaps among others.
    There(Found),
    /// No assignment.
    Unassigned,
    /// The owner holds nothing else but this, or nothing at all.
    OwnerHoldsOnly(&'a str, Option<u64>),
    /// The claim with this token is not there,
    NoClaim(u64),
    /// and did not become final either.
    NeverFinal(u64),
}

impl<'a> Sight<'a> {
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Found> {
        let (all, one): (&[&Found], Option<&Found>) = match &self.view {
            View::All(all) => (all, None),
            View::There(found) => (&[], Some(found)),
            _ => (&[], None),
        };
        all.iter().copied().chain(one)
    }

    pub(crate) fn shows(&self, thing: &Thing, token: u64) -> bool {
        self.shown().any(|found| found.token == token && same_kind(&found.thing, thing))
    }

    pub(crate) fn denies(&self, thing: &Thing, token: u64) -> bool {
        match (&self.view, thing) {
            (_, Thing::Web { .. }) | (View::There(_), _) => false,
            (View::All(_), _) => !self.shows(thing, token),
            (View::Unassigned, thing) => matches!(thing, Thing::Assignment { .. }),
            (View::OwnerHoldsOnly(who, only), Thing::Offline { owner, .. }) => {
                who == owner && *only != Some(token)
            }
            (View::NoClaim(which) | View::NeverFinal(which), Thing::Claim { .. })
            | (View::NeverFinal(which), Thing::Assignment { .. }) => *which == token,
            (View::OwnerHoldsOnly(..) | View::NoClaim(_) | View::NeverFinal(_), _) => false,
        }
    }

    fn of(source: Source<'a>, view: View<'a>) -> Self {
        let (began, ended) = source.window();
        Self { began, ended, source, view }
    }
}

fn same_kind(a: &Thing, b: &Thing) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

impl Thing {
    /// Whether it keeps others from holding the name.
    pub(crate) fn is_hold(&self) -> bool {
        !matches!(self, Self::Assignment { .. })
    }

    /// Whether two holds of these kinds may not stand at once.
    pub(crate) fn excludes(&self, other: &Thing) -> bool {
        if let (Self::Offline { owner: a, .. }, Self::Offline { owner: b, .. }) = (self, other)
            && a == b
        {
            return false;
        }
        let shared = |thing: &Thing| {
            matches!(thing, Self::Web { mode: Mode::Shared } | Self::Offline { mode: Mode::Shared, .. })
        };
        self.is_hold() && other.is_hold() && !(shared(self) && shared(other))
    }
}

/// The stories of all names, one after the other.
pub(crate) fn stories<'a>(
    history: &'a History,
    owners: &'a OwnerLives<'a>,
) -> impl Iterator<Item = Story<'a>> {
    let mut ops: HashMap<(&str, &str), Vec<&Op>> = HashMap::new();
    for op in &history.ops {
        if let Some(name) = op.call.name() {
            ops.entry((&op.bucket, name)).or_default().push(op);
        }
    }
    let mut found: HashMap<(&str, &str), Vec<(usize, &Found)>> = HashMap::new();
    for (index, readout) in history.readouts.iter().enumerate() {
        for thing in &readout.found {
            let key = (readout.bucket.as_str(), thing.name.as_str());
            ops.entry(key).or_default();
            found.entry(key).or_default().push((index, thing));
        }
    }
    // In the order of their names, so that the same file always gives the same account.
    let mut names: Vec<_> = ops.into_iter().collect();
    names.sort_by_key(|(key, _)| *key);
    names.into_iter().map(move |(key, mut ops)| {
        ops.sort_by_key(|op| op.invoked.ns);
        let found = found.remove(&key).unwrap_or_default();
        story_of(history, owners, key, ops, &found)
    })
}

fn story_of<'a>(
    history: &'a History,
    owners: &'a OwnerLives<'a>,
    (bucket, name): (&'a str, &'a str),
    ops: Vec<&'a Op>,
    found: &[(usize, &'a Found)],
) -> Story<'a> {
    let ends = Ends::of(history, owners, bucket, &ops);
    let mut sights: Vec<Sight<'a>> = ops.iter().filter_map(|op| sight(op, &ends)).collect();
    for (index, readout) in
        history.readouts.iter().enumerate().filter(|(_, readout)| readout.bucket == bucket)
    {
        let here = found.iter().filter(|(at, _)| *at == index).map(|(_, found)| *found).collect();
        sights.push(Sight::of(Source::Readout(readout), View::All(here)));
    }
    sights.sort_by_key(|sight| sight.began);
    let mut facts: Vec<Fact<'a>> = ops.iter().filter_map(|op| acknowledged(op, &ends)).collect();
    for sight in &sights {
        facts.extend(sight.shown().filter_map(|found| seen(sight, found, &ends)));
    }
    facts.sort_by_key(|fact| fact.since);
    Story { bucket, name, ops, sights, facts, owners, ends }
}

/// The fact that an answer establishes.
fn acknowledged<'a>(op: &'a Op, ends: &Ends<'a>) -> Option<Fact<'a>> {
    let (gain, durable) = op.gain()?;
    let token = gain.token?;
    let thing = match &op.call {
        Invocation::Request { mode, .. } => Thing::Web { mode: *mode },
        Invocation::Lock { owner, mode, .. } if !gain.again => {
            Thing::Offline { owner: owner.clone(), mode: *mode }
        }
        Invocation::Claim { claimant, .. } if !gain.again => Thing::Claim { claimant: claimant.clone() },
        Invocation::Finalize { .. } => Thing::Assignment { claimant: gain.claimant.clone()? },
        _ => return None,
    };
    let until = match thing {
        Thing::Web { .. } => op.let_go.min(ends.of_web(op, token)),
        _ if durable => ends.after(&thing, token, op.invoked.ns),
        _ => ends.after(&thing, token, op.invoked.ns).min(ends.kill_after(op.closes)),
    };
    Some(Fact { thing, token, source: Source::Op(op), since: op.closes, until, seen: false })
}

/// The fact that a sight establishes.
fn seen<'a>(sight: &Sight<'a>, found: &Found, ends: &Ends<'a>) -> Option<Fact<'a>> {
    if matches!(found.thing, Thing::Web { .. }) {
        return None;
    }
    let durable = matches!(sight.source, Source::Op(op) if op.gain().is_some_and(|(_, durable)| durable));
    let kill = if durable { u64::MAX } else { ends.kill_after(sight.ended) };
    let until = ends.after(&found.thing, found.token, sight.began).min(kill);
    let (thing, token) = (found.thing.clone(), found.token);
    Some(Fact { thing, token, source: sight.source, since: sight.ended, until, seen: true })
}

/// The things that an answer shows or denies.
fn sight<'a>(op: &'a Op, ends: &Ends<'a>) -> Option<Sight<'a>> {
    let name = op.call.name()?.to_owned();
    let view = match (&op.call, &op.answered.as_ref()?.1) {
        (Invocation::Look { .. }, Completion::Ok { gain, .. }) => {
            View::All(gain.found.iter().flatten().collect())
        }
        (Invocation::Lock { owner, mode, .. }, Completion::Ok { gain, .. }) => {
            let token = gain.token?;
            let thing = Thing::Offline { owner: owner.clone(), mode: *mode };
            if gain.again {
                View::There(Found { name, thing, token })
            } else {
                View::OwnerHoldsOnly(owner, Some(token))
            }
        }
        (Invocation::Unlock { owner, .. }, Completion::Ok { gain, .. }) if gain.was == Some(false) => {
            View::OwnerHoldsOnly(owner, None)
        }
        (Invocation::Claim { claimant, .. }, Completion::Ok { gain, .. }) if gain.again => {
            View::There(Found {
                name,
                thing: Thing::Claim { claimant: claimant.clone() },
                token: gain.token?,
            })
        }
        (Invocation::Claim { .. }, Completion::Ok { .. }) => View::Unassigned,
        (Invocation::Unassign { .. }, Completion::Ok { gain, .. }) if gain.was == Some(false) => {
            View::Unassigned
        }
        (Invocation::Renew { claim, .. }, Completion::Ok { .. }) => {
            let claimant = ends.claimant_of_claim(claim)?.to_owned();
            View::There(Found { name, thing: Thing::Claim { claimant }, token: ends.token_of_claim(claim)? })
        }
        (
            Invocation::Renew { claim, .. } | Invocation::ReleaseClaim { claim, .. },
            Completion::Refused { reason: Reason::ClaimExpired | Reason::ClaimLost, .. },
        ) => View::NoClaim(ends.token_of_claim(claim)?),
        (
            Invocation::Finalize { claim, .. },
            Completion::Refused { reason: Reason::ClaimExpired | Reason::ClaimLost, .. },
        ) => View::NeverFinal(ends.token_of_claim(claim)?),
        (
            Invocation::Claim { .. },
            Completion::Refused { reason: Reason::AlreadyAssigned, token, claimant },
        ) => View::There(Found {
            name,
            thing: Thing::Assignment { claimant: claimant.clone()? },
            token: (*token)?,
        }),
        _ => return None,
    };
    Some(Sight::of(Source::Op(op), view))
}
