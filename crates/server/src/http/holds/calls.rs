//! The call that breaks holds.

use std::sync::Arc;

use futures_util::future::join_all;
use lockhouse::{BreakError, BucketKey, FencingToken, StoreError};

use super::bodies::{BrokenHold, BrokenHolds, GoneHold, HoldsToBreak};
use crate::audit::{self, AuditEvent, DisplayName};
use crate::http::calls::{bucket, charge_locks};
use crate::http::dto::{Holder, JsonName};
use crate::http::problem::{Code, Problem};
use crate::http::request::asker::Asker;
use crate::http::request::constraints::LABEL;
use crate::http::request::decode::ApiResult;
use crate::settings::BreakReason;
use crate::state::AppState;

/// Breaks the holds, all of them at once, and notes each that is broken or may be. If one of them cannot be
/// broken, the outcome of all is told as unknown once any was.
pub(crate) async fn break_holds(
    state: Arc<AppState>,
    key: Arc<BucketKey>,
    asked: HoldsToBreak,
    asker: Asker,
) -> ApiResult<BrokenHolds> {
    let reason = asked.reason.as_deref().filter(|reason| !reason.trim().is_empty());
    if reason.is_none() && state.config.break_reason == BreakReason::Required {
        let rule = "there, and say why: the settings of this server ask for it";
        return Err(Problem::field(Code::Invalid, "reason", rule));
    }
    let bucket = bucket(&state, &key)?;
    charge_locks(&state, &key, asked.holds.len())?;
    let operator = shortened(&asker.caller.identity.name);
    let breaks = asked
        .holds
        .iter()
        .map(|hold| bucket.break_hold(hold.name.as_name(), FencingToken::new(hold.token), operator, reason));
    let outcomes = join_all(breaks).await;
    let mut answer = BrokenHolds { broken: Vec::new(), gone: Vec::new() };
    let (mut failed, mut is_unknown) = (None, false);
    for (hold, outcome) in asked.holds.into_iter().zip(outcomes) {
        let event = AuditEvent {
            who: Some(&asker.caller.identity),
            what: "break",
            bucket: &key.bucket,
            name: Some(&DisplayName(hold.name.as_name())),
        };
        match outcome {
            Ok(Some(holder)) => {
                audit::note(asker.from, &event, Some((1, &holder.client_id)), reason);
                let (fencing_token, holder) = (hold.token, Holder::from(holder));
                answer.broken.push(BrokenHold { name: JsonName(hold.name), fencing_token, holder });
            }
            Ok(None) => {
                answer.gone.push(GoneHold { name: JsonName(hold.name), fencing_token: hold.token });
            }
            Err(error) => {
                if matches!(error, BreakError::Store(StoreError::OutcomeUnknown { .. })) {
                    audit::note(asker.from, &event, None, Some("the outcome is unknown"));
                    is_unknown = true;
                }
                failed = Some(error);
            }
        }
    }
    match failed {
        None => Ok(answer),
        Some(error) if answer.broken.is_empty() && !is_unknown => Err(error.into()),
        Some(error) => {
            let why = format!("{} of the holds are broken, and then: {error}", answer.broken.len());
            Err(Problem::answer_lost(&why, true))
        }
    }
}

/// As much of the operator's name as the history keeps.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(LABEL.most)]
}
