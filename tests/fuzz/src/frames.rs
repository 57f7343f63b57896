//! Frames of the WebSocket protocol, in both directions.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockhouse::Limits;
use lockhouse_wire::{
    BadClientFrame, CLIENT_ID_BYTES, ClientFrame, EntryDetail, EntryView, Envelope, ErrorCode, FRAME_BYTES,
    FrameProblem, MessageCursor, NUMBER_LIMIT, ServerEvent, ServerFrame, SnapshotPage, pages,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{budget, promise};

/// No answer to a frame of a client is longer (protocol/PROTOCOL.md, section 4).
const ANSWER_BYTES: usize = 4096;

/// A frame that is read and written again is read as the same, and is no longer than it was; one that is
/// refused is answered within the bound, with the field that is to blame, and without its secrets.
pub fn client_frame(data: &[u8]) {
    each_frame(data, one_client_frame);
}

/// All frames of a message, up to one that is none.
fn each_frame(data: &[u8], check: impl Fn(&str)) {
    let Ok(message) = std::str::from_utf8(data) else { return };
    let mut cursor = MessageCursor::default();
    while !cursor.is_over() {
        match budget::within(message.len(), 2, || cursor.next(message)) {
            Ok(frame) => check(&message[frame]),
            Err(problem) => promise!(problem.message.starts_with("frame "), "{problem:?}"),
        }
    }
}

fn one_client_frame(text: &str) {
    match budget::within(text.len(), 8, || Envelope::<ClientFrame<'_>>::parse(text)) {
        Ok(envelope) => {
            let written = envelope.to_text();
            assert_eq!(Envelope::<ClientFrame<'_>>::parse(&written).as_ref(), Ok(&envelope), "{written}");
            promise!(written.len() <= text.len(), "{text} becomes {written}");
            promise!(envelope.ack < NUMBER_LIMIT, "{envelope:?}");
            promise!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text} is no JSON");
        }
        Err(bad) => refused(text, &bad),
    }
}

fn refused(text: &str, bad: &BadClientFrame) {
    let problem = match bad {
        BadClientFrame::Fatal(problem) => problem,
        BadClientFrame::Answered { ack, seq, id, code, problem } => {
            promise!(problem.field.is_some(), "{text}: {bad} names no field");
            promise!(*ack < NUMBER_LIMIT, "{bad:?}");
            for number in [seq, id].into_iter().flatten() {
                promise!((1..NUMBER_LIMIT).contains(number), "{bad:?}");
            }
            let of_client = [
                ErrorCode::BadFrame,
                ErrorCode::UnknownType,
                ErrorCode::NotSupported,
                ErrorCode::QuotaExceeded,
            ];
            promise!(of_client.contains(code), "{text}: {bad:?}");
            &**problem
        }
    };
    promise!(problem.field.is_some() || !is_object(text), "{text}: {bad} names no field");
    check_bounds(problem);
    let event = ServerEvent::Error {
        id: Some(NUMBER_LIMIT - 1),
        code: ErrorCode::QuotaExceeded,
        retry_after_ms: Some(NUMBER_LIMIT - 1),
        problem: problem.clone(),
    };
    let answer = Envelope::new(ServerFrame::Numbered { seq: NUMBER_LIMIT - 1, event });
    let written = answer.to_text();
    promise!(written.len() <= ANSWER_BYTES, "the answer has {} bytes: {written}", written.len());
    assert_eq!(Envelope::<ServerFrame<'_>>::parse(&written).as_ref(), Ok(&answer));
    for secret in secrets(text) {
        promise!(!format!("{bad:?} {bad}").contains(secret), "{bad} tells the secret of {text}");
    }
}

fn check_bounds(problem: &FrameProblem<'_>) {
    promise!(!problem.message.is_empty(), "{problem:?}");
    promise!(problem.value.as_deref().is_none_or(|value| value.chars().count() <= 64), "{problem:?}");
    promise!(problem.field.is_none() || problem.rule.is_some(), "{problem:?} has no rule");
}

/// Whether the text is an object in which no key stands twice.
fn is_object(text: &str) -> bool {
    struct Keys(bool);
    impl<'de> Deserialize<'de> for Keys {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(KeyVisitor)
        }
    }
    struct KeyVisitor;
    impl<'de> serde::de::Visitor<'de> for KeyVisitor {
        type Value = Keys;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
            let mut known = std::collections::BTreeSet::new();
            let mut distinct = true;
            while let Some((key, _)) = map.next_entry::<String, &RawValue>()? {
                distinct &= known.insert(key);
            }
            Ok(Keys(distinct))
        }
    }
    serde_json::from_str::<Keys>(text).is_ok_and(|keys| keys.0)
}

/// The parts of the text in the place of a secret, if they are in the text once and are long enough not to be
/// elsewhere by chance.
fn secrets(text: &str) -> Vec<&str> {
    let members = |text| serde_json::from_str::<BTreeMap<&str, &RawValue>>(text).unwrap_or_default();
    let frame = members(text);
    let resume = frame.get("resume").map(|resume| members(resume.get())).unwrap_or_default();
    let raw = [resume.get("secret"), frame.get("ticket")].into_iter().flatten().map(|raw| raw.get());
    raw.map(|raw| raw.trim_matches('"'))
        .filter(|it| it.len() >= 12 && text.matches(it).count() == 1)
        .collect()
}

/// A frame of a server that is read and written again is read as the same, to the millisecond; a snapshot of
/// it is sent in frames within the bound, and completely.
pub fn server_frame(data: &[u8]) {
    each_frame(data, one_server_frame);
}

fn one_server_frame(text: &str) {
    // An entry takes up to some 200 bytes, and may be as short as `{}`.
    match budget::within(text.len(), 512, || Envelope::<ServerFrame<'_>>::parse(text)) {
        Ok(mut envelope) => {
            to_the_millisecond(&mut envelope.frame);
            let written = envelope.to_text();
            assert_eq!(Envelope::<ServerFrame<'_>>::parse(&written).as_ref(), Ok(&envelope), "{written}");
            if let ServerFrame::Snapshot(page) = envelope.frame {
                check_pages(page);
            }
        }
        Err(bad) => {
            promise!(bad.0.field.is_some() || !is_object(text), "{text}: {bad} names no field");
            check_bounds(&bad.0);
        }
    }
}

fn check_pages(page: SnapshotPage<'_>) {
    let of_server = page.held.iter().chain(&page.pending).all(is_of_server);
    let texts: Vec<_> = pages(page.id, page.held.clone(), page.pending.clone()).collect();
    let (mut held, mut pending) = (Vec::new(), Vec::new());
    for (index, text) in texts.iter().enumerate() {
        promise!(!of_server || text.len() <= FRAME_BYTES, "{} bytes", text.len());
        let Ok(Envelope { frame: ServerFrame::Snapshot(read), .. }) =
            Envelope::<ServerFrame<'_>>::parse(text)
        else {
            panic!("{text} is no page");
        };
        assert_eq!((read.id, read.more), (page.id, index + 1 < texts.len()), "{text}");
        held.extend(read.held);
        pending.extend(read.pending);
    }
    assert_eq!((held, pending), (page.held, page.pending));
}

/// Whether a server accepts the state that the entry describes.
fn is_of_server(entry: &EntryView<'_>) -> bool {
    let metadata = entry.detail.as_ref().and_then(|detail| detail.metadata.as_deref());
    entry.client_id.len() <= CLIENT_ID_BYTES
        && entry.name.as_name().unit_count() <= Limits::DEFAULT.name_units
        && metadata.is_none_or(|metadata| metadata.len() <= Limits::DEFAULT.metadata_bytes)
}

fn to_the_millisecond(frame: &mut ServerFrame<'_>) {
    match frame {
        ServerFrame::Snapshot(page) => {
            for EntryDetail { since, expires_at, .. } in
                page.held.iter_mut().chain(&mut page.pending).filter_map(|entry| entry.detail.as_mut())
            {
                truncate(since, expires_at);
            }
        }
        ServerFrame::Numbered { event: ServerEvent::Refused { holders, .. }, .. } => {
            for holder in holders {
                truncate(&mut holder.since, &mut holder.expires_at);
            }
        }
        _ => {}
    }
}

fn truncate(since: &mut SystemTime, expires_at: &mut Option<SystemTime>) {
    for at in std::iter::once(since).chain(expires_at) {
        let since_epoch = at.duration_since(UNIX_EPOCH).expect("no instant before 1970 is read");
        *at = UNIX_EPOCH + Duration::from_millis(since_epoch.as_millis() as u64);
    }
}
