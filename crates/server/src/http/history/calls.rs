//! The API's call about the history.

use std::time::Duration;

use lockhouse::BucketKey;
use lockhouse::fleet::BucketPlace;
use lockhouse::store::HistoryError;
use tokio::time::timeout;

use super::bodies::{Ended, HistoryAnswer, Question};
use crate::bounds::HISTORY_STEPS;
use crate::http::access::charge_more;
use crate::http::dto::JsonAnswer;
use crate::http::problem::{Code, Problem};
use crate::http::query::snapshot::json_answer;
use crate::http::request::decode::ApiResult;
use crate::state::AppState;

/// A page of the history of a bucket, which need not be in use. Between the steps of the search others may
/// use the store.
pub(crate) async fn history(state: &AppState, key: &BucketKey, question: Question) -> ApiResult<JsonAnswer> {
    let BucketPlace::Here(house) = state.houses.find(key) else { return Err(Problem::moving()) };
    let Question { filter, before, limit } = question;
    let mut answer = HistoryAnswer { entries: Vec::new(), next: None };
    let mut before = before;
    let turn = timeout(state.config.store_timeout, state.history_turns.turn(key.tenant())).await;
    let _turn = turn.ok().flatten().ok_or_else(|| {
        let why = "others look at the history: one caller of each tenant does at a time";
        Problem::new(Code::Overloaded, why).retry_after(Duration::from_secs(1))
    })?;
    for step in 0..HISTORY_STEPS {
        if step > 0 && charge_more(state, key.tenant(), 1).is_err() {
            // What was found is answered; the caller goes on from there later.
            break;
        }
        let left = limit - answer.entries.len();
        let page = house.history(key, before, left, filter.clone()).await?;
        answer.entries.extend(page.entries.into_iter().map(Ended::from));
        answer.next = page.next.map(|next| next.to_string());
        before = page.next;
        if page.next.is_none() || answer.entries.len() == limit {
            break;
        }
    }
    json_answer(state, key.tenant(), &answer)
}

impl From<HistoryError> for Box<Problem> {
    fn from(error: HistoryError) -> Self {
        let code = match &error {
            HistoryError::Unavailable(_) | HistoryError::Fatal(_) => Code::Unavailable,
            HistoryError::Unreadable(_) => Code::Internal,
        };
        let problem = Problem::new(code, error.to_string());
        if code == Code::Unavailable { problem.retry_after(Duration::from_secs(1)) } else { problem }
    }
}
