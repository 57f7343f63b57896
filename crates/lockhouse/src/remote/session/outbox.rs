//! The frames of one session on their way out.

use std::collections::{HashSet, VecDeque};

use lockhouse_core::Acquire;
use lockhouse_wire::{ClientCall, ClientFrame, FRAME_WEIGHT, SnapshotQuery};

use super::breach::ProtocolViolation;

/// With so many frames waiting for the window, no request is taken any more; calls that end requests still
/// are.
pub(crate) const BACKLOG_FRAMES: usize = 262_144;

/// Frames under way (the window, which a resume sends again), and behind them, in order, those that wait for
/// space in it.
///
/// The window has as many bytes as the server reads ahead of what it carries out. More of them would keep it
/// from the pongs behind them, and so end the lease.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Numbered frames under way, with their weights. The first of them has the number `acknowledged + 1`.
    window: VecDeque<(ClientCall<'static>, usize)>,
    /// Questions under way, by growing ids.
    looks: VecDeque<SentLook>,
    /// The weights of all that is under way, and the most that they may be.
    under_way: usize,
    most: usize,
    acknowledged: u64,
    /// The highest number that the present connection, or the server, was given.
    transmitted: u64,
    /// The highest number that any connection was given.
    ever_transmitted: u64,
    backlog: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    frame: WaitingFrame,
    weight: usize,
}

#[derive(Debug)]
enum WaitingFrame {
    Numbered(ClientCall<'static>),
    SnapshotQuery { look: SnapshotQuery, watch: bool },
}

/// A question under way: the server has carried it out once it answers it, or acknowledges a frame behind it.
#[derive(Debug)]
struct SentLook {
    id: u64,
    /// The number of the last frame before it.
    behind: u64,
    weight: usize,
}

impl Outbox {
    /// An outbox with a window of so many bytes.
    pub(crate) fn new(window_bytes: u64) -> Self {
        let mut outbox = Self::default();
        outbox.set_window(window_bytes);
        outbox
    }

    /// Puts a numbered frame behind all others.
    pub(crate) fn push(&mut self, call: ClientCall<'static>) {
        let weight = weight(&call);
        self.backlog.push_back(Waiting { frame: WaitingFrame::Numbered(call), weight });
    }

    /// Puts a question behind all others. The question is not sent again after a resume.
    pub(crate) fn push_look(&mut self, look: SnapshotQuery, watch: bool) {
        let weight = weight_of_look(&look);
        self.backlog.push_back(Waiting { frame: WaitingFrame::SnapshotQuery { look, watch }, weight });
    }

    /// Takes the next frame that may be sent now.
    pub(crate) fn next(&mut self) -> Option<ClientFrame<'static>> {
        let in_window = usize::try_from(self.transmitted - self.acknowledged).unwrap_or(usize::MAX);
        if let Some((call, _)) = self.window.get(in_window) {
            let call = call.clone();
            return Some(self.transmit(call));
        }
        if !self.has_space() {
            return None;
        }
        let Waiting { frame, weight } = self.backlog.pop_front()?;
        self.under_way += weight;
        match frame {
            WaitingFrame::Numbered(call) => {
                self.window.push_back((call.clone(), weight));
                Some(self.transmit(call))
            }
            WaitingFrame::SnapshotQuery { look, watch } => {
                self.looks.push_back(SentLook { id: look.id, behind: self.transmitted, weight });
                Some(if watch { ClientFrame::Watch(look) } else { ClientFrame::Query(look) })
            }
        }
    }

    /// Drops the frames that the server has processed.
    pub(crate) fn acknowledge(&mut self, seq: u64) -> Result<(), ProtocolViolation> {
        if seq > self.ever_transmitted {
            return Err(ProtocolViolation(format!("it acknowledged frame {seq}, which was never sent")));
        }
        while self.acknowledged < seq {
            let Some((_, weight)) = self.window.pop_front() else { break };
            self.under_way -= weight;
            self.acknowledged += 1;
        }
        self.transmitted = self.transmitted.max(self.acknowledged);
        let carried_out = self.looks.partition_point(|look| look.behind < self.acknowledged);
        self.forget_looks(carried_out);
        Ok(())
    }

    /// The server has answered the question with this id, if there is one, and so has carried out those
    /// before it.
    pub(crate) fn answered(&mut self, id: u64) {
        if let Ok(at) = self.looks.binary_search_by_key(&id, |look| look.id) {
            self.forget_looks(at + 1);
        }
    }

    /// A new connection: the server has processed so many, and the rest of the window is to be sent again.
    pub(crate) fn resume(&mut self, received: u64, window_bytes: u64) -> Result<(), ProtocolViolation> {
        self.acknowledge(received)?;
        self.transmitted = self.acknowledged;
        self.forget_looks(self.looks.len());
        self.backlog.retain(|waiting| matches!(waiting.frame, WaitingFrame::Numbered(_)));
        self.set_window(window_bytes);
        Ok(())
    }

    /// Whether [`next`](Self::next) would give something.
    pub(crate) fn can_send(&self) -> bool {
        self.window.len() as u64 > self.transmitted - self.acknowledged || self.has_space()
    }

    /// Whether no more requests should be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog.len() >= BACKLOG_FRAMES
    }

    /// The steals that no connection was given, so that they cannot have happened.
    pub(crate) fn unsent_steals(&self) -> HashSet<u64> {
        let sent = usize::try_from(self.ever_transmitted - self.acknowledged).unwrap_or(usize::MAX);
        let waiting = self.backlog.iter().filter_map(|waiting| match &waiting.frame {
            WaitingFrame::Numbered(call) => Some(call),
            WaitingFrame::SnapshotQuery { .. } => None,
        });
        let window = self.window.iter().skip(sent).map(|(call, _)| call);
        let steals = window.chain(waiting).filter_map(|call| match call {
            ClientCall::Request(ask) if ask.acquire == Acquire::Steal => Some(ask.id),
            _ => None,
        });
        steals.collect()
    }

    fn set_window(&mut self, bytes: u64) {
        self.most = usize::try_from(bytes).unwrap_or(usize::MAX);
    }

    /// Drops so many questions, the first ones, from what is under way.
    fn forget_looks(&mut self, count: usize) {
        self.under_way -= self.looks.drain(..count).map(|look| look.weight).sum::<usize>();
    }

    /// Whether something waits that may be sent. Where nothing is under way any frame may.
    fn has_space(&self) -> bool {
        self.backlog.front().is_some_and(|waiting| {
            self.under_way == 0 || self.under_way.saturating_add(waiting.weight) <= self.most
        })
    }

    fn transmit(&mut self, call: ClientCall<'static>) -> ClientFrame<'static> {
        self.transmitted += 1;
        self.ever_transmitted = self.ever_transmitted.max(self.transmitted);
        ClientFrame::Numbered { seq: self.transmitted, call }
    }
}

/// The most bytes of the key and the value of a number.
const NUMBER: usize = 33;
/// The most bytes of what each numbered frame has: its type, number, acknowledgement and braces.
const FRAME: usize = 24 + 2 * NUMBER;

/// What the frame counts for in the window. Its text is no longer than that.
fn weight(call: &ClientCall<'_>) -> usize {
    let text = |text: &str| json_length(text.as_bytes());
    let fields = match call {
        ClientCall::Request(ask) => {
            // The mode, and whether it waits.
            const WORDS: usize = 36;
            let metadata = ask.metadata.as_ref().map_or(0, |metadata| text(metadata));
            let hold = ask.max_hold_ms.map_or(0, |_| NUMBER);
            2 * NUMBER + WORDS + json_length(ask.name.as_name().as_wtf8()) + metadata + hold
        }
        ClientCall::Reclaim(reclaim) => {
            let (name, ticket) = (reclaim.name.as_name(), text(reclaim.ticket.as_str()));
            let metadata = reclaim.metadata.as_ref().map_or(0, |metadata| text(metadata));
            // The mode is another short word.
            5 * NUMBER + json_length(name.as_wtf8()) + ticket + metadata
        }
        ClientCall::Join { client_id, .. } => NUMBER + text(client_id),
        ClientCall::Leave { .. } | ClientCall::Abort { .. } => NUMBER,
        ClientCall::Release { .. } => 2 * NUMBER,
        ClientCall::Reclaimed => 0,
    };
    FRAME_WEIGHT + FRAME + fields
}

fn weight_of_look(look: &SnapshotQuery) -> usize {
    let name = look.name.as_ref().map_or(0, |name| json_length(name.as_name().as_wtf8()));
    FRAME_WEIGHT + FRAME + 2 * NUMBER + name
}

/// The most bytes of the text as JSON, with its key. A byte 0xED may begin a lone surrogate, whose three
/// bytes are an escape of six.
fn json_length(text: &[u8]) -> usize {
    const KEY: usize = 16;
    let bytes = text.iter().map(|byte| match byte {
        ..0x20 => 6,
        b'"' | b'\\' => 2,
        0xED => 4,
        _ => 1,
    });
    KEY + bytes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::FencingToken;
    use lockhouse_core::{Mode, NameBuf};
    use lockhouse_wire::{Envelope, Reclaim, Ticket, WebLockRequest};

    const WINDOW: u64 = 196_608;

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
        let mut outbox = Outbox::new(WINDOW);
        (1..=4).for_each(|id| outbox.push(ClientCall::Release { id, reply: false }));
        assert_eq!(sent(&mut outbox), [1, 2, 3, 4]);
        outbox.acknowledge(1).unwrap();
        outbox.push(ClientCall::Release { id: 5, reply: false });
        outbox.resume(2, WINDOW).unwrap();
        assert_eq!(sent(&mut outbox), [3, 4, 5]);
        assert!(outbox.acknowledge(6).is_err(), "never sent");
        outbox.acknowledge(5).unwrap();
        assert_eq!((outbox.window.len(), outbox.under_way), (0, 0));
    }

    #[test]
    fn what_exceeds_the_window_waits_for_an_acknowledgement() {
        let mut outbox = Outbox::new(WINDOW);
        (1..=5000).for_each(|id| outbox.push(ClientCall::Release { id, reply: false }));
        let most = sent(&mut outbox).len() as u64;
        assert!((500..=WINDOW / FRAME_WEIGHT as u64).contains(&most), "{most}");
        assert!(!outbox.can_send());
        outbox.acknowledge(10).unwrap();
        assert!(outbox.can_send());
        assert_eq!(sent(&mut outbox), (most + 1..=most + 10).collect::<Vec<_>>());
    }

    #[test]
    fn questions_are_in_the_window_until_the_server_has_carried_them_out() {
        let mut outbox = Outbox::new(WINDOW);
        let frames = |outbox: &mut Outbox| std::iter::from_fn(|| outbox.next()).count() as u64;
        (1..=5000).for_each(|id| outbox.push_look(SnapshotQuery { id, detail: true, name: None }, id == 1));
        let most = frames(&mut outbox);
        assert!(most < WINDOW / FRAME_WEIGHT as u64, "{most}");
        // The answer to a question shows that those before it are carried out.
        outbox.answered(10);
        outbox.answered(10);
        assert_eq!(frames(&mut outbox), 10);
        outbox.answered(5000);
        assert_eq!(frames(&mut outbox), 0, "that one was not sent");
        // So does the acknowledgement of a frame behind it.
        outbox.resume(0, WINDOW).unwrap();
        assert_eq!((outbox.looks.len(), outbox.under_way), (0, 0));
        outbox.push_look(SnapshotQuery { id: 5001, detail: true, name: None }, true);
        outbox.push(ClientCall::Abort { id: 5001 });
        assert_eq!(frames(&mut outbox), 2);
        outbox.acknowledge(1).unwrap();
        assert_eq!((outbox.looks.len(), outbox.under_way), (0, 0));
    }

    #[test]
    fn a_frame_longer_than_the_window_goes_alone() {
        let mut outbox = Outbox::new(1);
        (1..=2).for_each(|id| outbox.push(ClientCall::Release { id, reply: false }));
        assert_eq!(sent(&mut outbox), [1]);
        outbox.acknowledge(1).unwrap();
        assert_eq!(sent(&mut outbox), [2]);
    }

    #[test]
    fn no_frame_is_longer_than_it_weighs() {
        const MOST: u64 = (1 << 53) - 1;
        let units: Vec<u16> = [0xD800, 0xDC01, 0xED, 0x1F, 0x22, 0x5C, 0xDFFF, 0xAC00, 0x41].repeat(9);
        let name = NameBuf::from_units(&units).unwrap();
        let text = "\u{1}\"\\\n\u{D7FF}é😀x".repeat(9);
        let request = |acquire| WebLockRequest {
            id: MOST,
            agent: MOST,
            name: name.clone(),
            acquire,
            metadata: Some(text.clone().into()),
            max_hold_ms: Some(MOST),
        };
        let reclaim = Reclaim {
            id: MOST,
            agent: MOST,
            name: name.clone(),
            mode: Mode::Shared,
            metadata: Some(text.clone().into()),
            max_hold_ms: Some(MOST),
            token: FencingToken::new(MOST),
            ticket: Ticket::new("t".repeat(128)),
        };
        for call in [
            ClientCall::Join { agent: MOST, client_id: text.clone().into() },
            ClientCall::Leave { agent: MOST },
            ClientCall::Request(request(Acquire::IfAvailable(Mode::Shared))),
            ClientCall::Request(request(Acquire::Steal)),
            ClientCall::Reclaim(reclaim),
            ClientCall::Reclaimed,
            ClientCall::Abort { id: MOST },
            ClientCall::Release { id: MOST, reply: true },
        ] {
            let weight = weight(&call);
            let text = Envelope { ack: MOST, frame: ClientFrame::Numbered { seq: MOST, call } }.to_text();
            assert!(text.len() + FRAME_WEIGHT <= weight, "{} bytes weigh {weight}: {text}", text.len());
        }
        let look = SnapshotQuery { id: MOST, detail: true, name: Some(name) };
        let weight = weight_of_look(&look);
        let text = Envelope { ack: MOST, frame: ClientFrame::Query(look) }.to_text();
        assert!(text.len() + FRAME_WEIGHT <= weight, "{} bytes weigh {weight}: {text}", text.len());
    }

    #[test]
    fn questions_keep_their_place_and_are_dropped_by_a_resume() {
        let mut outbox = Outbox::new(WINDOW);
        let look = |id| SnapshotQuery { id, detail: true, name: None };
        outbox.push(ClientCall::Release { id: 1, reply: false });
        outbox.push_look(look(2), false);
        outbox.push(ClientCall::Release { id: 1, reply: true });
        assert!(matches!(outbox.next(), Some(ClientFrame::Numbered { seq: 1, .. })));
        assert_eq!(outbox.next(), Some(ClientFrame::Query(look(2))));
        outbox.push_look(look(3), true);
        outbox.resume(0, WINDOW).unwrap();
        assert_eq!(sent(&mut outbox), [1, 2]);
        assert!(outbox.next().is_none());
    }

    #[test]
    fn only_steals_that_no_connection_was_given_are_known_not_to_have_happened() {
        let mut outbox = Outbox::new(WINDOW);
        outbox.push(ask(1, Acquire::Steal));
        assert!(outbox.next().is_some());
        outbox.resume(0, WINDOW).unwrap();
        outbox.push(ask(2, Acquire::Wait(Mode::Exclusive)));
        outbox.push(ask(3, Acquire::Steal));
        assert_eq!(outbox.unsent_steals(), HashSet::from([3]));
    }
}
