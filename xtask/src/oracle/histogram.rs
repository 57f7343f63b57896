//! How often each class of outcome and effect came up: what never came up was not compared.

use std::collections::BTreeMap;
use std::fmt;

use lockhouse_core::{Acquire, Effect, EndReason, LossReason, Mode, Outcome, Refusal};

use super::step::Action;

const CLASSES: [&str; 35] = [
    "joined",
    "granted exclusive",
    "granted shared",
    "granted if-available exclusive",
    "granted if-available shared",
    "granted steal",
    "queued exclusive",
    "queued shared",
    "refused unavailable",
    "refused closed",
    "refused unknown-agent",
    "refused name-too-long",
    "refused metadata-too-long",
    "refused too-many-requests",
    "refused too-many-names",
    "refused too-many-agents",
    "aborted",
    "abort of nothing",
    "released",
    "release of nothing",
    "renewed",
    "renewal of nothing",
    "ended",
    "end of nothing",
    "snapshot",
    "closed",
    "timeout",
    "timeout that ends something",
    "name with a lone surrogate",
    "effect: granted exclusive",
    "effect: granted shared",
    "effect: lost, stolen",
    "effect: lost, expired",
    "effect: agent expired",
    "several effects of one command",
];

#[derive(Clone, Debug)]
pub(super) struct Histogram(BTreeMap<&'static str, u64>);

impl Histogram {
    pub(super) fn new() -> Self {
        Self(CLASSES.iter().map(|class| (*class, 0)).collect())
    }

    pub(super) fn count_outcome(&mut self, action: &Action, outcome: Option<&Outcome>, effects: usize) {
        if let Action::Request(ask) = action
            && ask.name.as_name().as_str().is_none()
        {
            self.count("name with a lone surrogate");
        }
        match outcome {
            Some(outcome) => self.count(class_of(action, outcome)),
            None => {
                self.count("timeout");
                if effects > 0 {
                    self.count("timeout that ends something");
                }
            }
        }
        if effects > 1 {
            self.count("several effects of one command");
        }
    }

    pub(super) fn count_effect(&mut self, effect: &Effect, mode: Option<Mode>) {
        self.count(match effect {
            Effect::Granted { .. } if mode == Some(Mode::Shared) => "effect: granted shared",
            Effect::Granted { .. } => "effect: granted exclusive",
            Effect::Lost { reason: LossReason::Stolen, .. } => "effect: lost, stolen",
            Effect::Lost { reason: LossReason::Expired, .. } => "effect: lost, expired",
            Effect::AgentEnded { reason: EndReason::Expired, .. } => "effect: agent expired",
            _ => "",
        });
    }

    /// The classes that came up fewer than `floor` times.
    pub(super) fn below(&self, floor: u64) -> Vec<&'static str> {
        self.0.iter().filter(|(_, count)| **count < floor).map(|(class, _)| *class).collect()
    }

    pub(super) fn as_map(&self) -> &BTreeMap<&'static str, u64> {
        &self.0
    }

    fn count(&mut self, class: &'static str) {
        *self.0.entry(class).or_default() += 1;
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        CLASSES.iter().try_for_each(|class| writeln!(f, "{:>9}  {class}", self.0[class]))
    }
}

fn class_of(action: &Action, outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Joined(_) => "joined",
        Outcome::Granted(_) => class_of_grant(action),
        Outcome::Queued(_) => match action {
            Action::Request(ask) if ask.acquire.mode() == Mode::Shared => "queued shared",
            _ => "queued exclusive",
        },
        Outcome::Refused(refusal) => class_of_refusal(refusal),
        Outcome::Aborted { pending: true } => "aborted",
        Outcome::Aborted { pending: false } => "abort of nothing",
        Outcome::Released { held: true } => "released",
        Outcome::Released { held: false } => "release of nothing",
        Outcome::Renewed { alive: true } => "renewed",
        Outcome::Renewed { alive: false } => "renewal of nothing",
        Outcome::Ended { alive: true } => "ended",
        Outcome::Ended { alive: false } => "end of nothing",
        Outcome::Snapshot(_) => "snapshot",
        Outcome::Closed => "closed",
        _ => "",
    }
}

fn class_of_grant(action: &Action) -> &'static str {
    let Action::Request(ask) = action else { return "granted exclusive" };
    match ask.acquire {
        Acquire::Wait(Mode::Exclusive) => "granted exclusive",
        Acquire::Wait(Mode::Shared) => "granted shared",
        Acquire::IfAvailable(Mode::Exclusive) => "granted if-available exclusive",
        Acquire::IfAvailable(Mode::Shared) => "granted if-available shared",
        Acquire::Steal => "granted steal",
    }
}

fn class_of_refusal(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unavailable { .. } => "refused unavailable",
        Refusal::NameTooLong { .. } => "refused name-too-long",
        Refusal::MetadataTooLong { .. } => "refused metadata-too-long",
        Refusal::TooManyRequests { .. } => "refused too-many-requests",
        Refusal::TooManyNames { .. } => "refused too-many-names",
        Refusal::TooManyAgents { .. } => "refused too-many-agents",
        Refusal::UnknownAgent => "refused unknown-agent",
        Refusal::Closed => "refused closed",
        _ => "",
    }
}
