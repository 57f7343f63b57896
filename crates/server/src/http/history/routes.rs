//! `GET history`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use super::bodies::{EndedKind, HistoryAnswer, HoldEnd, Question};
use super::calls;
use crate::http::dto::JsonAnswer;
use crate::http::request::constraints::{
    HISTORY_CURSOR, HISTORY_PAGE, INSTANT, LABEL, OWNER, PREFIX, RESOURCE, TOKEN,
};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path::InBucket;
use crate::http::request::schema::{RuleSchema, parameter, parameter_of};
use crate::http::route::BASE;
use crate::state::AppState;

struct HistoryParameters;

impl IntoParams for HistoryParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = format!("How many entries a page has at most; {} without it.", HISTORY_PAGE.example);
        vec![
            parameter("name", RESOURCE.schema(), "Only entries of this name."),
            parameter("prefix", PREFIX.schema(), "Only names that begin with this."),
            parameter_of("kind", &EndedKind::name(), "Only entries of this kind."),
            parameter_of("end", &HoldEnd::name(), "Only what ended so."),
            parameter("owner", OWNER.schema(), "Only this owner and its offline locks."),
            parameter("label", LABEL.schema(), "Only of this label, claimant or client id."),
            parameter("fencingToken", TOKEN.schema(), "Only the hold with this token."),
            parameter("from", INSTANT.schema(), "Only what ended at this instant or later."),
            parameter("to", INSTANT.schema(), "Only what ended before this instant."),
            parameter("limit", HISTORY_PAGE.schema(), &limit),
            parameter("cursor", HISTORY_CURSOR.schema(), "The `next` of the page before."),
        ]
    }
}

/// Show who held what
///
/// Offline locks, claims, assignments and owners that have ended, and web locks since the server has begun
/// with the bucket; and what was refused or waited for in vain. The latest first: from when to when, and why.
/// What is held now is in `query`. Old entries are deleted (the settings `[history]` say when), of web locks
/// all but the latest 1,000 of the bucket. A page may have fewer entries than its limit, or none, and still
/// have a `next`.
#[utoipa::path(
    get, context_path = BASE, path = "/history", tag = "query", operation_id = "history", params(HistoryParameters),
    responses((status = 200, description = "A page of entries, the latest first.", body = HistoryAnswer)),
)]
pub(crate) async fn history(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> ApiResult<JsonAnswer> {
    let question = Question::read(&Parameters::parse(&uri)?)?;
    calls::history(&state, &bucket, question).await
}
