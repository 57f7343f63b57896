//! The options of commands that go to PostgreSQL themselves.

use std::path::PathBuf;

use clap::Args;
use lockhouse::store::PostgresOptions;
use lockhouse_cli::exit::{Failure, USAGE};
use lockhouse_server::{NoStore, StoreChoice};

/// The store that is named. clap would repeat a password where it refuses a value.
pub(crate) fn store_of(text: &str) -> Result<StoreChoice, Failure> {
    text.parse().map_err(|why: NoStore| match why {
        NoStore::HasPassword => Failure::new(USAGE, format_args!("--store: {why}")),
        NoStore::Unknown | NoStore::Address(_) => {
            Failure::new(USAGE, format_args!("--store: {text:?}, but it {why}"))
        }
    })
}

#[derive(Debug, Args)]
pub(crate) struct PostgresArgs {
    /// With postgres://: how many slots there are, fixed when the tables are made [default: 256]
    #[arg(long, value_name = "N", env = "LOCKHOUSE_CLUSTER_SLOTS", value_parser = clap::value_parser!(u16).range(1..=4096))]
    slots: Option<u16>,

    /// With postgres://: a file with the password; without it the file that PGPASSFILE names counts, as for
    /// psql
    #[arg(long, value_name = "FILE", env = "LOCKHOUSE_STORE_PASSWORD_FILE")]
    store_password_file: Option<PathBuf>,
}

impl PostgresArgs {
    pub(crate) fn options(&self) -> PostgresOptions {
        let options = PostgresOptions::default().slots(self.slots.unwrap_or(256));
        match &self.store_password_file {
            Some(file) => options.password_file(file),
            None => options.passfile_of_environment(),
        }
    }

    /// # Errors
    ///
    /// An option is there that another store does not have.
    pub(crate) fn must_be_absent(&self) -> Result<(), Failure> {
        let is_by_option = |variable: &str| std::env::var_os(variable).is_none();
        if self.slots.is_some() && is_by_option("LOCKHOUSE_CLUSTER_SLOTS") {
            return Err(Failure::new(USAGE, "--slots: must be absent, as a database file has one slot"));
        }
        if self.store_password_file.is_some() && is_by_option("LOCKHOUSE_STORE_PASSWORD_FILE") {
            let why = "--store-password-file: must be absent, as a database file has no password";
            return Err(Failure::new(USAGE, why));
        }
        Ok(())
    }
}
