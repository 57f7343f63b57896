//! Failovers: what they may undo, each time one of several things that the same history has.

use super::{folder, lines};
use proofs::history::breach::Kind;
use proofs::history::record::{Event, What};
use proofs::history::{judge, read};

/// The history of `good-failed-over.jsonl` with another event of the failover, and what the judge finds in
/// it.
fn judged(change: impl Fn(u64, &mut What)) -> (usize, usize, String) {
    let text = std::fs::read_to_string(folder().join("good-failed-over.jsonl")).unwrap();
    let events = text.lines().enumerate().map(|(index, line)| read::event(index + 1, line).unwrap());
    let changed = events.map(|mut event: Event| {
        change(event.at, &mut event.what);
        event
    });
    let findings = judge(&*lines(&changed.collect::<Vec<_>>())).unwrap();
    let accounts: Vec<&str> = findings.breaches.iter().map(|breach| breach.account.as_str()).collect();
    (findings.count(Kind::Lost), findings.count(Kind::Overlap), accounts.join("\n"))
}

#[test]
fn what_was_acknowledged_before_it_may_not_be_undone() {
    let (lost, overlaps, accounts) = judged(|at, what| {
        if let What::FailedOver { from, .. } = what {
            *from = at;
        }
    });
    assert_eq!((lost, overlaps), (9, 1), "{accounts}");
    for part in [
        "owner \"o2\" is gone",
        "claim of \"ann\" with token 1 is back after its end was acknowledged",
        "claim of \"ann\" with token 2 is back after its end was acknowledged",
        "offline lock of owner \"o1\" with token 3 is back after its end was acknowledged",
        "assignment to \"ann\" with token 4 is back after its end was acknowledged",
        "claim of \"eve\" with token 5, certain",
        "offline lock of owner \"o2\" with token 7, certain",
        "claim of \"bob\" with token 10, certain",
    ] {
        assert!(accounts.contains(part), "{part:?} is not in\n{accounts}");
    }
}

#[test]
fn what_is_said_after_the_last_server_of_before_is_silent_may_not_be_undone() {
    let (lost, overlaps, accounts) = judged(|at, what| {
        if let What::FailedOver { until, .. } = what {
            *until = at;
        }
    });
    assert_eq!((lost, overlaps), (1, 0), "{accounts}");
    assert!(accounts.contains("assignment to \"ann\" with token 2"), "{accounts}");
}
