//! The settings in force, as a file that says the same.

use std::fmt::Write as _;

use super::key::Key;
use super::keys::keys;
use super::secret::is_secret;
use super::sources::LoadedSettings;
use super::tree::Value;

impl LoadedSettings {
    /// TOML, each value with a comment that names its source; secrets are left out.
    pub fn show(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for key in keys() {
            let (table, name) = key.path.rsplit_once('.').unwrap_or(("", &key.path));
            if table != section {
                section = table;
                // Writing to a string never fails.
                _ = write!(text, "\n[{table}]\n");
            }
            self.show_key(&mut text, key, name);
        }
        text
    }

    fn show_key(&self, text: &mut String, key: &Key, name: &str) {
        let Some(node) = self.tree.get(&key.path) else {
            _ = writeln!(text, "# {name} is not set");
            return;
        };
        // A kind or a bucket may have the name of a secret setting.
        let is_secret = |name: &str, value: &Value| {
            matches!(&*key.path, "auth.keys" | "auth.jwt")
                && is_secret(name)
                && matches!(value, Value::Text(_))
        };
        let value = node.shown(&is_secret);
        // A value with a place for each of its parts is shown part by part.
        let places = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes.iter().map(|node| &node.place).collect(),
            Value::Table(entries) if !entries.is_empty() => {
                entries.iter().map(|entry| &entry.place).collect()
            }
            _ => vec![&node.place],
        };
        let mut places: Vec<String> = places.into_iter().map(ToString::to_string).collect();
        places.dedup();
        _ = writeln!(text, "{name} = {value} # {}", places.join(", "));
    }
}
