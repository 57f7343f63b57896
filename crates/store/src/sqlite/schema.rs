//! The tables, and how a file of an earlier version comes to have them.
//!
//! docs/sqlite.md describes them for people.

use rusqlite::{Connection, TransactionBehavior};

use crate::SecretKey;

/// The mark of a lockhouse database in the header of its file: `LkHs`.
pub(crate) const APPLICATION_ID: i32 = 0x4C6B_4873;
/// The mark of a backup, which must not be used as a database: `LkHb`.
pub(crate) const BACKUP_ID: i32 = 0x4C6B_4862;

/// The steps from each version to the next, beginning with an empty file. The list only ever grows at its
/// end.
pub(crate) const STEPS: &[&str] = &[VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6];

const VERSION_1: &str = "
CREATE TABLE secret (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    key  BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;

CREATE TABLE slots (
    slot                    INTEGER PRIMARY KEY,
    epoch                   INTEGER NOT NULL,
    writer                  INTEGER NOT NULL,
    clean                   INTEGER NOT NULL,
    restored                INTEGER NOT NULL,
    longest_lease_ms        INTEGER NOT NULL,
    longest_lease_before_ms INTEGER NOT NULL,
    tickets_since           INTEGER NOT NULL,
    token_floor             INTEGER NOT NULL
) STRICT;
INSERT INTO slots VALUES (0, 0, 0, 1, 0, 0, 0, 1, 0);

CREATE TABLE tenants (
    tenant TEXT PRIMARY KEY,
    mark   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE buckets (
    id      INTEGER PRIMARY KEY,
    tenant  TEXT NOT NULL,
    bucket  TEXT NOT NULL,
    mark    INTEGER NOT NULL DEFAULT 0,
    told_in INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, bucket)
) STRICT;

CREATE TABLE owners (
    bucket   INTEGER NOT NULL REFERENCES buckets,
    owner    INTEGER NOT NULL,
    label    TEXT NOT NULL,
    metadata TEXT,
    ttl_ms   INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    ends     INTEGER,
    seal     INTEGER NOT NULL,
    PRIMARY KEY (bucket, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE locks (
    bucket    INTEGER NOT NULL REFERENCES buckets,
    name      BLOB NOT NULL,
    owner     INTEGER NOT NULL,
    mode      TEXT NOT NULL CHECK (mode IN ('exclusive', 'shared')),
    token     INTEGER NOT NULL,
    since     INTEGER NOT NULL,
    metadata  TEXT,
    name_text TEXT GENERATED ALWAYS AS (CAST(name AS TEXT)) VIRTUAL,
    PRIMARY KEY (bucket, name, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
    bucket    INTEGER NOT NULL REFERENCES buckets,
    name      BLOB NOT NULL,
    claimant  TEXT NOT NULL,
    token     INTEGER NOT NULL,
    ttl_ms    INTEGER NOT NULL,
    since     INTEGER NOT NULL,
    seal      INTEGER NOT NULL,
    metadata  TEXT,
    name_text TEXT GENERATED ALWAYS AS (CAST(name AS TEXT)) VIRTUAL,
    PRIMARY KEY (bucket, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE assignments (
    bucket    INTEGER NOT NULL REFERENCES buckets,
    name      BLOB NOT NULL,
    claimant  TEXT NOT NULL,
    token     INTEGER NOT NULL,
    since     INTEGER NOT NULL,
    seal      INTEGER NOT NULL,
    name_text TEXT GENERATED ALWAYS AS (CAST(name AS TEXT)) VIRTUAL,
    PRIMARY KEY (bucket, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    tenant    TEXT NOT NULL,
    bucket    TEXT NOT NULL,
    what      TEXT NOT NULL CHECK (what = 'owner' OR what = 'lock' OR what = 'claim' OR what = 'assignment'),
    event     TEXT NOT NULL CHECK (event IN ('began', 'ended')),
    why       TEXT,
    who       TEXT,
    owner     INTEGER,
    name      BLOB,
    mode      TEXT,
    token     INTEGER,
    name_text TEXT GENERATED ALWAYS AS (CAST(name AS TEXT)) VIRTUAL
) STRICT;
";

const VERSION_2: &str = "
CREATE TABLE floors (
    tenant_group TEXT PRIMARY KEY,
    mark         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

const VERSION_3: &str = "
CREATE TABLE voided (
    bucket INTEGER NOT NULL REFERENCES buckets,
    owner  INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    what   TEXT NOT NULL CHECK (what = 'all' OR what = 'all but' OR what = 'these'),
    why    TEXT,
    up_to  INTEGER,
    names  BLOB NOT NULL,
    PRIMARY KEY (bucket, owner, seq)
) STRICT, WITHOUT ROWID;
";

const VERSION_4: &str = "
ALTER TABLE slots ADD COLUMN held BLOB;
";

/// The history has one row for each hold that has ended, in place of one for each beginning and each end.
const VERSION_5: &str = "
CREATE TABLE ended (
    seq       INTEGER PRIMARY KEY,
    since     INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    tenant    TEXT NOT NULL,
    bucket    TEXT NOT NULL,
    kind      TEXT NOT NULL CHECK (kind = 'owner' OR kind = 'offline' OR kind = 'claim' OR kind = 'assignment'),
    why       TEXT NOT NULL,
    who       TEXT,
    owner     INTEGER,
    name      BLOB,
    mode      TEXT,
    token     INTEGER,
    operator  TEXT,
    reason    TEXT,
    name_text TEXT GENERATED ALWAYS AS (CAST(name AS TEXT)) VIRTUAL
) STRICT;
CREATE INDEX beginnings ON history (tenant, bucket, what, coalesce(token, owner), event, seq);
INSERT INTO ended (seq, since, at, tenant, bucket, kind, why, who, owner, name, mode, token)
SELECT seq,
    coalesce((
        SELECT at FROM history b
        WHERE (b.tenant, b.bucket, b.what, coalesce(b.token, b.owner), b.event)
                = (e.tenant, e.bucket, e.what, coalesce(e.token, e.owner), 'began') AND b.seq < e.seq
        ORDER BY b.seq DESC LIMIT 1), at),
    at, tenant, bucket, CASE what WHEN 'lock' THEN 'offline' ELSE what END, coalesce(why, 'released'), who, owner,
    name, mode, token
FROM history e WHERE event = 'ended' ORDER BY seq;
DROP TABLE history;
ALTER TABLE ended RENAME TO history;
";

/// Refusals are in the history, too, each with a number of times. The indices find what is oldest. The counts
/// are those of the rows up to a number, so that no commit has to count them all.
const VERSION_6: &str = "
ALTER TABLE history ADD COLUMN times INTEGER;
CREATE INDEX history_ends ON history (at) WHERE why <> 'refused';
CREATE INDEX history_refusals ON history (at) WHERE why = 'refused';
CREATE TABLE history_counts (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    up_to    INTEGER NOT NULL,
    ends     INTEGER NOT NULL,
    refusals INTEGER NOT NULL
) STRICT;
INSERT INTO history_counts SELECT 1, coalesce(max(seq), 0), count(*), 0 FROM history;
";

/// The version that the steps lead to.
pub(crate) fn version_of(steps: &[&str]) -> i32 {
    // There are never more steps than releases.
    steps.len() as i32
}

/// Makes the tables in an empty file that has this key.
pub(crate) fn create(file: &mut Connection, key: &SecretKey) -> rusqlite::Result<()> {
    file.pragma_update(None, "application_id", APPLICATION_ID)?;
    migrate(file, STEPS)?;
    file.execute("INSERT INTO secret VALUES (1, ?1)", [key.as_bytes()]).map(drop)
}

/// Takes a file from its version to that of the steps: in one transaction, so that the file has the old
/// version or the new one.
pub(crate) fn migrate(file: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in steps.iter().skip(from.unsigned_abs() as usize) {
        transaction.execute_batch(step)?;
    }
    if from < version_of(steps) {
        transaction.pragma_update(None, "user_version", version_of(steps))?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: &[&str] = &[
        "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7)",
        "ALTER TABLE a ADD COLUMN y INTEGER; UPDATE a SET y = x + 1",
        "CREATE TABLE b AS SELECT x + y AS sum FROM a",
    ];

    fn sum(file: &Connection) -> i64 {
        file.query_row("SELECT sum FROM b", [], |row| row.get(0)).unwrap()
    }

    fn version(file: &Connection) -> i32 {
        file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_file_of_any_earlier_version_takes_the_steps_that_it_lacks() {
        for earlier in 0..=3 {
            let mut file = Connection::open_in_memory().unwrap();
            migrate(&mut file, &LATER[..earlier]).unwrap();
            assert_eq!(version(&file), earlier as i32);
            migrate(&mut file, LATER).unwrap();
            assert_eq!((version(&file), sum(&file)), (3, 15));
        }
    }

    /// SQLite makes such a table for each row that it checks against more than two values `IN (…)`, which
    /// costs more than the rest of an insert.
    #[test]
    fn no_insert_needs_a_table_of_its_own() {
        let mut file = Connection::open_in_memory().unwrap();
        create(&mut file, &SecretKey::new([7; 32])).unwrap();
        for table in
            ["floors", "tenants", "buckets", "owners", "locks", "claims", "assignments", "voided", "history"]
        {
            let sql = format!("EXPLAIN INSERT INTO {table} DEFAULT VALUES");
            let mut explain = file.prepare(&sql).unwrap();
            let steps = explain.query_map([], |row| row.get::<_, String>("opcode")).unwrap();
            let steps: Vec<_> = steps.collect::<Result<_, _>>().unwrap();
            assert!(steps.iter().any(|step| step.ends_with("Insert")), "{table}: {steps:?}");
            assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{table}: {steps:?}");
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_earlier_version_whole() {
        let mut file = Connection::open_in_memory().unwrap();
        migrate(&mut file, &LATER[..1]).unwrap();
        migrate(&mut file, &[LATER[0], LATER[1], "no SQL"]).unwrap_err();
        assert_eq!(version(&file), 1);
        file.query_row("SELECT y FROM a", [], |row| row.get::<_, i64>(0)).unwrap_err();
        migrate(&mut file, LATER).unwrap();
        assert_eq!(sum(&file), 15);
    }
}
