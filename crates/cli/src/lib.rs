//! The commands of `lockhouse` that are clients of a server, and what all its commands have in common. The
//! program itself is the package `lockhouse-program`.
//!
//! Commands are a file or a folder each. What several of them need is in `common`.

mod assignments;
mod claims;
mod common;
pub mod exit;
mod locks;
mod ls;
mod operate;
mod owner;
mod run;
mod top;

use std::process::ExitCode;

use clap::Subcommand;

pub use self::common::{api, print, secret_file, shape, target};
use self::exit::Failure;
pub use self::operate::cluster;
use self::operate::{break_holds, buckets, events, history};

/// A command that is a client of a server.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "what documents a command is its help")]
pub enum Command {
    Run(run::Run),
    Ls(ls::Ls),
    Top(top::Top),
    Buckets(buckets::Buckets),
    Events(events::EventsCommand),
    History(history::History),
    Break(break_holds::Break),
    Owner(owner::Owner),
    Lock(locks::Lock),
    Unlock(locks::Unlock),
    Claim(claims::Claim),
    Renew(claims::Renew),
    Release(claims::Release),
    Finalize(claims::Finalize),
    Assignments(assignments::Assignments),
}

impl Command {
    /// Carries the command out, in a runtime of tokio with time and I/O. Dropping it is safe only together
    /// with the process: a command may have asked the server for something already.
    ///
    /// # Errors
    ///
    /// The message for stderr, and the exit code.
    pub async fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(run) => run.run().await,
            Self::Ls(ls) => ls.run().await,
            Self::Top(top) => top.run().await,
            Self::Buckets(buckets) => buckets.run().await,
            Self::Events(events) => events.run().await,
            Self::History(history) => history.run().await,
            Self::Break(hold) => hold.run().await,
            Self::Owner(owner) => owner.run().await,
            Self::Lock(lock) => lock.run().await,
            Self::Unlock(unlock) => unlock.run().await,
            Self::Claim(claim) => claim.run().await,
            Self::Renew(renew) => renew.run().await,
            Self::Release(release) => release.run().await,
            Self::Finalize(finalize) => finalize.run().await,
            Self::Assignments(assignments) => assignments.run().await,
        }
    }
}
