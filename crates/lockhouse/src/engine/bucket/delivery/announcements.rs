//! Notices on their way into inboxes: a bounded number in each hold of the mutex, so that the bucket stays in
//! use while a step is announced to very many.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::bucket::state::State;
use crate::engine::inbox::{Inbox, Notice};

/// The most notices that are announced in one hold of the mutex.
const ANNOUNCED_AT_ONCE: usize = 1024;

/// The notices of the present hold, and those that are left for the next ones.
#[derive(Debug, Default)]
pub(in crate::engine::bucket) struct Announcements {
    /// How many were announced in the present hold.
    count: usize,
    /// Notices that wait for their turn; while there are any, all notices wait behind them.
    left: VecDeque<(Arc<Inbox>, Notice)>,
}

impl State {
    /// Puts a notice into the inbox, in the order of the calls.
    pub(crate) fn announce(&mut self, inbox: &Arc<Inbox>, notice: Notice) {
        inbox.note(&notice);
        let Announcements { count, left } = &mut self.announcements;
        if left.is_empty() && *count < ANNOUNCED_AT_ONCE {
            *count += 1;
            self.wakeups.add(inbox.push(notice));
        } else {
            left.push_back((inbox.clone(), notice));
        }
    }

    /// Announces what is left of an earlier hold, as much as fits into this one.
    pub(in crate::engine::bucket) fn announce_more(&mut self) {
        let Announcements { count, left } = &mut self.announcements;
        let part = left.len().min(ANNOUNCED_AT_ONCE - *count);
        *count += part;
        for (inbox, notice) in left.drain(..part) {
            self.wakeups.add(inbox.push(notice));
        }
        if left.is_empty() {
            // A crowd leaves much memory behind.
            *left = VecDeque::new();
        }
    }

    /// The hold is over; whether there is something left for the next one.
    #[inline]
    pub(in crate::engine::bucket) fn end_announcements(&mut self) -> bool {
        self.announcements.count = 0;
        !self.announcements.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use lockhouse_core::{
        Acquire, AgentId, Command, Effect, Mode, Name, NewAgent, NewRequest, Outcome, RequestId,
    };
    use tokio::task::LocalSet;

    use super::*;
    use crate::{House, Options, Port};

    fn drained(port: &Port) -> Vec<Notice> {
        let mut notices = VecDeque::new();
        port.drain(&mut notices).unwrap();
        notices.into()
    }

    fn join(port: &Port) -> AgentId {
        port.submit(0, Command::Join(NewAgent::new("")));
        match drained(port).pop() {
            Some(Notice::Answer { outcome: Outcome::Joined(agent), .. }) => agent,
            other => panic!("{other:?}"),
        }
    }

    fn name() -> Name<'static> {
        Name::new("n").unwrap()
    }

    fn hold_shared(port: &Port, count: usize) -> (AgentId, Vec<RequestId>) {
        let agent = join(port);
        for _ in 0..count {
            let request = NewRequest::new(agent, name(), Acquire::Wait(Mode::Shared));
            port.submit(1, Command::Request(request));
        }
        let granted = |notice| match notice {
            Notice::Answer { outcome: Outcome::Granted(grant), .. } => grant.request,
            other => panic!("{other:?}"),
        };
        (agent, drained(port).into_iter().map(granted).collect())
    }

    #[test]
    fn a_large_step_is_announced_in_parts_and_in_order_and_later_notices_come_behind() {
        let house = House::new();
        let bucket = house.bucket("default");
        let (port, thief) = (bucket.port(10_000), bucket.port(10));
        let (_, held) = hold_shared(&port, 2500);
        let agent = join(&thief);
        let steal = Command::Request(NewRequest::new(agent, name(), Acquire::Steal));
        let shared = &port.bucket().0;
        let (_, has_more) = shared.hold(|state| state.handle(shared.environment.clock.stamp(), steal));
        assert!(has_more);
        let mut announced = drained(&port);
        assert_eq!(announced.len(), ANNOUNCED_AT_ONCE);
        // The port asks for something in between; the answer comes behind all that is left.
        port.submit(9, Command::Abort { request: held[0] });
        announced.extend(drained(&port));
        let answer = Notice::Answer { tag: 9, outcome: Outcome::Aborted { pending: false } };
        assert_eq!(announced.pop(), Some(answer));
        let lost = announced.iter().map(|notice| match notice {
            Notice::Effect(Effect::Lost { request, .. }) => *request,
            other => panic!("{other:?}"),
        });
        assert!(lost.eq(held));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_large_step_blocks_in_place_and_a_small_one_does_not() {
        // In such a set nothing may block in place, so the panic shows that something does.
        let ends = |locks: usize, options: Options| async move {
            let house = House::with_options(&options);
            let port = house.bucket("default").port(100_000);
            let set = LocalSet::new();
            let end = set.run_until(async {
                let (agent, _) = hold_shared(&port, locks);
                let end = || port.submit(0, Command::End { agent });
                catch_unwind(AssertUnwindSafe(end))
            });
            let ended = end.await;
            // The end of a port ends its agents.
            std::mem::forget(port);
            ended.is_ok()
        };
        assert!(ends(9_999, Options::new().block_in_place(true)).await);
        assert!(!ends(10_000, Options::new().block_in_place(true)).await);
        assert!(ends(10_000, Options::new()).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_release_before_very_many_readers_blocks_in_place() {
        let releases = |readers: usize| async move {
            let house = House::with_options(&Options::new().block_in_place(true));
            let port = house.bucket("default").port(100_000);
            let set = LocalSet::new();
            let release = set.run_until(async {
                let agent = join(&port);
                let request = |mode| {
                    let request = NewRequest::new(agent, name(), Acquire::Wait(mode));
                    port.submit(1, Command::Request(request));
                };
                request(Mode::Exclusive);
                let Some(Notice::Answer { outcome: Outcome::Granted(grant), .. }) = drained(&port).pop()
                else {
                    panic!("a free name is granted")
                };
                (0..readers).for_each(|_| request(Mode::Shared));
                let release = || port.submit(0, Command::Release { request: grant.request });
                catch_unwind(AssertUnwindSafe(release))
            });
            let released = release.await;
            std::mem::forget(port);
            released.is_ok()
        };
        assert!(releases(9_999).await);
        assert!(!releases(10_000).await);
    }
}
