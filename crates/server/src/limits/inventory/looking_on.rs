//! The bounds of those who look on: events, dashboards and metrics.

use lockhouse::EventBounds;

use super::{Constant, bytes};
use crate::bounds::*;

pub(super) fn of_events() -> Vec<Constant> {
    vec![
        (
            "EVENT_STREAMS",
            EVENT_STREAMS.to_string(),
            "streams of events at once",
            "status 429 `quota_exceeded`",
        ),
        (
            "EVENT_STREAMS_PER_TENANT",
            EVENT_STREAMS_PER_TENANT.to_string(),
            "streams of events of a tenant at once",
            "status 429 `quota_exceeded`",
        ),
        (
            "EVENT_STREAMS_PER_CREDENTIAL",
            EVENT_STREAMS_PER_CREDENTIAL.to_string(),
            "streams of events of a credential at once",
            "status 429 `quota_exceeded`",
        ),
        (
            "STREAM_HEARTBEAT",
            humantime::format_duration(STREAM_HEARTBEAT).to_string(),
            "the longest time in which nothing is written to a stream of events; less where `idle_timeout` is short",
            "a comment comes",
        ),
        (
            "EVENT_GATHERING",
            humantime::format_duration(EVENT_GATHERING).to_string(),
            "how soon a reader of events that has all that has happened looks again",
            "events come together",
        ),
        (
            "EVENT_BATCH",
            bytes(EVENT_BATCH),
            "the text of events that a stream has ready, and one event more; it counts as `unread_mib_per_tenant`",
            "the rest comes once that is read",
        ),
        (
            "EVENT_TEXT",
            bytes(EVENT_TEXT),
            "how much that one more may have, about: the longest names, labels and metadata, written out",
            "",
        ),
        (
            "EVENT_STATE_PAUSE",
            humantime::format_duration(EVENT_STATE_PAUSE).to_string(),
            "how soon the present state is copied again for one stream",
            "it comes then",
        ),
        (
            "EVENT_STATE_ENTRIES",
            EVENT_STATE_ENTRIES.to_string(),
            "entries of the present state in one event of a stream",
            "more events `state`",
        ),
    ]
}

pub(super) fn of_kept_events() -> Vec<Constant> {
    vec![
        (
            "EVENTS_KEPT",
            EventBounds::DEFAULT.events.to_string(),
            "the latest events of a bucket that are kept for readers",
            "a reader that is behind gets a `gap`",
        ),
        (
            "EVENT_BYTES",
            bytes(EventBounds::DEFAULT.event_bytes),
            "what those take, and as much what waits for the store; less once the tenant has half of `table_mib_per_tenant`",
            "a reader that is behind gets a `gap`",
        ),
        (
            "WEB_HISTORY_ENTRIES",
            EventBounds::DEFAULT.web_entries.to_string(),
            "entries in the history of the Web Locks of a bucket",
            "the oldest is forgotten",
        ),
        (
            "WEB_HISTORY_BYTES",
            bytes(EventBounds::DEFAULT.web_bytes),
            "what those take; less once the tenant has half of `table_mib_per_tenant`",
            "the oldest is forgotten",
        ),
        (
            "FLOOR_BYTES",
            bytes(EventBounds::FLOOR_BYTES),
            "events and history that each bucket keeps even then, and as much of what waits for the store, until the tenant has three quarters",
            "a reader that is behind gets a `gap`",
        ),
        (
            "REFUSALS_WRITTEN",
            EventBounds::REFUSALS_WRITTEN.to_string(),
            "refusals of all tenants, in a fleet of each slot, that go into the database in `REFUSALS_PERIOD`",
            "the rest waits, and tenants take turns",
        ),
        (
            "REFUSALS_PERIOD",
            humantime::format_duration(EventBounds::REFUSALS_PERIOD).to_string(),
            "the time in which those are written",
            "",
        ),
        (
            "REFUSALS_PATIENCE",
            humantime::format_duration(EventBounds::REFUSALS_PATIENCE).to_string(),
            "how long they wait for a commit that others make",
            "they have one of their own; left out where the store refuses it",
        ),
        (
            "REFUSAL_BYTES",
            bytes(EventBounds::REFUSAL_BYTES),
            "what such refusals take that wait, in a fleet of each slot",
            "those of the tenant that has most are in no history; logged, and counted as `lockhouse_history_left_out_total`",
        ),
        (
            "REFUSAL_BYTES_OF_TENANT",
            bytes(EventBounds::REFUSAL_BYTES_OF_TENANT),
            "the same of one tenant",
            "further ones are in no history",
        ),
    ]
}

pub(super) fn of_watching() -> Vec<Constant> {
    vec![
        (
            "ASSIGNMENTS_LOOKED_AT",
            ASSIGNMENTS_LOOKED_AT.to_string(),
            "assignments that one `GET query` looks at",
            "the page ends there, and has a `next`",
        ),
        (
            "VIEW_AGE",
            humantime::format_duration(VIEW_AGE).to_string(),
            "the time for which an overview, and who waits for whom, is answered again as it was",
            "made anew",
        ),
        (
            "OVERVIEW_BYTES",
            bytes(OVERVIEW_BYTES),
            "what an overview takes of the memory for copies of tables",
            "status 429 `quota_exceeded`",
        ),
        (
            "WAIT_EDGES",
            WAIT_EDGES.to_string(),
            "edges of the answer who waits for whom",
            "those of cycles, and of the requests that wait for longest, are shown, with `truncated`",
        ),
        (
            "BUCKETS_BYTES",
            bytes(BUCKETS_BYTES),
            "the list of the buckets of another node",
            "the node counts as one that does not answer",
        ),
        (
            "USER_AGENT_CHARS",
            USER_AGENT_CHARS.to_string(),
            "characters of the `User-Agent` of a WebSocket that `GET sessions` shows",
            "left out",
        ),
        (
            "CLIENT_IDS_SHOWN",
            CLIENT_IDS_SHOWN.to_string(),
            "client ids of a session that `GET sessions` shows",
            "left out; `agents` has their number",
        ),
        (
            "REQUEST_ID_BYTES",
            bytes(REQUEST_ID_BYTES),
            "the id that a client gives its request, in `x-request-id`",
            "the server makes one",
        ),
        (
            "METRIC_LABELS",
            METRIC_LABELS.to_string(),
            "bucket names with a label of their own in the metrics",
            "share the label `other`",
        ),
        (
            "METRICS_CONNECTIONS",
            METRICS_CONNECTIONS.to_string(),
            "connections at once to the listener of the metrics",
            "status 503 `overloaded`, and closed",
        ),
        (
            "METRICS_PAUSE",
            humantime::format_duration(METRICS_PAUSE).to_string(),
            "the time between two readings of the metrics",
            "who asks meanwhile waits, and all who do get one text",
        ),
    ]
}
