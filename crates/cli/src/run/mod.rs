//! `lockhouse run`

mod connect;
mod job;
mod name;
mod queue_line;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::future::IntoFuture;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use lockhouse::remote::{Connection, ConnectionState};
use lockhouse::{Acquiring, Agent, LockGuard, Mode, NameBuf, Quota, RequestError};
use lockhouse_wire as wire;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout_at};

use self::connect::Pauses;
use self::job::Job;
use self::queue_line::QueueLine;
use self::signals::{Received, Signals};
use crate::common::duration;
use crate::common::target::Target;
use crate::exit::{FAILURE, Failure, LOST, NOT_GRANTED, UNKNOWN, USAGE, complain};

/// The command was found but could not be started.
const CANNOT_EXECUTE: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;
/// The number of a signal is added to this.
const SIGNALLED: i32 = 128;

/// Run a command while holding a lock, like flock(1) over the network.
///
/// Waits for the lock, and shows who holds it and how many are ahead. A signal ends the wait.
///
/// The command runs in a process group of its own. Signals that come to `run` are passed on to all of the
/// group. If the lock is lost meanwhile, the group gets SIGTERM, and SIGKILL if some of it still runs after
/// --kill-after.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse run nightly-report -- ./report.sh
  lockhouse run deploy --if-available -- ./deploy.sh || echo \"somebody else deploys\"
  lockhouse run cache --shared --timeout 30s -- tar xf cache.tar
  lockhouse run import --wait-for-server --timeout 5m -E 0 -- ./import.sh
  lockhouse run --name-json '\"a\\u0000b\"' -- true

The environment of the command:
  LOCKHOUSE_NAME           the name, unless it has a NUL or a lone surrogate
  LOCKHOUSE_NAME_JSON      the name as JSON
  LOCKHOUSE_FENCING_TOKEN  the fencing token; with it the guarded resource can refuse older holders
  LOCKHOUSE_CLIENT_ID      the holder's name that others see; what the command locks with run has it, too
  LOCKHOUSE_URL, LOCKHOUSE_BUCKET

Exit codes: that of the command, or
   1 failure
   2 wrong usage
  69 the server cannot be reached (with --timeout: was not reached in time)
  74 --steal: the outcome is unknown: the lock may have been taken, or not
  75 not granted (--if-available, --timeout: or the code of -E), or refused for a quota
  76 the lock was lost
 126 the command cannot be executed
 127 the command is not found
 128 + N: signal N ended the command, or the wait")]
pub struct Run {
    /// The resource name to lock. That of a record of `lockhouse lock` is percent-encoded, as ls shows it
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    name: OsString,

    /// Share the lock with other shared holders
    #[arg(long)]
    shared: bool,

    /// Do not wait for holders: exit with 75 if the lock is not free. After a restart of the server a bucket
    /// grants nothing until it has recovered; that is waited for
    #[arg(long)]
    if_available: bool,

    /// Take the lock from its holder, ahead of everyone in the queue; the holder's command may still be
    /// running
    #[arg(long, conflicts_with_all = ["shared", "if_available"])]
    steal: bool,

    /// Wait at most this long, counted from the start: exit with 69 if the server was not reached by then,
    /// with 75 if the lock was not granted
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "steal")]
    timeout: Option<Duration>,

    /// Keep trying until the server can be reached and has a place for the request, instead of giving up
    /// after the first attempt
    #[arg(long)]
    wait_for_server: bool,

    /// The exit code in place of 75 if the lock is not granted (--if-available, --timeout)
    #[arg(short = 'E', long, value_name = "CODE")]
    conflict_exit_code: Option<u8>,

    /// Lose the lock so long after its grant, as if it had been stolen, whether the command has ended or not
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    max_hold: Option<Duration>,

    /// After a loss, how long the command and its process group may take to end before they get SIGKILL
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    kill_after: Duration,

    /// Hold the lock until every process has ended that the command has started, also in the background. They
    /// inherit an open pipe that tells; a process that closes what it inherits is not waited for
    #[arg(long)]
    wait_children: bool,

    /// A text about the lock, shown to others
    #[arg(long, value_name = "TEXT")]
    metadata: Option<String>,

    /// The holder's name that others see (default: that of the `lockhouse run` around it, or USER@HOST:PID)
    #[arg(long, value_name = "LABEL", env = "LOCKHOUSE_CLIENT_ID")]
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
        // A deadline beyond all time is none.
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let name = name::parse(&self.name, self.name_json).map_err(|error| Failure::new(USAGE, error))?;
        // Before anything is asked for, so that no signal can end the wait the hard way.
        let mut signals = Signals::listen().map_err(|error| Failure::new(FAILURE, error))?;
        let connection = tokio::select! {
            connection = self.connect(deadline) => connection?,
            received = signals.next() => return Ok(signalled(received)),
        };
        let result = self.run_locked(&connection, &name, deadline, &mut signals).await;
        connection.close().await;
        result
    }

    async fn run_locked(
        &self,
        connection: &Connection,
        name: &NameBuf,
        deadline: Option<Instant>,
        signals: &mut Signals,
    ) -> Result<ExitCode, Failure> {
        let label = self.client_id.clone().unwrap_or_else(default_label);
        if let Some(record) = self.steal.then(|| name::other_record(name)).flatten() {
            complain(record);
        }
        let recovery = connection.recovers_for();
        if self.if_available && !recovery.is_zero() {
            let seconds = recovery.as_secs_f64();
            complain(format_args!(
                "the bucket recovers from a restart of the server, for at most {seconds:.1} s more"
            ));
        }
        let granted = tokio::select! {
            granted = self.acquire(connection, &label, name, deadline) => granted,
            received = signals.next() => return Ok(signalled(received)),
        };
        let (_agent, lock) = granted.map_err(|error| self.not_granted(&error))?;
        if let Some(received) = signals.pending().await {
            // The signal came with the grant; the closing of the connection releases the lock.
            return Ok(signalled(received));
        }
        if let Some(loss) = lock.loss() {
            return Err(Failure::new(
                LOST,
                format_args!("the lock was lost before the command began: {loss}"),
            ));
        }
        let fault = |error: io::Error| Failure::new(FAILURE, error);
        signals.listen_to_job_control().map_err(fault)?;
        let mut job = match self.start(connection, &lock, &label) {
            Ok(job) => job,
            Err(failure) => {
                // The command does not run, so that the lock is not needed any more.
                _ = lock.release().await;
                return Err(failure);
            }
        };
        let is_lost = self.attend(&mut job, &lock, connection, signals).await.map_err(fault)?;
        let status = job.status().map_err(fault)?;
        drop(job);
        if is_lost {
            return Ok(ExitCode::from(LOST));
        }
        let released = tokio::select! {
            biased;
            released = lock.release() => released,
            () = signals.ending() => {
                complain("the server has not confirmed the release; the lock ends with its lease at the latest");
                return Ok(exit_code(status));
            }
        };
        match released {
            Ok(()) => Ok(exit_code(status)),
            Err(loss) => {
                Err(Failure::new(LOST, format_args!("the lock was lost before its release: {loss}")))
            }
        }
    }

    /// Requests the lock, again and again where the server is full and is waited for.
    async fn acquire(
        &self,
        connection: &Connection,
        label: &str,
        name: &NameBuf,
        deadline: Option<Instant>,
    ) -> Result<(Agent, LockGuard), RequestError> {
        let mut pauses = Pauses::new();
        loop {
            let agent = connection.agent(label).map_err(RequestError::Quota)?;
            let line = QueueLine::new(connection, name, label);
            let error = match wait(self.request(&agent, name, deadline), line).await {
                Ok(lock) => return Ok((agent, lock)),
                Err(error) => error,
            };
            let is_full = matches!(&error, RequestError::Quota(quota) if code_of(quota) == NOT_GRANTED);
            if !(self.wait_for_server && is_full) {
                return Err(error);
            }
            let pause = pauses.wait(&error);
            match deadline {
                None => pause.await,
                Some(deadline) if timeout_at(deadline, pause).await.is_err() => return Err(error),
                Some(_) => {}
            }
        }
    }

    fn request<'a>(&self, agent: &Agent, name: &'a NameBuf, deadline: Option<Instant>) -> Acquiring<'a> {
        let mode = if self.shared { Mode::Shared } else { Mode::Exclusive };
        let mut request = agent.locks().request(name).mode(mode);
        if self.if_available {
            request = request.if_available();
        }
        if self.steal {
            request = request.steal();
        }
        if let Some(metadata) = &self.metadata {
            request = request.metadata(metadata);
        }
        if let Some(max_hold) = self.max_hold {
            request = request.max_hold(max_hold);
        }
        if let Some(deadline) = deadline {
            request = request.timeout(deadline.saturating_duration_since(Instant::now()));
        }
        request.into_future()
    }

    fn start(&self, connection: &Connection, lock: &LockGuard, label: &str) -> Result<Job, Failure> {
        // Clap has made sure that there is one.
        let [program, arguments @ ..] = &*self.command else {
            return Err(Failure::new(USAGE, "CMD: absent, but a command is needed after --"));
        };
        let started = Job::start(program, arguments, self.wait_children, |command| {
            self.set_environment(command, connection, lock);
            command.env("LOCKHOUSE_CLIENT_ID", label);
        });
        started.map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
            Failure::new(code, format_args!("cannot run {}: {error}", program.display()))
        })
    }

    fn set_environment(&self, command: &mut Command, connection: &Connection, lock: &LockGuard) {
        command
            .env("LOCKHOUSE_URL", self.target.urls.join(","))
            .env("LOCKHOUSE_BUCKET", connection.bucket())
            .env("LOCKHOUSE_FENCING_TOKEN", lock.fencing_token().to_string())
            .env("LOCKHOUSE_NAME_JSON", wire::name_to_json(lock.name()));
        let Target { ca, cert, cert_key, .. } = &self.target;
        for (variable, file) in
            [("LOCKHOUSE_CA", ca), ("LOCKHOUSE_CERT", cert), ("LOCKHOUSE_CERT_KEY", cert_key)]
        {
            if let Some(file) = file {
                // The command may change its folder.
                command.env(variable, std::path::absolute(file).unwrap_or_else(|_| file.clone()));
            }
        }
        match lock.name().as_str().filter(|name| !name.contains('\0')) {
            Some(name) => command.env("LOCKHOUSE_NAME", name),
            None => command.env_remove("LOCKHOUSE_NAME"),
        };
    }

    /// Waits for the command to end, and passes signals on to it; ends it when the lock is lost. Returns
    /// whether it was lost.
    async fn attend(
        &self,
        job: &mut Job,
        lock: &LockGuard,
        connection: &Connection,
        signals: &mut Signals,
    ) -> io::Result<bool> {
        let loss = loop {
            tokio::select! {
                biased;
                ended = job.ended() => return ended.map(|()| false),
                loss = lock.lost() => break loss,
                received = signals.next() => job.pass_on(received.signal),
            }
        };
        job.send(Signal::TERM);
        // What is stopped ends only once it goes on.
        job.send(Signal::CONT);
        let name = lock.name().display();
        let is_away = *connection.state().borrow() == ConnectionState::Lost;
        let why = if is_away { ", without a connection to the server" } else { "" };
        complain(format_args!("lost the lock {name:?} ({loss}{why}); the command got SIGTERM"));
        let mut patience = pin!(sleep(self.kill_after));
        loop {
            tokio::select! {
                biased;
                ended = job.group_ended() => return ended.map(|()| true),
                () = &mut patience => break,
                received = signals.next() => job.pass_on(received.signal),
            }
        }
        job.send(Signal::KILL);
        complain("the command or a part of it did not end, and got SIGKILL");
        job.command_ended().await?;
        Ok(true)
    }

    fn not_granted(&self, error: &RequestError) -> Failure {
        let code = match error {
            RequestError::Unavailable(_) | RequestError::TimedOut => {
                self.conflict_exit_code.unwrap_or(NOT_GRANTED)
            }
            RequestError::Closed | RequestError::StoreUnavailable { .. } => NOT_GRANTED,
            RequestError::NotSupported(_) => USAGE,
            RequestError::Quota(quota) => code_of(quota),
            RequestError::OutcomeUnknown => UNKNOWN,
            _ => FAILURE,
        };
        Failure::new(code, error)
    }
}

/// Waits for the lock, and shows what it waits for.
async fn wait(request: Acquiring<'_>, mut line: QueueLine<'_>) -> Result<LockGuard, RequestError> {
    let mut granted = pin!(request);
    loop {
        tokio::select! {
            biased;
            granted = &mut granted => return granted,
            () = line.keep() => {}
        }
    }
}

/// The exit code of a bound that was exceeded: by an option, which is wrong usage, or by what is there
/// already, which may be less the next time.
fn code_of(quota: &Quota) -> u8 {
    match &*quota.field {
        "name" | "metadata" | "client_id" | "max_hold" => USAGE,
        _ => NOT_GRANTED,
    }
}

fn signalled(received: Received) -> ExitCode {
    exit_number(SIGNALLED + received.number)
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
