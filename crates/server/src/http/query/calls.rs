//! The API's calls about all that is held, pending and assigned.

use lockhouse::{AssignmentQuestion, Bucket, BucketKey};
use tokio::task::yield_now;

use super::entry::Entry;
use super::filter::Filter;
use super::page::{Cut, EntryPage, EntrySort, Gathering, Position};
use super::snapshot::{QuerySnapshot, charge, json_answer, look, look_at_name};
use crate::bounds::ASSIGNMENTS_AT_ONCE;
use crate::http::calls::bucket;
use crate::http::dto::JsonAnswer;
use crate::http::request::decode::ApiResult;
use crate::limits::{block_in_place_if_large, price_of_query};
use crate::state::AppState;

/// A page of the names that are held, pending and assigned.
pub(crate) async fn query(
    state: &AppState,
    key: &BucketKey,
    filter: &Filter,
    cut: &Cut,
) -> ApiResult<JsonAnswer> {
    let bucket = bucket(state, key)?;
    let before = filter.before(bucket.wall(bucket.now()));
    // What comes back after this is in the list, or was missing while this was said.
    let recovers_for = bucket.recovers_for().unwrap_or_default();
    let mut seen = match filter.name() {
        _ if !filter.admits_entries() => QuerySnapshot::default(),
        Some(name) => look_at_name(state, &bucket, name).await?,
        None => look(state, &bucket).await?,
    };
    let mut gathering = cut.gather();
    if let Some(asked) = filter.assignments(before) {
        gather_assignments(state, &bucket, cut, asked, &mut gathering).await?;
    }
    block_in_place_if_large(seen.size(), || {
        for entry in seen.take().filter(|entry| filter.admits(entry, before)) {
            gathering.add(Position::of(&entry, cut.sort), entry);
        }
        json_answer(state, bucket.key().tenant(), &EntryPage::new(gathering.page(), recovers_for))
    })
}

/// Adds the assignments of the page. By name no more are looked at than its end is certain; by age all.
async fn gather_assignments(
    state: &AppState,
    bucket: &Bucket,
    cut: &Cut,
    mut asked: AssignmentQuestion,
    gathering: &mut Gathering<'_, Entry>,
) -> ApiResult<()> {
    // The first entry may be the last of the page before, and the last entry shows that there is a next page.
    let enough = if cut.sort == EntrySort::Name { cut.limit + 2 } else { usize::MAX };
    asked.start = cut.start().to_vec();
    asked.most = enough.min(ASSIGNMENTS_AT_ONCE);
    let mut found = 0;
    loop {
        let part = bucket.assignment_part(&asked).await?;
        charge(state, bucket, price_of_query(part.looked_at));
        found += part.found.len();
        for entry in part.found.into_iter().map(Entry::from) {
            gathering.add(Position::of(&entry, cut.sort), entry);
        }
        match part.next {
            Some(next) if found < enough => asked.start = next,
            _ => return Ok(()),
        }
        // Others of this thread go on.
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use axum::response::IntoResponse;

    use super::*;
    use crate::Config;
    use crate::http::problem::Code;
    use crate::http::request::parameters::Parameters;

    async fn page(state: &AppState, key: &BucketKey) -> ApiResult<JsonAnswer> {
        let uri = "/query".parse().unwrap();
        let parameters = Parameters::parse(&uri)?;
        query(state, key, &Filter::read(&parameters)?, &Cut::read(&parameters)?).await
    }

    #[tokio::test]
    async fn a_query_reserves_memory_for_the_copy_and_for_the_answer_until_it_is_taken() {
        let state = AppState::empty(Config::default());
        let key = BucketKey::from("b");
        let bucket = state.houses.all()[0].bucket(key.clone());
        let agent = bucket.agent("holder").unwrap();
        let _held = agent.locks().request("held").await.unwrap();
        let limiter = &state.limiter;
        for (budget, most) in [
            (&limiter.query_budget, limiter.settings().table_bytes()),
            (&limiter.unread, limiter.settings().unread_bytes()),
        ] {
            let mut others = budget.of(key.tenant());
            others.reserve(most).unwrap();
            assert_eq!(page(&state, &key).await.unwrap_err().code, Code::QuotaExceeded);
            drop(others);
            assert_eq!(budget.taken(key.tenant()), 0);
        }
        let answer = page(&state, &key).await.unwrap().into_response();
        assert_eq!(limiter.query_budget.taken(key.tenant()), 0, "the copy is gone");
        assert_eq!(limiter.unread.taken(key.tenant()), 4096, "the answer is there");
        drop(answer);
        assert_eq!(limiter.unread.taken(key.tenant()), 0);
    }

    #[tokio::test]
    async fn a_lone_query_may_read_a_bucket_of_any_size() {
        let state = AppState::empty(Config::default());
        let key = BucketKey::from("b");
        let bucket = state.houses.all()[0].bucket(key.clone());
        let agent = bucket.agent("holder").unwrap();
        let names: Vec<_> = (0..10_000).map(|number| number.to_string()).collect();
        let _held: Vec<_> = futures_util::future::join_all(
            names.iter().map(|name| agent.locks().request(&**name).into_future()),
        )
        .await;
        let limits = crate::settings::LimitSettings { table_mib_per_tenant: 1, ..Default::default() };
        state.limiter.reload(limits);
        assert!(bucket.bytes_of_snapshot() > 1 << 20);
        let reserve = || state.limiter.reserve_for_query(key.tenant(), bucket.bytes_of_snapshot());
        let memory = reserve().unwrap();
        assert!(reserve().is_none(), "two at once");
        drop(memory);
        assert!(reserve().is_some());
    }
}
