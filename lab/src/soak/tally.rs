//! The counts of a crowd.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

/// Counts of actions and of errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunTally {
    /// Connections that are open.
    pub(super) present: usize,
    /// Visitors that have been there at least once.
    pub(super) came: usize,
    pub(super) visits: u64,
    pub(super) rounds: u64,
    pub(super) granted: u64,
    pub(super) refused: u64,
    pub(super) given_up: u64,
    pub(super) cut: u64,
    pub(super) resumed: u64,
    pub(super) errors: u64,
    /// The first of them.
    pub(super) samples: Vec<String>,
}

/// The state that the visitors of one process share.
pub(super) struct Shared {
    tally: RefCell<RunTally>,
    seen: RefCell<Vec<bool>>,
    over: Cell<bool>,
}

/// The number of errors that are reported in words.
const SAMPLES: usize = 5;

/// The mark of a connected visitor; its drop ends the connection's count.
pub(super) struct Present(Rc<Shared>);

impl Shared {
    pub(super) fn new(visitors: usize) -> Rc<Self> {
        Rc::new(Self {
            tally: RefCell::default(),
            seen: RefCell::new(vec![false; visitors]),
            over: Cell::new(false),
        })
    }

    pub(super) fn add(&self, change: impl FnOnce(&mut RunTally)) {
        change(&mut self.tally.borrow_mut());
    }

    pub(super) fn comes(self: &Rc<Self>, number: usize) -> Present {
        let is_new = !std::mem::replace(&mut self.seen.borrow_mut()[number], true);
        self.add(|tally| {
            tally.present += 1;
            tally.visits += 1;
            tally.came += usize::from(is_new);
        });
        Present(self.clone())
    }

    pub(super) fn failed(&self, error: &anyhow::Error) {
        self.add(|tally| {
            tally.errors += 1;
            if tally.samples.len() < SAMPLES {
                tally.samples.push(format!("{error:#}"));
            }
        });
    }

    pub(super) fn end(&self) {
        self.over.set(true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }

    pub(super) fn tally(&self) -> RunTally {
        self.tally.borrow().clone()
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.add(|tally| tally.present -= 1);
    }
}
