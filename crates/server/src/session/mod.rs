//! A session: the state of a client at the server, beyond the life of any one connection.
//!
//! ```text
//!   WebSocketConnection ──frame──▶ calls ──Command──▶ Port (the bucket)
//!       ▲                                      │
//!       └──── Outbound ◀──event── notices ◀────┘ Notice
//! ```
//!
//! One task owns all of it. Connections come to the task, through the registry, and go; between two of them
//! the task waits for the next one or for the end of the lease. The lease is that of an agent of its own in
//! the bucket, which never asks for anything: its end is the end of the session.

mod calls;
mod notices;
mod outbound;
mod pacing;
mod queries;
mod refusals;
mod run;
mod state;
mod table;
mod verdict;
mod watches;

pub(crate) use self::run::{busy, part_as_it_moves, run};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    mod outage;

    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};
    use std::time::Duration;

    use lockhouse::core::{Acquire, Command, Mode, Name, NewRequest};
    use lockhouse::store::{FaultStore, Faults, MemoryStore};
    use lockhouse::{BucketKey, House, ManualClock, Options};

    use super::state::Session;
    use super::verdict::Verdict;
    use tokio::sync::watch;

    use crate::Config;
    use crate::access::Initiator;
    use crate::state::{AppState, Phase};
    use crate::websocket::{Admission, Presented};

    fn scope() -> BucketKey {
        BucketKey::from("b")
    }

    fn house(state: &AppState) -> House {
        state.houses.all().remove(0)
    }

    fn admission(state: &AppState) -> Admission {
        let (bucket, partition) = ("b".to_owned(), String::new());
        let certificate = Err(crate::auth::Unauthenticated::Absent);
        let presented = Presented {
            credential: None,
            certificate,
            from: None,
            initiator: Initiator::Program,
            user_agent: None,
            bucket,
            partition,
        };
        Admission::new(state.authorities(), &state.audit, presented).unwrap()
    }

    pub(super) async fn session(state: &Arc<AppState>, phase: watch::Receiver<Phase>) -> Session {
        Session::begin(state.clone(), house(state), admission(state), None, phase).await.unwrap()
    }

    fn request(session: &Session) {
        let (agent, name) = (session.lease_agent.unwrap(), Name::new("n").unwrap());
        session
            .port
            .submit(0, Command::Request(NewRequest::new(agent, name, Acquire::Wait(Mode::Exclusive))));
    }

    #[tokio::test]
    async fn a_session_that_begins_while_the_server_begins_to_stop_is_granted_nothing_and_hears_of_it() {
        let state = AppState::empty(Config::default());
        let phase = state.phases();
        // The step to draining, after the phase was looked at and before there is a bucket.
        state.stop_granting();
        let mut session = session(&state, phase).await;
        request(&session);
        assert!(!house(&state).bucket(scope()).has_held());
        session.outbound.resume(0).unwrap();
        session.phase.changed().await.unwrap();
        assert!(matches!(session.change_phase(), Verdict::GoOn));
        assert_eq!(
            session.outbound.queue.pop().unwrap().as_str(),
            r#"{"type":"closing","reason":"shutdown"}"#
        );
    }

    #[tokio::test]
    async fn a_session_that_is_resumed_when_the_server_closes_its_connections_still_hears_of_it() {
        let state = AppState::empty(Config::default());
        let mut session = session(&state, state.phases()).await;
        session.outbound.resume(0).unwrap();
        state.stop_granting();
        state.close_connections();
        session.announce_phase();
        assert!(session.phase.has_changed().unwrap());
        assert!(matches!(session.change_phase(), Verdict::Stop));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_whose_lease_is_over_before_the_store_knows_its_length_does_not_begin() {
        let store = FaultStore::new(Arc::new(MemoryStore::new().unwrap()), 1, Faults::NONE);
        let (store, clock, config) = (Arc::new(store), ManualClock::new(), Config::default());
        let house = House::open(store.clone(), Options::new().clock(&clock)).await.unwrap();
        let state = AppState::new(config.clone(), house.clone());
        store.set_faults(Faults { refused: 1000, ..Faults::NONE });
        let mut begin = pin!(Session::begin(state.clone(), house, admission(&state), None, state.phases()));
        assert!(begin.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        clock.advance(Duration::from_millis(config.lease.as_millis()));
        store.set_faults(Faults::NONE);
        assert_eq!(begin.await.err(), Some(super::state::NOT_NOTED));
        assert_eq!(state.sessions.len(), 0);
    }

    /// Notes how many sessions there are when it is woken.
    struct Count(Arc<AppState>, AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.sessions.len(), Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn the_agents_of_a_session_end_before_a_resume_finds_it_gone() {
        let state = AppState::empty(Config::default());
        let holder = session(&state, state.phases()).await;
        let mut waiter = session(&state, state.phases()).await;
        request(&holder);
        request(&waiter);
        waiter.take_notices();
        let count = Arc::new(Count(state.clone(), AtomicUsize::new(0)));
        let mut ready = Box::pin(waiter.port.ready());
        assert!(ready.as_mut().poll(&mut Context::from_waker(&count.clone().into())).is_pending());
        // The holder's end grants the waiter the lock while the holder is still registered.
        drop(holder);
        assert_eq!(count.1.load(Ordering::SeqCst), 2);
        assert_eq!(state.sessions.len(), 1);
    }
}
