//! The frames of one session on their way out.

use std::collections::{HashSet, VecDeque};

use lockhouse_core::Acquire;
use lockhouse_wire::{ClientCall, ClientFrame, SnapshotQuery};

use super::breach::ProtocolViolation;

/// The most numbered frames that are under way without an acknowledgement.
const WINDOW_FRAMES: usize = 4096;
/// About the most bytes of them.
const WINDOW_BYTES: usize = 1 << 20;
/// With so many frames waiting for the window, no request is taken any more; calls that end requests still
/// are.
pub(crate) const BACKLOG_FRAMES: usize = 262_144;

/// Frames under way (the window, which a resume sends again), and behind them, in order, those that wait for
/// space in it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The first of them has the number `acknowledged + 1`.
    window: VecDeque<ClientCall<'static>>,
    window_bytes: usize,
    acknowledged: u64,
    /// The highest number that the present connection, or the server, was given.
    transmitted: u64,
    /// The highest number that any connection was given.
    ever_transmitted: u64,
    backlog: VecDeque<Waiting>,
}

#[derive(Debug)]
enum Waiting {
    Numbered(ClientCall<'static>),
    SnapshotQuery { look: SnapshotQuery, watch: bool },
}

impl Outbox {
    /// Puts a numbered frame behind all others.
    pub(crate) fn push(&mut self, call: ClientCall<'static>) {
        self.backlog.push_back(Waiting::Numbered(call));
    }

    /// Puts a question behind all others. The question is not sent again after a resume.
    pub(crate) fn push_look(&mut self, look: SnapshotQuery, watch: bool) {
        self.backlog.push_back(Waiting::SnapshotQuery { look, watch });
    }

    /// Takes the next frame that may be sent now.
    pub(crate) fn next(&mut self) -> Option<ClientFrame<'static>> {
        let in_window = usize::try_from(self.transmitted - self.acknowledged).unwrap_or(usize::MAX);
        if let Some(call) = self.window.get(in_window) {
            let call = call.clone();
            return Some(self.transmit(call));
        }
        match self.backlog.front()? {
            Waiting::Numbered(_) if !self.has_space() => None,
            _ => match self.backlog.pop_front()? {
                Waiting::SnapshotQuery { look, watch: false } => Some(ClientFrame::Query(look)),
                Waiting::SnapshotQuery { look, watch: true } => Some(ClientFrame::Watch(look)),
                Waiting::Numbered(call) => {
                    self.window_bytes += weight(&call);
                    self.window.push_back(call.clone());
                    Some(self.transmit(call))
                }
            },
        }
    }

    /// Drops the frames that the server has processed.
    pub(crate) fn acknowledge(&mut self, seq: u64) -> Result<(), ProtocolViolation> {
        if seq > self.ever_transmitted {
            return Err(ProtocolViolation(format!("it acknowledged frame {seq}, which was never sent")));
        }
        while self.acknowledged < seq {
            let Some(call) = self.window.pop_front() else { break };
            self.window_bytes -= weight(&call);
            self.acknowledged += 1;
        }
        self.transmitted = self.transmitted.max(self.acknowledged);
        Ok(())
    }

    /// A new connection: the server has processed so many, and the rest of the window is to be sent again.
    pub(crate) fn resume(&mut self, received: u64) -> Result<(), ProtocolViolation> {
        self.acknowledge(received)?;
        self.transmitted = self.acknowledged;
        self.backlog.retain(|waiting| matches!(waiting, Waiting::Numbered(_)));
        Ok(())
    }

    /// Whether [`next`](Self::next) would give something.
    pub(crate) fn can_send(&self) -> bool {
        self.window.len() as u64 > self.transmitted - self.acknowledged
            || match self.backlog.front() {
                Some(Waiting::Numbered(_)) => self.has_space(),
                Some(Waiting::SnapshotQuery { .. }) => true,
                None => false,
            }
    }

    /// Whether no more requests should be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog.len() >= BACKLOG_FRAMES
    }

    /// The steals that no connection was given, so that they cannot have happened.
    pub(crate) fn unsent_steals(&self) -> HashSet<u64> {
        let sent = usize::try_from(self.ever_transmitted - self.acknowledged).unwrap_or(usize::MAX);
        let waiting = self.backlog.iter().filter_map(|waiting| match waiting {
            Waiting::Numbered(call) => Some(call),
            Waiting::SnapshotQuery { .. } => None,
        });
        let steals = self.window.iter().skip(sent).chain(waiting).filter_map(|call| match call {
            ClientCall::Request(ask) if ask.acquire == Acquire::Steal => Some(ask.id),
            _ => None,
        });
        steals.collect()
    }

    fn has_space(&self) -> bool {
        self.window.len() < WINDOW_FRAMES && self.window_bytes < WINDOW_BYTES
    }

    fn transmit(&mut self, call: ClientCall<'static>) -> ClientFrame<'static> {
        self.transmitted += 1;
        self.ever_transmitted = self.ever_transmitted.max(self.transmitted);
        ClientFrame::Numbered { seq: self.transmitted, call }
    }
}

/// About how many bytes the frame takes.
fn weight(call: &ClientCall<'_>) -> usize {
    const FIXED: usize = 64;
    FIXED
        + match call {
            ClientCall::Request(ask) => {
                ask.name.as_name().as_wtf8().len() + ask.metadata.as_ref().map_or(0, |text| text.len())
            }
            ClientCall::Join { client_id, .. } => client_id.len(),
            ClientCall::Reclaim(reclaim) => {
                reclaim.name.as_name().as_wtf8().len()
                    + reclaim.metadata.as_ref().map_or(0, |text| text.len())
            }
            ClientCall::Leave { .. }
            | ClientCall::Reclaimed
            | ClientCall::Abort { .. }
            | ClientCall::Release { .. } => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::{Mode, NameBuf};
    use lockhouse_wire::WebLockRequest;

    fn ask(id: u64, acquire: Acquire) -> ClientCall<'static> {
        let name = NameBuf::new("n").unwrap();
        ClientCall::Request(WebLockRequest { id, agent: 1, name, acquire, metadata: None, max_hold_ms: None })
    }

    fn sent(outbox: &mut Outbox) -> Vec<u64> {
        let frames = std::iter::from_fn(|| outbox.next());
        let numbered = frames.filter_map(|frame| match frame {
            ClientFrame::Numbered { seq, .. } => Some(seq),
            _ => None,
        });
        numbered.collect()
    }

    #[test]
    fn a_resume_sends_what_was_not_processed_again_under_the_old_numbers() {
        let mut outbox = Outbox::default();
        (1..=4).for_each(|id| outbox.push(ClientCall::Release { id, reply: false }));
        assert_eq!(sent(&mut outbox), [1, 2, 3, 4]);
        outbox.acknowledge(1).unwrap();
        outbox.push(ClientCall::Release { id: 5, reply: false });
        outbox.resume(2).unwrap();
        assert_eq!(sent(&mut outbox), [3, 4, 5]);
        assert!(outbox.acknowledge(6).is_err(), "never sent");
        outbox.acknowledge(5).unwrap();
        assert_eq!((outbox.window.len(), outbox.window_bytes), (0, 0));
    }

    #[test]
    fn what_exceeds_the_window_waits_for_an_acknowledgement() {
        let mut outbox = Outbox::default();
        (1..=5000).for_each(|id| outbox.push(ClientCall::Release { id, reply: false }));
        assert_eq!(sent(&mut outbox).len(), WINDOW_FRAMES);
        outbox.acknowledge(10).unwrap();
        assert_eq!(sent(&mut outbox), (4097..=4106).collect::<Vec<_>>());
    }

    #[test]
    fn questions_keep_their_place_and_are_dropped_by_a_resume() {
        let mut outbox = Outbox::default();
        let look = |id| SnapshotQuery { id, detail: true, name: None };
        outbox.push(ClientCall::Release { id: 1, reply: false });
        outbox.push_look(look(2), false);
        outbox.push(ClientCall::Release { id: 1, reply: true });
        assert!(matches!(outbox.next(), Some(ClientFrame::Numbered { seq: 1, .. })));
        assert_eq!(outbox.next(), Some(ClientFrame::Query(look(2))));
        outbox.push_look(look(3), true);
        outbox.resume(0).unwrap();
        assert_eq!(sent(&mut outbox), [1, 2]);
        assert!(outbox.next().is_none());
    }

    #[test]
    fn only_steals_that_no_connection_was_given_are_known_not_to_have_happened() {
        let mut outbox = Outbox::default();
        outbox.push(ask(1, Acquire::Steal));
        assert!(outbox.next().is_some());
        outbox.resume(0).unwrap();
        outbox.push(ask(2, Acquire::Wait(Mode::Exclusive)));
        outbox.push(ask(3, Acquire::Steal));
        assert_eq!(outbox.unsent_steals(), HashSet::from([3]));
    }
}
