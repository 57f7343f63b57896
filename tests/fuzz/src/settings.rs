//! Settings of a server, from the command line, the environment and the file.
//!
//! An input is what each of them says: options as one would type them and variables, one in a line, then a
//! line `%%`, then the file. Without such a line all of it is the file. `$KEY` stands for an API key, which
//! belongs in none of them.
//!
//! ```text
//! --lease 5s
//! LOCKHOUSE_DRAIN=1m
//! %%
//! store = "memory:"
//! ```

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use lockhouse_server::{FlagValue, LoadedSettings, Location, Settings, SettingsProblem, Sources, keys};

use crate::promise;

/// The value of `$KEY`.
const KEY: &str = "lhk_fuzz_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Each value comes from the first source that has one. The text of accepted settings is accepted again, and
/// means the same. In other settings each fault is reported in one line, with an existing line of the file,
/// and without an API key.
pub fn settings(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lockhouse.toml");
    let (head, text) = parts(data);
    fs::write(&file, &text).expect("a file");
    let mut sources = Sources { file: Some(file.clone()), ..Sources::default() };
    head.split(|byte| *byte == b'\n').for_each(|line| say(&mut sources, line));
    match sources.load() {
        Ok(loaded) => {
            of_the_first(&loaded, &sources);
            shown_again(&loaded, &folder.path().join("shown.toml"));
            if loaded.settings.auth.jwt.is_empty() {
                // Issuers name files, which might be any of this machine.
                loaded.authority().err().iter().for_each(|problem| check_problem(problem, &file, &text));
            }
        }
        Err(problems) => {
            promise!(!problems.is_empty(), "refused for no reason");
            problems.iter().for_each(|problem| check_problem(problem, &file, &text));
        }
    }
}

/// The parts before and behind the line `%%`.
fn parts(data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let data = filled_in(data);
    let line = b"%%\n";
    let starts = |at: &usize| data[*at..].starts_with(line) && (*at == 0 || data[at - 1] == b'\n');
    match (0..data.len()).find(starts) {
        Some(at) => (data[..at].to_vec(), data[at + line.len()..].to_vec()),
        None => (Vec::new(), data),
    }
}

fn filled_in(data: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(data) {
        Ok(text) => text.replace("$KEY", KEY).into_bytes(),
        Err(_) => data.to_vec(),
    }
}

/// An option or a variable; a line that is neither says nothing.
fn say(sources: &mut Sources, line: &[u8]) {
    let at = |sign: u8| line.iter().position(|byte| *byte == sign);
    if !line.starts_with(b"--") {
        let Some(at) = at(b'=') else { return };
        if let Ok(name) = String::from_utf8(line[..at].to_vec()) {
            sources.environment.insert(name, OsString::from_vec(line[at + 1..].to_vec()));
        }
        return;
    }
    let Ok(text) = std::str::from_utf8(line) else { return };
    let (option, value) = text.split_once(' ').unwrap_or((text, ""));
    let Some(key) = keys().iter().find(|key| key.flag == Some(option)) else { return };
    let path: &'static str = &key.path;
    let value = value.to_owned();
    match path {
        "fresh" => _ = sources.flags.insert(path, FlagValue::Yes),
        "allowed_origins" => {
            let said = sources.flags.entry(path).or_insert_with(|| FlagValue::List(Vec::new()));
            let FlagValue::List(items) = said else { return };
            items.push(value);
        }
        "lock_types" => {
            // The command line takes no others.
            let Some((kind, lock_type)) = value.rsplit_once('=').filter(|(kind, _)| !kind.is_empty()) else {
                return;
            };
            let said = sources.flags.entry(path).or_insert_with(|| FlagValue::Table(Vec::new()));
            let FlagValue::Table(pairs) = said else { return };
            pairs.push((kind.to_owned(), lock_type.to_owned()));
        }
        _ => _ = sources.flags.insert(path, FlagValue::Text(value)),
    }
}

/// Option, variable, file, default.
fn of_the_first(loaded: &LoadedSettings, sources: &Sources) {
    for key in keys() {
        let is_in_environment = sources.environment.get(&key.variable()).is_some_and(|text| !text.is_empty());
        let place = loaded.place(key);
        let is_first = match &place {
            Location::Flag(flag) => Some(*flag) == key.flag && sources.flags.contains_key(&*key.path),
            Location::Environment(name) => *name == key.variable() && is_in_environment,
            Location::File { .. } | Location::Default => !is_in_environment,
        };
        let is_silent = matches!(place, Location::Flag(_)) || !sources.flags.contains_key(&*key.path);
        promise!(is_first && is_silent, "{} is that of {place}", key.path);
    }
}

fn shown_again(loaded: &LoadedSettings, file: &Path) {
    let shown = loaded.show();
    fs::write(file, &shown).expect("a file");
    let again = Sources { file: Some(file.to_owned()), ..Sources::default() }.load();
    match again {
        Ok(again) => {
            assert_eq!(without_hashes(&again.settings), without_hashes(&loaded.settings), "{shown}");
        }
        Err(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            panic!("what is shown is refused: {problems:#?}\n{shown}");
        }
    }
    for key in &loaded.settings.auth.keys {
        // A short one may stand in anything.
        let is_shown =
            key.hash.len() >= 16 && shown.contains(&key.hash) && loaded.settings.auth.keys.len() == 1;
        let is_elsewhere = without_hashes(&loaded.settings).contains(&key.hash);
        promise!(!is_shown || is_elsewhere, "the hash of {} is shown", key.id);
    }
}

/// The settings as they are shown: without hashes and names of variables.
fn without_hashes(settings: &Settings) -> String {
    let mut settings = settings.clone();
    settings.auth.keys.iter_mut().for_each(|key| key.hash.clear());
    settings.auth.jwt.iter_mut().filter_map(|jwt| jwt.key_env.as_mut()).for_each(String::clear);
    format!("{settings:?}")
}

fn check_problem(problem: &SettingsProblem, file: &Path, text: &[u8]) {
    let message = problem.to_string();
    promise!(!message.chars().any(char::is_control), "{message:?} is more than a line");
    promise!(!message.contains(KEY), "{message} tells an API key");
    let Some(rest) = message.strip_prefix(&*file.display().to_string()) else { return };
    let line = rest.strip_prefix(':').and_then(|rest| rest.split(':').next());
    let line = line.and_then(|line| line.parse().ok()).unwrap_or(0);
    let lines = text.split_inclusive(|byte| *byte == b'\n').count().max(1);
    promise!((1..=lines).contains(&line), "{message} names a line that is not there, of {lines}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_input_says_what_each_source_says() {
        let mut sources = Sources::default();
        for line in
            ["--lease 5s", "--fresh", "--lock-type a=b=c", "--lock-type =x", "--unknown 1", "A=b=c", "d"]
        {
            say(&mut sources, line.as_bytes());
        }
        let flags = BTreeMap::from([
            ("lease", FlagValue::Text("5s".to_owned())),
            ("fresh", FlagValue::Yes),
            ("lock_types", FlagValue::Table(vec![("a=b".to_owned(), "c".to_owned())])),
        ]);
        assert_eq!(sources.flags, flags);
        assert_eq!(sources.environment, BTreeMap::from([("A".to_owned(), "b=c".into())]));
        assert_eq!(parts(b"a\n%%\nb"), (b"a\n".to_vec(), b"b".to_vec()));
        assert_eq!(parts(b"a%%\nb"), (Vec::new(), b"a%%\nb".to_vec()));
    }
}
