//! `lockhouse top`

mod answers;
mod draw;
mod palette;
mod questions;
mod screen;
mod view;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use self::answers::Entry;
use self::draw::Scene;
use self::palette::Palette;
use self::questions::{Look, Question, Watched};
use self::screen::Screen;
use self::view::{Action, BreakOutcome, View};
use crate::common::duration;
use crate::common::target::Target;
use crate::exit::{FAILURE, Failure, UNKNOWN, USAGE};

/// Watch a bucket in the terminal, and break holds.
///
/// Shows how much is held and waits, what happens in a second, and the list of holders and waiters, one
/// screen of it at a time. The key ? shows all keys. A server that goes away is waited for.
///
/// With authentication this needs the permission query, and operate to break a hold.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockhouse top
  lockhouse top --prefix seat/ --every 5s
  lockhouse top --url https://locks.example:7420 --bucket jobs

Colours are those of the terminal; NO_COLOR=1 switches them off.

Exit codes:
   0 quit, by a key or a signal
   1 failure; also if the server does not permit the queries
   2 wrong usage; also if stdin or stdout is no terminal
  69 the server cannot be reached at the start
  75 the server refuses at the start, as on a full disk")]
pub struct Top {
    /// Only names that begin with this, at first
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,

    /// The time between two questions to the server, from 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_every)]
    every: Duration,

    #[command(flatten)]
    target: Target,
}

fn parse_every(text: &str) -> Result<Duration, String> {
    let every = duration::parse_positive(text)?;
    let bounds = Duration::from_millis(100)..=Duration::from_secs(3_600);
    if bounds.contains(&every) { Ok(every) } else { Err("must be from 100ms to 1h".to_owned()) }
}

impl Top {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        if !Screen::is_there() {
            let advice =
                "\"lockhouse ls\" lists the same, for programs with --json, and again and again with --watch";
            return Err(Failure::new(
                USAGE,
                format_args!("top needs a terminal for its keys and its screen; {advice}"),
            ));
        }
        let watched = Watched::new(&self.target)?;
        let mut view = View::new(self.prefix);
        // Before the terminal is taken, a fault is reported as by all other commands.
        let asked = view.question.clone();
        let look = watched.look(&asked).await?;
        view.see(&asked, Ok(look));
        let (origin, bucket) = (watched.origin().to_owned(), watched.bucket());
        let scene = Scene { origin, bucket, every: self.every, palette: Palette::of_environment() };
        let failed = |error| Failure::new(FAILURE, format_args!("cannot use the terminal: {error}"));
        watch(&scene, view, &watched).await.map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }
}

type Asking<'w> = Pin<Box<dyn Future<Output = (Question, Result<Look, Failure>)> + 'w>>;
type Breaking<'w> = Pin<Box<dyn Future<Output = BreakOutcome> + 'w>>;

/// Until it is quit. One question is under way at a time, and one break.
async fn watch(scene: &Scene, mut view: View, watched: &Watched) -> io::Result<()> {
    let mut ends = Ends::listen()?;
    let mut screen = Screen::take()?;
    let mut events = EventStream::new();
    let (mut asking, mut breaking) = (None::<Asking<'_>>, None::<Breaking<'_>>);
    // The question that was asked last, and whether it was asked for the first time.
    let (mut latest, mut is_new) = (None, true);
    let mut due = Instant::now();
    loop {
        screen.0.draw(|frame| scene.draw(frame, &mut view))?;
        let is_other = latest.as_ref() != Some(&view.question);
        if asking.is_none() && (is_other || due <= Instant::now() && !view.is_paused) {
            (latest, is_new) = (Some(view.question.clone()), is_other);
            due = Instant::now() + scene.every;
            asking = Some(Box::pin(ask(watched, view.question.clone())));
        }
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Key(key))) => match view.press(key) {
                    Action::Quit => return Ok(()),
                    Action::Break(hold, reason) if breaking.is_none() => {
                        view.notice = Some(format!("breaking {} …", hold.name()));
                        breaking = Some(Box::pin(break_hold(watched, hold, reason)));
                    }
                    Action::Break(..) => view.notice = Some("another break is under way".to_owned()),
                    Action::Nothing => {}
                },
                // Such as another size: all is drawn anew.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            (asked, answer) = finished(&mut asking) => {
                asking = None;
                // A pause begins at once, whatever is under way.
                if is_new || !view.is_paused {
                    view.see(&asked, answer);
                }
            }
            outcome = finished(&mut breaking) => {
                breaking = None;
                view.see_broken(outcome);
                // What is there now is to be seen, also in a pause.
                latest = None;
            }
            () = sleep_until(due), if asking.is_none() && !view.is_paused => {}
            () = ends.next() => return Ok(()),
        }
    }
}

async fn ask(watched: &Watched, question: Question) -> (Question, Result<Look, Failure>) {
    let answer = watched.look(&question).await;
    (question, answer)
}

async fn break_hold(watched: &Watched, hold: Box<Entry>, reason: String) -> BreakOutcome {
    let (name, token) = (hold.name(), hold.fencing_token.unwrap_or_default());
    BreakOutcome::Notice(match watched.break_hold(&hold, &reason).await {
        Ok(true) => format!("broke {name} (token {token})"),
        Ok(false) => format!("{name} was not held with the token {token} any more"),
        Err(Failure { code: UNKNOWN, message }) => {
            format!("{name} (token {token}) may be broken or not: {message}")
        }
        Err(Failure { code: USAGE, message: why }) => return BreakOutcome::Refused { hold, reason, why },
        Err(Failure { message, .. }) => format!("did not break {name}: {message}"),
    })
}

/// What the future comes to; never, without one.
async fn finished<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + '_>>>) -> T {
    poll_fn(|context| match future {
        Some(future) => future.as_mut().poll(context),
        None => Poll::Pending,
    })
    .await
}

/// The signals that end it.
struct Ends([Signal; 3]);

impl Ends {
    fn listen() -> io::Result<Self> {
        let [hangup, interrupt, terminate] =
            [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        Ok(Self([hangup?, interrupt?, terminate?]))
    }

    async fn next(&mut self) {
        let Self([hangup, interrupt, terminate]) = self;
        tokio::select! {
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
