//! Did the server keep what it had acknowledged? Nothing may go without a cause, come back, or come from
//! nowhere.

use std::collections::{HashMap, HashSet};

use super::breach::{Breach, Kind, Reporter, thing};
use super::ends::Instants;
use super::owners::{OwnerLife, OwnerLives};
use super::pair::{History, Op};
use super::record::{Found, Invocation, Reason, Thing};
use super::story::{Fact, Sight, Source, Story};

/// Tokens are unique in a bucket, but a claim hands its own on to its assignment.
type Key = (Sort, u64);

/// The sort of a thing, whosever it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    Web,
    Offline,
    Claim,
    Assignment,
}

impl Sort {
    fn of(thing: &Thing) -> Self {
        match thing {
            Thing::Web { .. } => Self::Web,
            Thing::Offline { .. } => Self::Offline,
            Thing::Claim { .. } => Self::Claim,
            Thing::Assignment { .. } => Self::Assignment,
        }
    }
}

/// Judges one name.
pub(crate) fn judge(story: &Story<'_>, reporter: &Reporter, breaches: &mut Vec<Breach>) {
    let mut reported: HashSet<Key> = HashSet::new();
    let mut past = Past::of(story);
    for sight in &story.sights {
        for found in sight.shown().filter(|found| !matches!(found.thing, Thing::Web { .. })) {
            if let Some((what, other)) = past.contradicts(story, sight, found)
                && reported.insert(key(&found.thing, found.token))
            {
                let what = format!("{} {what}", thing(&found.thing, found.token));
                let mut places = vec![sight.source];
                places.extend(other);
                breaches.push(reporter.breach(Kind::Lost, story.bucket, Some(story.name), &what, &places));
            }
        }
    }
    for fact in &story.facts {
        if let Some(sight) = denied_without_a_cause(story, fact)
            && reported.insert(key(&fact.thing, fact.token))
        {
            let what = format!("{}, is gone without a cause", reporter.fact(fact));
            let places = [fact.source, sight.source];
            breaches.push(reporter.breach(Kind::Lost, story.bucket, Some(story.name), &what, &places));
        }
    }
}

/// Judges the owners, whose acknowledged beginnings are durable like everything else.
pub(crate) fn judge_owners(
    history: &History,
    owners: &OwnerLives<'_>,
    reporter: &Reporter,
    breaches: &mut Vec<Breach>,
) {
    let mut reported = HashSet::new();
    for op in &history.ops {
        let Some(id) = op.call.owner() else { continue };
        let Some(owner) = owners.get(&op.bucket, id) else { continue };
        let Some((other, what)) = gone_too_early(history, owner, op, reporter).or_else(|| back(owner, op))
        else {
            continue;
        };
        if reported.insert(owner.opened.invoked.line) {
            let what = format!("owner {id:?} {what}");
            let places = [Source::Op(other), Source::Op(op)];
            breaches.push(reporter.breach(Kind::Lost, &op.bucket, None, &what, &places));
        }
    }
}

/// The first answer that denies the owner although it was acknowledged, no client ended it and its lease
/// lasts.
fn gone_too_early<'a>(
    history: &History,
    owner: &OwnerLife<'a>,
    op: &Op,
    reporter: &Reporter,
) -> Option<(&'a Op, String)> {
    let (_, durable) = owner.opened.gain()?;
    let kill = if durable { u64::MAX } else { history.kill_after(owner.opened.closes) };
    let until = owner.ended.min(owner.lives_until).min(kill);
    let early =
        op.refusal() == Some(Reason::OwnerGone) && owner.opened.closes < op.invoked.ns && op.closes < until;
    early.then(|| (owner.opened, format!("is gone, though its lease lasts to {}", reporter.ms(until))))
}

/// The owner goes on, though its end was acknowledged or it was denied.
fn back<'a>(owner: &OwnerLife<'a>, op: &Op) -> Option<(&'a Op, String)> {
    let goes_on =
        matches!(op.call, Invocation::Touch { .. } | Invocation::Lock { .. }) && op.gain().is_some();
    let gone = owner.gone.filter(|gone| goes_on && gone.closes < op.invoked.ns)?;
    Some((gone, "is back after it was gone".to_owned()))
}

/// The first sight that denies what must be there.
fn denied_without_a_cause<'s, 'a>(story: &'s Story<'a>, fact: &Fact<'_>) -> Option<&'s Sight<'a>> {
    let first = story.sights.partition_point(|sight| sight.began <= fact.since);
    let mut last = fact.until;
    for sight in &story.sights[first..] {
        if sight.began >= last {
            return None;
        }
        if sight.ended < fact.until && sight.denies(&fact.thing, fact.token) {
            return Some(sight);
        }
        if sight.shows(&fact.thing, fact.token) {
            // From there on that sight is a fact of its own.
            last = last.min(sight.ended + 1);
        }
    }
    None
}

/// The facts about things that may be shown later.
struct Past<'a> {
    /// From when each thing was certain, at the earliest.
    since: HashMap<Key, u64>,
    granted: HashSet<Key>,
    /// Owners and claimants that may have got something without an answer: when they first asked, and when
    /// the last such request can have been granted.
    unanswered: HashMap<(Sort, &'a str), (u64, u64)>,
    /// Acknowledged ends, by what they ended: invocation and answer.
    ended: HashMap<(Sort, &'a str), Instants>,
    /// The same of the holds with these tokens, which operators ended.
    broken: HashMap<u64, Instants>,
    claim_of_token: HashMap<u64, &'a str>,
    /// When each thing that was shown had certainly gone.
    gone: HashMap<Key, Gone<'a>>,
}

/// From when something was no more, and where one sees that, if it was seen.
#[derive(Clone, Copy)]
struct Gone<'a> {
    from: u64,
    seen: Option<Source<'a>>,
}

impl<'a> Past<'a> {
    fn of(story: &Story<'a>) -> Self {
        let mut past = Self {
            since: HashMap::new(),
            granted: HashSet::new(),
            unanswered: HashMap::new(),
            ended: HashMap::new(),
            broken: HashMap::new(),
            claim_of_token: HashMap::new(),
            gone: HashMap::new(),
        };
        for fact in &story.facts {
            let since = past.since.entry(key(&fact.thing, fact.token)).or_insert(u64::MAX);
            *since = (*since).min(fact.since);
            if !fact.seen {
                past.granted.insert(key(&fact.thing, fact.token));
            }
        }
        for op in &story.ops {
            past.learn(op);
        }
        past.ended.values_mut().chain(past.broken.values_mut()).for_each(Instants::sort);
        past
    }

    fn learn(&mut self, op: &'a Op) {
        if let (Invocation::Claim { .. }, Some((gain, _))) = (&op.call, op.gain())
            && let (Some(claim), Some(token)) = (&gain.claim, gain.token)
        {
            self.claim_of_token.insert(token, claim);
            // The answer was replayed under an idempotency key: the thing was granted at the first request.
            self.granted.insert((Sort::Claim, token));
        }
        if let Some((kind, who)) = asks_for(&op.call)
            && op.is_unknown()
        {
            let (first, closes) = self.unanswered.entry((kind, who)).or_insert((u64::MAX, 0));
            (*first, *closes) = ((*first).min(op.invoked.ns), (*closes).max(op.closes));
        }
        if op.gain().is_none_or(|(gain, _)| gain.was == Some(false)) {
            return;
        }
        let ended = match &op.call {
            Invocation::Break { token, .. } => self.broken.entry(*token).or_default(),
            call => match ends_of(call) {
                Some(ends) => self.ended.entry(ends).or_default(),
                None => return,
            },
        };
        ended.push((op.invoked.ns, op.closes));
    }

    /// Why it is wrong that `found` is shown in `sight`, if it is, and what shows that.
    fn contradicts(
        &mut self,
        story: &Story<'a>,
        sight: &Sight<'a>,
        found: &Found,
    ) -> Option<(&'static str, Option<Source<'a>>)> {
        let key = key(&found.thing, found.token);
        let may_have_got = self.may_have_got(&found.thing, found.token);
        if !self.granted.contains(&key) && may_have_got.is_none_or(|(first, _)| first >= sight.ended) {
            return Some(("is shown, though nobody can have got it", None));
        }
        let gone = match self.gone.get(&key) {
            Some(gone) => *gone,
            None => {
                let gone = self.gone_from(story, &found.thing, found.token, may_have_got);
                *self.gone.entry(key).or_insert(gone)
            }
        };
        (gone.from < sight.began).then(|| match gone.seen {
            Some(seen) => ("is back after it was gone", Some(seen)),
            None => (
                "is back after its end was acknowledged",
                self.end_of(story, &found.thing, found.token, gone.from),
            ),
        })
    }

    /// The interval of the requests for such a thing that were not answered.
    fn may_have_got(&self, thing: &Thing, token: u64) -> Option<(u64, u64)> {
        let who = match thing {
            Thing::Web { .. } => return None,
            Thing::Offline { owner, .. } => owner.as_str(),
            Thing::Claim { claimant } => claimant.as_str(),
            Thing::Assignment { .. } => self.claim_of_token.get(&token)?,
        };
        self.unanswered.get(&(Sort::of(thing), who)).copied()
    }

    fn gone_from(
        &self,
        story: &Story<'a>,
        thing: &Thing,
        token: u64,
        may_have_got: Option<(u64, u64)>,
    ) -> Gone<'a> {
        let since = self.since.get(&key(thing, token)).copied().unwrap_or(u64::MAX);
        let acknowledged = self.end_acknowledged(story, thing, token, since);
        // No request can bring the thing about after this instant.
        let settled = match may_have_got {
            Some((_, closes)) if !self.granted.contains(&key(thing, token)) => since.min(closes),
            _ => since,
        };
        let first = story.sights.partition_point(|sight| sight.began <= settled);
        let denial = story.sights[first..]
            .iter()
            .take_while(|sight| sight.began < acknowledged)
            .find(|sight| sight.denies(thing, token));
        match denial.filter(|sight| sight.ended < acknowledged) {
            Some(sight) => Gone { from: sight.ended, seen: Some(sight.source) },
            None => Gone { from: acknowledged, seen: None },
        }
    }

    /// When the first acknowledged end was answered that was asked for after `since`.
    fn end_acknowledged(&self, story: &Story<'a>, thing: &Thing, token: u64, since: u64) -> u64 {
        let after = since.saturating_add(1);
        let own = self.ender(thing, token).and_then(|who| self.ended.get(&(Sort::of(thing), who)));
        let own = own.map_or(u64::MAX, |ends| ends.earliest(after));
        if let Thing::Assignment { .. } = thing {
            return own;
        }
        let broken = self.broken.get(&token).map_or(u64::MAX, |ends| ends.earliest(after));
        let own = own.min(broken);
        match thing {
            Thing::Offline { owner, .. } => match story.owners.get(story.bucket, owner) {
                Some(owner) => own.min(owner.acknowledged.earliest(after)),
                None => own,
            },
            _ => own,
        }
    }

    /// The ID of the owner or claim whose acknowledged ends under this name are ends of this thing.
    fn ender<'s>(&'s self, thing: &'s Thing, token: u64) -> Option<&'s str> {
        match thing {
            Thing::Web { .. } => None,
            Thing::Offline { owner, .. } => Some(owner),
            Thing::Claim { .. } => self.claim_of_token.get(&token).copied(),
            Thing::Assignment { .. } => Some(""),
        }
    }

    fn end_of(&self, story: &Story<'a>, thing: &Thing, token: u64, answered: u64) -> Option<Source<'a>> {
        let wanted = (Sort::of(thing), self.ender(thing, token)?);
        let is_end = |call: &Invocation| match call {
            Invocation::Break { token: broken, .. } => *broken == token,
            call => ends_of(call) == Some(wanted),
        };
        let ended = |op: &&&'a Op| op.closes == answered && is_end(&op.call);
        let own = story.ops.iter().find(ended).copied();
        own.or_else(|| story.owners.ended_at(story.bucket, wanted.1, answered)).map(Source::Op)
    }
}

fn key(thing: &Thing, token: u64) -> Key {
    (Sort::of(thing), token)
}

/// The kind of thing that this call asks for, and for whom.
fn asks_for(call: &Invocation) -> Option<(Sort, &str)> {
    match call {
        Invocation::Lock { owner, .. } => Some((Sort::Offline, owner)),
        Invocation::Claim { claimant, .. } => Some((Sort::Claim, claimant)),
        Invocation::Finalize { claim, .. } => Some((Sort::Assignment, claim)),
        _ => None,
    }
}

/// The kind of thing that this call ends, and the ID of its owner or claim.
fn ends_of(call: &Invocation) -> Option<(Sort, &str)> {
    match call {
        Invocation::Unlock { owner, .. } => Some((Sort::Offline, owner)),
        Invocation::ReleaseClaim { claim: id, .. } | Invocation::Finalize { claim: id, .. } => {
            Some((Sort::Claim, id))
        }
        Invocation::Unassign { .. } => Some((Sort::Assignment, "")),
        _ => None,
    }
}
