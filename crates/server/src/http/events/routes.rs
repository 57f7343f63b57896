//! `GET events`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use super::bodies::EventQuestion;
use super::stream::{EventStream, StreamRight};
use crate::bounds::{EVENT_STREAMS, EVENT_STREAMS_PER_CREDENTIAL, EVENT_STREAMS_PER_TENANT};
use crate::http::access::{Caller, admission_of};
use crate::http::calls;
use crate::http::dto::HoldKind;
use crate::http::problem::{Code, Problem};
use crate::http::request::constraints::{EVENT_ID, PREFIX, RESOURCE};
use crate::http::request::decode::ApiResult;
use crate::http::request::parameters::Parameters;
use crate::http::request::schema::{RuleSchema, flag, parameter, parameter_of};
use crate::http::route::BASE;
use crate::limits::QUOTA;
use crate::state::AppState;

struct EventParameters;

impl IntoParams for EventParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let header = ParameterBuilder::new().name("Last-Event-ID").parameter_in(ParameterIn::Header);
        let about = "The `id` of the last event that the reader has got, as `EventSource` sends it.";
        let kind = "Only events of this discipline.";
        vec![
            parameter("name", RESOURCE.schema(), "Only events of this name."),
            parameter("prefix", PREFIX.schema(), "Only names that begin with this."),
            parameter_of("kind", &HoldKind::name(), kind),
            parameter("state", flag(), "Whether the present state comes first, where there is no id."),
            parameter("lastEventId", EVENT_ID.schema(), "The same as the header, which comes first."),
            header.description(Some(about)).schema(Some(EVENT_ID.schema().build())).build(),
        ]
    }
}

/// Watch what happens
///
/// A stream of server-sent events, each with an `id`, a kind (`event:`) and one JSON object (`data:`):
/// `waiting`, `granted`, `ended`, `refused`, `assigned`, `unassigned`, and of owners `opened` and `closed`.
/// An event comes once it is durable, in the order in which all of the bucket happened. A reader that
/// connects again goes on behind its last id; if that is older than what is kept, of a former life of the
/// server or of another node, an event `gap` comes, and then the present state as events `state`. A comment
/// comes each 15 seconds. The stream ends when the server stops, the bucket moves, or the credential ends or
/// has lost any of its permissions.
#[utoipa::path(
    get, context_path = BASE, path = "/events", tag = "query", operation_id = "events", params(EventParameters),
    responses(
        (status = 200, description = "The events as they come.", content_type = "text/event-stream", body = String),
        (status = 404, description = "`not_found`: nothing is kept of what happens (`history.enabled`)."),
    ),
)]
pub(crate) async fn events(State(state): State<Arc<AppState>>, request: Request) -> ApiResult<Response> {
    let (parts, _) = request.into_parts();
    let question = EventQuestion::read(&Parameters::parse(&parts.uri)?, &parts.headers)?;
    if !state.config.history.enabled {
        return Err(Problem::new(
            Code::NotFound,
            "nothing is kept of what happens: history.enabled is false",
        ));
    }
    let caller = Caller::of(&parts)?.clone();
    let none = || Problem::new(Code::Internal, "the path names no bucket");
    let key = caller.bucket.clone().ok_or_else(none)?;
    let bucket = calls::bucket(&state, &key)?;
    let (tenant, credential) = (key.tenant().to_owned(), caller.identity.caller().to_owned());
    let full = |_| {
        let why = "there are as many streams of events as are allowed: end one, or ask again later";
        Problem::new(Code::QuotaExceeded, why).retry_after(QUOTA)
    };
    let limiter = &state.limiter;
    let of_tenant = limiter.streams.take(tenant.clone(), EVENT_STREAMS, EVENT_STREAMS_PER_TENANT);
    let of_tenant = of_tenant.map_err(full)?;
    let of_credential = format!("{tenant}\u{1f}{credential}");
    let of_credential =
        limiter.streams_of_credentials.take(of_credential, EVENT_STREAMS, EVENT_STREAMS_PER_CREDENTIAL);
    let (admission, certificate_end) = admission_of(&parts.extensions);
    let right =
        StreamRight { admission, certificate_end, permits: [of_tenant, of_credential.map_err(full)?] };
    let stream = EventStream::new(state, bucket, question, right).into_stream();
    let mut response = Sse::new(stream).into_response();
    // Proxies that gather answers would keep events from their readers.
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}
