//! What a server shows at `/metrics`, read by the grammar of OpenMetrics.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::BTreeMap;

use reqwest::Client;

/// The values by name and labels, as they are written.
#[derive(Debug)]
pub(crate) struct Exposition(BTreeMap<String, f64>);

impl Exposition {
    /// Scrapes that URL.
    pub(crate) async fn of(url: &str) -> Self {
        let response = Client::new().get(url).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        Self::read(&response.text().await.unwrap())
    }

    /// Reads a whole text: every value stands below the type of its family, and once.
    pub(crate) fn read(text: &str) -> Self {
        let (lines, end) = text.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(end, "# EOF");
        let (mut family, mut values) = ("", BTreeMap::new());
        for line in lines.lines() {
            if let Some(described) = line.strip_prefix("# ") {
                let mut words = described.split(' ');
                assert!(matches!(words.next(), Some("HELP" | "TYPE")), "{line}");
                family = words.next().unwrap();
                continue;
            }
            let (key, value) = line.rsplit_once(' ').unwrap();
            assert!(key.starts_with(family) && key.starts_with("lockhouse_"), "{line} is not of {family}");
            let displaced = values.insert(key.to_owned(), value.parse().unwrap());
            assert_eq!(displaced, None, "{line}");
        }
        Self(values)
    }

    /// The value with that name and these labels, as they are written.
    pub(crate) fn value(&self, key: &str) -> f64 {
        *self.0.get(key).unwrap_or_else(|| panic!("no {key} in {:#?}", self.0.keys()))
    }

    /// The sum over all labels.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.of_name(name).map(|(_, value)| value).sum()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.of_name(name).next().is_some()
    }

    /// The labels under which there are values of that name.
    pub(crate) fn of_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        let of = move |key: &'a str| {
            key.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('{'))
        };
        self.0.iter().filter_map(move |(key, value)| Some((of(key)?, *value)))
    }

    /// The names of all values with their labels, as they are written.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names of all values.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|key| key.split('{').next().unwrap_or_default())
    }

    /// Whether no count has fallen since that earlier one.
    pub(crate) fn assert_grown_since(&self, earlier: &Self) {
        for (key, value) in earlier.0.iter().filter(|(key, _)| key.contains("_total")) {
            assert!(self.value(key) >= *value, "{key} has fallen from {value}");
        }
    }
}
