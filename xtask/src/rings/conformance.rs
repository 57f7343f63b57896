//! `cargo xtask conformance`: the promises of every store, tried on a real database.

use std::process::Command;

use clap::{Args as ClapArgs, ValueEnum};

use crate::Verdict;
use crate::workspace::cargo::PROFILE;
use crate::workspace::{setup, shell, tree};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Whose store
    database: Database,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Database {
    /// PostgreSQL, directly and behind PgBouncer; each test starts and stops a server of its own
    Postgres,
    /// SQLite
    Sqlite,
}

pub(crate) fn run(args: &Args) -> Verdict {
    let tests = match args.database {
        Database::Postgres => {
            setup::postgres()?;
            "postgres"
        }
        Database::Sqlite => "sqlite::",
    };
    let mut test = Command::new("cargo");
    test.args(["test", "--profile", PROFILE, "-p", "lockhouse-store", "--test", "store"]);
    test.args(["--features", "conformance,postgres,sqlite", "--", tests]);
    Ok(shell::run_shown(test.current_dir(tree::root()?))?.is_success())
}
