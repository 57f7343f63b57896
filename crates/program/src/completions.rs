//! `lockhouse completions`

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use lockhouse_cli::exit::FAILURE;

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse completions bash > ~/.local/share/bash-completion/completions/lockhouse
  lockhouse completions zsh > ~/.zfunc/_lockhouse
  lockhouse completions fish > ~/.config/fish/completions/lockhouse.fish

Exit codes:
   0 done
   1 failure
   2 wrong usage")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, command: &mut Command) -> ExitCode {
        let mut script = Vec::new();
        generate(self.shell, command, "lockhouse", &mut script);
        match std::io::stdout().write_all(&script) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(FAILURE),
        }
    }
}
