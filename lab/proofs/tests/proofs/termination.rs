//! Termination to the letter, against the way in which it is carried out.

use foldhash::fast::FixedState;
use lockhouse_core::{
    Acquire, AgentId, Command, Grant, Instant, Limits, LockManager, Mode, Name, NameBuf, NewAgent,
    NewRequest, Outcome, RequestId,
};
use proofs::oracle::literal::{Fresh, Literal};
use random::Random;

const NOW: Instant = Instant::from_millis(0);

/// Section 2.6 to the letter: first each request is aborted, then each lock released, each with its
/// processing.
fn end_to_the_letter(literal: &mut Literal, agent: AgentId) {
    let own = literal.requests_of(agent);
    for request in literal.pending().into_iter().filter(|request| own.contains(request)) {
        literal.abort_by_id(NOW, request);
    }
    for (lock, _) in literal.held().into_iter().filter(|(lock, _)| own.contains(lock)) {
        literal.release_by_id(NOW, lock);
    }
    literal.forget(agent);
}

/// The holders, and the waiters in the order of their queues, without tokens.
fn state(literal: &Literal) -> (Vec<RequestId>, Vec<(RequestId, Option<NameBuf>)>) {
    let mut held: Vec<RequestId> = literal.held().into_iter().map(|(lock, _)| lock).collect();
    held.sort();
    let pending = literal.pending().into_iter();
    (held, pending.map(|request| (request, literal.waits_for(request))).collect())
}

/// Identities to give away, and a manager with three agents and random requests.
fn crowd(random: &mut Random) -> (Literal, Vec<AgentId>) {
    let mut ids = LockManager::new(FixedState::default());
    let mut literal = Literal::new(Limits::DEFAULT, 0);
    let agents: Vec<AgentId> = (0..3)
        .map(|_| {
            let join = Command::Join(NewAgent::new("agent"));
            let Outcome::Joined(agent) = ids.handle(NOW, join) else { panic!("no agent") };
            literal.handle(NOW.into(), join, Fresh { agent: Some(agent), request: None }).unwrap();
            agent
        })
        .collect();
    for _ in 0..random.below(14) {
        let mode = if random.percent(60) { Mode::Shared } else { Mode::Exclusive };
        let name = Name::new(["a", "b"][random.below(2)]).unwrap();
        let ask = NewRequest::new(agents[random.below(3)], name, Acquire::Wait(mode));
        let (Outcome::Granted(Grant { request, .. }) | Outcome::Queued(request)) =
            ids.handle(NOW, Command::Request(ask))
        else {
            panic!("refused")
        };
        literal
            .handle(NOW.into(), Command::Request(ask), Fresh { agent: None, request: Some(request) })
            .unwrap();
    }
    (literal, agents)
}

#[test]
fn removing_all_before_processing_ends_as_termination_to_the_letter_does() {
    let mut random = Random::new(7);
    let mut own_grants = 0;
    for _ in 0..20_000 {
        let (literal, agents) = crowd(&mut random);
        let (mut ours, mut letter) = (literal.clone(), literal);
        ours.end(NOW, agents[0]);
        end_to_the_letter(&mut letter, agents[0]);
        assert_eq!(state(&ours), state(&letter));
        own_grants += usize::from(ours.last_token() != letter.last_token());
    }
    assert!(own_grants > 100, "the two ways differed in the grants of only {own_grants} worlds");
}
