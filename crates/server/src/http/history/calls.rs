//! The API's call about the history.

use std::collections::VecDeque;
use std::time::Duration;

use lockhouse::core::Instant;
use lockhouse::fleet::BucketPlace;
use lockhouse::store::{HistoryError, HistoryFilter, HistoryKind};
use lockhouse::{BucketKey, EventPosition, House, WebHistoryEntry, WebHistoryPage};
use tokio::time::timeout;

use super::bodies::{Ended, HistoryAnswer, HistoryCursor, Question, Rest};
use crate::bounds::HISTORY_STEPS;
use crate::http::access::charge_more;
use crate::http::dto::JsonAnswer;
use crate::http::problem::{Code, Problem};
use crate::http::query::snapshot::json_answer;
use crate::http::request::decode::ApiResult;
use crate::state::AppState;

/// A page of the history of a bucket, which need not be in use: what the store has, and the web locks, the
/// latest first. Between the steps of the search others may use the store.
pub(crate) async fn history(state: &AppState, key: &BucketKey, question: Question) -> ApiResult<JsonAnswer> {
    let BucketPlace::Here(house) = state.houses.find(key) else { return Err(Problem::moving()) };
    let Question { filter, mut cursor, limit } = question;
    // Without a kind both are meant.
    let (is_web, is_stored) =
        (filter.kind.is_none_or(|kind| kind == HistoryKind::Web), filter.kind != Some(HistoryKind::Web));
    let mut page = WebHistoryPage::default();
    if is_web && !cursor.web.is_over() {
        let before = cursor.web.before().map(|number| EventPosition { epoch: cursor.epoch, number });
        page = house.web_history(key, before, limit, &filter);
        if let Some(first) = page.entries.first() {
            // What ends after the first page has begun is on none of its pages.
            (cursor.epoch, cursor.web) = (first.position.epoch, Rest::Below(first.position.number + 1));
        }
    }
    if !is_stored {
        cursor.stored = Rest::Nothing;
    }
    let WebHistoryPage { entries, has_more } = page;
    let (web, is_cut) = (VecDeque::from(entries), false);
    let mut merge = Merge { entries: Vec::new(), cursor, limit, web, has_more, is_cut };
    if !cursor.stored.is_over() {
        merge_stored(state, key, &house, &filter, &mut merge).await?;
    }
    merge.take_web_after(None);
    json_answer(state, key.tenant(), &merge.answer())
}

async fn merge_stored(
    state: &AppState,
    key: &BucketKey,
    house: &House,
    filter: &HistoryFilter,
    merge: &mut Merge,
) -> ApiResult<()> {
    let turn = timeout(state.config.store_timeout, state.history_turns.turn(key.tenant())).await;
    let _turn = turn.ok().flatten().ok_or_else(|| {
        let why = "others look at the history: one caller of each tenant does at a time";
        Problem::new(Code::Overloaded, why).retry_after(Duration::from_secs(1))
    })?;
    for step in 0..HISTORY_STEPS {
        if step > 0 && charge_more(state, key.tenant(), 1).is_err() {
            // What was found is answered; the caller goes on from there later.
            merge.is_cut = true;
            return Ok(());
        }
        let left = merge.limit - merge.entries.len();
        let page = house.history(key, merge.cursor.stored.before(), left, filter.clone()).await?;
        for entry in page.entries {
            merge.take_web_after(Some(entry.at));
            if merge.is_full() {
                return Ok(());
            }
            merge.cursor.stored = Rest::Below(entry.seq);
            merge.entries.push(Ended::from(entry));
        }
        merge.cursor.stored = page.next.map_or(Rest::Nothing, Rest::Below);
        if page.next.is_none() || merge.is_full() {
            return Ok(());
        }
    }
    merge.is_cut = true;
    Ok(())
}

/// A page that is made of two histories, each in its own order.
struct Merge {
    entries: Vec<Ended>,
    cursor: HistoryCursor,
    limit: usize,
    web: VecDeque<WebHistoryEntry>,
    /// There are more web locks than those.
    has_more: bool,
    /// The store has more that was not looked at: web locks that are older may be behind some of that.
    is_cut: bool,
}

impl Merge {
    fn is_full(&self) -> bool {
        self.entries.len() == self.limit
    }

    /// Takes the web locks that ended after that instant; without one all, unless the store has more.
    fn take_web_after(&mut self, at: Option<Instant>) {
        if at.is_none() && self.is_cut {
            return;
        }
        while let Some(next) = self.web.front()
            && at.is_none_or(|at| next.entry.at > at)
            && !self.is_full()
            && let Some(WebHistoryEntry { position, entry }) = self.web.pop_front()
        {
            (self.cursor.epoch, self.cursor.web) = (position.epoch, Rest::Below(position.number));
            self.entries.push(Ended::from(entry));
        }
    }

    fn answer(self) -> HistoryAnswer {
        let Self { entries, mut cursor, .. } = self;
        if self.web.is_empty() && !self.has_more {
            cursor.web = Rest::Nothing;
        }
        let is_over = cursor.stored.is_over() && cursor.web.is_over();
        HistoryAnswer { entries, next: (!is_over).then(|| cursor.to_string()) }
    }
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
