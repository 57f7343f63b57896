//! From text to commands.

use lockhouse_core::{Acquire, Acquired, Limits, Mode};

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
    Status(String),
    Renew(String),
    End(String),
    Alive(String),
    After(u64),
    At(u64),
    TokensAbove(u64),
    Timeout,
    Sweep(usize),
    Wakes,
    Snapshot,
    Counts,
    Close,
    Open { owner: String, label: String, ttl_ms: u64, max_ms: Option<u64>, metadata: Option<String> },
    Touch(String),
    Owner(String),
    Owners,
    LocksOf(String),
    Lock { owner: String, locks: Vec<(Units, Mode)>, metadata: Option<String> },
    Unlock { owner: String, locks: Vec<(Units, Option<u64>)> },
    UnlockAllBut { owner: String, spared: Vec<Units> },
    Undo { owner: String, locks: Vec<UndoneLock> },
    Claim { name: Units, claimant: String, ttl_ms: u64, metadata: Option<String> },
    RenewClaim(Units, Option<u64>),
    ReleaseClaim(Units, Option<u64>),
    Finalize(Units, Option<u64>),
    Unassign(Units, Option<u64>),
    Break { name: Units, token: u64, operator: String, reason: Option<String> },
    ClaimOf(Units),
    AssignmentOf(Units),
    Assignments,
    Recover(u64),
    EndRecovery,
    Recovering,
    Reclaim { ask: Ask, token: u64 },
    Restart,
    ShowReservations,
}

/// A name, in 16-bit units.
pub(super) type Units = Vec<u16>;

pub(super) struct UndoneLock {
    pub(super) name: Units,
    pub(super) token: u64,
    pub(super) how: Acquired,
    pub(super) again: u32,
}

pub(super) struct Ask {
    pub(super) agent: String,
    pub(super) name: Units,
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
        ["status", label] => Command::Status(label.to_owned()),
        ["alive", agent] => Command::Alive(agent.to_owned()),
        ["after", time] => Command::After(milliseconds(time)?),
        ["at", time] => Command::At(milliseconds(time)?),
        ["tokens", "above", mark] => {
            Command::TokensAbove(mark.parse().map_err(|_| format!("{mark:?} is no number"))?)
        }
        ["timeout"] => Command::Timeout,
        ["sweep", most] => Command::Sweep(most.parse().map_err(|_| format!("{most} is no number"))?),
        ["wakes"] => Command::Wakes,
        ["snapshot"] => Command::Snapshot,
        ["counts"] => Command::Counts,
        ["close"] => Command::Close,
        ["owner", owner] => Command::Owner(owner.to_owned()),
        ["owners"] => Command::Owners,
        ["locks", "of", owner] => Command::LocksOf(owner.to_owned()),
        ["claim", "of", _] => Command::ClaimOf(words[2].units.clone()),
        ["claim", _, "for", ..] => claim(words[1].units.clone(), &plain[3..])?,
        ["renew", _, ..] => Command::RenewClaim(words[1].units.clone(), token(&plain[2..])?),
        ["give", "back", _, ..] => Command::ReleaseClaim(words[2].units.clone(), token(&plain[3..])?),
        ["finalize", _, ..] => Command::Finalize(words[1].units.clone(), token(&plain[2..])?),
        ["unassign", _, ..] => Command::Unassign(words[1].units.clone(), token(&plain[2..])?),
        ["break", _, "token", number, "by", operator, ..] => {
            let reason = match plain[6..] {
                [] => None,
                ["because", reason] => Some(reason.to_owned()),
                ref other => return Err(format!("what is {other:?}?")),
            };
            let token = number.parse().map_err(|_| format!("{number:?} is no number"))?;
            Command::Break { name: words[1].units.clone(), token, operator: operator.to_owned(), reason }
        }
        ["assignment", "of", _] => Command::AssignmentOf(words[2].units.clone()),
        ["assignments"] => Command::Assignments,
        ["recover", "until", time] => Command::Recover(milliseconds(time)?),
        ["recovery", "ends"] => Command::EndRecovery,
        ["recovering"] => Command::Recovering,
        ["restart"] => Command::Restart,
        ["show", "reservations"] => Command::ShowReservations,
        [owner, "opens", ..] => open(owner, &plain[2..])?,
        [owner, "touches"] => Command::Touch(owner.to_owned()),
        [owner, "locks", ..] => lock(owner, &words[2..])?,
        [owner, "unlocks", "all"] => Command::UnlockAllBut { owner: owner.to_owned(), spared: vec![] },
        [owner, "unlocks", "all", "but", ..] => {
            let spared = list(&words[4..]).iter().map(|item| item[0].units.clone()).collect();
            Command::UnlockAllBut { owner: owner.to_owned(), spared }
        }
        [owner, "unlocks", ..] => unlock(owner, &words[2..])?,
        [owner, "undoes", ..] => undo(owner, &words[2..])?,
        [agent, "reclaims", _, ..] => reclaim(agent, &words[2..])?,
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

fn open(owner: &str, options: &[&str]) -> Parsed<Command> {
    let (mut label, mut ttl_ms, mut max_ms, mut metadata) = (owner.to_owned(), 600_000, None, None);
    let mut rest = options;
    while let [option, value, tail @ ..] = rest {
        match *option {
            "as" => label = (*value).to_owned(),
            "ttl" => ttl_ms = milliseconds(value)?,
            "max" => max_ms = Some(milliseconds(value)?),
            "metadata" => metadata = Some((*value).to_owned()),
            other => return Err(format!("no option {other:?}")),
        }
        rest = tail;
    }
    nothing_left(rest)?;
    Ok(Command::Open { owner: owner.to_owned(), label, ttl_ms, max_ms, metadata })
}

fn lock(owner: &str, words: &[Word]) -> Parsed<Command> {
    let (words, metadata) = match words {
        [words @ .., option, text] if option.text == "metadata" => (words, Some(text.text.clone())),
        words => (words, None),
    };
    let mut locks = Vec::new();
    for item in list(words) {
        let options: Vec<&str> = item[1..].iter().map(|word| word.text.as_str()).collect();
        let mode = match options[..] {
            [] | ["exclusive"] => Mode::Exclusive,
            ["shared"] => Mode::Shared,
            _ => return Err(format!("no mode {options:?}")),
        };
        locks.push((item[0].units.clone(), mode));
    }
    Ok(Command::Lock { owner: owner.to_owned(), locks, metadata })
}

fn unlock(owner: &str, words: &[Word]) -> Parsed<Command> {
    let one = |item: &[Word]| {
        let options: Vec<&str> = item[1..].iter().map(|word| word.text.as_str()).collect();
        Ok((item[0].units.clone(), token(&options)?))
    };
    let locks = list(words).into_iter().map(one).collect::<Parsed<_>>()?;
    Ok(Command::Unlock { owner: owner.to_owned(), locks })
}

fn undo(owner: &str, words: &[Word]) -> Parsed<Command> {
    let one = |item: &[Word]| {
        let (item, again) = match item {
            [item @ .., word, times] if word.text == "told" => {
                (item, times.text.parse().map_err(|_| format!("{:?} is no number", times.text))?)
            }
            item => (item, 0),
        };
        let (how, rest) = item.split_last().ok_or("undo what?")?;
        let how = match how.text.as_str() {
            "fresh" => Acquired::Fresh,
            "upgraded" => Acquired::Upgraded,
            "held" => Acquired::AlreadyHeld,
            other => return Err(format!("{other:?} is neither fresh, upgraded nor held")),
        };
        let options: Vec<&str> = rest[1..].iter().map(|word| word.text.as_str()).collect();
        let token = token(&options)?.ok_or("say `token N`")?;
        Ok(UndoneLock { name: rest[0].units.clone(), token, how, again })
    };
    let locks = list(words).into_iter().map(one).collect::<Parsed<_>>()?;
    Ok(Command::Undo { owner: owner.to_owned(), locks })
}

fn claim(name: Units, options: &[&str]) -> Parsed<Command> {
    let (claimant, mut rest) = options.split_first().ok_or("for whom?")?;
    let (mut ttl_ms, mut metadata) = (10_000, None);
    while let [option, value, tail @ ..] = rest {
        match *option {
            "ttl" => ttl_ms = milliseconds(value)?,
            "metadata" => metadata = Some((*value).to_owned()),
            other => return Err(format!("no option {other:?}")),
        }
        rest = tail;
    }
    nothing_left(rest)?;
    Ok(Command::Claim { name, claimant: (*claimant).to_owned(), ttl_ms, metadata })
}

fn reclaim(agent: &str, words: &[Word]) -> Parsed<Command> {
    let plain: Vec<&str> = words[1..].iter().map(|word| word.text.as_str()).collect();
    let at = plain.iter().position(|word| *word == "token").ok_or("say `token N`")?;
    let number = token(plain.get(at..at + 2).unwrap_or_default())?.ok_or("say `token N`")?;
    let options: Vec<&str> = [&plain[..at], &plain[at + 2..]].concat();
    Ok(Command::Reclaim { ask: ask(agent, words[0].units.clone(), &options)?, token: number })
}

/// The parts between the words `and`.
fn list(words: &[Word]) -> Vec<&[Word]> {
    words.split(|word| word.text == "and").filter(|item| !item.is_empty()).collect()
}

fn token(options: &[&str]) -> Parsed<Option<u64>> {
    match options {
        [] => Ok(None),
        ["token", number] => number.parse().map(Some).map_err(|_| format!("{number:?} is no number")),
        other => Err(format!("what is {other:?}?")),
    }
}

fn limits(settings: &[&str]) -> Parsed<Limits> {
    let mut limits = Limits::DEFAULT;
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or("a limit is `key=number`")?;
        let number: u32 = value.parse().map_err(|_| format!("{value:?} is no number"))?;
        match key {
            "name_units" => limits.name_units = number as usize,
            "requests_per_agent" => limits.requests_per_agent = number,
            "entries" => limits.entries = number,
            "names" => limits.names = number,
            "agents" => limits.agents = number,
            "metadata_bytes" => limits.metadata_bytes = number as usize,
            "owners" => limits.owners = number,
            "locks_per_owner" => limits.locks_per_owner = number,
            "locks_per_command" => limits.locks_per_command = number as usize,
            "locks_ended_at_once" => limits.locks_ended_at_once = number as usize,
            "label_bytes" => limits.label_bytes = number as usize,
            "least_ttl_ms" => limits.ttl_ms.0 = u64::from(number),
            "most_ttl_ms" => limits.ttl_ms.1 = u64::from(number),
            "assignments" => limits.assignments = number,
            other => return Err(format!("no limit {other:?}")),
        }
    }
    Ok(limits)
}

fn milliseconds(time: &str) -> Parsed<u64> {
    let units = [("ms", 1), ("s", 1_000), ("h", 3_600_000)];
    let found = units.iter().find_map(|(unit, ms)| Some((time.strip_suffix(unit)?, *ms)));
    let (number, unit) = found.ok_or_else(|| format!("{time:?} is neither `5ms`, `5s` nor `5h`"))?;
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

/// The units of a JSON string after its opening quote, and the rest after the closing one.
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
