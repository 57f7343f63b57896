//! The findings of the judge: breaches, each with the events concerned, in words.

use super::pair::{History, Op, Readout};
use super::record::{Completion, Invocation, Mode, Reason, Thing};
use super::story::{Fact, Source};

/// The promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A thing that was acknowledged is gone, or one whose end was acknowledged is back.
    Lost,
    /// Two things that exclude each other were held at once.
    Overlap,
    /// The fence let a holder pass after a later one that excludes it.
    OverlapPastFence,
    /// A fencing token did not grow.
    TokenRegression,
    /// Two assignments of one name, two of one claim, or one by a claim that was no more.
    DoubleAssignment,
}

impl Kind {
    pub fn title(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Overlap => "overlap",
            Self::OverlapPastFence => "overlap past the fence",
            Self::TokenRegression => "token regression",
            Self::DoubleAssignment => "double assignment",
        }
    }
}

/// A breach.
#[derive(Clone, Debug)]
pub struct Breach {
    pub kind: Kind,
    /// The breach in one sentence, then the events, one per line.
    pub account: String,
}

/// Reports the breaches of one history.
pub(crate) struct Reporter {
    origin: u64,
}

impl Reporter {
    pub(crate) fn of(history: &History) -> Self {
        Self { origin: history.origin }
    }

    /// A breach: a sentence about a name (or none), and the places that show it.
    pub(crate) fn breach(
        &self,
        kind: Kind,
        bucket: &str,
        name: Option<&str>,
        what: &str,
        places: &[Source<'_>],
    ) -> Breach {
        let name = name.map_or(String::new(), |name| format!(" of {name:?}"));
        let mut account = format!("{}{name} in bucket {bucket:?}: {what}", kind.title());
        let mut places: Vec<_> = places.iter().map(|place| (place.window().0, self.place(*place))).collect();
        places.sort();
        places.dedup();
        for (_, place) in places {
            account.push_str("\n    ");
            account.push_str(&place);
        }
        Breach { kind, account }
    }

    /// A fact in words, for sentences.
    pub(crate) fn fact(&self, fact: &Fact<'_>) -> String {
        let until =
            if fact.until == u64::MAX { String::new() } else { format!(" to {}", self.ms(fact.until)) };
        format!("{}, certain from {}{until}", thing(&fact.thing, fact.token), self.ms(fact.since))
    }

    /// An instant, counted from the first event.
    pub(crate) fn ms(&self, ns: u64) -> String {
        let ns = ns.saturating_sub(self.origin);
        format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
    }

    fn place(&self, source: Source<'_>) -> String {
        match source {
            Source::Op(op) => self.op(op),
            Source::Readout(readout) => self.readout(readout),
        }
    }

    fn op(&self, op: &Op) -> String {
        let asked = format!(
            "line {}: {} client {:?} asks: {}",
            op.invoked.line,
            self.ms(op.invoked.ns),
            op.client,
            call(&op.call)
        );
        match &op.answered {
            None => format!("{asked}; never answered"),
            Some((at, answer)) => {
                format!("{asked}; line {}: {} {}", at.line, self.ms(at.ns), answered(answer))
            }
        }
    }

    fn readout(&self, readout: &Readout) -> String {
        let at = readout.at;
        format!(
            "line {}: {} read-out of the bucket, begun {}",
            at.line,
            self.ms(at.ns),
            self.ms(readout.began)
        )
    }
}

/// A thing and its token in words.
pub(crate) fn thing(thing: &Thing, token: u64) -> String {
    match thing {
        Thing::Web { mode } => format!("{} web lock with token {token}", mode.word()),
        Thing::Offline { owner, mode } => {
            format!("{} offline lock of owner {owner:?} with token {token}", mode.word())
        }
        Thing::Claim { claimant } => format!("claim of {claimant:?} with token {token}"),
        Thing::Assignment { claimant } => format!("assignment to {claimant:?} with token {token}"),
    }
}

fn call(call: &Invocation) -> String {
    match call {
        Invocation::Request { mode, steal, .. } => {
            format!("{}web lock, {}", if *steal { "steal the " } else { "" }, mode.word())
        }
        Invocation::Release { of } => format!("release what request {of} was granted"),
        Invocation::Pass { of } => format!("pass the fence with what request {of} was granted"),
        Invocation::OpenOwner { ttl_ms, .. } => format!("open an owner with a TTL of {ttl_ms} ms"),
        Invocation::Touch { owner } => format!("heartbeat of owner {owner:?}"),
        Invocation::EndOwner { owner } => format!("end owner {owner:?}"),
        Invocation::Lock { owner, mode, .. } => format!("offline lock for owner {owner:?}, {}", mode.word()),
        Invocation::Unlock { owner, .. } => format!("unlock for owner {owner:?}"),
        Invocation::UnlockAll { owner } => format!("unlock all of owner {owner:?}"),
        Invocation::Claim { claimant, ttl_ms, .. } => {
            format!("claim for {claimant:?} with a TTL of {ttl_ms} ms")
        }
        Invocation::Renew { claim, .. } => format!("renew claim {claim:?}"),
        Invocation::ReleaseClaim { claim, .. } => format!("release claim {claim:?}"),
        Invocation::Finalize { claim, .. } => format!("finalize claim {claim:?}"),
        Invocation::Unassign { .. } => "unassign".to_owned(),
        Invocation::Break { token, .. } => format!("break of the hold with token {token}"),
        Invocation::Look { .. } => "look".to_owned(),
    }
}

fn answered(answer: &Completion) -> String {
    match answer {
        Completion::Unknown => "outcome unknown".to_owned(),
        Completion::Refused { reason, .. } => format!("refused: {}", reason.word()),
        Completion::Ok { gain, durable } => {
            let mut text = if *durable { "ok, durable".to_owned() } else { "ok".to_owned() };
            for (what, value) in
                [("owner", &gain.owner), ("claim", &gain.claim), ("claimant", &gain.claimant)]
            {
                if let Some(value) = value {
                    text.push_str(&format!(", {what} {value:?}"));
                }
            }
            if let Some(token) = gain.token {
                text.push_str(&format!(", token {token}"));
            }
            if gain.was == Some(false) {
                text.push_str(", there was nothing");
            }
            if let Some(found) = &gain.found {
                let all: Vec<String> = found.iter().map(|found| thing(&found.thing, found.token)).collect();
                text.push_str(&format!(
                    ", found: {}",
                    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
                ));
            }
            text
        }
    }
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Claimed => "claimed by another",
            Self::AlreadyAssigned => "already assigned",
            Self::ClaimExpired => "claim expired",
            Self::ClaimLost => "claim lost",
            Self::OwnerGone => "no such owner",
            Self::Recovering => "recovering",
            Self::Unavailable => "unavailable",
            Self::Stale => "stale token",
            Self::Other => "for another reason",
        }
    }
}
