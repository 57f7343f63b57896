//! The frames of which there are most, read in one pass: requests that wait, releases, aborts and pongs, as
//! clients write them. Each other frame, and each that breaks a rule, is left to the reader of all frames,
//! which names what is wrong.

use lockhouse_core::{Acquire, Mode, NameBuf};
use serde::Deserialize;

use super::{ClientCall, ClientFrame, WebLockRequest};
use crate::{Envelope, NUMBER_LIMIT};

/// The members of these frames. Another member, one that is there twice, and a value of another type are an
/// error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsualFrame<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    seq: Option<u64>,
    ack: Option<u64>,
    id: Option<u64>,
    agent: Option<u64>,
    name: Option<&'a str>,
    mode: Option<&'a str>,
    reply: Option<bool>,
    n: Option<u64>,
}

/// The frame, if it is one of these. Then it is the same that the reader of all frames gives.
pub(super) fn read(text: &str) -> Option<Envelope<ClientFrame<'_>>> {
    // Serde would take an array for a struct as well.
    if !text.starts_with('{') {
        return None;
    }
    let UsualFrame { kind, seq, ack, id, agent, name, mode, reply, n } = serde_json::from_str(text).ok()?;
    let ack = ack.unwrap_or_default();
    if ack >= NUMBER_LIMIT {
        return None;
    }
    if kind == "pong" {
        return Some(Envelope { ack, frame: ClientFrame::Pong { n: positive(n)? } });
    }
    let id = positive(id)?;
    let call = match kind {
        "request" => {
            let mode = match mode {
                None | Some("exclusive") => Mode::Exclusive,
                Some("shared") => Mode::Shared,
                Some(_) => return None,
            };
            let (agent, name, acquire) = (positive(agent)?, NameBuf::new(name?).ok()?, Acquire::Wait(mode));
            ClientCall::Request(WebLockRequest {
                id,
                agent,
                name,
                acquire,
                metadata: None,
                max_hold_ms: None,
            })
        }
        "release" => ClientCall::Release { id, reply: reply.unwrap_or_default() },
        "abort" => ClientCall::Abort { id },
        _ => return None,
    };
    Some(Envelope { ack, frame: ClientFrame::Numbered { seq: positive(seq)?, call } })
}

fn positive(number: Option<u64>) -> Option<u64> {
    number.filter(|number| (1..NUMBER_LIMIT).contains(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether it was read in one pass. What was is what the reader of all frames gives.
    fn is_usual(text: &str) -> bool {
        let usual = read(text);
        if let Some(usual) = &usual {
            assert_eq!(Envelope::<ClientFrame<'_>>::parse_any(text).as_ref(), Ok(usual), "{text}");
        }
        usual.is_some()
    }

    #[test]
    fn what_clients_write_is_usual() {
        for text in [
            r#"{"type":"request","id":1,"agent":1,"name":"n","seq":2,"ack":3}"#,
            r#"{"type":"request","seq":2,"id":9007199254740991,"agent":1,"name":"Büro","mode":"shared"}"#,
            r#"{"type":"release","seq":6,"id":1,"reply":true}"#,
            r#"{"type":"abort","seq":6,"id":1,"ack":null}"#,
            r#"{"type":"pong","n":7,"ack":0}"#,
        ] {
            assert!(is_usual(text), "{text}");
        }
    }

    #[test]
    fn what_is_not_is_left_to_the_reader_of_all_frames() {
        for text in [
            r#"{"type":"request","seq":2,"id":1,"agent":1,"name":"-n"}"#,
            r#"{"type":"request","seq":2,"id":1,"agent":1,"name":"n","mode":"other"}"#,
            r#"{"type":"request","seq":2,"id":1,"agent":1,"name":"n","steal":true}"#,
            r#"{"type":"request","seq":0,"id":1,"agent":1,"name":"n"}"#,
            r#"{"type":"release","seq":6,"id":9007199254740992}"#,
            r#"{"type":"release","seq":6,"id":1,"seq":7}"#,
            r#"{"type":"release","seq":6,"id":1.0}"#,
            r#"{"type":"release","seq":6,"id":1} x"#,
            r#"["release",6,null,1]"#,
            "",
        ] {
            assert!(!is_usual(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_never_differs(members in prop::collection::vec((0..12usize, 0..16usize), 0..8)) {
            let keys = ["type", "seq", "ack", "id", "agent", "name", "mode", "reply", "n", "steal", "\\u0069d", "x"];
            let values = [
                r#""request""#, r#""release""#, r#""abort""#, r#""pong""#, r#""join""#, "1", "0", "-1", "1e0",
                "9007199254740991", "9007199254740992", "null", "true", r#""n\n""#, r#""shared""#, "[1]",
            ];
            let members: Vec<_> =
                members.into_iter().map(|(key, value)| format!(r#""{}":{}"#, keys[key], values[value])).collect();
            is_usual(&format!("{{{}}}", members.join(",")));
            is_usual(&format!(r#"{{"type":"request","seq":2,"id":1,"agent":1,"name":"n",{}}}"#, members.join(",")));
            is_usual(&format!(r#"{{"type":"release","seq":2,"id":1,{}}}"#, members.join(",")));
        }
    }
}
