//! Keeps `docs/limits.md` in step with the bounds that there are.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that meets the unexpected fails and tells it"
)]

mod looking_on;

use lockhouse::Limits;
use lockhouse_wire::{
    ACK_EVERY, BATCH_FRAMES, CLIENT_ID_BYTES, FRAME_BYTES, LABEL_BYTES, SCOPE_BYTES, TICKET_BYTES,
};

use self::looking_on::{of_events, of_kept_events, of_watching};
use super::{BUCKET_LIMITS, Refused};
use crate::bounds::*;
use crate::settings::LimitSettings;

const DOCS: &str = include_str!("../../../../docs/limits.md");
const BOUNDS: &str = include_str!("../bounds.rs");

fn settings() -> Vec<String> {
    let row = |setting: &crate::settings::LimitSetting| {
        let when = if setting.is_reloadable { "at once" } else { "at the next start" };
        format!(
            "| `{}` | {} | {} to {} | {when} | {} | {} |",
            setting.key,
            setting.default,
            setting.least,
            setting.most,
            setting.meaning.trim(),
            setting.beyond
        )
    };
    LimitSettings::ALL.iter().map(row).collect()
}

/// The name of each constant, its value, what it bounds, and what happens beyond it.
type Constant = (&'static str, String, &'static str, &'static str);

fn constants() -> Vec<Constant> {
    [
        of_tables(),
        of_frames(),
        of_sessions(),
        of_reading(),
        of_http(),
        of_audit_and_answers(),
        of_events(),
        of_kept_events(),
        of_watching(),
        of_nodes(),
    ]
    .concat()
}

fn bytes(count: usize) -> String {
    format!("{count} bytes")
}

fn of_tables() -> Vec<Constant> {
    // Every bound of the core has to be listed here.
    let Limits {
        name_units,
        requests_per_agent,
        entries: _,
        names: _,
        agents: _,
        metadata_bytes,
        owners: _,
        locks_per_owner: _,
        locks_per_command,
        locks_ended_at_once,
        label_bytes,
        ttl_ms: (least_ttl, most_ttl),
        assignments: _,
    } = BUCKET_LIMITS;
    let quota = "error `quota_exceeded`, or status 422 `invalid`";
    vec![
        ("name_units", format!("{name_units} units"), "a resource name, in units of 16 bits", quota),
        (
            "metadata_bytes",
            bytes(metadata_bytes),
            "the metadata of a request, a lock, an owner or a claim",
            quota,
        ),
        (
            "label_bytes",
            bytes(label_bytes),
            "the label of an owner, the claimant of a claim",
            "status 422 `invalid`",
        ),
        (
            "ttl_ms",
            format!("{least_ttl} to {most_ttl} ms"),
            "the TTL of an owner or a claim",
            "status 422 `invalid`",
        ),
        ("locks_per_command", locks_per_command.to_string(), "locks in one call", "status 422 `invalid`"),
        (
            "locks_ended_at_once",
            locks_ended_at_once.to_string(),
            "offline locks that end in one commit",
            "the rest of an owner's locks ends in commits that follow, one each 50 ms, more where very many are left",
        ),
        (
            "requests_per_agent",
            requests_per_agent.to_string(),
            "requests and locks of an agent",
            "error `quota_exceeded`",
        ),
    ]
}

fn of_frames() -> Vec<Constant> {
    vec![
        ("FRAME_BYTES", bytes(FRAME_BYTES), "a message, in either direction", "close 1009 `too_large`"),
        (
            "BATCH_FRAMES",
            BATCH_FRAMES.to_string(),
            "frames of a message, in either direction",
            "close 4400 `bad_frame`, behind the frames before",
        ),
        ("CLIENT_ID_BYTES", bytes(CLIENT_ID_BYTES), "the client id of an agent", "error `quota_exceeded`"),
        ("LABEL_BYTES", bytes(LABEL_BYTES), "the label in `hello`", "close 4400"),
        (
            "SCOPE_BYTES",
            bytes(SCOPE_BYTES),
            "the names of bucket and partition",
            "status 400, or 422 `invalid`",
        ),
        (
            "ORIGINS_BYTES",
            bytes(ORIGINS_BYTES),
            "a partition that lists the origins of a frame and its ancestors",
            "status 400",
        ),
        ("TICKET_BYTES", bytes(TICKET_BYTES), "the ticket of a grant", "error `bad_frame`"),
        (
            "ACK_EVERY",
            ACK_EVERY.to_string(),
            "numbered frames without an acknowledgement of the other side",
            "the server sends an `ack`",
        ),
        (
            "FAREWELL_TIMEOUT",
            humantime::format_duration(FAREWELL_TIMEOUT).to_string(),
            "the last words and the closing handshake of a connection",
            "cut off",
        ),
        (
            "WRITE_GRACE",
            humantime::format_duration(WRITE_GRACE).to_string(),
            "how much later than `write_timeout` a WebSocket is given up where the server does not accept connections itself",
            "cut off",
        ),
        (
            "FAILED_FAREWELL_TIMEOUT",
            humantime::format_duration(FAILED_FAREWELL_TIMEOUT).to_string(),
            "the same of all connections together, where the store has failed",
            "cut off",
        ),
        (
            "FILE_CHECK",
            humantime::format_duration(FILE_CHECK).to_string(),
            "the time between two looks at whether the database file is in its place",
            "",
        ),
    ]
}

fn of_sessions() -> Vec<Constant> {
    let slow = "close 4429 `slow_reader`; the session ends";
    vec![
        (
            "WATCHES_PER_SESSION",
            WATCHES_PER_SESSION.to_string(),
            "watches of a connection",
            "error `quota_exceeded`",
        ),
        (
            "WATCH_GATHERING",
            humantime::format_duration(WATCH_GATHERING).to_string(),
            "the time in which changes are told of together",
            "told later",
        ),
        (
            "WINDOW_BYTES",
            bytes(WINDOW_BYTES),
            "frames that a client may have under way, by its promise, each with 96 bytes more",
            "see `HELD_BACK_BYTES`",
        ),
        (
            "ACK_BYTES",
            bytes(ACK_BYTES),
            "frames without an acknowledgement of the server",
            "the server sends an `ack`",
        ),
        (
            "WAITING_ANSWERS",
            WAITING_ANSWERS.to_string(),
            "answers of a session that wait for the store, and `ifAvailable` requests that wait for it or for a recovery",
            "error `quota_exceeded`",
        ),
        ("ANSWER_BYTES", bytes(ANSWER_BYTES), "the answer to a numbered frame", "holders are left out of it"),
        (
            "UNASKED_FRAMES",
            UNASKED_FRAMES.to_string(),
            "frames that a session may be told at once without having asked",
            "cannot be, by the bounds of sessions",
        ),
        ("UNASKED_FRAME_BYTES", bytes(UNASKED_FRAME_BYTES), "one of them", "cannot be, by its form"),
        ("RESEND_FRAMES", RESEND_FRAMES.to_string(), "frames that wait for their acknowledgement", slow),
        ("RESEND_BYTES", bytes(RESEND_BYTES), "the same in bytes", slow),
        (
            "INBOX_NOTICES",
            INBOX_NOTICES.to_string(),
            "notices of a bucket that a session has not taken",
            slow,
        ),
        (
            "SPARED_BYTES",
            bytes(SPARED_BYTES),
            "what a session may leave unacknowledged, however much the others of its tenant have",
            "see `unread_mib_per_tenant`",
        ),
        (
            "UNCOUNTED_BYTES",
            bytes(UNCOUNTED_BYTES),
            "what a session leaves untaken before it counts",
            "see `unread_mib_per_tenant`",
        ),
    ]
}

fn of_reading() -> Vec<Constant> {
    vec![
        (
            "OUTBOX_HIGH_WATER_BYTES",
            bytes(OUTBOX_HIGH_WATER_BYTES),
            "bytes that wait to be written",
            "nothing more is read but pongs, acks and ends",
        ),
        (
            "HELD_BACK_BYTES",
            bytes(HELD_BACK_BYTES),
            "bytes that are read ahead meanwhile, or before the turn of a session over its rate, and one message more; they count as `unread_mib_per_tenant`",
            "nothing more is read, so that the lease of a client that exceeds its window may end",
        ),
        (
            "READ_BATCH",
            READ_BATCH.to_string(),
            "frames of a session that are carried out in one go",
            "others come first",
        ),
        (
            "GIVE_WAY_FRAMES",
            GIVE_WAY_FRAMES.to_string(),
            "what a session does of that without a pause, as the rates count it",
            "what has come for others is heard",
        ),
        (
            "HEAD_BYTES",
            bytes(HEAD_BYTES),
            "the head of an HTTP request; up to twice that may pass",
            "status 431, and closed",
        ),
        (
            "HEAD_LINES",
            "100".to_owned(),
            "the header lines of an HTTP request, which hyper counts",
            "status 431, and closed",
        ),
    ]
}

fn of_http() -> Vec<Constant> {
    vec![
        ("HTTP_BODY_BYTES", bytes(HTTP_BODY_BYTES), "the body of an HTTP request", "status 413 `too_large`"),
        (
            "STRAY_BODY_BYTES",
            bytes(STRAY_BODY_BYTES),
            "the body of a GET, or of a request outside of the API",
            "status 413 `too_large`",
        ),
        (
            "SMALL_BODY_BYTES",
            bytes(SMALL_BODY_BYTES),
            "a body that may come behind its head without one of the `LATE_BODIES`",
            "see `LATE_BODIES`",
        ),
        (
            "LATE_BODIES",
            LATE_BODIES.to_string(),
            "larger bodies, or of unknown length, that come behind their head, at once",
            "status 503 `overloaded`, and closed",
        ),
        (
            "REFUSED_AT_ONCE",
            REFUSED_AT_ONCE.to_string(),
            "connections at once that are told why they are refused",
            "closed without a word",
        ),
        (
            "REFUSED_FOR",
            humantime::format_duration(REFUSED_FOR).to_string(),
            "the time in which such a connection asks, and hears why",
            "cut off",
        ),
        (
            "UNWANTED_BYTES",
            bytes(UNWANTED_BYTES as usize),
            "what is read of a connection whose TLS handshake failed",
            "cut off",
        ),
        (
            "WARM_BUCKETS",
            WARM_BUCKETS.to_string(),
            "buckets that stay in use for a while after a call, twice",
            "in use only during their calls",
        ),
        (
            "WARM_FOR",
            humantime::format_duration(WARM_FOR).to_string(),
            "the least time for which they do; the most is twice as long",
            "",
        ),
        (
            "BODY_MEMBERS",
            BODY_MEMBERS.to_string(),
            "members of a JSON object in a body",
            "status 400 `bad_request`",
        ),
        (
            "RELEASES",
            RELEASES.to_string(),
            "locks that are given back, or spared, by one call",
            "status 422 `invalid`",
        ),
    ]
}

fn of_audit_and_answers() -> Vec<Constant> {
    vec![
        (
            "AUDIT_LINES",
            AUDIT_LINES.to_string(),
            "lines of the audit log about one who is denied the same again and again, in `AUDIT_WHILE`",
            "counted, and told in one line",
        ),
        (
            "AUDIT_WHILE",
            humantime::format_duration(AUDIT_WHILE).to_string(),
            "the time after which he is told of again",
            "",
        ),
        ("AUDIT_SERIES", AUDIT_SERIES.to_string(), "those who are told apart in it", "counted together"),
        (
            "AUDIT_NAME_CHARS",
            AUDIT_NAME_CHARS.to_string(),
            "characters of a name in the audit log",
            "left out",
        ),
        (
            "IDEMPOTENCY_AGE",
            humantime::format_duration(IDEMPOTENCY_AGE).to_string(),
            "the time for which an answer with an `Idempotency-Key` is remembered",
            "forgotten",
        ),
        (
            "IDEMPOTENCY_KEYS_PER_BUCKET",
            IDEMPOTENCY_KEYS_PER_BUCKET.to_string(),
            "such answers of a bucket",
            "the oldest of the bucket is forgotten; status 429 `quota_exceeded` if all are under way",
        ),
        (
            "IDEMPOTENCY_KEYS",
            IDEMPOTENCY_KEYS.to_string(),
            "such answers in all",
            "the oldest of the tenant that has most is forgotten",
        ),
        (
            "IDEMPOTENCY_BYTES_PER_TENANT",
            bytes(IDEMPOTENCY_BYTES_PER_TENANT),
            "what such answers of a tenant take",
            "the oldest of its bucket whose answers take most is forgotten",
        ),
        (
            "IDEMPOTENCY_BYTES",
            bytes(IDEMPOTENCY_BYTES),
            "what such answers take in all",
            "the oldest of the tenant whose answers take most is forgotten",
        ),
        (
            "HISTORY_STEPS",
            HISTORY_STEPS.to_string(),
            "looks of one call at 2000 rows of the history each",
            "the page ends there, and has a `next`",
        ),
        (
            "HISTORY_AT_ONCE",
            HISTORY_AT_ONCE.to_string(),
            "calls about the history that look at the store at once, each of another tenant",
            "the others wait, `store_timeout` at most; then status 503 `overloaded`",
        ),
    ]
}

fn of_nodes() -> Vec<Constant> {
    let length = |length| humantime::format_duration(length).to_string();
    vec![
        (
            "MOVING_PATIENCE",
            length(MOVING_PATIENCE),
            "how long a call or a WebSocket waits for a bucket that moves between two nodes of a fleet",
            "status 503 `moving`, or close 1012",
        ),
        (
            "RETURNS_PER_SECOND",
            RETURNS_PER_SECOND.to_string(),
            "clients that come again each second, after a server or one of its buckets has gone",
            "their turns are spread over more time, up to `LONGEST_TURN`",
        ),
        (
            "LONGEST_TURN",
            length(LONGEST_TURN),
            "how long a client is kept away at most",
            "more clients come in each second",
        ),
        (
            "RELAY_BYTES",
            RELAY_BYTES.to_string(),
            "bytes of a WebSocket that is handed on that are under way each way at once",
            "the sender waits",
        ),
        (
            "HAND_ON_PATIENCE",
            length(HAND_ON_PATIENCE),
            "how long a WebSocket waits for the node that has its bucket",
            "close 1012",
        ),
        (
            "HOP_CONNECT",
            length(HOP_CONNECT),
            "how long a connection to another node may take",
            "another node is waited for",
        ),
        (
            "NODES_REMEMBERED",
            NODES_REMEMBERED.to_string(),
            "nodes of which it is remembered that they were not reached",
            "all are forgotten",
        ),
        (
            "HOP_IDLE_CONNECTIONS",
            HOP_IDLE_CONNECTIONS.to_string(),
            "idle connections to each other node",
            "closed",
        ),
        ("HOP_IDLE", length(HOP_IDLE), "how long they may be idle", "closed"),
        (
            "RELEASE_PATIENCE",
            length(RELEASE_PATIENCE),
            "how long another node may take to give a slot back",
            "asked again later",
        ),
        (
            "NODE_STATE_PATIENCE",
            length(NODE_STATE_PATIENCE),
            "how long another node may take to say how it is",
            "shown as unreachable",
        ),
    ]
}

fn rows() -> (Vec<String>, Vec<String>, Vec<String>) {
    let constants = constants();
    let constant = constants
        .iter()
        .map(|(name, value, what, beyond)| format!("| `{name}` | {value} | {what} | {beyond} |"));
    let counted = Refused::ALL.iter().map(|kind| format!("`{kind}`"));
    (settings(), constant.collect(), counted.collect())
}

/// The rows of the table that begins after that heading.
fn table(heading: &str) -> Vec<&'static str> {
    let (_, section) = DOCS.split_once(heading).expect("the heading");
    let rows = section.lines().skip_while(|line| !line.starts_with("|--")).skip(1);
    rows.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn the_document_lists_every_bound_as_it_is() {
    let (settings, constants, counted) = rows();
    // The rows to put into the document.
    println!("{}\n\n{}", settings.join("\n"), constants.join("\n"));
    assert_eq!(table("## What operators set"), settings);
    assert_eq!(table("## What is fixed"), constants);
    for word in &counted {
        assert!(DOCS.contains(word), "docs/limits.md says nothing of {word}: {}", counted.join(", "));
    }
}

#[test]
fn every_constant_of_the_server_is_listed() {
    let constants = constants();
    let names = BOUNDS.lines().filter_map(|line| {
        let (_, rest) = line.strip_prefix("pub(crate) ").unwrap_or(line).split_once("const ")?;
        rest.split_once(':').map(|(name, _)| name).filter(|_| !rest.starts_with("fn"))
    });
    // These are what settings are made of.
    let parts = ["AGENTS_PER_SESSION", "REQUESTS_PER_AGENT", "REQUESTS_PER_SESSION"];
    let mut count = 0;
    for name in names.filter(|name| !parts.contains(name)) {
        assert!(constants.iter().any(|(listed, ..)| *listed == name), "{name} is not listed");
        count += 1;
    }
    assert!(count > 15, "{count} constants are too few to be true");
}
