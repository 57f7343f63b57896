//! The possible actions in the small world of owners and claims, each in one byte.

use std::fmt;

use lockhouse_core::Mode;

use crate::model::ActionCode;

pub const OWNERS: usize = 2;
pub const NAMES: [&str; 2] = ["A", "B"];
/// The lifetime of an owner without activity, in ticks.
pub const TTL: u64 = 2;
/// The length of a claim, in ticks.
pub const CLAIM: u64 = 2;
/// One tick of the model's clock.
pub const TICK_MS: u64 = 1_000;
/// The greatest number of requests and locks of the one agent of this world.
pub const AGENTS_REQUESTS: u32 = 2;

/// The kinds of requests of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Exclusive,
    Shared,
    Steal,
}

/// The token of a name's claims that is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The token of the last claim.
    Last,
    /// The token of the claim before.
    Former,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Request {
        name: usize,
        ask: Ask,
    },
    /// Abort a pending request, release a held lock; the request is named by its number of arrival.
    Finish {
        request: usize,
    },
    Open {
        owner: usize,
    },
    Touch {
        owner: usize,
    },
    EndOwner {
        owner: usize,
    },
    Lock {
        owner: usize,
        name: usize,
        mode: Mode,
    },
    /// Both names exclusively, or none.
    LockBoth {
        owner: usize,
    },
    Unlock {
        owner: usize,
        name: usize,
    },
    /// All but the last name.
    UnlockAllBut {
        owner: usize,
    },
    /// Undo the locks of the owner's last command.
    Undo {
        owner: usize,
    },
    Claim {
        name: usize,
    },
    Renew {
        name: usize,
        which: Which,
    },
    GiveBack {
        name: usize,
        which: Which,
    },
    Finalize {
        name: usize,
        which: Which,
    },
    Unassign {
        name: usize,
    },
    /// An operator breaks a hold of the name.
    Break {
        name: usize,
    },
    /// A tick passes, and things that are due end.
    Tick,
}

const PER_OWNER: [fn(usize) -> Action; 6] = [
    |owner| Action::Open { owner },
    |owner| Action::Touch { owner },
    |owner| Action::EndOwner { owner },
    |owner| Action::LockBoth { owner },
    |owner| Action::UnlockAllBut { owner },
    |owner| Action::Undo { owner },
];
const PER_OWNER_AND_NAME: [fn(usize, usize) -> Action; 3] = [
    |owner, name| Action::Lock { owner, name, mode: Mode::Exclusive },
    |owner, name| Action::Lock { owner, name, mode: Mode::Shared },
    |owner, name| Action::Unlock { owner, name },
];
const PER_NAME: [fn(usize) -> Action; 12] = [
    |name| Action::Request { name, ask: Ask::Exclusive },
    |name| Action::Request { name, ask: Ask::Shared },
    |name| Action::Request { name, ask: Ask::Steal },
    |name| Action::Claim { name },
    |name| Action::Renew { name, which: Which::Last },
    |name| Action::GiveBack { name, which: Which::Last },
    |name| Action::Finalize { name, which: Which::Last },
    |name| Action::Renew { name, which: Which::Former },
    |name| Action::GiveBack { name, which: Which::Former },
    |name| Action::Finalize { name, which: Which::Former },
    |name| Action::Unassign { name },
    |name| Action::Break { name },
];
/// Requests are named from here on.
const FINISH: u8 = 128;

/// All actions but the end of a request, in the order of the codes.
pub fn all() -> Vec<Action> {
    let owners = (0..OWNERS).flat_map(|owner| PER_OWNER.iter().map(move |make| make(owner)));
    let pairs = (0..OWNERS).flat_map(|owner| (0..NAMES.len()).map(move |name| (owner, name)));
    let pairs = pairs.flat_map(|(owner, name)| PER_OWNER_AND_NAME.iter().map(move |make| make(owner, name)));
    let names = (0..NAMES.len()).flat_map(|name| PER_NAME.iter().map(move |make| make(name)));
    owners.chain(pairs).chain(names).chain([Action::Tick]).collect()
}

impl From<Action> for ActionCode {
    fn from(action: Action) -> Self {
        if let Action::Finish { request } = action {
            return Self(FINISH + request as u8);
        }
        let at = all().iter().position(|other| *other == action);
        Self(at.expect("what is not the end of a request is among all") as u8)
    }
}

impl From<ActionCode> for Action {
    fn from(ActionCode(code): ActionCode) -> Self {
        match code {
            FINISH.. => Self::Finish { request: usize::from(code - FINISH) },
            code => all()[usize::from(code)],
        }
    }
}

/// As a line of a scenario script of the core's tests, where there is one.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: usize| NAMES[name];
        match *self {
            Self::Request { name: of, ask } => {
                let ask = match ask {
                    Ask::Exclusive => "",
                    Ask::Shared => " shared",
                    Ask::Steal => " steal",
                };
                write!(f, "A requests {}{ask}", name(of))
            }
            Self::Finish { request } => write!(f, "abort or release request number {request}"),
            Self::Open { owner } => write!(f, "O{owner} opens ttl {}ms", TTL * TICK_MS),
            Self::Touch { owner } => write!(f, "O{owner} touches"),
            Self::EndOwner { owner } => write!(f, "O{owner} ends"),
            Self::Lock { owner, name: of, mode: Mode::Exclusive } => write!(f, "O{owner} locks {}", name(of)),
            Self::Lock { owner, name: of, .. } => write!(f, "O{owner} locks {} shared", name(of)),
            Self::LockBoth { owner } => write!(f, "O{owner} locks A and B"),
            Self::Unlock { owner, name: of } => write!(f, "O{owner} unlocks {}", name(of)),
            Self::UnlockAllBut { owner } => write!(f, "O{owner} unlocks all but B"),
            Self::Undo { owner } => write!(f, "O{owner} undoes its last lock command"),
            Self::Claim { name: of } => write!(f, "claim {} for C ttl {}ms", name(of), CLAIM * TICK_MS),
            Self::Renew { name: of, which } => {
                write!(f, "renew {} with the token of the {which:?} claim", name(of))
            }
            Self::GiveBack { name: of, which } => {
                write!(f, "give back {} with the token of the {which:?} claim", name(of))
            }
            Self::Finalize { name: of, which } => {
                write!(f, "finalize {} with the token of the {which:?} claim", name(of))
            }
            Self::Unassign { name: of } => write!(f, "unassign {}", name(of)),
            Self::Break { name: of } => write!(f, "break a hold of {}", name(of)),
            Self::Tick => write!(f, "{TICK_MS} ms pass, timeout"),
        }
    }
}
