//! The fence: what passes it, and in which order.

use proofs::history::breach::Kind;
use proofs::history::judge_events;
use proofs::history::record::{Completion, Event, Gain, Invocation, Mode, Reason, What};

/// Lines of two clients: `c1` has the lock with token 1, then `c2` with token 2.
struct Lines(Vec<Event>);

impl Lines {
    fn new(modes: [Mode; 2]) -> Self {
        let mut lines = Self(Vec::new());
        for (token, mode) in (1..).zip(modes) {
            let client = format!("c{token}");
            let call =
                Invocation::Request { name: "job".to_owned(), mode, steal: token == 2, max_hold_ms: None };
            lines.invoke(&client, 1, call);
            lines.answer(&client, 1, ok(Some(token)));
        }
        lines
    }

    fn push(&mut self, what: What) {
        self.0.push(Event { at: self.0.len() as u64, what });
    }

    fn invoke(&mut self, client: &str, op: u64, call: Invocation) {
        self.push(What::Invoke { client: client.to_owned(), op, bucket: "b".to_owned(), call });
    }

    fn answer(&mut self, client: &str, op: u64, answer: Completion) {
        self.push(What::Answer { client: client.to_owned(), op, answer });
    }

    fn pass(&mut self, client: &str, op: u64, answer: Completion) {
        self.invoke(client, op, Invocation::Pass { of: 1 });
        self.answer(client, op, answer);
    }

    fn breaches(self) -> (usize, usize) {
        let findings = judge_events(self.0).unwrap();
        (findings.count(Kind::OverlapPastFence), findings.breaches.len())
    }
}

fn ok(token: Option<u64>) -> Completion {
    Completion::Ok { durable: false, gain: Gain { token, ..Gain::default() } }
}

const STALE: Completion = Completion::Refused { reason: Reason::Stale, token: None, claimant: None };

#[test]
fn an_older_holder_that_passes_after_a_newer_one_is_a_breach() {
    for modes in
        [[Mode::Exclusive, Mode::Exclusive], [Mode::Shared, Mode::Exclusive], [Mode::Exclusive, Mode::Shared]]
    {
        let mut lines = Lines::new(modes);
        lines.pass("c1", 2, ok(None));
        lines.pass("c2", 2, ok(None));
        lines.pass("c1", 3, ok(None));
        assert_eq!(lines.breaches(), (1, 1), "{modes:?}");
    }
}

#[test]
fn an_older_holder_that_is_refused_is_none() {
    let mut lines = Lines::new([Mode::Exclusive, Mode::Exclusive]);
    lines.pass("c2", 2, ok(None));
    lines.pass("c1", 2, STALE);
    lines.pass("c1", 3, Completion::Unknown);
    assert_eq!(lines.breaches(), (0, 0));
}

#[test]
fn shared_holders_do_not_shut_each_other_out() {
    let mut lines = Lines::new([Mode::Shared, Mode::Shared]);
    lines.pass("c2", 2, ok(None));
    lines.pass("c1", 2, ok(None));
    assert_eq!(lines.breaches(), (0, 0));
}

#[test]
fn passes_at_the_same_time_are_in_no_order() {
    let mut lines = Lines::new([Mode::Exclusive, Mode::Exclusive]);
    lines.invoke("c1", 2, Invocation::Pass { of: 1 });
    lines.pass("c2", 2, ok(None));
    lines.answer("c1", 2, ok(None));
    assert_eq!(lines.breaches(), (0, 0));
}
