//! Frames against the golden vectors of the protocol, and round trips of arbitrary frames.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use lockhouse_core::{Acquire, FencingToken, HolderKind, Mode, NameBuf, OwnerId};
use lockhouse_wire::{
    BadClientFrame, ClientCall, ClientFrame, Credential, EndedReason, EntryDetail, EntryPlace, EntryView,
    Envelope, ErrorCode, FRAME_BYTES, FatalCode, FrameProblem, Hello, HolderView, LostReason, MessageCursor,
    Reclaim, Resume, ServerEvent, ServerFrame, SnapshotPage, SnapshotQuery, TICKET_BYTES, Ticket,
    WebLockRequest, Welcome, WireLimits, frames_of, pages,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn vectors(file: &str, list: &str) -> Vec<Value> {
    let path = format!("{}/../../protocol/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let Value::Array(vectors) = serde_json::from_str::<Value>(&text).unwrap()[list].take() else {
        panic!("{file} has no list {list}");
    };
    assert!(!vectors.is_empty());
    vectors
}

fn client(text: &str) -> Result<Envelope<ClientFrame<'_>>, BadClientFrame> {
    Envelope::<ClientFrame<'_>>::parse(text)
}

fn server(text: &str) -> Envelope<ServerFrame<'_>> {
    Envelope::<ServerFrame<'_>>::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn names_keep_every_unit_both_ways() {
    for vector in vectors("names.json", "names") {
        let units: Vec<u16> = serde_json::from_value(vector["units"].clone()).unwrap();
        let name = NameBuf::from_units(&units).unwrap();
        let hex: String = name.as_name().as_wtf8().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, vector["wtf8"], "{}", vector["title"]);
        let frame = |json: &str| format!(r#"{{"type":"query","id":1,"name":{json}}}"#);
        let also = vector["alsoJson"].as_array().unwrap().iter();
        for json in also.chain([&vector["json"]]) {
            let text = frame(json.as_str().unwrap());
            let envelope = client(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let look = SnapshotQuery { id: 1, detail: false, name: Some(name.clone()) };
            assert_eq!(envelope, Envelope::new(ClientFrame::Query(look)), "{}", vector["title"]);
            assert_eq!(envelope.to_text(), frame(vector["json"].as_str().unwrap()), "{}", vector["title"]);
        }
    }
}

#[test]
fn client_frames_mean_what_the_vectors_say_and_are_written_alike() {
    for vector in vectors("client-frames.json", "frames") {
        for text in vector["texts"].as_array().unwrap() {
            let envelope = client(text.as_str().unwrap()).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(client_meaning(&envelope), vector["frame"], "{}: {text}", vector["title"]);
            assert_eq!(envelope.to_text(), vector["texts"][0], "{}", vector["title"]);
        }
    }
}

#[test]
fn server_frames_mean_what_the_vectors_say_and_are_written_alike() {
    for vector in vectors("server-frames.json", "frames") {
        for text in vector["texts"].as_array().unwrap() {
            let envelope = server(text.as_str().unwrap());
            assert_eq!(server_meaning(&envelope), vector["frame"], "{}: {text}", vector["title"]);
            assert_eq!(envelope.to_text(), vector["texts"][0], "{}", vector["title"]);
        }
    }
}

#[test]
fn bad_client_frames_get_the_error_of_the_vectors() {
    for vector in vectors("bad-client-frames.json", "frames") {
        let fault = match client(vector["text"].as_str().unwrap()) {
            Ok(envelope) => panic!("{}: taken for {envelope:?}", vector["title"]),
            Err(BadClientFrame::Fatal(problem)) => {
                json!({"fatal": true, "code": FatalCode::BadFrame.word(), "field": problem.field, "seq": null, "id": null})
            }
            Err(BadClientFrame::Answered { seq, id, code, problem, .. }) => {
                json!({"fatal": false, "code": code.word(), "field": problem.field, "seq": seq, "id": id})
            }
        };
        for (key, value) in fault.as_object().unwrap() {
            assert_eq!(*value, vector[key], "{}: {key}", vector["title"]);
        }
    }
}

#[test]
fn messages_have_the_frames_of_the_vectors() {
    for vector in vectors("messages.json", "messages") {
        let frames = frames_of(vector["text"].as_str().unwrap()).unwrap();
        let acks: Vec<_> = frames.iter().map(|frame| client(frame).unwrap().ack).collect();
        let expected: Vec<_> = (1..=vector["frames"].as_u64().unwrap()).collect();
        assert_eq!(acks, expected, "{}", vector["title"]);
    }
}

#[test]
fn the_frames_before_a_bad_one_count_and_the_problem_names_its_place() {
    for vector in vectors("messages.json", "bad") {
        let message = vector["text"].as_str().unwrap();
        let (mut cursor, mut before) = (MessageCursor::default(), 0);
        let problem = loop {
            assert!(!cursor.is_over(), "{}: no problem", vector["title"]);
            let frame = match cursor.next(message) {
                Ok(frame) => frame,
                Err(problem) => break problem,
            };
            match client(&message[frame]) {
                Ok(_) => before += 1,
                Err(BadClientFrame::Fatal(problem)) => break problem.of_frame(cursor.index()),
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(vector["before"], before, "{}", vector["title"]);
        let place = format!("frame {before} of the array: ");
        assert!(problem.message.starts_with(&place), "{}: {problem}", vector["title"]);
    }
}

#[test]
fn an_error_names_field_value_and_rule() {
    let Err(BadClientFrame::Answered { problem, .. }) =
        client(r#"{"type":"request","seq":1,"id":1,"agent":1,"name":"a","mode":"both"}"#)
    else {
        panic!("not answered");
    };
    let expected = FrameProblem {
        field: Some("mode".into()),
        value: Some("\"both\"".into()),
        rule: Some("\"exclusive\" or \"shared\"".into()),
        message: "mode is \"both\", but must be \"exclusive\" or \"shared\"".into(),
    };
    assert_eq!(*problem, expected);
}

#[test]
fn no_error_repeats_a_secret() {
    for secret in ["7777", "\"\\ud800-7777\"", "[\"7777\"]"] {
        let text = format!(r#"{{"type":"hello","resume":{{"session":"s","secret":{secret},"received":0}}}}"#);
        let error = client(&text).unwrap_err();
        assert!(!format!("{error:?}").contains("7777"), "{error:?}");
    }
    for ticket in ["7777", "\"\\ud800-7777\"", &format!("\"{}\"", "7777".repeat(33))] {
        let text = format!(
            r#"{{"type":"reclaim","seq":1,"id":1,"agent":1,"name":"a","token":5,"ticket":{ticket}}}"#
        );
        let error = client(&text).unwrap_err();
        assert!(!format!("{error:?}").contains("7777"), "{error:?}");
    }
}

#[test]
fn a_ticket_shows_itself_in_no_log() {
    let text = r#"{"type":"granted","seq":1,"id":1,"token":5,"ticket":"3.7777"}"#;
    assert!(!format!("{:?}", server(text)).contains("7777"));
    let text = r#"{"type":"reclaim","seq":1,"id":1,"agent":1,"name":"a","token":5,"ticket":"3.7777"}"#;
    assert!(!format!("{:?}", client(text).unwrap()).contains("7777"));
}

#[test]
fn what_is_pending_is_a_web_lock() {
    let pending = |kind: &str| {
        format!(
            r#"{{"type":"snapshot","id":1,"held":[],"pending":[{{"name":"a","mode":"shared","kind":"{kind}","state":"pending","clientId":"c","owner":"4","since":"2026-11-20T12:00:00.000Z","place":1}}]}}"#
        )
    };
    server(&pending("web"));
    for kind in ["offline", "claim", "other"] {
        assert!(Envelope::<ServerFrame<'_>>::parse(&pending(kind)).is_err(), "{kind}");
    }
}

#[test]
fn a_long_snapshot_is_split_into_frames_within_the_bound() {
    // The worst entry there is: a name of 4096 units that each need six bytes.
    let name = NameBuf::from_units(&[0xD800; 4096]).unwrap();
    let entry = |client_id: String, name: &NameBuf, place| EntryView {
        client_id: client_id.into(),
        mode: Mode::Exclusive,
        name: name.clone(),
        detail: Some(EntryDetail {
            place,
            kind: HolderKind::Web,
            since: SystemTime::UNIX_EPOCH,
            expires_at: None,
            metadata: Some("\u{1}".repeat(1024).into()),
        }),
    };
    let short = NameBuf::new("short").unwrap();
    let held = (1..=5).map(|n| entry("\u{1}".repeat(256), &name, EntryPlace::Held(FencingToken::new(n))));
    let pending = (1..=2000).map(|n| entry(n.to_string(), &short, EntryPlace::Queued(n)));
    let texts: Vec<_> = pages(9, held, pending).collect();
    assert!(texts.len() > 5);
    let (mut held, mut clients) = (0, Vec::new());
    for (index, text) in texts.iter().enumerate() {
        assert!(text.len() <= FRAME_BYTES, "{} bytes", text.len());
        let ServerFrame::Snapshot(page) = server(text).frame else { panic!("{text}") };
        assert_eq!(page.more, index + 1 < texts.len());
        assert_eq!(page.id, 9);
        held += page.held.len();
        clients.extend(page.pending.into_iter().map(|entry| entry.client_id.into_owned()));
    }
    assert_eq!(held, 5);
    assert_eq!(clients, (1..=2000).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn an_empty_snapshot_is_one_frame() {
    assert_eq!(
        pages(1, [], []).collect::<Vec<_>>(),
        [r#"{"type":"snapshot","id":1,"held":[],"pending":[]}"#]
    );
}

proptest! {
    #[test]
    fn any_client_frame_survives_the_wire(envelope in client_envelope()) {
        let text = envelope.to_text();
        prop_assert_eq!(client(&text).unwrap(), envelope);
    }

    #[test]
    fn any_server_frame_survives_the_wire(envelope in server_envelope()) {
        let text = envelope.to_text();
        prop_assert_eq!(server(&text), envelope);
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in any::<String>(), at in any::<prop::sample::Index>(), envelope in client_envelope()) {
        _ = client(&text);
        _ = Envelope::<ServerFrame<'_>>::parse(&text);
        let mut broken = envelope.to_text();
        let at = (0..=broken.len()).filter(|at| broken.is_char_boundary(*at)).nth(at.index(broken.chars().count()));
        broken.insert_str(at.unwrap(), &text);
        _ = client(&broken);
        _ = Envelope::<ServerFrame<'_>>::parse(&broken);
    }
}

// Frames in the normal form of the vectors.

fn client_meaning(envelope: &Envelope<ClientFrame<'_>>) -> Value {
    let look = |kind: &str, look: &SnapshotQuery| json!({"type": kind, "id": look.id, "detail": look.detail, "name": look.name.as_ref().map(name_meaning)});
    let mut meaning = match &envelope.frame {
        ClientFrame::Hello(hello) => {
            let resume = hello.resume.as_ref().map(|resume| {
                json!({
                    "session": resume.session, "secret": resume.secret, "received": resume.received,
                    "attempt": resume.attempt,
                })
            });
            json!({
                "type": "hello", "client": hello.client, "resume": resume,
                "credential": hello.credential.as_ref().map(Credential::as_str),
                "whileDraining": hello.while_draining,
            })
        }
        ClientFrame::Numbered { seq, call } => {
            let mut meaning = call_meaning(call);
            meaning["seq"] = json!(seq);
            meaning
        }
        ClientFrame::Query(query) => look("query", query),
        ClientFrame::Watch(watch) => look("watch", watch),
        ClientFrame::Pong { n } => json!({"type": "pong", "n": n}),
        ClientFrame::Ack => json!({"type": "ack"}),
        ClientFrame::Bye => json!({"type": "bye"}),
    };
    meaning["ack"] = json!(envelope.ack);
    meaning
}

fn call_meaning(call: &ClientCall<'_>) -> Value {
    match call {
        ClientCall::Join { agent, client_id } => {
            json!({"type": "join", "agent": agent, "clientId": client_id})
        }
        ClientCall::Reclaimed => json!({"type": "reclaimed"}),
        ClientCall::Leave { agent } => json!({"type": "leave", "agent": agent}),
        ClientCall::Request(ask) => json!({
            "type": "request", "id": ask.id, "agent": ask.agent, "name": name_meaning(&ask.name),
            "mode": mode_meaning(ask.acquire.mode()), "ifAvailable": matches!(ask.acquire, Acquire::IfAvailable(_)),
            "steal": ask.acquire == Acquire::Steal, "metadata": ask.metadata, "maxHoldMs": ask.max_hold_ms,
        }),
        ClientCall::Reclaim(reclaim) => json!({
            "type": "reclaim", "id": reclaim.id, "agent": reclaim.agent, "name": name_meaning(&reclaim.name),
            "mode": mode_meaning(reclaim.mode), "token": reclaim.token.get(), "ticket": reclaim.ticket.as_str(),
            "metadata": reclaim.metadata, "maxHoldMs": reclaim.max_hold_ms,
        }),
        ClientCall::Abort { id } => json!({"type": "abort", "id": id}),
        ClientCall::Release { id, reply } => json!({"type": "release", "id": id, "reply": reply}),
    }
}

fn server_meaning(envelope: &Envelope<ServerFrame<'_>>) -> Value {
    let mut meaning = match &envelope.frame {
        ServerFrame::Welcome(welcome) => json!({
            "type": "welcome", "server": welcome.server, "epoch": welcome.epoch, "session": welcome.session,
            "secret": welcome.secret, "resumed": welcome.resumed, "received": welcome.received,
            "reclaims": welcome.reclaims, "recoveringMs": welcome.recovering_ms, "credentialMs": welcome.credential_ms, "leaseMs": welcome.lease_ms, "heartbeatMs": welcome.heartbeat_ms, "limits": {
                "frameBytes": welcome.limits.frame_bytes, "nameUnits": welcome.limits.name_units,
                "metadataBytes": welcome.limits.metadata_bytes, "agents": welcome.limits.agents,
                "requestsPerAgent": welcome.limits.requests_per_agent, "windowBytes": welcome.limits.window_bytes,
            },
        }),
        ServerFrame::Numbered { seq, event } => {
            let mut meaning = event_meaning(event);
            meaning["seq"] = json!(seq);
            meaning
        }
        ServerFrame::Snapshot(page) => json!({
            "type": "snapshot", "id": page.id, "more": page.more,
            "held": page.held.iter().map(entry_meaning).collect::<Vec<_>>(),
            "pending": page.pending.iter().map(entry_meaning).collect::<Vec<_>>(),
        }),
        ServerFrame::Ping { n, answered } => json!({"type": "ping", "n": n, "answered": answered}),
        ServerFrame::Ack => json!({"type": "ack"}),
        ServerFrame::Fatal { code, problem } => problem_meaning("fatal", code.word(), problem),
        ServerFrame::Closing { pause_ms } => {
            json!({"type": "closing", "reason": "shutdown", "pauseMs": pause_ms})
        }
    };
    meaning["ack"] = json!(envelope.ack);
    meaning
}

fn event_meaning(event: &ServerEvent<'_>) -> Value {
    match event {
        ServerEvent::Granted { id, token, ticket } => {
            json!({"type": "granted", "id": id, "token": token.get(), "ticket": ticket.as_ref().map(Ticket::as_str)})
        }
        ServerEvent::Refused { id, holders, queued } => json!({
            "type": "refused", "id": id, "reason": "unavailable", "queued": queued,
            "holders": holders.iter().map(|holder| json!({
                "clientId": holder.client_id, "kind": holder.kind.word(), "owner": holder.kind.owner(),
                "mode": mode_meaning(holder.mode), "since": instant_meaning(holder.since),
                "expiresAt": holder.expires_at.map(instant_meaning), "metadata": holder.metadata,
            })).collect::<Vec<_>>(),
        }),
        ServerEvent::Released { id, held } => json!({"type": "released", "id": id, "held": held}),
        ServerEvent::Lost { id, reason, why } => {
            json!({"type": "lost", "id": id, "reason": reason.word(), "why": why})
        }
        ServerEvent::Ended { agent, reason } => {
            json!({"type": "ended", "agent": agent, "reason": reason.word()})
        }
        ServerEvent::Error { id, code, retry_after_ms, problem } => {
            let mut meaning = problem_meaning("error", code.word(), problem);
            meaning["id"] = json!(id);
            meaning["retryAfterMs"] = json!(retry_after_ms);
            meaning
        }
    }
}

fn problem_meaning(kind: &str, code: &str, problem: &FrameProblem<'_>) -> Value {
    json!({"type": kind, "code": code, "field": problem.field, "value": problem.value, "rule": problem.rule, "message": problem.message})
}

fn entry_meaning(entry: &EntryView<'_>) -> Value {
    let (name, mode) = (name_meaning(&entry.name), mode_meaning(entry.mode));
    let Some(detail) = &entry.detail else {
        return json!({"clientId": entry.client_id, "mode": mode, "name": name});
    };
    let (state, place, token) = match detail.place {
        EntryPlace::Held(token) => ("held", None, Some(token.get())),
        EntryPlace::Queued(place) => ("pending", Some(place), None),
    };
    json!({
        "name": name, "mode": mode, "kind": detail.kind.word(), "state": state, "clientId": entry.client_id,
        "owner": detail.kind.owner(),
        "since": instant_meaning(detail.since), "expiresAt": detail.expires_at.map(instant_meaning), "place": place,
        "fencingToken": token, "metadata": detail.metadata,
    })
}

fn name_meaning(name: &NameBuf) -> Value {
    match name.as_name().as_str() {
        Some(text) => json!(text),
        None => json!({"units": name.as_name().units().collect::<Vec<_>>()}),
    }
}

fn mode_meaning(mode: Mode) -> &'static str {
    if mode == Mode::Shared { "shared" } else { "exclusive" }
}

fn instant_meaning(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

// Arbitrary frames.

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![1..100u64, 1..(1u64 << 53)]
}

fn words() -> impl Strategy<Value = Cow<'static, str>> {
    prop_oneof![any::<String>(), "[\\\\\"\u{0}-\u{20}a]{0,8}"].prop_map(Cow::Owned)
}

fn name() -> impl Strategy<Value = NameBuf> {
    let unit = prop_oneof![any::<u16>(), 0xD7F0u16..0xE010, 0u16..0x80];
    prop::collection::vec(unit, 0..12).prop_filter_map("reserved", |units| NameBuf::from_units(&units).ok())
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)]
}

fn instant() -> impl Strategy<Value = SystemTime> {
    (0..4_000_000_000_000u64).prop_map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms))
}

fn acquire() -> impl Strategy<Value = Acquire> {
    prop_oneof![mode().prop_map(Acquire::Wait), mode().prop_map(Acquire::IfAvailable), Just(Acquire::Steal)]
}

fn kind() -> impl Strategy<Value = HolderKind> {
    let offline = number().prop_map(|owner| HolderKind::Offline(OwnerId::new(owner)));
    prop_oneof![Just(HolderKind::Web), offline, Just(HolderKind::Claim)]
}

fn ticket() -> impl Strategy<Value = Ticket<'static>> {
    words().prop_filter("too long", |text| text.len() <= TICKET_BYTES).prop_map(Ticket::new)
}

fn client_envelope() -> impl Strategy<Value = Envelope<ClientFrame<'static>>> {
    let ask = (number(), number(), name(), acquire(), prop::option::of(words()), prop::option::of(number()));
    let ask = ask.prop_map(|(id, agent, name, acquire, metadata, max_hold_ms)| {
        ClientCall::Request(WebLockRequest { id, agent, name, acquire, metadata, max_hold_ms })
    });
    let hold = (number(), prop::option::of(words()), prop::option::of(number()));
    let reclaim = (number(), number(), name(), mode(), ticket(), hold).prop_map(
        |(id, agent, name, mode, ticket, (token, metadata, max_hold_ms))| {
            let token = FencingToken::new(token);
            ClientCall::Reclaim(Reclaim { id, agent, name, mode, token, ticket, metadata, max_hold_ms })
        },
    );
    let call = prop_oneof![
        4 => ask,
        2 => reclaim,
        1 => (number(), words()).prop_map(|(agent, client_id)| ClientCall::Join { agent, client_id }),
        1 => number().prop_map(|agent| ClientCall::Leave { agent }),
        1 => number().prop_map(|id| ClientCall::Abort { id }),
        1 => (number(), any::<bool>()).prop_map(|(id, reply)| ClientCall::Release { id, reply }),
    ]
    .prop_filter(
        "too long",
        |call| !matches!(call, ClientCall::Join { client_id, .. } if client_id.len() > 256),
    );
    let look = || {
        (number(), any::<bool>(), prop::option::of(name())).prop_map(|(id, detail, name)| SnapshotQuery {
            id,
            detail,
            name,
        })
    };
    let attempt = prop::option::of(number());
    let resume = (words(), words(), 0..1u64 << 53, attempt)
        .prop_map(|(session, secret, received, attempt)| Resume { session, secret, received, attempt });
    let credential = "[!-~]{1,40}".prop_map(|text| Credential::new(text).unwrap());
    let hello =
        (prop::option::of(words()), prop::option::of(credential), prop::option::of(resume), any::<bool>())
            .prop_map(|(client, credential, resume, while_draining)| Hello {
                client,
                credential,
                resume,
                while_draining,
            })
            .prop_filter("too long", |hello| hello.client.as_ref().is_none_or(|label| label.len() <= 128));
    let frame = prop_oneof![
        6 => (number(), call).prop_map(|(seq, call)| ClientFrame::Numbered { seq, call }),
        2 => hello.prop_map(ClientFrame::Hello),
        1 => look().prop_map(ClientFrame::Query),
        1 => look().prop_map(ClientFrame::Watch),
        1 => number().prop_map(|n| ClientFrame::Pong { n }),
        1 => Just(ClientFrame::Ack),
        1 => Just(ClientFrame::Bye),
    ];
    (0..100u64, frame).prop_map(|(ack, frame)| Envelope { ack, frame })
}

fn problem() -> impl Strategy<Value = FrameProblem<'static>> {
    (prop::option::of(words()), prop::option::of(words()), prop::option::of(words()), words())
        .prop_map(|(field, value, rule, message)| FrameProblem { field, value, rule, message })
}

fn entry() -> impl Strategy<Value = EntryView<'static>> {
    let place = prop_oneof![
        number().prop_map(|token| EntryPlace::Held(FencingToken::new(token))),
        number().prop_map(EntryPlace::Queued)
    ];
    let detail = (place, kind(), instant(), prop::option::of(instant()), prop::option::of(words())).prop_map(
        |(place, kind, since, expires_at, metadata)| {
            let kind = if matches!(place, EntryPlace::Queued(_)) { HolderKind::Web } else { kind };
            EntryDetail { place, kind, since, expires_at, metadata }
        },
    );
    (words(), mode(), name(), prop::option::of(detail))
        .prop_map(|(client_id, mode, name, detail)| EntryView { client_id, mode, name, detail })
}

fn event() -> impl Strategy<Value = ServerEvent<'static>> {
    let holder = (words(), kind(), mode(), instant(), prop::option::of(instant()), prop::option::of(words()))
        .prop_map(|(client_id, kind, mode, since, expires_at, metadata)| HolderView {
            client_id,
            kind,
            mode,
            since,
            expires_at,
            metadata,
        });
    let lost = prop_oneof![
        Just(LostReason::Stolen),
        Just(LostReason::Expired),
        Just(LostReason::Broken),
        Just(LostReason::Superseded)
    ];
    let ended = prop_oneof![Just(EndedReason::Expired), Just(EndedReason::Broken)];
    let code = prop_oneof![
        Just(ErrorCode::BadFrame),
        Just(ErrorCode::UnknownType),
        Just(ErrorCode::NotSupported),
        Just(ErrorCode::QuotaExceeded),
        Just(ErrorCode::UnknownAgent),
        Just(ErrorCode::Forbidden),
        Just(ErrorCode::Closing),
        Just(ErrorCode::Unavailable),
        Just(ErrorCode::Internal)
    ];
    prop_oneof![
        (number(), number(), prop::option::of(ticket())).prop_map(|(id, token, ticket)| {
            ServerEvent::Granted { id, token: FencingToken::new(token), ticket }
        }),
        (number(), prop::collection::vec(holder, 0..4), 0..9u64)
            .prop_map(|(id, holders, queued)| ServerEvent::Refused { id, holders, queued }),
        (number(), any::<bool>()).prop_map(|(id, held)| ServerEvent::Released { id, held }),
        (number(), lost, prop::option::of(words()))
            .prop_map(|(id, reason, why)| { ServerEvent::Lost { id, reason, why } }),
        (number(), ended).prop_map(|(agent, reason)| ServerEvent::Ended { agent, reason }),
        (prop::option::of(number()), code, prop::option::of(number()), problem()).prop_map(
            |(id, code, retry_after_ms, problem)| ServerEvent::Error { id, code, retry_after_ms, problem }
        ),
    ]
}

fn server_envelope() -> impl Strategy<Value = Envelope<ServerFrame<'static>>> {
    let limits = (number(), number(), number(), number(), number(), number()).prop_map(
        |(frame_bytes, name_units, metadata_bytes, agents, requests_per_agent, window_bytes)| WireLimits {
            frame_bytes,
            name_units,
            metadata_bytes,
            agents,
            requests_per_agent,
            window_bytes,
        },
    );
    let welcome = (
        (words(), words(), words(), words()),
        any::<(bool, bool)>(),
        (0..99u64, 0..99u64, prop::option::of(0..99u64)),
        (number(), number()),
        limits,
    );
    let welcome = welcome.prop_map(
        |(
            (server, epoch, session, secret),
            (resumed, reclaims),
            (received, recovering_ms, credential_ms),
            (lease_ms, heartbeat_ms),
            limits,
        )| {
            Welcome {
                server,
                epoch,
                session,
                secret,
                resumed,
                received,
                reclaims,
                recovering_ms,
                credential_ms,
                lease_ms,
                heartbeat_ms,
                limits,
            }
        },
    );
    let entries = || prop::collection::vec(entry(), 0..4);
    let page = (number(), entries(), entries(), any::<bool>())
        .prop_map(|(id, held, pending, more)| SnapshotPage { id, held, pending, more });
    let fatal = prop_oneof![
        Just(FatalCode::BadFrame),
        Just(FatalCode::BadSeq),
        Just(FatalCode::TooLarge),
        Just(FatalCode::Unauthenticated),
        Just(FatalCode::Forbidden),
        Just(FatalCode::LeaseExpired),
        Just(FatalCode::Replaced),
        Just(FatalCode::SlowReader)
    ];
    let frame = prop_oneof![
        6 => (number(), event()).prop_map(|(seq, event)| ServerFrame::Numbered { seq, event }),
        1 => welcome.prop_map(ServerFrame::Welcome),
        2 => page.prop_map(ServerFrame::Snapshot),
        1 => (number(), 0..99u64).prop_map(|(n, answered)| ServerFrame::Ping { n, answered }),
        1 => Just(ServerFrame::Ack),
        1 => (fatal, problem()).prop_map(|(code, problem)| ServerFrame::Fatal { code, problem }),
        1 => prop::option::of(1..99u64).prop_map(|pause_ms| ServerFrame::Closing { pause_ms }),
    ];
    (0..100u64, frame).prop_map(|(ack, frame)| Envelope { ack, frame })
}
