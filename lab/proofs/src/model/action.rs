//! The possible actions in the small world, each in one byte.

use std::fmt;

use lockhouse_core::{Acquire, Mode};

use super::ActionCode;

pub const AGENTS: usize = 3;
pub const NAMES: [&str; 2] = ["A", "B"];
/// The lease of the first agent, in ticks; the others live until they are ended.
pub const LEASE: u64 = 2;
/// The longest hold of a request that has one, in ticks.
pub const HOLD: u64 = 1;
/// One tick of the model's clock.
pub const TICK_MS: u64 = 1_000;

/// The ways to ask for a lock, and whether it is held for one tick at most.
pub const KINDS: [(Acquire, bool); 6] = [
    (Acquire::Wait(Mode::Exclusive), false),
    (Acquire::Wait(Mode::Shared), false),
    (Acquire::IfAvailable(Mode::Exclusive), false),
    (Acquire::IfAvailable(Mode::Shared), false),
    (Acquire::Steal, false),
    (Acquire::Wait(Mode::Exclusive), true),
];

/// The place of a shared `ifAvailable` request among the kinds.
pub const SHARED_IF_AVAILABLE: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Request {
        agent: usize,
        name: usize,
        kind: usize,
    },
    /// Abort a pending request, release a held lock; the request is named by its number of arrival.
    Finish {
        request: usize,
    },
    Join {
        agent: usize,
    },
    End {
        agent: usize,
    },
    Renew {
        agent: usize,
    },
    /// A tick passes, and things that are due end.
    Tick,
}

const JOIN: u8 = 64;
const END: u8 = JOIN + AGENTS as u8;
const RENEW: u8 = END + AGENTS as u8;
const TICK: u8 = RENEW + AGENTS as u8;
const FINISH: u8 = 128;

impl From<Action> for ActionCode {
    fn from(action: Action) -> Self {
        // Each of these numbers fits into a byte, as the world is small.
        Self(match action {
            Action::Request { agent, name, kind } => {
                ((agent * NAMES.len() + name) * KINDS.len() + kind) as u8
            }
            Action::Finish { request } => FINISH + request as u8,
            Action::Join { agent } => JOIN + agent as u8,
            Action::End { agent } => END + agent as u8,
            Action::Renew { agent } => RENEW + agent as u8,
            Action::Tick => TICK,
        })
    }
}

impl From<ActionCode> for Action {
    fn from(ActionCode(code): ActionCode) -> Self {
        let number = usize::from(code);
        match code {
            ..JOIN => Self::Request {
                agent: number / (NAMES.len() * KINDS.len()),
                name: number / KINDS.len() % NAMES.len(),
                kind: number % KINDS.len(),
            },
            JOIN..END => Self::Join { agent: usize::from(code - JOIN) },
            END..RENEW => Self::End { agent: usize::from(code - END) },
            RENEW..TICK => Self::Renew { agent: usize::from(code - RENEW) },
            TICK..FINISH => Self::Tick,
            FINISH.. => Self::Finish { request: usize::from(code - FINISH) },
        }
    }
}

/// As a line of a scenario script of the core's tests.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Request { agent, name, kind } => {
                let (acquire, hold) = KINDS[kind];
                write!(f, "A{agent} requests {:?}", NAMES[name])?;
                f.write_str(match acquire {
                    Acquire::Wait(Mode::Exclusive) => "",
                    Acquire::Wait(Mode::Shared) => " shared",
                    Acquire::IfAvailable(Mode::Exclusive) => " if-available",
                    Acquire::IfAvailable(Mode::Shared) => " shared if-available",
                    Acquire::Steal => " steal",
                })?;
                if hold { write!(f, " hold {}ms", HOLD * TICK_MS) } else { Ok(()) }
            }
            Self::Finish { request } => write!(f, "abort or release request number {request}"),
            Self::Join { agent } => write!(f, "A{agent} joins"),
            Self::End { agent } => write!(f, "A{agent} ends"),
            Self::Renew { agent } => write!(f, "A{agent} renews"),
            Self::Tick => write!(f, "{TICK_MS} ms pass, timeout"),
        }
    }
}
