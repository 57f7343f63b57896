//! `assignments`: claims that became final.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::bodies::Unassigned;
use super::calls;
use crate::audit;
use crate::audit::{AuditEvent, DisplayName};
use crate::http::dto::Assignment;
use crate::http::problem::{Code, Problem};
use crate::http::request::asker::Asker;
use crate::http::request::body::NoBody;
use crate::http::request::constraints::{REASON, RESOURCE, TOKEN};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::path::InBucket;
use crate::http::request::schema::{GetParameters, RuleSchema, of_resource, parameter};
use crate::http::route::BASE;
use crate::state::AppState;

struct DeleteParameters;

impl IntoParams for DeleteParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            of_resource(),
            parameter("fencingToken", TOKEN.schema(), "Only the assignment with this token."),
            parameter("reason", REASON.schema(), "Why, for the audit log."),
        ]
    }
}

/// Show an assignment
#[utoipa::path(
    get, context_path = BASE, path = "/assignments", tag = "assignments", operation_id = "getAssignment", params(GetParameters),
    responses(
        (status = 200, description = "The assignment.", body = Assignment),
        (status = 404, description = "`not_found`: the resource is not assigned."),
    ),
)]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> ApiResult<Json<Assignment>> {
    let resource = Parameters::parse(&uri)?.field("resource")?.name(&RESOURCE)?;
    let assignment = calls::assignment(&state, &bucket, resource.as_name()).await?;
    assignment.map(Json).ok_or_else(|| Problem::new(Code::NotFound, "the resource is not assigned"))
}

/// Take an assignment back
///
/// The resource can be claimed again. Where there is no such assignment, nothing happens.
#[utoipa::path(
    delete, context_path = BASE, path = "/assignments", tag = "assignments", operation_id = "deleteAssignment", params(DeleteParameters),
    responses(
        (status = 200, description = "There is no such assignment any more.", body = Unassigned),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(crate) async fn unassign(
    State(state): State<Arc<AppState>>,
    asker: Asker,
    InBucket(bucket): InBucket,
    uri: Uri,
    _: NoBody,
) -> ApiResult<Json<Unassigned>> {
    let parameters = Parameters::parse(&uri)?;
    let resource = parameters.field("resource")?.name(&RESOURCE)?;
    let token = parameters.field("fencingToken")?.number_if_any(&TOKEN)?;
    let reason = parameters.field("reason")?.text_if_any(&REASON)?;
    let unassigned = calls::unassign(&state, &bucket, resource.as_name(), token).await?;
    if unassigned {
        let event = AuditEvent {
            who: Some(&asker.caller.identity),
            what: "unassign",
            bucket: &bucket.bucket,
            name: Some(&DisplayName(resource.as_name())),
        };
        audit::note(asker.from, &event, None, reason.as_deref());
    }
    Ok(Json(Unassigned { unassigned }))
}
