//! The flaws that the model has on demand: each is one of a database, or of a server in front of the
//! library, so that no patch of the library can make it.

/// A flaw that a run must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// A new generation gives the tokens of the lost one again
    NoLeap,
    /// No statement looks whether the database has lost what was confirmed
    NoGeneration,
    /// A new generation forgets for how long the owners of before may speak: slots recover for the longest
    /// lease alone
    ShortRecovery,
    /// A take asks neither for the epoch that was seen nor for the owner
    BlindTake,
    /// A node is declared dead although its counter has moved
    BlindBury,
    /// A take leaves the list of held locks for the next one
    ListServesTwice,
    /// A commit that was found kept is confirmed without a write
    ReadOnlyReplay,
    /// A welcome is handed over without a look at the slot lease
    UncheckedWelcome,
    /// A house that closes goes on to renew the leases of its clients
    ClosingHousePings,
    /// A ping is handed over without a look at the slot lease
    UncheckedPing,
}
