//! Several names at once, in one strict order.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use lockhouse_core::{Mode, NameBuf};
use tokio_util::sync::CancellationToken;

use crate::error::RequestError;
use crate::guard::LockGuard;
use crate::locks::{LockManager, NameArg};

/// A request for several names; awaiting it makes it. Names are sorted by their 16-bit units, duplicates dropped; of two modes
/// for one name the exclusive one wins. No names at all are granted at once.
#[derive(Debug)]
#[must_use = "a request does nothing unless it is awaited"]
pub struct RequestAll {
    locks: LockManager,
    names: Result<Vec<(NameBuf, Mode)>, RequestError>,
    timeout: Option<Duration>,
    signal: Option<CancellationToken>,
}

impl RequestAll {
    pub(crate) fn new<'a, N: Into<NameArg<'a>>>(
        locks: LockManager,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let none = Self { locks, names: Ok(Vec::new()), timeout: None, signal: None };
        names.into_iter().fold(none, |all, name| all.add(name.into(), Mode::Exclusive))
    }

    /// This name exclusively, too.
    pub fn exclusive<'a>(self, name: impl Into<NameArg<'a>>) -> Self {
        self.add(name.into(), Mode::Exclusive)
    }

    /// This name shared, too.
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
        // One beyond all time is none.
        let deadline = self.timeout.and_then(|timeout| tokio::time::Instant::now().checked_add(timeout));
        let mut guards = Vec::with_capacity(names.len());
        for (name, mode) in &names {
            let mut request = self.locks.request(name).mode(*mode);
            if let Some(deadline) = deadline {
                request = request.timeout(deadline.saturating_duration_since(tokio::time::Instant::now()));
            }
            if let Some(signal) = &self.signal {
                request = request.signal(signal.clone());
            }
            guards.push(request.await?);
        }
        Ok(guards)
    }
}

impl IntoFuture for RequestAll {
    type Output = Result<Vec<LockGuard>, RequestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Dropping the future aborts what waits and releases what is held.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
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
