//! The needs of every route and every frame, written down apart from the server: nothing here is learnt from
//! its answers.

/// A permission, by its word.
pub(super) type Word = &'static str;

pub(super) const PERMISSIONS: [Word; 6] = ["request", "steal", "query", "offline", "claim", "operate"];

/// The needs of a route or a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// No credential at all.
    Nothing,
    /// A credential with any permission in the bucket.
    Anything,
    /// All of these permissions in the bucket.
    These(&'static [Word]),
    /// All of these permissions in any bucket.
    Somewhere(&'static [Word]),
    /// All of these permissions in all buckets.
    Everywhere(&'static [Word]),
}

/// An answer: its status, the code of the problem if it is one, and what must be in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) code: &'static str,
    /// A member and its value as JSON, where that shows the tenant whose tables were meant. Lists count as
    /// whether they are empty.
    pub(super) member: Option<(&'static str, &'static str)>,
}

const fn success(status: u16) -> Reply {
    Reply { status, code: "", member: None }
}

const fn refused(status: u16, code: &'static str) -> Reply {
    Reply { status, code, member: None }
}

const fn with(status: u16, member: &'static str, value: &'static str) -> Reply {
    Reply { status, code: "", member: Some((member, value)) }
}

/// A route, and a call of it that works. In path and body stand `{owner}`, `{token}` and so on for what was
/// made ready for the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) method: &'static str,
    /// As the OpenAPI document has it.
    pub(super) path: &'static str,
    pub(super) needs: Needs,
    /// Whether the owner's secret goes with it, or that of the operator.
    pub(super) secret: Option<&'static str>,
    pub(super) query: &'static str,
    pub(super) body: Option<&'static str>,
    /// The answer to a caller with the permission.
    pub(super) right: Reply,
    /// The answer to a caller of another tenant with the permission; that tenant sees nothing of the prepared
    /// state.
    pub(super) elsewhere: Reply,
}

const OWNER: Option<&str> = Some("{ownerSecret}");

const fn open(path: &'static str) -> Route {
    let needs = Needs::Nothing;
    Route {
        method: "get",
        path,
        needs,
        secret: None,
        query: "",
        body: None,
        right: success(200),
        elsewhere: success(200),
    }
}

const fn of(
    method: &'static str,
    path: &'static str,
    needs: &'static [Word],
    right: Reply,
    elsewhere: Reply,
) -> Route {
    Route { method, path, needs: Needs::These(needs), secret: None, query: "", body: None, right, elsewhere }
}

impl Route {
    const fn secret(self, secret: Option<&'static str>) -> Self {
        Self { secret, ..self }
    }

    const fn query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    const fn body(self, body: &'static str) -> Self {
        Self { body: Some(body), ..self }
    }
}

const NO_OWNER: Reply = refused(404, "unknown_owner");
const NO_CLAIM: Reply = refused(410, "claim_expired");
const NOTHING: Reply = refused(404, "not_found");
const CLAIM: &str = r#"{"resource":"{claimed}","token":"{token}"}"#;

/// The routes of the OpenAPI document.
#[rustfmt::skip]
pub(super) const DOCUMENTED: &[Route] = &[
    Route { needs: Needs::Somewhere(&["query"]), ..of("get", "/v1/buckets", &["query"], success(200), success(200)) },
    of("post", "/v1/buckets/{bucket}/owners", &["offline"], success(201), success(201)).body(r#"{"label":"Ada"}"#),
    of("get", "/v1/buckets/{bucket}/owners", &["query"], with(200, "owners", "some"), with(200, "owners", "none")).query("label={ownerLabel}"),
    of("get", "/v1/buckets/{bucket}/owners/{owner}", &["offline"], success(200), NO_OWNER).secret(OWNER),
    of("delete", "/v1/buckets/{bucket}/owners/{owner}", &["offline"], success(204), NO_OWNER).secret(OWNER),
    of("post", "/v1/buckets/{bucket}/owners/{owner}/heartbeat", &["offline"], success(200), NO_OWNER).secret(OWNER),
    of("get", "/v1/buckets/{bucket}/locks", &["query"], with(200, "locks", "some"), with(200, "locks", "none"))
        .query("prefix={locked}"),
    of("post", "/v1/buckets/{bucket}/locks", &["offline"], success(201), NO_OWNER).secret(OWNER)
        .body(r#"{"owner":"{owner}","locks":[{"name":"{free}","mode":"exclusive"}]}"#),
    of("post", "/v1/buckets/{bucket}/locks/release", &["offline"], with(200, "released", "1"), NO_OWNER).secret(OWNER)
        .body(r#"{"owner":"{owner}","locks":[{"name":"{locked}"}]}"#),
    of("post", "/v1/buckets/{bucket}/locks/undo", &["offline"], with(200, "undone", "1"), NO_OWNER).secret(OWNER)
        .body(r#"{"owner":"{owner}","locks":[{"name":"{locked}","fencingToken":{fencingToken},"how":"fresh"}]}"#),
    of("post", "/v1/buckets/{bucket}/locks/break", &["operate"], with(200, "broken", "some"), with(200, "broken", "none"))
        .body(r#"{"holds":[{"name":"{locked}","fencingToken":{fencingToken}}]}"#),
    of("get", "/v1/buckets/{bucket}/claims", &["query"], success(200), NOTHING).query("resource={claimed}"),
    // A name that is claimed here is free in the tables of another tenant.
    of("post", "/v1/buckets/{bucket}/claims", &["claim"], refused(409, "claimed"), success(201)).body(r#"{"resource":"{claimed}","claimant":"Bob"}"#),
    of("post", "/v1/buckets/{bucket}/claims/renew", &["claim"], success(200), NO_CLAIM).body(CLAIM),
    of("post", "/v1/buckets/{bucket}/claims/release", &["claim"], success(200), NO_CLAIM).body(CLAIM),
    of("post", "/v1/buckets/{bucket}/claims/finalize", &["claim"], success(200), NO_CLAIM).body(CLAIM),
    of("get", "/v1/buckets/{bucket}/assignments", &["query"], success(200), NOTHING).query("resource={assigned}"),
    of("delete", "/v1/buckets/{bucket}/assignments", &["operate"], with(200, "unassigned", "true"), with(200, "unassigned", "false"))
        .query("resource={assigned}"),
    of("get", "/v1/buckets/{bucket}/query", &["query"], with(200, "entries", "some"), with(200, "entries", "none"))
        .query("name={locked}&sort=age"),
    of("get", "/v1/buckets/{bucket}/overview", &["query"], success(200), success(200)),
    of("get", "/v1/buckets/{bucket}/waits", &["query"], success(200), success(200)),
    of("get", "/v1/buckets/{bucket}/sessions", &["operate"], success(200), success(200)),
    of("get", "/v1/buckets/{bucket}/history", &["query"], with(200, "entries", "some"), with(200, "entries", "none"))
        .query("name={assigned}"),
    // A stream, of which only the head is waited for.
    of("get", "/v1/buckets/{bucket}/events", &["query"], success(200), success(200)).query("name={locked}&state=true"),
];

/// The routes that are in no document.
#[rustfmt::skip]
pub(super) const UNDOCUMENTED: &[Route] = &[
    open("/"), open("/dashboard"), open("/dashboard/"), open("/dashboard/locks"), open("/lockhouse.global.js"), open("/healthz"), open("/livez"), open("/readyz"),
    open("/openapi.json"), open("/problems/forbidden"),
    Route { needs: Needs::Everywhere(&["operate"]), ..of("post", "/v1/backup", &["operate"], success(200), success(200)) }
        .secret(Some("{operator}")).body(r#"{"file":"{file}"}"#),
    // The metrics are of all tenants: they are for operators of the default one alone, which is not that of
    // the prepared state.
    Route { needs: Needs::Everywhere(&["operate"]), ..of("get", "/metrics", &["operate"], refused(403, "forbidden"), success(200)) },
    // The server is of no fleet.
    of_no_fleet("get", "/v1/cluster"), of_no_fleet("post", "/v1/cluster/drain").body("{}"),
];

const fn of_no_fleet(method: &'static str, path: &'static str) -> Route {
    let nothing = refused(404, "not_found");
    Route { needs: Needs::Everywhere(&["operate"]), ..of(method, path, &["operate"], nothing, nothing) }
}

/// A type of frame that clients send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) name: &'static str,
    pub(super) needs: Needs,
    /// The frame; `{id}` is a new id, `{held}` that of a lock of the session if it may have one. Numbered
    /// ones have `{seq}`.
    pub(super) text: &'static str,
    /// The type of the frame that answers a client with the permission, if any.
    pub(super) answer: Option<&'static str>,
}

const fn frame(name: &'static str, needs: Needs, text: &'static str, answer: Option<&'static str>) -> Frame {
    Frame { name, needs, text, answer }
}

/// Every frame of section 5 of PROTOCOL.md, and of `request` each kind.
#[rustfmt::skip]
pub(super) const FRAMES: &[Frame] = &[
    frame("hello", Needs::Anything, "", None),
    frame("join", Needs::Anything, r#"{"type":"join","seq":{seq},"agent":2,"clientId":"b"}"#, None),
    frame("leave", Needs::Anything, r#"{"type":"leave","seq":{seq},"agent":1}"#, None),
    frame("request", Needs::These(&["request"]), r#"{"type":"request","seq":{seq},"id":{id},"agent":1,"name":"{free}"}"#, Some("granted")),
    frame("request ifAvailable", Needs::These(&["request"]),
        r#"{"type":"request","seq":{seq},"id":{id},"agent":1,"name":"{free}","ifAvailable":true}"#, Some("granted")),
    frame("request steal", Needs::These(&["steal"]),
        r#"{"type":"request","seq":{seq},"id":{id},"agent":1,"name":"{free}","steal":true}"#, Some("granted")),
    frame("request steal of a claim", Needs::These(&["steal", "operate"]),
        r#"{"type":"request","seq":{seq},"id":{id},"agent":1,"name":"{claimed}","steal":true}"#, Some("granted")),
    frame("request steal of an offline lock", Needs::These(&["steal", "operate"]),
        r#"{"type":"request","seq":{seq},"id":{id},"agent":1,"name":"{locked}","steal":true}"#, Some("granted")),
    frame("reclaim", Needs::These(&["request"]),
        r#"{"type":"reclaim","seq":{seq},"id":{id},"agent":1,"name":"{free}","mode":"exclusive","token":1,"ticket":"x"}"#, Some("lost")),
    frame("reclaimed", Needs::Anything, r#"{"type":"reclaimed","seq":{seq}}"#, None),
    frame("abort", Needs::Anything, r#"{"type":"abort","seq":{seq},"id":{id}}"#, None),
    frame("release", Needs::Anything, r#"{"type":"release","seq":{seq},"id":{id},"reply":true}"#, Some("released")),
    frame("query", Needs::These(&["query"]), r#"{"type":"query","id":{id},"name":"{locked}"}"#, Some("snapshot")),
    frame("watch", Needs::These(&["query"]), r#"{"type":"watch","id":{id},"name":"{locked}"}"#, Some("snapshot")),
    frame("pong", Needs::Anything, r#"{"type":"pong","n":1}"#, None),
    frame("ack", Needs::Anything, r#"{"type":"ack","ack":0}"#, None),
    frame("bye", Needs::Anything, r#"{"type":"bye"}"#, None),
];
