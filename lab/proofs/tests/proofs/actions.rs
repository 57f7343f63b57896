//! The actions of the small worlds, each in one byte.

use std::fmt::Debug;

use proofs::model::ActionCode;
use proofs::model::action::{AGENTS, Action, KINDS, NAMES};
use proofs::model::offline::action as offline;

fn survive_their_bytes<A>(actions: impl IntoIterator<Item = A>)
where
    A: Copy + Debug + PartialEq + From<ActionCode> + Into<ActionCode>,
{
    let mut seen = Vec::new();
    for action in actions {
        let code: ActionCode = action.into();
        assert_eq!(A::from(code), action);
        assert!(code != ActionCode::NONE && !seen.contains(&code), "{action:?} shares its code");
        seen.push(code);
    }
}

#[test]
fn every_action_on_web_locks_survives_its_byte() {
    let requests = (0..AGENTS).flat_map(|agent| (0..NAMES.len()).map(move |name| (agent, name)));
    let requests = requests
        .flat_map(|(agent, name)| (0..KINDS.len()).map(move |kind| Action::Request { agent, name, kind }));
    let agents = (0..AGENTS)
        .flat_map(|agent| [Action::Join { agent }, Action::End { agent }, Action::Renew { agent }]);
    let finishes = (0..100).map(|request| Action::Finish { request });
    survive_their_bytes(requests.chain(agents).chain(finishes).chain([Action::Tick]));
}

#[test]
fn every_action_on_owners_and_claims_survives_its_byte() {
    let finishes = (0..100).map(|request| offline::Action::Finish { request });
    survive_their_bytes(offline::all().into_iter().chain(finishes));
}
