//! Was each name assigned to one claim at a time, and each claim finalized once, while it was the current
//! one?

use std::collections::{HashMap, VecDeque};

use super::breach::{Breach, Kind, Reporter};
use super::ends::Instants;
use super::pair::Op;
use super::record::{Invocation, Thing};
use super::story::{Source, Story};

/// A finalize that was acknowledged.
struct Final<'a> {
    op: &'a Op,
    claim: &'a str,
    claimant: &'a str,
    token: u64,
}

/// Judges one name.
pub(crate) fn judge(story: &Story<'_>, reporter: &Reporter, breaches: &mut Vec<Breach>) {
    let finals: Vec<Final<'_>> = story.ops.iter().filter_map(|op| acknowledged(op)).collect();
    if finals.is_empty() {
        return;
    }
    let mut report = |what: String, places: &[Source<'_>]| {
        breaches.push(reporter.breach(Kind::DoubleAssignment, story.bucket, Some(story.name), &what, places));
    };
    one_claimant_each(story, &finals, &mut report);
    one_at_a_time(story, &finals, &mut report);
    only_current_claims(story, &finals, &mut report);
}

fn acknowledged(op: &Op) -> Option<Final<'_>> {
    let (Invocation::Finalize { claim, .. }, Some((gain, _))) = (&op.call, op.gain()) else { return None };
    Some(Final { op, claim, claimant: gain.claimant.as_deref()?, token: gain.token? })
}

type Report<'t> = &'t mut dyn FnMut(String, &[Source<'_>]);

/// A claim was made by one claimant, and is assigned to that one, with the token of the claim.
fn one_claimant_each(story: &Story<'_>, finals: &[Final<'_>], report: Report<'_>) {
    let mut whose: HashMap<u64, (&str, &Op)> = HashMap::new();
    for op in &story.ops {
        if let (Invocation::Claim { claimant, .. }, Some((gain, _))) = (&op.call, op.gain())
            && let Some(token) = gain.token
        {
            whose.entry(token).or_insert((claimant, op));
        }
    }
    for last in finals {
        if let Some(token) = story.ends.token_of_claim(last.claim).filter(|token| *token != last.token) {
            let what = format!(
                "claim {:?} has token {token}, and was made final with token {}",
                last.claim, last.token
            );
            report(what, &[Source::Op(last.op)]);
        }
        let (claimant, before) = *whose.entry(last.token).or_insert((last.claimant, last.op));
        if claimant != last.claimant {
            let what = format!("token {} belongs to {claimant:?} and to {:?}", last.token, last.claimant);
            report(what, &[Source::Op(before), Source::Op(last.op)]);
        }
    }
    for sight in &story.sights {
        for found in sight.shown() {
            let Thing::Assignment { claimant } = &found.thing else { continue };
            match whose.get(&found.token) {
                Some((other, before)) if other != claimant => {
                    let what = format!("token {} belongs to {other:?} and to {claimant:?}", found.token);
                    report(what, &[Source::Op(before), sight.source]);
                }
                _ => {}
            }
        }
    }
}

/// Between the assignments of two claims there is an unassign, one for each such pair.
fn one_at_a_time(story: &Story<'_>, finals: &[Final<'_>], report: Report<'_>) {
    let mut unassigns: Vec<&Op> = unassigns(story).collect();
    unassigns.sort_by_key(|op| op.closes);
    let mut unassigns: VecDeque<&Op> = unassigns.into();
    let mut current: Option<&Final<'_>> = None;
    let mut known = HashMap::new();
    for last in finals.iter().filter(|last| known.insert(last.token, ()).is_none()) {
        if let Some(before) = current {
            let from = before.op.invoked.ns.min(last.op.invoked.ns);
            let to = before.op.closes.max(last.op.closes);
            while unassigns.front().is_some_and(|op| op.closes < from) {
                unassigns.pop_front();
            }
            match unassigns.iter().position(|op| op.invoked.ns <= to) {
                Some(at) => _ = unassigns.remove(at),
                None => {
                    let what = format!(
                        "token {} and token {} were both made final, with no unassign between",
                        before.token, last.token
                    );
                    report(what, &[Source::Op(before.op), Source::Op(last.op)]);
                }
            }
        }
        current = Some(last);
    }
}

/// No claim becomes final after the name was granted to another claimant, after its own release, or after its
/// assignment was taken back.
fn only_current_claims(story: &Story<'_>, finals: &[Final<'_>], report: Report<'_>) {
    let current = Current::of(story);
    let mut first: HashMap<u64, &Op> = HashMap::new();
    for last in finals {
        if let Some((why, op)) = current.not(story, last, first.get(&last.token).copied()) {
            let what = format!("claim {:?} with token {} was made final after {why}", last.claim, last.token);
            report(what, &[Source::Op(op), Source::Op(last.op)]);
        }
        first.entry(last.token).or_insert(last.op);
    }
}

/// When claims stopped to be current.
#[derive(Default)]
struct Current<'a> {
    /// Token and answer.
    claims: Instants,
    others: Instants,
    /// By claim, the answer to its release.
    releases: HashMap<&'a str, u64>,
    /// Invocation and answer.
    unassigns: Instants,
    /// By claim, the first attempt to make it final.
    attempts: HashMap<&'a str, u64>,
}

impl<'a> Current<'a> {
    fn of(story: &Story<'a>) -> Self {
        let mut current = Self::default();
        for op in &story.ops {
            match (&op.call, op.gain()) {
                (Invocation::Finalize { claim, .. }, gain) if gain.is_some() || op.is_unknown() => {
                    let first = current.attempts.entry(claim).or_insert(u64::MAX);
                    *first = (*first).min(op.invoked.ns);
                }
                (Invocation::ReleaseClaim { claim, .. }, Some((gain, _))) if gain.was != Some(false) => {
                    let first = current.releases.entry(claim).or_insert(u64::MAX);
                    *first = (*first).min(op.closes);
                }
                (Invocation::Unassign { .. }, Some((gain, _))) if gain.was != Some(false) => {
                    current.unassigns.push((op.invoked.ns, op.closes));
                }
                (call, Some((gain, _))) if !gain.again => match (call, gain.token) {
                    (Invocation::Claim { .. }, Some(token)) => current.claims.push((token, op.closes)),
                    (Invocation::Request { .. } | Invocation::Lock { .. }, Some(token)) => {
                        current.others.push((token, op.closes));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        current.claims.sort();
        current.others.sort();
        current.unassigns.sort();
        current
    }

    /// Why the claim cannot have been made final then, if that is so, and what shows it.
    fn not(
        &self,
        story: &Story<'a>,
        last: &Final<'a>,
        before: Option<&'a Op>,
    ) -> Option<(&'static str, &'a Op)> {
        let asked = last.op.invoked.ns;
        let granted = |closes: u64| {
            story.ops.iter().copied().find(|op| {
                op.closes == closes
                    && op.gain().is_some_and(|(gain, _)| gain.token.is_some_and(|token| token > last.token))
            })
        };
        let claimed = self.claims.earliest(last.token + 1);
        if claimed < asked {
            return Some(("another claim was granted", granted(claimed)?));
        }
        // Once it was made final the name was free for locks, and to say so again is no fault.
        let held = self.others.earliest(last.token + 1);
        if held < asked && self.attempts.get(last.claim).is_none_or(|first| *first > held) {
            return Some(("the name was granted to somebody else", granted(held)?));
        }
        if let Some(released) = self.releases.get(last.claim).filter(|released| **released < asked) {
            let release =
                |op: &&&'a Op| op.closes == *released && matches!(op.call, Invocation::ReleaseClaim { .. });
            return Some(("its release", story.ops.iter().find(release)?));
        }
        let taken_back = self.unassigns.earliest(before?.closes + 1);
        if taken_back < asked {
            return Some((
                "its assignment was taken back",
                unassigns(story).find(|op| op.closes == taken_back)?,
            ));
        }
        None
    }
}

/// The operations that may have taken assignments back.
fn unassigns<'a>(story: &Story<'a>) -> impl Iterator<Item = &'a Op> {
    let ops = story.ops.iter().copied();
    ops.filter(|op| matches!(op.call, Invocation::Unassign { .. }) && op.may_have_ended_something())
}
