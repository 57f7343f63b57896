//! The commands of the laboratory, the program `lab`: only they need the product, so only they wait until it
//! is built.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use clap::Args as ClapArgs;

use crate::Verdict;
use crate::workspace::{cargo, tree};

/// The laboratory reads them, and explains them when it is asked for help.
#[derive(Debug, ClapArgs)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    all: Vec<OsString>,
}

/// Builds the laboratory and puts it in the place of this process, so that it has our input, our output and
/// our signals.
pub(crate) fn run(command: &str, args: &Args) -> Verdict {
    let lab = cargo::program(&tree::root()?, "lab").context("the laboratory does not build")?;
    let error = Command::new(&lab).arg(command).args(&args.all).exec();
    Err(error).with_context(|| format!("cannot start {}", lab.display()))
}
