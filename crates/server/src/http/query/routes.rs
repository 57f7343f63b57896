//! `GET query`: locks, requests that wait, claims and assignments, page by page.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use super::calls;
use super::entry::{EntryKind, EntryState};
use super::filter::Filter;
use super::page::{Cut, EntryPage, cut_parameters, sort_parameter};
use crate::http::dto::JsonAnswer;
use crate::http::request::constraints::{CLIENT, OLDER_THAN_MS, OWNER, PREFIX, RESOURCE, TOKEN};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path::InBucket;
use crate::http::request::schema::{RuleSchema, parameter, parameter_of};
use crate::http::route::BASE;
use crate::state::AppState;

struct QueryParameters;

impl IntoParams for QueryParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let filters = [
            parameter(
                "name",
                RESOURCE.schema(),
                "Only entries of this name: costs as much as those, however much else there is.",
            ),
            parameter("prefix", PREFIX.schema(), "Only names that begin with this."),
            parameter_of("kind", &EntryKind::name(), "Only entries of this kind."),
            parameter(
                "client",
                CLIENT.schema(),
                "Only of this client id, this owner's label, or this claimant.",
            ),
            parameter("owner", OWNER.schema(), "Only the offline locks of this owner."),
            parameter_of("state", &EntryState::name(), "Only what is held, waits, or is assigned."),
            parameter("fencingToken", TOKEN.schema(), "Only the hold or the assignment with this token."),
            parameter(
                "olderThanMs",
                OLDER_THAN_MS.schema(),
                "Only what is held, waits or is assigned for longer than that.",
            ),
            sort_parameter(),
        ];
        filters.into_iter().chain(cut_parameters()).collect()
    }
}

/// List what is held and who waits
///
/// Everybody who may connect to a bucket sees all of it. Each page is a cut of its own moment: what was there
/// all the time is shown once, what comes and goes meanwhile may be missed.
#[utoipa::path(
    get, context_path = BASE, path = "/query", tag = "query", operation_id = "query", params(QueryParameters),
    responses((status = 200, description = "A page of entries, in the order that was asked for.", body = EntryPage)),
)]
pub(crate) async fn query(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> ApiResult<JsonAnswer> {
    let parameters = Parameters::parse(&uri)?;
    let (filter, cut) = (Filter::read(&parameters)?, Cut::read_sorted(&parameters)?);
    calls::query(&state, &bucket, &filter, &cut).await
}
