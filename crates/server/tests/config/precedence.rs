//! Of several that say something, the first one is heard: the command line, the environment, the file, the
//! defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use lockhouse_server::{FlagValue, Key, LoadedSettings, Location, Sources, keys};
use proptest::prelude::*;

/// A value of a setting, different for each of its sources.
struct Example {
    path: &'static str,
    /// As TOML.
    file: &'static str,
    variable: &'static str,
    flag: Option<FlagValue>,
    /// The output of each of them when it decides.
    shown: [&'static str; 3],
}

fn examples() -> Vec<Example> {
    let text = |text: &str| Some(FlagValue::Text(text.to_owned()));
    let example = |path, file, variable, flag, shown| Example { path, file, variable, flag, shown };
    let pairs = vec![("k".to_owned(), "read-write".to_owned())];
    vec![
        example(
            "listen",
            "'localhost:1'",
            "localhost:2",
            text("localhost:3"),
            ["\"localhost:1\"", "\"localhost:2\"", "\"localhost:3\""],
        ),
        example("lease", "'1s'", "2s", text("3s"), ["\"1s\"", "\"2s\"", "\"3s\""]),
        example("drain", "'1m'", "2m", text("3m"), ["\"1m\"", "\"2m\"", "\"3m\""]),
        example("store_timeout", "'1s'", "2s", text("3s"), ["\"1s\"", "\"2s\"", "\"3s\""]),
        example("store", "'memory:'", "memory:", text("memory:"), ["\"memory:\""; 3]),
        example(
            "allowed_origins",
            "['http://a', 'http://b']",
            "http://c,http://d",
            Some(FlagValue::List(vec!["http://e".to_owned()])),
            ["[\"http://a\", \"http://b\"]", "[\"http://c\", \"http://d\"]", "[\"http://e\"]"],
        ),
        example(
            "lock_types",
            "{ a = 'exclusive-read' }",
            "b=exclusive-write,c=read-write",
            Some(FlagValue::Table(pairs)),
            [
                "{ a = \"exclusive-read\" }",
                "{ b = \"exclusive-write\", c = \"read-write\" }",
                "{ k = \"read-write\" }",
            ],
        ),
        example("break_reason", "'required'", "required", None, ["\"required\"", "\"required\"", ""]),
        example("limits.connections", "100", "200", None, ["100", "200", ""]),
        example("limits.hello_timeout", "'1s'", "2s", None, ["\"1s\"", "\"2s\"", ""]),
        example("tls.hsts", "'1h'", "2h", None, ["\"1h\"", "\"2h\"", ""]),
    ]
}

fn key(path: &str) -> &'static Key {
    keys().iter().find(|key| key.path == path).unwrap()
}

/// The value that is shown, as it is written.
fn shown<'s>(show: &'s str, path: &str) -> &'s str {
    let name = path.rsplit('.').next().unwrap();
    let line = show.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
    line.rsplit_once(" # ").unwrap().0.split_once(" = ").unwrap().1
}

fn load(said: &[(bool, bool, bool)]) -> (LoadedSettings, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    // Other settings of TLS need these.
    let mut text = "tls.cert = 'c'\ntls.key = 'k'\ntls.client_ca = 'a'\n".to_owned();
    let (mut environment, mut flags) = (BTreeMap::new(), BTreeMap::new());
    for (example, (in_file, in_environment, in_flags)) in examples().into_iter().zip(said) {
        if *in_file {
            writeln!(text, "{} = {}", example.path, example.file).unwrap();
        }
        if *in_environment {
            environment.insert(key(example.path).variable(), OsString::from(example.variable));
        }
        if let (true, Some(flag)) = (in_flags, example.flag) {
            flags.insert(example.path, flag);
        }
    }
    std::fs::write(&file, text).unwrap();
    let sources = Sources { file: Some(file), environment, flags };
    (sources.load().unwrap_or_else(|problems| panic!("{problems:?}")), folder)
}

proptest! {
    #[test]
    fn the_first_that_says_something_is_heard(said in prop::collection::vec(any::<(bool, bool, bool)>(), 10)) {
        let (loaded, _folder) = load(&said);
        let show = loaded.show();
        for (example, (in_file, in_environment, in_flags)) in examples().iter().zip(said) {
            let key = key(example.path);
            let (heard, is_there): (_, fn(&Location) -> bool) = if in_flags && key.flag.is_some() {
                (example.shown[2], |place| matches!(place, Location::Flag(_)))
            } else if in_environment {
                (example.shown[1], |place| matches!(place, Location::Environment(_)))
            } else if in_file {
                (example.shown[0], |place| matches!(place, Location::File { .. }))
            } else {
                (key.default.as_deref().unwrap(), |place| matches!(place, Location::Default))
            };
            prop_assert_eq!(shown(&show, example.path), heard);
            prop_assert!(is_there(&loaded.place(key)), "{} at {}", example.path, loaded.place(key));
        }
    }
}

#[test]
fn each_variable_bears_the_path_of_its_setting() {
    let names: Vec<String> =
        ["lease", "allowed_origins", "tls.client_ca"].map(|path| key(path).variable()).into();
    assert_eq!(names, ["LOCKHOUSE_LEASE", "LOCKHOUSE_ALLOWED_ORIGINS", "LOCKHOUSE_TLS_CLIENT_CA"]);
    let mut all: Vec<String> = keys().iter().map(Key::variable).collect();
    let client =
        ["CONFIG", "URL", "BUCKET", "KEY", "CA", "NAME", "OWNER"].map(|name| format!("LOCKHOUSE_{name}"));
    all.extend(client);
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "two mean the same variable");
}

#[test]
fn a_wrong_variable_is_reported_by_its_name() {
    let environment = [
        ("LOCKHOUSE_LEASE", "5"),
        ("LOCKHOUSE_FRESH", "perhaps"),
        ("LOCKHOUSE_LOCK_TYPES", "customer"),
        ("LOCKHOUSE_ALLOWED_ORIGINS", "https://a/b"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), OsString::from(value))).into();
    let problems = Sources { environment, ..Sources::default() }.load().unwrap_err();
    let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "LOCKHOUSE_ALLOWED_ORIGINS: allowed_origins[0] = \"https://a/b\": an origin is the scheme of a page and a host, with a port from 1 to 65535 if it has one, without a path and without \"*\", like https://app.example or http://localhost:3000",
            "LOCKHOUSE_FRESH: fresh = \"perhaps\": must be true or false",
            "LOCKHOUSE_LEASE: lease = \"5\": a duration is written like 500ms, 10s or 1m",
            "LOCKHOUSE_LOCK_TYPES: lock_types.customer = \"\": must be \"read-write\" or \"exclusive-write\" or \"exclusive-read\"",
        ]
    );
}

#[test]
fn a_variable_that_is_nearly_one_of_ours_is_noticed() {
    let environment = [
        "LOCKHOUSE_ALLOW_ORIGIN",
        "LOCKHOUSE_LEESE",
        "LOCKHOUSE_LIMITS_TENNANT_RATES",
        "LOCKHOUSE_TLS_CERT",
        "LOCKHOUSE_CERT",
        "LOCKHOUSE_PORT_7420_TCP",
        "LOCKHOUSE_URL",
    ];
    let environment = environment.map(|name| (name.to_owned(), OsString::from("x"))).into();
    let sources = Sources { environment, ..Sources::default() };
    let noticed: Vec<_> = sources.misspelt().collect();
    let meant = [
        // As the option is written.
        ("LOCKHOUSE_ALLOW_ORIGIN", "LOCKHOUSE_ALLOWED_ORIGINS".to_owned()),
        ("LOCKHOUSE_LEESE", "LOCKHOUSE_LEASE".to_owned()),
        ("LOCKHOUSE_LIMITS_TENNANT_RATES", "LOCKHOUSE_LIMITS_TENANT_RATE".to_owned()),
    ];
    assert_eq!(noticed, meant);
}
