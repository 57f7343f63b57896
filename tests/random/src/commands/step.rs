//! Commands with labels for identities, so that a sequence stays meaningful when some of its commands are
//! left out.
#![allow(missing_docs, reason = "variants and fields are called what they are in the commands of the core")]

use std::fmt;

use lockhouse_core::{Acquire, Limits, Mode, NameBuf};

use super::durable::Durable;

/// The label of an agent; that of a request is its own kind of number.
pub type Label = usize;
/// The label of an agent or a request of another manager.
pub const FOREIGN: Label = 0;

/// A command at an instant.
#[derive(Clone, Debug)]
pub struct Step {
    pub at_ms: u64,
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug)]
pub enum Action {
    Join { agent: Label, client_id: String, lease_ms: Option<u64> },
    Request(Ask),
    Abort { request: Label },
    Release { request: Label },
    Renew { agent: Label },
    End { agent: Label },
    Snapshot,
    Close,
    Timeout,
    Durable(Durable),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub request: Label,
    pub agent: Label,
    pub name: NameBuf,
    pub acquire: Acquire,
    pub metadata: Option<String>,
    pub max_hold_ms: Option<u64>,
}

/// The start of a manager.
#[derive(Clone, Debug)]
pub struct Start {
    pub limits: Limits,
    pub hash_seed: u64,
    pub token_mark: u64,
}

/// A whole sequence over one fresh manager.
#[derive(Clone, Debug)]
pub struct Story {
    pub start: Start,
    pub steps: Vec<Step>,
}

/// As a script of the core's tests, expectations left out; `A0` and `r0` are strangers.
impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits {
            name_units,
            requests_per_agent,
            entries,
            names,
            agents,
            metadata_bytes,
            owners,
            locks_per_owner,
            locks_per_command,
            locks_ended_at_once,
            label_bytes,
            ttl_ms: (least, most),
            assignments,
        } = self.start.limits;
        writeln!(
            f,
            "limits name_units={name_units} requests_per_agent={requests_per_agent} entries={entries} names={names} agents={agents} \
             metadata_bytes={metadata_bytes} owners={owners} locks_per_owner={locks_per_owner} \
             locks_per_command={locks_per_command} locks_ended_at_once={locks_ended_at_once} label_bytes={label_bytes} least_ttl_ms={least} most_ttl_ms={most} \
             assignments={assignments}"
        )?;
        if self.start.token_mark > 0 {
            writeln!(f, "tokens above {}", self.start.token_mark)?;
        }
        let mut now = 0;
        for step in &self.steps {
            if step.at_ms > now {
                now = step.at_ms;
                writeln!(f, "at {now}ms")?;
            }
            writeln!(f, "{}", step.action)?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join { agent, client_id, lease_ms } => {
                write!(f, "A{agent} joins as {client_id:?}")?;
                lease_ms.map_or(Ok(()), |ms| write!(f, " lease {ms}ms"))
            }
            Self::Request(ask) => ask.fmt(f),
            Self::Abort { request } => write!(f, "abort r{request}"),
            Self::Release { request } => write!(f, "release r{request}"),
            Self::Renew { agent } => write!(f, "A{agent} renews"),
            Self::End { agent } => write!(f, "A{agent} ends"),
            Self::Snapshot => f.write_str("snapshot"),
            Self::Close => f.write_str("close"),
            Self::Timeout => f.write_str("timeout"),
            Self::Durable(action) => action.fmt(f),
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "A{} requests {}", self.agent, json(&self.name))?;
        f.write_str(match self.acquire {
            Acquire::Wait(Mode::Exclusive) => "",
            Acquire::Wait(Mode::Shared) => " shared",
            Acquire::IfAvailable(Mode::Exclusive) => " if-available",
            Acquire::IfAvailable(Mode::Shared) => " shared if-available",
            Acquire::Steal => " steal",
        })?;
        if let Some(metadata) = &self.metadata {
            write!(f, " metadata {metadata:?}")?;
        }
        if let Some(ms) = self.max_hold_ms {
            write!(f, " hold {ms}ms")?;
        }
        write!(f, " as r{}", self.request)
    }
}

/// The name as a JSON string of ASCII characters.
pub(super) fn json(name: &NameBuf) -> String {
    let unit = |unit: u16| match u8::try_from(unit) {
        Ok(plain @ 0x20..0x7F) if plain != b'"' && plain != b'\\' => char::from(plain).to_string(),
        _ => format!("\\u{unit:04x}"),
    };
    format!("\"{}\"", name.as_name().units().map(unit).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_a_script_that_can_be_played() {
        let name = NameBuf::from_units(&[0x61, 0, 0x22, 0xD800]).unwrap();
        let acquire = Acquire::IfAvailable(Mode::Shared);
        let ask =
            Ask { request: 3, agent: 1, name, acquire, metadata: Some("m".into()), max_hold_ms: Some(5) };
        let join = Action::Join { agent: 1, client_id: "client 2".into(), lease_ms: Some(30) };
        let steps = vec![
            Step { at_ms: 0, action: join },
            Step { at_ms: 7, action: Action::Request(ask) },
            Step { at_ms: 7, action: Action::Release { request: 3 } },
        ];
        let limits = Limits {
            name_units: 4,
            requests_per_agent: 3,
            entries: 6,
            names: 2,
            agents: 1,
            metadata_bytes: 9,
            ..Limits::DEFAULT
        };
        let story = Story { start: Start { limits, hash_seed: 1, token_mark: 41 }, steps };
        let script = r#"limits name_units=4 requests_per_agent=3 entries=6 names=2 agents=1 metadata_bytes=9 owners=1000000 locks_per_owner=100000 locks_per_command=60 locks_ended_at_once=60 label_bytes=256 least_ttl_ms=1 most_ttl_ms=2592000000 assignments=50000000
tokens above 41
A1 joins as "client 2" lease 30ms
at 7ms
A1 requests "a\u0000\u0022\ud800" shared if-available metadata "m" hold 5ms as r3
release r3
"#;
        assert_eq!(story.to_string(), script);
    }
}
