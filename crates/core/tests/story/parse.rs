//! From text to commands.

use lockhouse_core::{Acquire, Limits, Mode};

pub(super) enum Line {
    Remark,
    Limits(Limits),
    Bucket(String),
    Command(Command),
}

/// A command with labels in place of identities.
pub(super) enum Command {
    Join { agent: String, client_id: String, lease_ms: Option<u64> },
    Request(Ask),
    Abort(String),
    Release(String),
    Standing(String),
    Renew(String),
    End(String),
    Alive(String),
    After(u64),
    At(u64),
    TokensAbove(u64),
    Timeout,
    Wakes,
    Snapshot,
    Counts,
    Close,
}

pub(super) struct Ask {
    pub(super) agent: String,
    /// In 16-bit units.
    pub(super) name: Vec<u16>,
    pub(super) acquire: Acquire,
    pub(super) metadata: Option<String>,
    pub(super) max_hold_ms: Option<u64>,
    pub(super) label: String,
}

type Parsed<T> = Result<T, String>;

pub(super) fn line(text: &str) -> Parsed<Line> {
    if text.is_empty() || text.starts_with('#') {
        return Ok(Line::Remark);
    }
    let words = words(text)?;
    let plain: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let command = match plain[..] {
        ["limits", ..] => return limits(&plain[1..]).map(Line::Limits),
        ["bucket", name] => return Ok(Line::Bucket(name.to_owned())),
        ["abort", label] => Command::Abort(label.to_owned()),
        ["release", label] => Command::Release(label.to_owned()),
        ["standing", label] => Command::Standing(label.to_owned()),
        ["alive", agent] => Command::Alive(agent.to_owned()),
        ["after", time] => Command::After(milliseconds(time)?),
        ["at", time] => Command::At(milliseconds(time)?),
        ["tokens", "above", mark] => {
            Command::TokensAbove(mark.parse().map_err(|_| format!("{mark:?} is no number"))?)
        }
        ["timeout"] => Command::Timeout,
        ["wakes"] => Command::Wakes,
        ["snapshot"] => Command::Snapshot,
        ["counts"] => Command::Counts,
        ["close"] => Command::Close,
        [agent, "renews"] => Command::Renew(agent.to_owned()),
        [agent, "ends"] => Command::End(agent.to_owned()),
        [agent, "joins", ..] => join(agent, &plain[2..])?,
        [agent, "requests", _, ..] => Command::Request(ask(agent, words[2].units.clone(), &plain[3..])?),
        _ => return Err("no such command".to_owned()),
    };
    Ok(Line::Command(command))
}

fn join(agent: &str, options: &[&str]) -> Parsed<Command> {
    let (mut client_id, mut lease_ms) = (agent.to_owned(), None);
    let mut rest = options;
    while let [option, value, tail @ ..] = rest {
        match *option {
            "as" => client_id = (*value).to_owned(),
            "lease" => lease_ms = Some(milliseconds(value)?),
            other => return Err(format!("no option {other:?}")),
        }
        rest = tail;
    }
    nothing_left(rest)?;
    Ok(Command::Join { agent: agent.to_owned(), client_id, lease_ms })
}

fn ask(agent: &str, name: Vec<u16>, options: &[&str]) -> Parsed<Ask> {
    let (mut mode, mut if_available, mut steal) = (Mode::Exclusive, false, false);
    let (mut metadata, mut max_hold_ms, mut label) = (None, None, None);
    let mut rest = options;
    loop {
        rest = match rest {
            [] => break,
            ["shared", tail @ ..] => (mode = Mode::Shared, tail).1,
            ["exclusive", tail @ ..] => (mode = Mode::Exclusive, tail).1,
            ["if-available", tail @ ..] => (if_available = true, tail).1,
            ["steal", tail @ ..] => (steal = true, tail).1,
            ["metadata", text, tail @ ..] => (metadata = Some((*text).to_owned()), tail).1,
            ["hold", time, tail @ ..] => (max_hold_ms = Some(milliseconds(time)?), tail).1,
            ["as", name, tail @ ..] => (label = Some((*name).to_owned()), tail).1,
            [other, ..] => return Err(format!("no option {other:?}")),
        };
    }
    let acquire = match (steal, if_available) {
        (true, _) => Acquire::Steal,
        (false, true) => Acquire::IfAvailable(mode),
        (false, false) => Acquire::Wait(mode),
    };
    let label = label.ok_or("say `as LABEL`")?;
    Ok(Ask { agent: agent.to_owned(), name, acquire, metadata, max_hold_ms, label })
}

fn limits(settings: &[&str]) -> Parsed<Limits> {
    let mut limits = Limits::DEFAULT;
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or("a limit is `key=number`")?;
        let number: u32 = value.parse().map_err(|_| format!("{value:?} is no number"))?;
        match key {
            "name_units" => limits.name_units = number as usize,
            "requests_per_agent" => limits.requests_per_agent = number,
            "names" => limits.names = number,
            "agents" => limits.agents = number,
            "metadata_bytes" => limits.metadata_bytes = number as usize,
            other => return Err(format!("no limit {other:?}")),
        }
    }
    Ok(limits)
}

fn milliseconds(time: &str) -> Parsed<u64> {
    let (number, unit) = match (time.strip_suffix("ms"), time.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        _ => return Err(format!("{time:?} is neither `5s` nor `5ms`")),
    };
    number
        .parse::<u64>()
        .map(|number| number.saturating_mul(unit))
        .map_err(|_| format!("{time:?} is no time"))
}

fn nothing_left(rest: &[&str]) -> Parsed<()> {
    if rest.is_empty() { Ok(()) } else { Err(format!("what is {rest:?}?")) }
}

struct Word {
    /// Lone surrogates replaced.
    text: String,
    units: Vec<u16>,
}

/// Splits at blanks, except within JSON strings.
fn words(text: &str) -> Parsed<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (units, tail) = match rest.strip_prefix('"') {
            Some(quoted) => string(quoted)?,
            None => {
                let end = rest.find(' ').unwrap_or(rest.len());
                (rest[..end].encode_utf16().collect(), &rest[end..])
            }
        };
        words.push(Word { text: String::from_utf16_lossy(&units), units });
        rest = tail.trim_start();
    }
    Ok(words)
}

/// The units of a JSON string after its opening quote, and what follows the closing one.
fn string(text: &str) -> Parsed<(Vec<u16>, &str)> {
    let mut units = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((units, &text[at + 1..])),
            '\\' => match chars.next().map(|(_, escaped)| escaped) {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).map(|(_, digit)| digit).collect();
                    units.push(u16::from_str_radix(&digits, 16).map_err(|_| format!("\\u{digits}?"))?);
                }
                Some(plain @ ('"' | '\\')) => units.push(plain as u16),
                other => return Err(format!("\\{other:?}?")),
            },
            c => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
        }
    }
    Err("a string has no end".to_owned())
}
