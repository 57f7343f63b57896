//! The client's own deadline: before it the server grants our locks to no other client.

use std::collections::VecDeque;
use std::time::Duration;

use crate::loss::Loss;
use crate::moment::Moment;

/// The answers that are remembered until the server confirms them.
const ANSWERS: usize = 256;

/// The lease of a session (PROTOCOL.md section 9): it runs from the sending of the latest answer that the
/// server has confirmed, but not beyond the end of the credential, with which the server ends the session.
#[derive(Debug)]
pub(crate) struct SessionLease {
    /// The server's length less 10 %.
    length: Duration,
    confirmed: Moment,
    /// Of the credential, if it has an end.
    credential: Option<Deadline>,
    /// Pongs that no later ping has confirmed yet, with the instants before which they were not sent.
    answers: VecDeque<(u64, Moment)>,
}

impl SessionLease {
    /// Begins with a hello that a welcome has confirmed, which said for how long the credential is still
    /// good.
    pub(crate) fn new(lease_ms: u64, credential_ms: Option<u64>, hello: Moment) -> Self {
        let length = Duration::from_millis(lease_ms).saturating_sub(Duration::from_millis(lease_ms / 10));
        let credential = credential_ms.map(|ms| Deadline {
            length: Duration::from_millis(ms),
            confirmed: hello,
            is_of_credential: true,
        });
        Self { length, confirmed: hello, credential, answers: VecDeque::new() }
    }

    /// The pong to that ping is about to be sent.
    pub(crate) fn answering(&mut self, ping: u64) {
        if self.answers.len() == ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((ping, Moment::now()));
    }

    /// The server has received that pong, and those before it.
    pub(crate) fn answered(&mut self, ping: u64) {
        while let Some((_, at)) = self.answers.pop_front_if(|(n, _)| *n <= ping) {
            self.confirmed = at;
        }
    }

    /// Until the deadline; zero once it has passed.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().remaining()
    }

    /// The deadline as it stands.
    pub(crate) fn deadline(&self) -> Deadline {
        let lease = Deadline { length: self.length, confirmed: self.confirmed, is_of_credential: false };
        self.credential.filter(|end| end.remaining() <= lease.remaining()).unwrap_or(lease)
    }
}

/// A deadline that nothing moves any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    length: Duration,
    confirmed: Moment,
    /// Whether it is the end of the credential, and not of the lease.
    is_of_credential: bool,
}

impl Deadline {
    /// The loss of the locks at the deadline: expired with the lease, or denied with the credential.
    pub(crate) fn loss(self) -> Loss {
        if self.is_of_credential { Loss::Denied } else { Loss::Expired }
    }

    /// Until then; zero once it has passed.
    pub(crate) fn remaining(self) -> Duration {
        self.length.saturating_sub(self.confirmed.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pong_lengthens_the_lease_only_once_it_is_confirmed() {
        let long_ago = Duration::from_millis(40);
        let mut lease = SessionLease::new(10_000, None, Moment::now());
        assert!(lease.remaining() <= Duration::from_secs(9));
        std::thread::sleep(long_ago);
        lease.answering(1);
        lease.answering(2);
        assert!(lease.remaining() <= Duration::from_secs(9) - long_ago);
        lease.answered(0);
        assert!(lease.remaining() <= Duration::from_secs(9) - long_ago);
        lease.answered(1);
        assert!(lease.remaining() > Duration::from_secs(9) - long_ago);
        assert_eq!(lease.answers.len(), 1);
    }

    #[test]
    fn a_lease_that_has_run_out_has_nothing_left() {
        assert_eq!(SessionLease::new(0, None, Moment::now()).remaining(), Duration::ZERO);
    }

    #[test]
    fn a_lease_ends_with_the_credential_however_often_it_is_confirmed() {
        let mut lease = SessionLease::new(10_000, Some(2_000), Moment::now());
        lease.answering(1);
        lease.answered(1);
        assert!(lease.remaining() <= Duration::from_secs(2));
        assert_eq!(lease.deadline().loss(), Loss::Denied);
        let lease = SessionLease::new(10_000, Some(20_000), Moment::now());
        assert!(lease.remaining() <= Duration::from_secs(9));
        assert_eq!(lease.deadline().loss(), Loss::Expired);
        let lease = SessionLease::new(10_000, Some(0), Moment::now());
        assert!(lease.remaining().is_zero());
        assert_eq!(lease.deadline().loss(), Loss::Denied);
    }
}
