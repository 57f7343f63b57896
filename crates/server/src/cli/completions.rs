//! `lockhouse completions`

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::{Cli, FAILURE};

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse completions bash > ~/.local/share/bash-completion/completions/lockhouse
  lockhouse completions zsh > ~/.zfunc/_lockhouse
  lockhouse completions fish > ~/.config/fish/completions/lockhouse.fish")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> ExitCode {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "lockhouse", &mut script);
        match std::io::stdout().write_all(&script) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(FAILURE),
        }
    }
}
