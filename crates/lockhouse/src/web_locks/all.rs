//! Several names at once, in one strict order.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use lockhouse_core::{Mode, NameBuf};
use tokio_util::sync::CancellationToken;

use crate::error::RequestError;
use crate::name_arg::NameArg;
use crate::web_locks::backend::Backend;
use crate::web_locks::guard::LockGuard;
use crate::web_locks::request::{Acquiring, Request};

/// A request for several names; awaiting it makes it. Names are sorted by their 16-bit units, duplicates
/// dropped; of two modes for one name the exclusive one wins. No names at all are granted at once.
///
/// # Errors
///
/// The errors of any [`Request`]; [`RequestError::Lost`] as soon as one of the locks is lost while a later
/// one is waited for. The others are released then.
#[derive(Debug)]
#[must_use = "a request does nothing unless it is awaited"]
pub struct RequestAll {
    backend: Backend,
    names: Result<Vec<(NameBuf, Mode)>, RequestError>,
    timeout: Option<Duration>,
    signal: Option<CancellationToken>,
}

impl RequestAll {
    pub(crate) fn new<'a, N: Into<NameArg<'a>>>(
        backend: Backend,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let none = Self { backend, names: Ok(Vec::new()), timeout: None, signal: None };
        names.into_iter().fold(none, |all, name| all.add(name.into(), Mode::Exclusive))
    }

    /// Adds this name, exclusively.
    pub fn exclusive<'a>(self, name: impl Into<NameArg<'a>>) -> Self {
        self.add(name.into(), Mode::Exclusive)
    }

    /// Adds this name, shared.
    pub fn shared<'a>(self, name: impl Into<NameArg<'a>>) -> Self {
        self.add(name.into(), Mode::Shared)
    }

    /// Give up if not all are granted within so long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Give up once the token is cancelled, unless all are granted.
    pub fn signal(mut self, signal: CancellationToken) -> Self {
        self.signal = Some(signal);
        self
    }

    fn add(mut self, name: NameArg<'_>, mode: Mode) -> Self {
        match (&mut self.names, name.get()) {
            (Ok(names), Ok(name)) => names.push((name.to_buf(), mode)),
            (Ok(_), Err(invalid)) => self.names = Err(invalid.into()),
            (Err(_), _) => {}
        }
        self
    }

    async fn acquire(self) -> Result<Vec<LockGuard>, RequestError> {
        let names = in_order(self.names?);
        // A deadline beyond all time is none.
        let deadline = self.timeout.and_then(|timeout| tokio::time::Instant::now().checked_add(timeout));
        let mut guards = Vec::with_capacity(names.len());
        for (name, mode) in &names {
            let mut request = Request::new(self.backend.clone(), name.into()).mode(*mode);
            if let Some(deadline) = deadline {
                request = request.timeout(deadline.saturating_duration_since(tokio::time::Instant::now()));
            }
            if let Some(signal) = &self.signal {
                request = request.signal(signal.clone());
            }
            let guard = granted_while_held(request.into_future(), &guards).await?;
            guards.push(guard);
        }
        match guards.iter().find_map(LockGuard::loss) {
            None => Ok(guards),
            Some(loss) => Err(RequestError::Lost(loss)),
        }
    }
}

impl IntoFuture for RequestAll {
    type Output = Result<Vec<LockGuard>, RequestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Dropping the future aborts pending requests and releases held locks.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

/// Awaits one more lock, but not beyond the loss of one that is held.
async fn granted_while_held(waiting: Acquiring<'_>, held: &[LockGuard]) -> Result<LockGuard, RequestError> {
    let mut waiting = pin!(waiting);
    let first = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await;
    if let Poll::Ready(granted) = first {
        // Whether all are held is looked at once, at the end.
        return granted;
    }
    let mut losses: Vec<_> = held.iter().map(|guard| Box::pin(guard.lost())).collect();
    poll_fn(|context| {
        let lost = losses.iter_mut().find_map(|lost| match lost.as_mut().poll(context) {
            Poll::Ready(loss) => Some(loss),
            Poll::Pending => None,
        });
        match lost {
            Some(loss) => Poll::Ready(Err(RequestError::Lost(loss))),
            None => waiting.as_mut().poll(context),
        }
    })
    .await
}

/// Sorted by units, each name once in its strongest mode.
fn in_order(mut names: Vec<(NameBuf, Mode)>) -> Vec<(NameBuf, Mode)> {
    // `Exclusive` sorts before `Shared`, so that the first of equal names is the strongest.
    names.sort_by(|(a, mode_a), (b, mode_b)| {
        a.as_name().units().cmp(b.as_name().units()).then(mode_a.cmp(mode_b))
    });
    names.dedup_by(|later, earlier| later.0 == earlier.0);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_in_the_order_of_their_units_each_once_in_the_strongest_mode() {
        let name = |text| NameBuf::new(text).unwrap();
        // By units U+1F600 (D83D DE00) comes before U+FF5E, by bytes or characters after it.
        let names = vec![
            (name("\u{FF5E}"), Mode::Exclusive),
            (name("b"), Mode::Shared),
            (name("\u{1F600}"), Mode::Exclusive),
            (name("b"), Mode::Exclusive),
        ];
        let ordered = vec![
            (name("b"), Mode::Exclusive),
            (name("\u{1F600}"), Mode::Exclusive),
            (name("\u{FF5E}"), Mode::Exclusive),
        ];
        assert_eq!(in_order(names), ordered);
    }
}
