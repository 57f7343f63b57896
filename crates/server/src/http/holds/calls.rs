//! The call that breaks holds.

use lockhouse::{BreakError, BucketKey, FencingToken};

use super::bodies::{BrokenHold, BrokenHolds, GoneHold, HoldsToBreak};
use crate::audit::{self, AuditEvent, DisplayName};
use crate::http::calls::{bucket, charge_locks};
use crate::http::dto::{Holder, JsonName};
use crate::http::problem::Problem;
use crate::http::request::asker::Asker;
use crate::http::request::decode::ApiResult;
use crate::state::AppState;

/// Breaks the holds one after the other. Each is noted once it is broken; if the store fails in between,
/// those before it are broken, and to ask again breaks only the rest.
pub(crate) async fn break_holds(
    state: &AppState,
    key: &BucketKey,
    asked: HoldsToBreak,
    asker: &Asker,
) -> ApiResult<BrokenHolds> {
    let bucket = bucket(state, key)?;
    charge_locks(state, key, asked.holds.len())?;
    let identity = &asker.caller.identity;
    let reason = asked.reason.filter(|reason| !reason.is_empty());
    let mut answer = BrokenHolds { broken: Vec::new(), gone: Vec::new() };
    for hold in asked.holds {
        let (token, name) = (FencingToken::new(hold.token), hold.name.as_name());
        let broken = bucket.break_hold(name, token, &identity.name, reason.as_deref()).await;
        match broken.map_err(|error| of_the_rest(error, answer.broken.len()))? {
            Some(holder) => {
                let event = AuditEvent {
                    who: Some(identity),
                    what: "break",
                    bucket: &key.bucket,
                    name: Some(&DisplayName(name)),
                };
                audit::note(asker.from, &event, Some((1, &holder.client_id)), reason.as_deref());
                answer.broken.push(BrokenHold {
                    name: JsonName(hold.name),
                    fencing_token: hold.token,
                    holder: Holder::from(holder),
                });
            }
            None => answer.gone.push(GoneHold { name: JsonName(hold.name), fencing_token: hold.token }),
        }
    }
    Ok(answer)
}

/// Why the rest was not broken. Once one was, the call has changed something.
fn of_the_rest(error: BreakError, broken: usize) -> Box<Problem> {
    if broken == 0 {
        return error.into();
    }
    Problem::answer_lost(&format!("{broken} of the holds are broken, and then: {error}"), true)
}
