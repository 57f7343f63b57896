//! Every key that can be set.

use std::sync::LazyLock;

use super::key::Key;
use super::sections::{auth, cluster, history, limits, log, metrics, tls};

/// Every key that there is, in the order in which they are shown.
pub fn keys() -> &'static [Key] {
    static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let of_server = [tls::keys(), cluster::keys(), auth::keys(), limits::keys()];
        let sections = [of_server.concat(), metrics::keys(), history::keys(), log::keys()];
        [server_keys(), sections.concat()].concat()
    });
    &KEYS
}

/// The keys above all tables.
fn server_keys() -> Vec<Key> {
    vec![
        Key::new("listen", "\"127.0.0.1:7420\"").flag("--listen"),
        Key::new("store", "\"sqlite:lockhouse.db\"").flag("--store"),
        Key::unset("store_password_file").flag("--store-password-file"),
        Key::new("store_timeout", "\"5s\"").flag("--store-timeout"),
        Key::new("fresh", "false").flag("--fresh"),
        Key::new("lease", "\"10s\"").flag("--lease"),
        Key::new("drain", "\"10s\"").flag("--drain"),
        Key::new("allowed_origins", "[]").flag("--allow-origin"),
        Key::new("lock_types", "{}").flag("--lock-type"),
        Key::new("break_reason", "\"optional\""),
    ]
}
