//! PostgreSQL, and the fleet as its tables have it.

use std::time::Duration;

use lockhouse::store::{
    IndexesLook, NodeRow, PostgresLook, PostgresOptions, PostgresStore, SchemaLook, TablesLook,
};
use lockhouse_server::{LoadedSettings, PostgresUrl};

use super::PATIENCE;
use super::diagnosis::{Diagnosis, Grade};

const STORE: &str = "store";
const DURABILITY: &str = "durability";
const SCHEMA: &str = "schema";
const INDEXES: &str = "indexes";
const CONNECTIONS: &str = "connections";
const CLOCK: &str = "clock of store";
const NODES: &str = "nodes";
const VERSIONS: &str = "row versions";

/// So many transactions old versions of rows may be kept alive without a word: each commit passes those of
/// the rows that it changes.
const HELD_FOR: i64 = 10_000;

/// The clocks may differ by so much without a word.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

/// A difference of so much is a fault: a new generation leads the clock by no more.
const CLOCKS_FAR_APART: Duration = Duration::from_secs(60);

/// Looks at the server and the schema, and changes nothing.
pub(super) async fn check(url: &PostgresUrl, loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let settings = &loaded.settings;
    check_node_settings(loaded, diagnosis);
    let options = match &settings.store_password_file {
        Some(file) => PostgresOptions::default().password_file(file),
        None => PostgresOptions::default().passfile_of_environment(),
    };
    let look = match PostgresStore::look_at(url.as_str(), options, PATIENCE).await {
        Ok(look) => look,
        Err(error) => {
            let advice =
                "see whether the server runs, and whether host, user, database and password are right";
            return diagnosis.fault(STORE, error.to_string(), advice);
        }
    };
    check_server(&look, diagnosis);
    check_durability(&look, diagnosis);
    check_clocks(&look, diagnosis);
    check_connections(&look, diagnosis);
    check_versions(&look, diagnosis);
    check_schema(&look, loaded, diagnosis);
}

/// What `serve` asks of a node beyond the rules of the settings.
fn check_node_settings(loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let listen = &loaded.settings.listen;
    let is_loopback = ["127.", "[::1]", "localhost"].iter().any(|start| listen.starts_with(start));
    if loaded.settings.cluster.advertise.is_none() && !is_loopback {
        let advice = "set the URL at which other nodes reach this one, such as https://a.example:7420";
        diagnosis.fault(NODES, "cluster.advertise is missing", advice);
    }
}

fn check_server(look: &PostgresLook, diagnosis: &mut Diagnosis) {
    let PostgresLook { place, version, took, .. } = look;
    let oldest = PostgresLook::OLDEST;
    if *version < oldest {
        diagnosis.fault(
            STORE,
            format!("{place} is PostgreSQL {version}"),
            format!("use version {oldest} or a newer one"),
        );
    } else {
        diagnosis.ok(STORE, format!("{place} is PostgreSQL {version}, and answers within {took:.1?}"));
    }
}

/// Settings with which less is promised, each with the value and what to do.
const WEAK: [(&str, &str, Grade, &str); 5] = [
    ("fsync", "off", Grade::Fault, "set fsync=on: nothing survives a loss of power"),
    (
        "full_page_writes",
        "off",
        Grade::Warning,
        "set full_page_writes=on, unless the disk writes whole pages",
    ),
    (
        "synchronous_commit",
        "off",
        Grade::Warning,
        "set synchronous_commit=on; the store waits for the disk nevertheless, and for no standby",
    ),
    (
        "synchronous_commit",
        "local",
        Grade::Warning,
        "set synchronous_commit=on, so that commits wait for a standby",
    ),
    (
        "synchronous_commit",
        "remote_write",
        Grade::Warning,
        "set synchronous_commit=on: a standby may not have it on its disk",
    ),
];

fn check_durability(look: &PostgresLook, diagnosis: &mut Diagnosis) {
    let of = |name: &str| {
        let found = look.settings.iter().find(|(setting, _)| **setting == *name);
        found.map_or("", |(_, value)| value)
    };
    for (name, value, grade, advice) in WEAK {
        if of(name) == value {
            diagnosis.add(grade, DURABILITY, format!("{name} is {value}"), advice);
        }
    }
    let isolation = of("default_transaction_isolation");
    if isolation != "read committed" {
        let found = format!("default_transaction_isolation is {isolation:?} for this account");
        diagnosis.fault(DURABILITY, found, "set \"read committed\"");
    }
    if look.has_synchronous_standby && look.standbys == 0 {
        let found = "synchronous_standby_names has a standby, and none is connected: no commit is confirmed";
        diagnosis.fault(DURABILITY, found, "start the standby, or take it out of synchronous_standby_names");
    }
    let standby = match look.has_synchronous_standby {
        true => "commits wait for a synchronous standby",
        false => "commits wait for no standby, so that a failover may lose the last of them",
    };
    diagnosis.ok_unless_found(DURABILITY, standby);
}

fn check_clocks(look: &PostgresLook, diagnosis: &mut Diagnosis) {
    let (theirs, ours) = look.clocks;
    let (apart, is_ahead) = match theirs.duration_since(ours) {
        Ok(apart) => (apart, false),
        Err(error) => (error.duration(), true),
    };
    // The answer may have taken all of its time on one way.
    let apart = apart.saturating_sub(look.took);
    let side = if is_ahead { "ahead of" } else { "behind" };
    let found = format!("this machine's clock is {apart:.1?} {side} that of the database");
    let advice = "keep both right with NTP: fencing tokens and times go by them";
    if apart > CLOCKS_FAR_APART {
        diagnosis.fault(CLOCK, found, advice);
    } else if apart > CLOCKS_DIFFER {
        diagnosis.warn(CLOCK, found, advice);
    } else {
        diagnosis.ok(CLOCK, "this machine and the database show the same time");
    }
}

fn check_connections(look: &PostgresLook, diagnosis: &mut Diagnosis) {
    let (left, needed) = (look.connections_left, PostgresLook::CONNECTIONS_OF_NODE);
    let found = format!("{left} are left for this account, and a node needs up to {needed}");
    if left < needed {
        let advice = "raise max_connections or the limit of the role, or use a pooler in transaction mode";
        diagnosis.fault(CONNECTIONS, found, advice);
    } else {
        diagnosis.ok(CONNECTIONS, format!("enough: a node needs up to {needed}"));
    }
}

fn check_versions(look: &PostgresLook, diagnosis: &mut Diagnosis) {
    match &look.oldest_holder {
        Some((holder, age)) if *age > HELD_FOR => {
            let found = format!("{holder} keeps old versions of rows alive for {age} transactions by now");
            let advice = "end it if it is not needed: each commit takes longer as long as it is there";
            diagnosis.warn(VERSIONS, found, advice);
        }
        _ => diagnosis.ok(VERSIONS, "nothing that the account may see keeps old ones alive for long"),
    }
}

fn check_schema(look: &PostgresLook, loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let place = &look.place;
    let Some(SchemaLook { may_use, tables, is_used, .. }) = &look.schema else {
        return match look.may_create_schema {
            true => diagnosis.ok(SCHEMA, format!("{place} is not there; the first start makes it")),
            false => diagnosis.fault(
                SCHEMA,
                format!("{place} is not there, and the account may not make it"),
                "GRANT CREATE ON DATABASE, or CREATE SCHEMA … AUTHORIZATION for the account",
            ),
        };
    };
    if !may_use {
        let advice = "make the account its owner, or GRANT USAGE, CREATE ON SCHEMA";
        return diagnosis.fault(SCHEMA, format!("the account may not use {place}"), advice);
    }
    let Some(tables) = tables else {
        return match is_used {
            true => diagnosis.fault(
                SCHEMA,
                format!("{place} has tables, but none of lockhouse"),
                "move them away, or name another database",
            ),
            false => diagnosis.ok(SCHEMA, format!("{place} is empty; the first start makes the tables")),
        };
    };
    check_tables(tables, place, loaded, diagnosis);
}

fn check_tables(tables: &TablesLook, place: &str, loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let TablesLook { version, known, slots, nodes, indexes, .. } = tables;
    let wanted = loaded.settings.cluster.slots;
    if version > known {
        let found = format!("{place} has version {version}, and this program knows up to {known}");
        diagnosis.fault(SCHEMA, found, "use the newer lockhouse that the other nodes are");
    }
    if *slots != i32::from(wanted) {
        let found = format!("cluster.slots is {wanted}, but {place} was made with {slots}");
        diagnosis.fault(SCHEMA, found, format!("set cluster.slots to {slots}"));
    }
    diagnosis.ok_unless_found(SCHEMA, format!("{place} has version {version} and {slots} slots"));
    check_indexes(indexes, diagnosis);
    check_nodes(nodes, loaded, diagnosis);
}

/// A page that was overwritten shows here before a statement meets it.
fn check_indexes(indexes: &IndexesLook, diagnosis: &mut Diagnosis) {
    match indexes {
        IndexesLook::NotChecked => diagnosis.ok(
            INDEXES,
            "not checked; CREATE EXTENSION amcheck, and GRANT EXECUTE ON FUNCTION bt_index_check(regclass)",
        ),
        IndexesLook::Unfinished => {
            diagnosis.ok(INDEXES, "not all checked, as there was no time for it; run pg_amcheck");
        }
        IndexesLook::Checked(damaged) => {
            for (index, why) in damaged {
                let advice = format!(
                    "REINDEX INDEX CONCURRENTLY {index}, then pg_amcheck; look for the fault of the disk"
                );
                diagnosis.fault(INDEXES, format!("{index} is damaged: {why}"), advice);
            }
            diagnosis.ok_unless_found(INDEXES, "amcheck finds all of them sound");
        }
    }
}

/// What the other nodes have to share with this one.
fn check_nodes(nodes: &[NodeRow], loaded: &LoadedSettings, diagnosis: &mut Diagnosis) {
    let cluster = &loaded.settings.cluster;
    let mark = loaded.cluster_secret_mark();
    for NodeRow { label, address, slot_lease, secret_mark, .. } in nodes {
        if mark.is_some_and(|mark| mark != *secret_mark) {
            diagnosis.fault(
                NODES,
                format!("the cluster secret is not that of the node {label:?}"),
                "copy the same file to all nodes",
            );
        }
        if *slot_lease != cluster.slot_lease {
            diagnosis.warn(
                NODES,
                format!(
                    "node {label:?} has the slot lease {slot_lease:?}, and this one {:?}",
                    cluster.slot_lease
                ),
                "give all nodes the same cluster.slot_lease",
            );
        }
        let own = cluster.advertise.as_ref();
        let is_own_label = cluster.node.as_deref() == Some(&**label);
        if is_own_label && own.is_some_and(|own| own.to_string() != **address) {
            diagnosis.fault(
                NODES,
                format!("cluster.node is {label:?}, which the node at {address} has"),
                "give each node a name of its own",
            );
        }
    }
    diagnosis
        .ok_unless_found(NODES, format!("{} are known, and none contradicts these settings", nodes.len()));
}
