//! The API's calls about all that is held, pending and assigned.

use lockhouse::{Assignment, AssignmentPart, AssignmentQuestion, Bucket, BucketKey};

use super::entry::Entry;
use super::filter::Filter;
use super::page::{Cut, EntryPage, Gathering, Order, Position};
use super::snapshot::{charge, json_answer, look_at_name, look_at_nothing, look_beside};
use crate::bounds::ASSIGNMENTS_LOOKED_AT;
use crate::http::calls::bucket;
use crate::http::dto::JsonAnswer;
use crate::http::request::decode::ApiResult;
use crate::limits::{BUCKET_LIMITS, block_in_place_if_large, price_of_query};
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
    let asked = filter.assignments(before).map(|asked| question(cut, asked));
    let others = asked.as_ref().map_or(0, |asked| bytes_of_assignments(&bucket, asked));
    let mut seen = match filter.name() {
        _ if !filter.admits_entries() => look_at_nothing(state, &bucket, others)?,
        Some(name) => look_at_name(state, &bucket, name, others).await?,
        None => look_beside(state, &bucket, others).await?,
    };
    let mut gathering = cut.gather();
    if let Some(asked) = asked {
        let part = bucket.assignment_part(&asked).await?;
        charge(state, &bucket, price_of_query(part.looked_at));
        gather_assignments(cut, part, &mut gathering);
    }
    block_in_place_if_large(seen.size(), || {
        for entry in seen.take().filter(|entry| filter.admits(entry, before)) {
            gathering.add(Position::of(&entry, cut.order), entry);
        }
        json_answer(state, bucket.key().tenant(), &EntryPage::new(gathering.page(), recovers_for))
    })
}

/// The question for the assignments of a page: by name no more are wanted than its end is certain; by age all
/// that one call looks at, unless they come last.
fn question(cut: &Cut, asked: AssignmentQuestion) -> AssignmentQuestion {
    let is_by_age = cut.order == Order::Age;
    // The first entry may be the last of the page before, and the last entry shows that there is a next page.
    let most = if is_by_age { ASSIGNMENTS_LOOKED_AT } else { cut.limit + 2 };
    let start = cut.start().to_vec();
    AssignmentQuestion { start, most, most_looked_at: ASSIGNMENTS_LOOKED_AT, ..asked }
}

/// What the answer takes at most, about; the names are shared with the tables.
fn bytes_of_assignments(bucket: &Bucket, asked: &AssignmentQuestion) -> usize {
    let (_, all) = bucket.gauges();
    asked.most.min(all) * (size_of::<Assignment>() + BUCKET_LIMITS.label_bytes)
}

/// Adds the assignments of the page, which ends with them if there are more.
fn gather_assignments(cut: &Cut, part: AssignmentPart, gathering: &mut Gathering<'_, Entry>) {
    let come_last = cut.order == Order::AgeAssignmentsLast || part.last.is_some();
    if come_last {
        gathering.put_assignments_last();
    }
    if let Some(last) = part.last {
        gathering.end_at(Position::of_assignment(last).among_last(cut.order));
    }
    for entry in part.found.into_iter().map(Entry::from) {
        let at = Position::of(&entry, cut.order);
        gathering.add(if come_last { at.among_last(cut.order) } else { at }, entry);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::time::Duration;

    use axum::response::IntoResponse;

    use super::*;
    use crate::Config;
    use crate::http::problem::Code;
    use crate::http::request::parameters::Parameters;

    async fn asked(state: &AppState, key: &BucketKey, question: &str) -> ApiResult<JsonAnswer> {
        let uri = format!("/query?{question}").parse().unwrap();
        let parameters = Parameters::parse(&uri)?;
        query(state, key, &Filter::read(&parameters)?, &Cut::read_sorted(&parameters)?).await
    }

    async fn page(state: &AppState, key: &BucketKey) -> ApiResult<JsonAnswer> {
        asked(state, key, "").await
    }

    /// The names on each page.
    async fn pages(state: &AppState, key: &BucketKey, question: &str) -> Vec<Vec<String>> {
        pages_from(state, key, question, String::new()).await
    }

    /// The names on each page from that cursor on.
    async fn pages_from(
        state: &AppState,
        key: &BucketKey,
        question: &str,
        mut cursor: String,
    ) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        loop {
            let answer = asked(state, key, &format!("{question}{cursor}")).await.unwrap();
            let page: serde_json::Value = serde_json::from_slice(answer.as_ref()).unwrap();
            let entries = page["entries"].as_array().unwrap().iter();
            pages.push(entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return pages,
            }
        }
    }

    /// As many assignments as that, the last one of Bob.
    async fn assign(bucket: &Bucket, count: usize) -> Vec<String> {
        let names: Vec<_> = (0..count).map(|number| format!("n{number:05}")).collect();
        for name in &names {
            let claimant = if Some(name) == names.last() { "Bob" } else { "Anna" };
            let claim = bucket.claims().claim(&**name, claimant, Duration::from_secs(60)).await.unwrap();
            claim.finalize().await.unwrap();
        }
        names
    }

    #[tokio::test]
    async fn a_query_looks_at_so_many_assignments_and_goes_on_with_the_next_page() {
        let state = AppState::empty(Config::default());
        let key = BucketKey::from("b");
        let bucket = state.houses.all()[0].bucket(key.clone());
        let agent = bucket.agent("holder").unwrap();
        let _first = agent.locks().request("a").await.unwrap();
        let _last = agent.locks().request("z").await.unwrap();
        let assigned = assign(&bucket, ASSIGNMENTS_LOOKED_AT + 2).await;
        let bobs = assigned.last().unwrap().clone();
        for question in ["client=Bob", "client=Bob&sort=age", "kind=assignment&client=Bob&sort=age"] {
            assert_eq!(pages(&state, &key, question).await, [vec![], vec![bobs.clone()]], "{question}");
        }
        // By name each entry has its place, and no page is cut short.
        let by_name = pages(&state, &key, "limit=1000").await;
        assert!(by_name.iter().rev().skip(1).all(|page| page.len() == 1000));
        let all = [&["a".to_owned()], &*assigned, &["z".to_owned()]].concat();
        assert_eq!(by_name.concat(), all);
        // By age those that are too many to be compared come last.
        let by_age = pages(&state, &key, "sort=age&limit=1000").await;
        let all = [&["a".to_owned(), "z".to_owned()], &*assigned].concat();
        assert_eq!(by_age.concat(), all);
    }

    #[tokio::test]
    async fn assignments_that_become_few_enough_between_two_pages_by_age_are_on_a_page_all_the_same() {
        let state = AppState::empty(Config::default());
        let key = BucketKey::from("b");
        let bucket = state.houses.all()[0].bucket(key.clone());
        let assigned = assign(&bucket, ASSIGNMENTS_LOOKED_AT + 1).await;
        let agent = bucket.agent("holder").unwrap();
        let _younger = agent.locks().request("a").await.unwrap();
        let _youngest = agent.locks().request("z").await.unwrap();
        let first = asked(&state, &key, "sort=age&limit=1").await.unwrap();
        let first: serde_json::Value = serde_json::from_slice(first.as_ref()).unwrap();
        bucket.claims().unassign(&*assigned[0], None).await.unwrap();
        let cursor = format!("&cursor={}", first["next"].as_str().unwrap());
        let mut rest = pages_from(&state, &key, "sort=age&limit=1000", cursor).await.concat();
        // The locks are of the same millisecond, or not.
        rest.retain(|name| name != "a" && name != "z");
        assert_eq!(rest, assigned[1..]);
    }

    #[tokio::test]
    async fn a_page_of_assignments_reserves_memory() {
        let state = AppState::empty(Config::default());
        let key = BucketKey::from("b");
        let bucket = state.houses.all()[0].bucket(key.clone());
        assign(&bucket, 3).await;
        let limiter = &state.limiter;
        let mut others = limiter.query_budget.of(key.tenant());
        others.reserve(limiter.settings().table_bytes()).unwrap();
        for question in ["state=assigned", "kind=assignment&sort=age"] {
            assert_eq!(asked(&state, &key, question).await.unwrap_err().code, Code::QuotaExceeded);
        }
        drop(others);
        assert_eq!(pages(&state, &key, "state=assigned&sort=age").await.concat().len(), 3);
        assert_eq!(limiter.query_budget.taken(key.tenant()), 0);
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
