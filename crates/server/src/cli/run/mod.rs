//! `lockhouse run`

mod name;
mod queue_line;
mod signals;

use std::ffi::OsString;
use std::future::IntoFuture;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use lockhouse::remote::Connection;
use lockhouse::{Acquiring, Agent, LockGuard, Mode, NameBuf, RequestError};
use lockhouse_wire as wire;
use rustix::process::Signal;
use tokio::process::{Child, Command};

use self::queue_line::QueueLine;
use self::signals::Signals;
use super::common::duration;
use super::common::target::Target;
use super::exit::{FAILURE, Failure, LOST, NOT_GRANTED, UNKNOWN, USAGE, complain};

/// The command was found but could not be started.
const CANNOT_EXECUTE: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;
/// The number of a signal is added to this.
const SIGNALLED: i32 = 128;

/// Run a command while holding a lock, like flock(1) over the network.
///
/// Waits for the lock, and shows on a terminal who holds it and how many are ahead. A signal ends the wait.
/// Once the command runs, signals are passed on to it. If the lock is lost meanwhile, the command gets
/// SIGTERM.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse run nightly-report -- ./report.sh
  lockhouse run deploy --if-available -- ./deploy.sh || echo \"somebody else deploys\"
  lockhouse run cache --shared --timeout 30s -- tar xf cache.tar
  lockhouse run --name-json '\"a\\u0000b\"' -- true

The environment of the command:
  LOCKHOUSE_NAME           the name, unless it has a NUL or a lone surrogate
  LOCKHOUSE_NAME_JSON      the name as JSON
  LOCKHOUSE_FENCING_TOKEN  the fencing token; with it the guarded resource can refuse older holders
  LOCKHOUSE_URL, LOCKHOUSE_BUCKET

Exit codes: that of the command, or
   1 failure
   2 wrong usage
  69 the server cannot be reached
  74 --steal: the outcome is unknown: the lock may have been taken, or not
  75 not granted (--if-available, --timeout)
  76 the lock was lost
 126 the command cannot be executed
 127 the command is not found
 128 + N: signal N ended the command, or the wait")]
pub(super) struct Run {
    /// The name to lock
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    name: OsString,

    /// Share the lock with other shared holders
    #[arg(long)]
    shared: bool,

    /// Do not wait: exit with 75 if the lock is not free
    #[arg(long)]
    if_available: bool,

    /// Take the lock from its holder, ahead of everyone in the queue; the holder's command may still be
    /// running
    #[arg(long, conflicts_with_all = ["shared", "if_available"])]
    steal: bool,

    /// Wait at most this long, then exit with 75
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with_all = ["if_available", "steal"])]
    timeout: Option<Duration>,

    /// The holder's name that others see (default: USER@HOST:PID)
    #[arg(long, value_name = "LABEL")]
    client_id: Option<String>,

    /// Read NAME as a JSON string, such as '"\ud800"'
    #[arg(long)]
    name_json: bool,

    #[command(flatten)]
    target: Target,

    /// The command, after --
    #[arg(value_name = "CMD", last = true, required = true)]
    command: Vec<OsString>,
}

impl Run {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let name = name::parse(&self.name, self.name_json).map_err(|error| Failure::new(USAGE, error))?;
        // Before anything is asked for, so that no signal can end the wait the hard way.
        let mut signals = Signals::listen().map_err(|error| Failure::new(FAILURE, error))?;
        let connection = tokio::select! {
            connection = self.target.connect() => connection?,
            signal = signals.next() => return Ok(signalled(signal)),
        };
        let result = self.run_locked(&connection, &name, &mut signals).await;
        connection.close().await;
        result
    }

    async fn run_locked(
        &self,
        connection: &Connection,
        name: &NameBuf,
        signals: &mut Signals,
    ) -> Result<ExitCode, Failure> {
        let label = self.client_id.clone().unwrap_or_else(default_label);
        let agent = connection.agent(&label).map_err(|error| Failure::new(USAGE, error))?;
        let granted = tokio::select! {
            granted = self.wait(connection, &agent, name, &label) => granted,
            signal = signals.next() => return Ok(signalled(signal)),
        };
        let lock = granted.map_err(not_granted)?;
        if let Some(signal) = signals.pending().await {
            // The signal came with the grant; the closing of the connection releases the lock.
            return Ok(signalled(signal));
        }
        if let Some(loss) = lock.loss() {
            return Err(Failure::new(
                LOST,
                format_args!("the lock was lost before the command began: {loss}"),
            ));
        }
        let mut child = match self.spawn(connection, &lock) {
            Ok(child) => child,
            Err(failure) => {
                // The command does not run, so that the lock is not needed any more.
                _ = lock.release().await;
                return Err(failure);
            }
        };
        // Signals that came during the start of the child may have come before it was there, also if they
        // were typed.
        while let Some(signal) = signals.pending().await {
            signals::send(signal, &child);
        }
        let (status, was_notified) =
            attend(&mut child, &lock, signals).await.map_err(|error| Failure::new(FAILURE, error))?;
        let released = tokio::select! {
            biased;
            released = lock.release() => released,
            signal = signals.next() => return Ok(signalled(signal)),
        };
        match released {
            Ok(()) => Ok(exit_code(status)),
            Err(_) if was_notified => Ok(ExitCode::from(LOST)),
            Err(loss) => {
                Err(Failure::new(LOST, format_args!("the lock was lost before its release: {loss}")))
            }
        }
    }

    async fn wait(
        &self,
        connection: &Connection,
        agent: &Agent,
        name: &NameBuf,
        label: &str,
    ) -> Result<LockGuard, RequestError> {
        let mut granted = pin!(self.request(agent, name));
        let mut line = QueueLine::new(connection, name, label);
        loop {
            tokio::select! {
                biased;
                granted = &mut granted => return granted,
                () = line.keep() => {}
            }
        }
    }

    fn request<'a>(&self, agent: &Agent, name: &'a NameBuf) -> Acquiring<'a> {
        let mode = if self.shared { Mode::Shared } else { Mode::Exclusive };
        let mut request = agent.locks().request(name).mode(mode);
        if self.if_available {
            request = request.if_available();
        }
        if self.steal {
            request = request.steal();
        }
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        request.into_future()
    }

    fn spawn(&self, connection: &Connection, lock: &LockGuard) -> Result<Child, Failure> {
        // Clap has made sure that there is one.
        let [program, arguments @ ..] = &*self.command else {
            return Err(Failure::new(USAGE, "CMD: absent, but a command is needed after --"));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LOCKHOUSE_URL", &self.target.url)
            .env("LOCKHOUSE_BUCKET", connection.bucket())
            .env("LOCKHOUSE_FENCING_TOKEN", lock.fencing_token().to_string())
            .env("LOCKHOUSE_NAME_JSON", wire::name_to_json(lock.name()));
        let Target { ca, cert, cert_key, .. } = &self.target;
        for (variable, file) in
            [("LOCKHOUSE_CA", ca), ("LOCKHOUSE_CERT", cert), ("LOCKHOUSE_CERT_KEY", cert_key)]
        {
            if let Some(file) = file {
                command.env(variable, file);
            }
        }
        match lock.name().as_str().filter(|name| !name.contains('\0')) {
            Some(name) => command.env("LOCKHOUSE_NAME", name),
            None => command.env_remove("LOCKHOUSE_NAME"),
        };
        command.spawn().map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
            Failure::new(code, format_args!("cannot run {}: {error}", program.display()))
        })
    }
}

/// Waits for the command to end, passes signals on to it, and notifies it when the lock is lost; returns
/// whether it was notified.
async fn attend(
    child: &mut Child,
    lock: &LockGuard,
    signals: &mut Signals,
) -> io::Result<(ExitStatus, bool)> {
    let mut notified = false;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return Ok((status?, notified)),
            loss = lock.lost(), if !notified => {
                notified = true;
                signals::send(Signal::TERM, child);
                let name = lock.name().display();
                complain(format_args!("lost the lock {name:?} ({loss}); the command got SIGTERM"));
            }
            signal = signals.next() => signals::pass_on(signal, child),
        }
    }
}

fn not_granted(error: RequestError) -> Failure {
    let code = match error {
        RequestError::Unavailable(_) | RequestError::TimedOut | RequestError::Closed => NOT_GRANTED,
        RequestError::NotSupported(_) | RequestError::Quota(_) => USAGE,
        RequestError::OutcomeUnknown => UNKNOWN,
        _ => FAILURE,
    };
    Failure::new(code, error)
}

fn signalled(signal: Signal) -> ExitCode {
    exit_number(SIGNALLED + signal.as_raw())
}

/// The exit code as a shell reports it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    number.map_or(ExitCode::from(FAILURE), exit_number)
}

fn exit_number(number: i32) -> ExitCode {
    u8::try_from(number).map_or(ExitCode::from(FAILURE), ExitCode::from)
}

fn default_label() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "shell".into());
    let system = rustix::system::uname();
    format!("{user}@{}:{}", system.nodename().to_string_lossy(), std::process::id())
}
