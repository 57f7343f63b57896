//! The HTTP API against its OpenAPI document, and what generators make of that.

mod generators;
mod running_server;
mod schemathesis;

use anyhow::Result;

use super::results::TestRun;
use super::{Run, built_server};

/// Installs the programs of the ring, unless they are there.
pub(crate) fn install(run: &Run<'_>) -> Result<()> {
    schemathesis::install(run)?;
    generators::install(run)
}

pub(super) fn ring(run: &Run<'_>) -> Result<Vec<TestRun>> {
    let binary = built_server(run)?;
    let mut tests = schemathesis::ring(run, &binary)?;
    tests.extend(generators::ring(run, &binary)?);
    Ok(tests)
}
