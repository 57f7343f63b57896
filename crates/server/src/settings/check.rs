//! Faults of settings each of which is right by itself.

use lockhouse::RecordKind;

use super::problem::SettingsProblem;
use super::sections::Settings;
use super::sections::limits::{LimitSetting, LimitSettings};
use super::sections::store::StoreChoice;
use super::tree::Node;

impl Settings {
    /// Faults of settings each of which is right by itself. Settings that depend on one reported as wrong are
    /// not checked.
    pub(super) fn check(&self, tree: &Node, reported: &[SettingsProblem]) -> Vec<SettingsProblem> {
        let mut problems = Vec::new();
        let mut wrong = |key: &str, others: &[&str], rule: &str| {
            let is_reported = |path: &str| reported.iter().any(|problem| problem.is_within(path));
            if let Some(node) = tree.get(key)
                && !is_reported(key)
                && !others.iter().any(|path| is_reported(path))
            {
                problems.push(SettingsProblem::of_value(key, node, rule));
            }
        };
        if self.fresh && !matches!(self.store, StoreChoice::Memory { .. }) {
            wrong(
                "fresh",
                &["store"],
                "only with the store memory:, as a database knows by itself whether there is anything to wait for",
            );
        }
        if self.lock_types.keys().any(|kind| !(1..=RecordKind::NAME_CHARS).contains(&kind.chars().count())) {
            wrong("lock_types", &[], "a kind has a name of 1 to 64 characters, as no record has another one");
        }
        // A file that sets a key twice is no TOML, but options and variables can repeat a key.
        if tree.get("lock_types").is_some_and(|node| node.len() > self.lock_types.len()) {
            wrong("lock_types", &[], "a kind has one type, and stands there once");
        }
        if self.store_password_file.is_some() && !matches!(self.store, StoreChoice::Postgres(_)) {
            wrong(
                "store_password_file",
                &["store"],
                "only with the store postgres://…, as no other one has a password",
            );
        }
        self.tls.check(&mut wrong);
        self.cluster.check(self, &mut wrong);
        self.metrics.check(&mut wrong);
        if !self.auth.certificates.is_empty() && self.tls.client_ca.is_none() {
            wrong(
                "auth.certificates",
                &["tls.client_ca"],
                "needs tls.client_ca, the file with the CAs whose client certificates are taken",
            );
        }
        for (setting, value) in LimitSettings::ALL.iter().zip(self.limits.values()) {
            let LimitSetting { key, least, most, .. } = setting;
            if !(*least..=*most).contains(&value) {
                wrong(&format!("limits.{key}"), &[], &format!("must be from {least} to {most}"));
            }
        }
        problems
    }
}
