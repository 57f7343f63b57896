//! The tables and functions, and how a schema of an earlier version comes to have them.
//!
//! A commit and a take are one statement each, a call of a function: no lock of a row waits for a process
//! that is paused between two statements, and a pooler that lends a connection for a transaction will do.
//!
//! Text of clients is stored as its UTF-8, since a `text` of PostgreSQL takes no U+0000.

/// The steps from each version to the next, beginning with an empty schema. The list only ever grows at its
/// end. `{s}` stands for the quoted name of the schema.
pub(crate) const STEPS: &[&str] = &[VERSION_1, VERSION_2];

/// What each version begins with: the row that says which version it is.
pub(crate) const FLEET: &str = "
CREATE TABLE {s}.fleet (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    version  integer NOT NULL,
    slots    integer NOT NULL CHECK (slots > 0),
    key      bytea   NOT NULL CHECK (length(key) = 32)
)";

const VERSION_1: &str = concat!(include_str!("schema/generation.sql"), include_str!("schema/version_1.sql"));

const VERSION_2: &str = include_str!("schema/version_2.sql");

/// How a load is planned, whatever is known of the tables: it goes from the buckets of the slot to their
/// rows. A bucket with most rows of a table would have others read all of them.
pub(crate) const PLAN_OF_LOAD: &str = "SET LOCAL jit = off; SET LOCAL enable_seqscan = off;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";

/// The marks of a slot in the order of [`RecoveredRow`](crate::RecoveredRow): whether it is one of a group,
/// of whom, and how high.
pub(crate) const MARKS: &str = "
SELECT true AS of_group, tenant_group AS whose, mark FROM {s}.floors WHERE slot = $1
UNION ALL SELECT false, tenant, mark FROM {s}.tenants WHERE slot = $1
ORDER BY of_group DESC, whose";

/// The state of a slot in that order; $2 is the first epoch whose announcements count.
pub(crate) const ROWS: &str = "
SELECT kind, name, owner, token, length, at, ends, seed, who, metadata, word, why FROM (
    SELECT tenant, bucket, 0 AS kind, 0::bigint AS first, ''::bytea AS second, 0::bigint AS third,
        NULL::bytea AS name, NULL::bigint AS owner, mark AS token, NULL::bigint AS length, NULL::bigint AS at,
        NULL::bigint AS ends, NULL::bigint AS seed, tenant AS who, bucket AS metadata,
        CASE WHEN told_in >= $2 AND told_in > 0 THEN 'needs recovery' END AS word, NULL::text AS why
    FROM {s}.buckets WHERE slot = $1
    UNION ALL
    SELECT b.tenant, b.bucket, 1, o.owner, '', 0, NULL, o.owner, NULL, o.ttl_ms, o.since, o.ends, o.seal,
        o.label, o.metadata, NULL, NULL
    FROM {s}.buckets b JOIN {s}.owners o ON o.bucket = b.id WHERE b.slot = $1
    UNION ALL
    SELECT b.tenant, b.bucket, 2, l.token, l.name, l.owner, l.name, l.owner, l.token, NULL, l.since, NULL,
        NULL, NULL, l.metadata, l.mode, NULL
    FROM {s}.buckets b JOIN {s}.locks l ON l.bucket = b.id WHERE b.slot = $1
    UNION ALL
    SELECT b.tenant, b.bucket, 3, v.owner, '', v.seq, v.names, v.owner, v.up_to, NULL, v.at, NULL, NULL, NULL,
        NULL, v.what, v.why
    FROM {s}.buckets b JOIN {s}.voided v ON v.bucket = b.id WHERE b.slot = $1
    UNION ALL
    SELECT b.tenant, b.bucket, 4, c.token, c.name, 0, c.name, NULL, c.token, c.ttl_ms, c.since, NULL, c.seal,
        c.claimant, c.metadata, NULL, NULL
    FROM {s}.buckets b JOIN {s}.claims c ON c.bucket = b.id WHERE b.slot = $1
    UNION ALL
    SELECT b.tenant, b.bucket, 5, a.token, a.name, 0, a.name, NULL, a.token, NULL, a.since, NULL, a.seal,
        a.claimant, NULL, NULL, NULL
    FROM {s}.buckets b JOIN {s}.assignments a ON a.bucket = b.id WHERE b.slot = $1
) AS rows
ORDER BY tenant, bucket, kind, first, second, third";

/// A call of a function of that schema, which is quoted: with the time that it may wait for the lock of a
/// row, which comes with the setting by which the server tells that a commit has no standby, what the caller
/// [knows](super::generation::Known), and so many further arguments.
pub(crate) fn call(schema: &str, function: &str, further: usize) -> String {
    let params = (9..9 + further).map(|number| format!(", ${number}"));
    let further: String = params.collect();
    format!("{schema}.{function}({LOCK_MS}, ROW($2, $3, $4, $5, $6, $7, $8)::{schema}.known{further})")
}

/// The first parameter. A role may be set to get no warnings, and then a commit that no standby has would
/// look like any other.
const LOCK_MS: &str = "(SELECT $1::integer FROM set_config('client_min_messages', 'warning', true))";

/// A statement about the tables of that schema, which is quoted.
pub(crate) fn of(schema: &str, sql: &str) -> String {
    sql.replace("{s}", schema)
}

/// The name of a schema as statements have it.
pub(crate) fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

/// The version that the steps lead to. There are never more steps than releases.
pub(crate) const VERSION: i32 = STEPS.len() as i32;
