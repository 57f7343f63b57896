//! Commands of owners and claimants, and restarts, with labels for identities as in `step`.
#![allow(missing_docs, reason = "variants and fields are called what they are in the commands of the core")]

use std::fmt;

use lockhouse_core::{Acquire, Mode, NameBuf};

use super::step::{Ask, FOREIGN, Label, json};
use super::world::{World, length_ms, weighted};
use crate::Random;

/// The actions of owners and claimants, and restarts.
#[derive(Clone, Debug)]
pub enum Durable {
    Open {
        owner: Label,
        label: String,
        metadata: Option<String>,
        ttl_ms: u64,
        max_ms: Option<u64>,
    },
    Touch {
        owner: Label,
    },
    EndOwner {
        owner: Label,
    },
    Lock {
        lock: Label,
        owner: Label,
        locks: Vec<(NameBuf, Mode)>,
        metadata: Option<String>,
    },
    /// The names that one command locked, if need be only under the tokens that it got.
    Unlock {
        owner: Label,
        lock: Label,
        names: Vec<NameBuf>,
        by_token: bool,
    },
    UnlockAllBut {
        owner: Label,
        spared: Vec<NameBuf>,
    },
    /// An undo of the locks of one command, by a step that has got this number of answers since that it has
    /// them already.
    Undo {
        owner: Label,
        lock: Label,
        names: Vec<NameBuf>,
        again: u32,
    },
    Claim {
        claim: Label,
        name: NameBuf,
        claimant: String,
        ttl_ms: u64,
        metadata: Option<String>,
    },
    /// With the token of that claim, whatever its name was.
    Present {
        what: Presented,
        name: NameBuf,
        token: Option<Label>,
    },
    /// One of the holds that there are, by its place among them; beyond them, one that is gone.
    Break {
        place: usize,
        reason: Option<String>,
    },
    Reclaim {
        ask: Ask,
        token: u64,
    },
    EndRecovery,
    /// Durable state comes back, and agents reclaim their locks until the recovery ends.
    Restart {
        recovery_ms: Option<u64>,
    },
}

/// The purpose for which a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presented {
    Renew,
    GiveBack,
    Finalize,
    Unassign,
}

/// The things that the next command may refer to.
#[derive(Clone, Debug, Default)]
pub struct DurableView {
    pub owners: Vec<Label>,
    pub next_owner: Label,
    /// The last commands that locked something: their owners and locks.
    pub locked: Vec<(Label, Label, Vec<NameBuf>)>,
    pub next_lock: Label,
    /// The last claims, and their names.
    pub claimed: Vec<(Label, NameBuf)>,
    pub next_claim: Label,
    pub recovering: bool,
    /// The highest token of the time before the last restart.
    pub before: u64,
}

impl World {
    pub(super) fn durable(
        &self,
        random: &mut Random,
        view: &DurableView,
        reclaim: impl FnOnce(&mut Random) -> Ask,
    ) -> Durable {
        let (reclaims, ends) = if view.recovering { (120, 4) } else { (1, 1) };
        let opens = if view.owners.len() < 4 { 12 } else { 5 };
        let (locks, claims) = if self.has_many_locks { (60, 12) } else { (30, 24) };
        let opens = if self.has_many_locks && view.owners.len() > 2 { 2 } else { opens };
        let all_but = if self.has_many_locks { 10 } else { 6 };
        let weights = [opens, 3, 2, locks, 14, all_but, 6, claims, 20, 7, reclaims, ends, 6, 3];
        match weighted(random, &weights) {
            0 => self.open(random, view),
            1 => Durable::Touch { owner: owner(random, view) },
            2 => Durable::EndOwner { owner: owner(random, view) },
            3 => self.lock(random, view),
            4 => match random.pick(&view.locked).cloned() {
                Some((lock, of, names)) => {
                    let owner = if random.percent(90) { of } else { owner(random, view) };
                    if self.has_many_locks && random.percent(40) {
                        let names = (0..4 + random.below(6)).map(|_| self.name(random)).collect();
                        return Durable::Unlock { owner, lock, names, by_token: false };
                    }
                    Durable::Unlock { owner, lock, names, by_token: random.percent(60) }
                }
                None => self.lock(random, view),
            },
            5 => {
                let spared = (0..random.below(3)).map(|_| self.name(random)).collect();
                Durable::UnlockAllBut { owner: owner(random, view), spared }
            }
            6 => match random.pick(&view.locked).cloned() {
                Some((lock, of, names)) => {
                    let owner = if random.percent(95) { of } else { owner(random, view) };
                    Durable::Undo { owner, lock, names, again: random.below(3) as u32 }
                }
                None => self.lock(random, view),
            },
            7 => self.claim(random, view),
            8 => self.present(random, view),
            9 => Durable::Present {
                what: Presented::Unassign,
                name: self.name(random),
                token: random.percent(30).then(|| claim(random, view)),
            },
            10 => Durable::Reclaim { ask: reclaim(random), token: token_before(random, view) },
            11 => Durable::EndRecovery,
            12 => Durable::Break { place: random.below(8), reason: self.metadata(random) },
            _ => self.restart(random),
        }
    }

    fn open(&self, random: &mut Random, view: &DurableView) -> Durable {
        let long = self.start.limits.label_bytes < 16;
        Durable::Open {
            owner: view.next_owner,
            label: if long && random.percent(20) {
                "a long label".into()
            } else {
                format!("o{}", random.below(5))
            },
            metadata: self.metadata(random),
            ttl_ms: if self.has_many_locks { 100 + random.below(400) as u64 } else { ttl_ms(random) },
            max_ms: random.percent(if self.has_many_locks { 10 } else { 30 }).then(|| length_ms(random, 100)),
        }
    }

    fn lock(&self, random: &mut Random, view: &DurableView) -> Durable {
        let mode = |random: &mut Random| if random.percent(50) { Mode::Exclusive } else { Mode::Shared };
        // Once more what it has, perhaps in another mode.
        if let Some((_, owner, names)) = random.pick(&view.locked).cloned()
            && random.percent(25)
        {
            let locks = names.into_iter().map(|name| (name, mode(random))).collect();
            return Durable::Lock { lock: view.next_lock, owner, locks, metadata: self.metadata(random) };
        }
        let count = weighted(random, &[6, 54, 20, 12, 8]);
        Durable::Lock {
            lock: view.next_lock,
            owner: owner(random, view),
            locks: (0..count).map(|_| (self.name(random), mode(random))).collect(),
            metadata: self.metadata(random),
        }
    }

    fn claim(&self, random: &mut Random, view: &DurableView) -> Durable {
        let long = self.start.limits.label_bytes < 16;
        Durable::Claim {
            claim: view.next_claim,
            name: self.name(random),
            claimant: if long && random.percent(10) {
                "a long label".into()
            } else {
                format!("c{}", random.below(5))
            },
            ttl_ms: ttl_ms(random),
            metadata: self.metadata(random),
        }
    }

    fn present(&self, random: &mut Random, view: &DurableView) -> Durable {
        let what = match weighted(random, &[30, 25, 45]) {
            0 => Presented::Renew,
            1 => Presented::GiveBack,
            _ => Presented::Finalize,
        };
        match random.pick(&view.claimed).cloned() {
            Some((claim, name)) if random.percent(85) => Durable::Present { what, name, token: Some(claim) },
            _ => Durable::Present {
                what,
                name: self.name(random),
                token: random.percent(70).then(|| claim(random, view)),
            },
        }
    }

    fn restart(&self, random: &mut Random) -> Durable {
        let recovery_ms = random.percent(70).then(|| match weighted(random, &[20, 70, 10]) {
            0 => random.below(5) as u64,
            1 => 20 + random.below(100) as u64,
            _ => u64::MAX,
        });
        Durable::Restart { recovery_ms }
    }
}

fn owner(random: &mut Random, view: &DurableView) -> Label {
    match random.pick(&view.owners) {
        Some(label) if random.percent(95) => *label,
        _ => any_below(random, view.next_owner),
    }
}

fn claim(random: &mut Random, view: &DurableView) -> Label {
    any_below(random, view.next_claim)
}

fn any_below(random: &mut Random, next: Label) -> Label {
    if random.percent(10) { FOREIGN } else { random.below(next) }
}

/// Draws one of few numbers, so that some are reclaimed twice, and now and then one that was never given.
fn token_before(random: &mut Random, view: &DurableView) -> u64 {
    if random.percent(12) {
        return view.before + 1;
    }
    view.before.saturating_sub(random.below(60) as u64).max(1)
}

/// Mostly within the bounds.
fn ttl_ms(random: &mut Random) -> u64 {
    match weighted(random, &[2, 30, 68]) {
        0 => 0,
        1 => 1 + random.below(60) as u64,
        _ => 100 + random.below(400) as u64,
    }
}

impl fmt::Display for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { owner, label, metadata, ttl_ms, max_ms } => {
                write!(f, "O{owner} opens as {label:?} ttl {ttl_ms}ms")?;
                max_ms.map_or(Ok(()), |ms| write!(f, " max {ms}ms"))?;
                said(f, metadata)
            }
            Self::Touch { owner } => write!(f, "O{owner} touches"),
            Self::EndOwner { owner } => write!(f, "O{owner} ends"),
            Self::Lock { owner, locks, metadata, .. } => {
                let lock = |(name, mode): &(NameBuf, Mode)| match mode {
                    Mode::Exclusive => json(name),
                    Mode::Shared => json(name) + " shared",
                };
                write!(f, "O{owner} locks {}", locks.iter().map(lock).collect::<Vec<_>>().join(" and "))?;
                said(f, metadata)
            }
            Self::Unlock { owner, names, by_token: false, .. } => {
                write!(f, "O{owner} unlocks {}", list(names))
            }
            Self::Unlock { owner, lock, names, .. } => {
                write!(f, "# O{owner} unlocks {}, under the tokens of lock {lock}", list(names))
            }
            Self::UnlockAllBut { owner, spared } => write!(f, "O{owner} unlocks all but {}", list(spared)),
            Self::Undo { owner, lock, names, again } => {
                write!(f, "# O{owner} undoes {}, as granted by lock {lock}, told {again} times", list(names))
            }
            Self::Claim { name, claimant, ttl_ms, metadata, .. } => {
                write!(f, "claim {} for {claimant:?} ttl {ttl_ms}ms", json(name))?;
                said(f, metadata)
            }
            Self::Present { what, name, token } => {
                let what = match what {
                    Presented::Renew => "renew",
                    Presented::GiveBack => "give back",
                    Presented::Finalize => "finalize",
                    Presented::Unassign => "unassign",
                };
                match token {
                    None => write!(f, "{what} {}", json(name)),
                    Some(claim) => write!(f, "# {what} {} with the token of claim {claim}", json(name)),
                }
            }
            Self::Reclaim { ask, token } => {
                let shared = if ask.acquire == Acquire::Wait(Mode::Shared) { " shared" } else { "" };
                write!(
                    f,
                    "A{} reclaims {}{shared} token {token} as r{}",
                    ask.agent,
                    json(&ask.name),
                    ask.request
                )
            }
            Self::EndRecovery => f.write_str("recovery ends"),
            Self::Break { place, reason } => {
                write!(f, "# break hold {place}")?;
                said(f, reason)
            }
            Self::Restart { recovery_ms: None } => f.write_str("restart"),
            Self::Restart { recovery_ms: Some(ms) } => {
                write!(f, "restart\n# recover until {ms} ms from here")
            }
        }
    }
}

fn said(f: &mut fmt::Formatter<'_>, metadata: &Option<String>) -> fmt::Result {
    metadata.as_ref().map_or(Ok(()), |text| write!(f, " metadata {text:?}"))
}

fn list(names: &[NameBuf]) -> String {
    names.iter().map(json).collect::<Vec<_>>().join(" and ")
}
