//! The OpenAPI document: what the handlers say of themselves, completed with what holds for all of them.

use axum::http::Method;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, Ref, RefOr, Required};
use utoipa::{OpenApi as _, PartialSchema, ToSchema};

use super::problem::{MEDIA_TYPE, Problem};
use super::query::page::EntrySort;
use super::request::constraints::{BUCKET, IDEMPOTENCY_KEY, OWNER};
use super::request::schema::RuleSchema;
use super::route::Needs;
use super::{assignments, buckets, claims, events, history, holds, locks, owners, query, sessions, views};

/// The names of the security schemes in the document.
const OWNER_SECRET: &str = "ownerSecret";
const KEY: &str = "key";
const BEARER: &str = "bearer";

/// What the handlers say of themselves, in the order in which it is told.
#[derive(utoipa::OpenApi)]
#[openapi(
    paths(
        owners::routes::open,
        owners::routes::list,
        owners::routes::show,
        owners::routes::end,
        owners::routes::heartbeat,
        locks::routes::lock,
        locks::routes::list,
        locks::routes::release,
        locks::routes::undo,
        claims::routes::claim,
        claims::routes::show,
        claims::routes::renew,
        claims::routes::release,
        claims::routes::finalize,
        assignments::routes::show,
        assignments::routes::unassign,
        query::routes::query,
        views::overview::show,
        views::waits::show,
        holds::routes::break_holds,
        history::routes::history,
        events::routes::events,
        buckets::routes::list,
        sessions::routes::list
    ),
    components(schemas(events::bodies::EventData, events::bodies::StateData))
)]
struct Handlers;

/// The needs of a route, by its method and path.
type NeedsOf = fn(&Method, &str) -> Option<Needs>;

/// The document.
pub(super) fn text(needs: NeedsOf) -> String {
    complete(Handlers::openapi(), needs)
}

/// Adds to every operation what holds for all, and gives the text.
fn complete(mut document: OpenApi, needs: NeedsOf) -> String {
    document.info = InfoBuilder::new()
        .title("lockhouse")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .build();
    document.tags =
        Some(TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build()).into());
    let mut schemas = vec![
        (Problem::name().into_owned(), Problem::schema()),
        (EntrySort::name().into_owned(), EntrySort::schema()),
    ];
    Problem::schemas(&mut schemas);
    schemas.extend(locks::bodies::parts());
    let bearer = |about: &str| {
        SecurityScheme::Http(
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(about)).build(),
        )
    };
    let schemes = [
        (OWNER_SECRET, bearer("The `ownerSecret` that was told when the owner began.")),
        (BEARER, bearer("An API key or a token, where no owner's secret is needed.")),
        (
            KEY,
            SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(
                "Lockhouse-Key",
                ABOUT_CREDENTIAL,
            ))),
        ),
    ];
    let known = document.components.take().unwrap_or_default();
    let mut components = ComponentsBuilder::new().build();
    components.schemas = known.schemas;
    components.schemas.extend(schemas);
    let schemes = schemes.map(|(name, scheme)| (name.to_owned(), scheme.into()));
    components.security_schemes.extend(schemes);
    document.components = Some(components);
    for (path, item) in &mut document.paths.paths {
        let operations = [
            (Method::GET, &mut item.get),
            (Method::POST, &mut item.post),
            (Method::DELETE, &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                complete_operation(operation, path, &method, needs);
            }
        }
    }
    document.to_pretty_json().expect("the document has nothing that JSON cannot hold")
}

fn complete_operation(operation: &mut Operation, path: &str, method: &Method, needs: NeedsOf) {
    let changes = method != Method::GET;
    let parameters = operation.parameters.get_or_insert_default();
    let mut add = |name: &str, place: ParameterIn, schema: ObjectBuilder, about: &str| {
        let required = if place == ParameterIn::Path { Required::True } else { Required::False };
        let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(required);
        let parameter = parameter.description(Some(about)).schema(Some(schema.build()));
        parameters.push(parameter.build().into());
    };
    if path.contains("{bucket}") {
        add("bucket", ParameterIn::Path, BUCKET.schema(), "The bucket: who names another one never meets.");
    }
    if path.contains("{owner}") {
        add("owner", ParameterIn::Path, OWNER.schema(), "The id of the owner.");
    }
    if changes {
        add("Idempotency-Key", ParameterIn::Header, IDEMPOTENCY_KEY.schema(), ABOUT_KEY);
    }
    let mut answers: Vec<(&str, &str)> = ALWAYS.to_vec();
    if changes {
        answers.extend(TO_A_CHANGE);
    }
    if operation.request_body.is_some() {
        answers.extend(TO_A_BODY);
    }
    let of_owner = operation.security.is_some();
    answers.push(("401", if of_owner { OWNER_OR_CREDENTIAL } else { CREDENTIAL }));
    operation.security = Some(securities(of_owner));
    let forbidden = forbidden(needs(method, path));
    answers.push(("403", &forbidden));
    for (status, about) in answers {
        let known = operation.responses.responses.entry(status.to_owned());
        known.or_insert_with(|| ResponseBuilder::new().description(about).build().into());
    }
    for (status, answer) in &mut operation.responses.responses {
        if let RefOr::T(answer) = answer {
            complete_answer(status, answer);
        }
    }
}

/// Without a credential, where the server wants none, or with one.
fn securities(of_owner: bool) -> Vec<SecurityRequirement> {
    let none: [&str; 0] = [];
    let with = |name: &str| SecurityRequirement::new(name, none);
    if of_owner {
        return vec![with(OWNER_SECRET), with(OWNER_SECRET).add(KEY, none)];
    }
    vec![SecurityRequirement::default(), with(KEY), with(BEARER)]
}

fn forbidden(needs: Option<Needs>) -> String {
    let place = "the host or the origin is not admitted";
    match needs {
        Some(Needs::InBucket(permission) | Needs::Somewhere(permission) | Needs::Everywhere(permission)) => {
            format!("`forbidden`: {place}, or the credential has not the permission `{}`.", permission.word())
        }
        Some(Needs::Nothing) | None => format!("`forbidden`: {place}."),
    }
}

fn complete_answer(status: &str, answer: &mut Response) {
    let header = |kind: Type, about: &str| -> RefOr<Header> {
        let schema = ObjectBuilder::new().schema_type(kind).build();
        HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build().into()
    };
    if status.starts_with('2') {
        return;
    }
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    answer.content.insert(MEDIA_TYPE.to_owned(), problem.into());
    if matches!(status, "429" | "503" | "504") {
        let about = "After how many seconds it makes sense to try again.";
        answer.headers.insert("Retry-After".to_owned(), header(Type::Integer, about));
    }
    if status == "401" {
        answer.headers.insert("WWW-Authenticate".to_owned(), header(Type::String, "`Bearer`."));
    }
}

const ABOUT: &str = "Offline locks, claims and assignments of a lockhouse server, and queries over all that is held.\n\n\
    Instants are RFC 3339, UTC, with milliseconds; durations are integers of milliseconds, whose names end in `Ms`; fencing tokens are \
    integers below 2^53, ids are strings. A member that a request does not know is refused, `null` counts as absent. Whatever is no \
    success is told as a problem (RFC 9457), whose `type` leads to an explanation.";

const TAGS: [(&str, &str); 5] = [
    ("owners", "Owners: sessions or business transactions, which hold offline locks."),
    ("locks", "Offline locks: this record is mine to edit, over many requests."),
    ("claims", "Claims: reserve now, prepare, make it final only if it is still mine."),
    ("assignments", "Assignments: claims that became final."),
    ("query", "What is held, who waits, who held what; and how an operator ends a hold."),
];

const ABOUT_KEY: &str = "Names this request. Sent again within ten minutes with the same key, the same query and the same body, it is not \
    carried out again, but answered again as it was, with `Idempotency-Replayed: true`. Whoever knows the key of another gets his answer: \
    take a random one, such as a UUID.";

const ABOUT_CREDENTIAL: &str = "An API key or a token (RFC 7519) that says who calls, where the server wants to know. It decides which tenant's buckets are \
    meant, and what may be done in which of them. Where no owner's secret is needed, it may stand in `Authorization` instead.";

const CREDENTIAL: &str = "`unauthenticated`: the server wants a credential, and there is none that it takes.";

const OWNER_OR_CREDENTIAL: &str = "`unauthorized`: the owner's secret is absent or wrong. `unauthenticated`: the server wants a credential, and there is none \
    that it takes.";

const ALWAYS: [(&str, &str); 5] = [
    ("400", "`bad_request`: the request cannot be read."),
    ("422", "`invalid`: a member or parameter breaks a rule, which is told."),
    (
        "429",
        "`quota_exceeded`: a bound of the server is reached; `rate_limited`: the tenant does too much at once.",
    ),
    ("500", "`internal`: the server failed."),
    ("503", "`unavailable`, `closing`, `overloaded`: not now."),
];

const TO_A_CHANGE: [(&str, &str); 2] = [
    ("409", "`conflict_in_flight`: the first request with this `Idempotency-Key` is still under way."),
    (
        "504",
        "`outcome_unknown`: it may have happened, or not. With `Retry-After` the same request with the same `Idempotency-Key` may be sent again.",
    ),
];

const TO_A_BODY: [(&str, &str); 3] = [
    ("408", "`request_timeout`: the body did not come in time."),
    ("413", "`too_large`: the body has more than 256 KiB."),
    ("415", "`unsupported_media_type`: the body is not sent as `application/json`."),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    /// Every object in it, with its path.
    fn visit<'v>(
        value: &'v Value,
        path: &str,
        found: &mut Vec<(String, &'v serde_json::Map<String, Value>)>,
    ) {
        match value {
            Value::Object(members) => {
                found.push((path.to_owned(), members));
                members.iter().for_each(|(key, value)| visit(value, &format!("{path}/{key}"), found));
            }
            Value::Array(items) => items.iter().for_each(|value| visit(value, path, found)),
            _ => {}
        }
    }

    #[test]
    fn generators_find_each_schema_once_and_under_its_name() {
        let document: Value = serde_json::from_str(&text(|_, _| None)).unwrap();
        let mut objects = Vec::new();
        visit(&document, "", &mut objects);
        let referenced: BTreeSet<&str> = objects
            .iter()
            .filter_map(|(_, object)| object.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/"))
            .collect();
        let named: BTreeSet<&str> =
            document["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        // A stream is a text here: nothing in OpenAPI 3.1 refers to what its events have.
        let of_streams = BTreeSet::from(["EventData", "StateData"]);
        assert_eq!(&referenced | &of_streams, named);
        let mut words = BTreeMap::new();
        for (path, object) in &objects {
            // Generators make members required that have a default.
            assert!(!object.contains_key("default"), "{path}");
            if let Some(values) = object.get("enum").filter(|values| values[0].is_string()) {
                assert_eq!(words.insert(values.to_string(), path), None, "{path}: {values}");
                let name = path.strip_prefix("/components/schemas/").unwrap_or_else(|| panic!("{path}"));
                assert!(!name.contains('/'), "{path}");
            }
        }
        assert!(words.len() > 5, "{words:?}");
        let requests =
            objects.iter().filter(|(path, _)| path.ends_with("/requestBody/content/application/json/schema"));
        assert!(requests.clone().count() > 5 && requests.clone().all(|(_, body)| body.contains_key("$ref")));
    }
}
