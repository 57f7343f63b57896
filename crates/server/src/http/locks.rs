//! `locks`: offline locks, which business transactions hold over many requests.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use lockhouse::core::Acquired;
use lockhouse::{Mode, NameBuf};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{AllOfBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, RefOr};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::BASE;
use super::body::JsonBody;
use super::desk::{self, OwnerKey};
use super::entries::{Cut, cut_parameters, parameter};
use super::looks;
use super::parameters::{Bearer, InBucket, Parameters, owner_number};
use super::problem::{Code, Problem};
use super::read::{FromMembers, Members, Read};
use super::rules::{
    self, AGAIN, Choice, ID, KIND, LOCKS, METADATA, OWNER, PREFIX, RELEASES, RESOURCE, TOKEN,
};
use super::views::{At, JsonName, ModeWord, Told};
use crate::state::AppState;

/// What a record is locked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Intent {
    Read,
    Write,
}

const INTENTS: Choice<Intent> = Choice(&[("read", Intent::Read), ("write", Intent::Write)]);

const MODES: Choice<Mode> = Choice(&[("exclusive", Mode::Exclusive), ("shared", Mode::Shared)]);

/// How what is taken back was come by.
const TAKEN: Choice<Acquired> = Choice(&[("fresh", Acquired::Fresh), ("upgraded", Acquired::Upgraded)]);

/// Something to be locked.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Record {
        record: Record,
        intent: Intent,
    },
    /// By a program that knows the lock types of its records itself.
    Name {
        name: NameBuf,
        mode: Mode,
    },
}

/// Something whose lock is meant: a record, or the name that stands for it.
#[derive(Clone, Debug)]
pub(super) enum Lockable {
    Record(Record),
    Name(NameBuf),
}

/// Locks to be.
#[derive(Clone, Debug)]
pub(super) struct NewLocks {
    pub(super) owner: u64,
    pub(super) locks: Vec<Wanted>,
    pub(super) metadata: Option<String>,
}

/// A record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: String,
    pub(super) id: String,
}

/// A lock to be released.
#[derive(Clone, Debug)]
pub(super) struct Unwanted {
    pub(super) lockable: Lockable,
    /// Only the lock with this token.
    pub(super) token: Option<u64>,
}

/// Which locks are released.
#[derive(Clone, Debug)]
pub(super) enum Release {
    These(Vec<Unwanted>),
    AllBut(Vec<Lockable>),
}

/// Locks to be given back.
#[derive(Clone, Debug)]
pub(super) struct OldLocks {
    pub(super) owner: u64,
    pub(super) release: Release,
}

/// A lock to be taken back.
#[derive(Clone, Debug)]
pub(super) struct Regretted {
    pub(super) name: NameBuf,
    pub(super) token: u64,
    pub(super) how: Acquired,
    pub(super) again: u32,
}

/// Locks to be taken back.
#[derive(Clone, Debug)]
pub(super) struct UndoneLocks {
    pub(super) owner: u64,
    pub(super) locks: Vec<Regretted>,
}

fn owner(members: &Members<'_>) -> Read<u64> {
    owner_number("owner", &members.text("owner", &OWNER)?)
}

impl FromMembers for Wanted {
    fn read(members: &Members<'_>) -> Read<Self> {
        match Lockable::read(members)? {
            Lockable::Record(record) => {
                members.must_not_have(&["mode"], "without kind and id")?;
                Ok(Self::Record { record, intent: members.choice("intent", &INTENTS)? })
            }
            Lockable::Name(name) => {
                members.must_not_have(&["intent"], "without name")?;
                Ok(Self::Name { name, mode: members.choice("mode", &MODES)? })
            }
        }
    }
}

impl FromMembers for Lockable {
    fn read(members: &Members<'_>) -> Read<Self> {
        match members.resource_if_any("name")? {
            None => Record::read(members).map(Self::Record),
            Some(name) => {
                members.must_not_have(&["kind", "id"], "without name")?;
                Ok(Self::Name(name))
            }
        }
    }
}

impl FromMembers for Regretted {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self {
            name: members.resource("name")?,
            token: members.number("fencingToken", &TOKEN)?,
            how: members.choice("how", &TAKEN)?,
            again: members.number_if_any("again", &AGAIN)?.unwrap_or(0) as u32,
        })
    }
}

impl FromMembers for UndoneLocks {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self { owner: owner(members)?, locks: members.list("locks", LOCKS)? })
    }
}

impl FromMembers for NewLocks {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self {
            owner: owner(members)?,
            locks: members.list("locks", LOCKS)?,
            metadata: members.text_if_any("metadata", &METADATA)?,
        })
    }
}

impl FromMembers for Record {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self { kind: members.text("kind", &KIND)?, id: members.text("id", &ID)? })
    }
}

impl FromMembers for Unwanted {
    fn read(members: &Members<'_>) -> Read<Self> {
        Ok(Self { lockable: Lockable::read(members)?, token: members.number_if_any("fencingToken", &TOKEN)? })
    }
}

impl FromMembers for OldLocks {
    fn read(members: &Members<'_>) -> Read<Self> {
        let owner = owner(members)?;
        let these = members.list_if_any("locks", RELEASES)?;
        let all = members.flag_if_any("all")?.unwrap_or_default();
        let sparing = members.list_if_any("sparing", RELEASES)?;
        let release = match (these, all, sparing) {
            (Some(these), false, None) => Release::These(these),
            (None, true, sparing) => Release::AllBut(sparing.unwrap_or_default()),
            (None, false, _) => {
                return Err(Problem::rule(Code::Invalid, "locks", "absent", "there, unless all is true"));
            }
            (Some(_), ..) => {
                let rule = "there without all and sparing";
                return Err(Problem::rule(Code::Invalid, "locks", "there with them", rule));
            }
        };
        Ok(Self { owner, release })
    }
}

const OF_RECORD: [&str; 2] = ["kind", "id"];

fn lockable(description: &str) -> rules::Members {
    rules::Members::new(description)
        .may("kind", KIND.schema(), "The kind of the record, such as a table.")
        .may("id", ID.schema(), "Its id within the kind.")
        .may("name", RESOURCE.schema(), "Instead of `kind` and `id`: a resource name as it is.")
}

impl PartialSchema for NewLocks {
    fn schema() -> RefOr<Schema> {
        let intent = "With `kind` and `id`: what for. What that locks is decided by the lock type of the kind (`serve --lock-type`).";
        let mode = "With `name`: how it is locked.";
        let wanted = lockable("Something to be locked: a record, or a name.")
            .may("intent", INTENTS.schema(), intent)
            .may("mode", MODES.schema(), mode)
            .build_either(&["kind", "id", "intent"], &["name", "mode"]);
        rules::Members::new("Locks to be: all of them, or none.")
            .needs("owner", OWNER.schema(), "Who locks.")
            .needs_list(
                "locks",
                wanted,
                LOCKS,
                "Which. Of one that stands there twice, the stronger intent counts.",
            )
            .may("metadata", METADATA.schema(), "What is said of the locks that are new, shown to others.")
            .example(json!({"owner": "17", "locks": [{"kind": "customer", "id": "42", "intent": "write"}]}))
            .build()
    }
}

impl ToSchema for NewLocks {}

impl PartialSchema for OldLocks {
    fn schema() -> RefOr<Schema> {
        let token = "Only the lock with this token; absent: whatever token it has.";
        let either = |members: rules::Members| members.build_either(&OF_RECORD, &["name"]);
        let unwanted = either(lockable("A record, or a name.").may("fencingToken", TOKEN.schema(), token));
        let object = rules::Members::new("Locks to be given back: either `locks`, or `all` of them.")
            .needs("owner", OWNER.schema(), "Whose locks.")
            .may_list("locks", unwanted, RELEASES, "These. What the owner does not hold is passed over.")
            .may("all", rules::flag(), "All that the owner holds.")
            .may_list(
                "sparing",
                either(lockable("A record, or a name.")),
                RELEASES,
                "With `all`: except these.",
            )
            .example(json!({"owner": "17", "locks": [{"kind": "customer", "id": "42"}]}));
        let array = ObjectBuilder::new().schema_type(Type::Array);
        let nothing = || ObjectBuilder::new().schema_type(Type::Null);
        let one_of = |values: Vec<Value>| {
            ObjectBuilder::new().schema_type(SchemaType::AnyValue).enum_values(Some(values))
        };
        let these = ObjectBuilder::new()
            .property("locks", array)
            .required("locks")
            .property("all", one_of(vec![Value::Bool(false), Value::Null]))
            .property("sparing", nothing());
        let all = ObjectBuilder::new()
            .property("locks", nothing())
            .property("all", one_of(vec![Value::Bool(true)]))
            .required("all");
        let either = OneOfBuilder::new().item(these).item(all);
        AllOfBuilder::new().item(object.build()).item(either).into()
    }
}

impl ToSchema for OldLocks {}

impl PartialSchema for UndoneLocks {
    fn schema() -> RefOr<Schema> {
        let regretted = rules::Members::new("A lock, as it was told when it was granted.")
            .needs("name", RESOURCE.schema(), "The resource name.")
            .needs("fencingToken", TOKEN.schema(), "Its token.")
            .needs("how", TAKEN.schema(), "How the owner came by it.")
            .may("again", AGAIN.schema(), "How often the same step was told since that the owner has it already, 0 if absent. What others were told so is not taken back.");
        rules::Members::new("Locks to be taken back.")
            .needs("owner", OWNER.schema(), "Whose locks.")
            .needs_list("locks", regretted.build(), LOCKS, "Which. What is no longer held under its token is passed over.")
            .example(json!({"owner": "17", "locks": [{"name": "customer/42", "fencingToken": 18, "how": "fresh"}]}))
            .build()
    }
}

impl ToSchema for UndoneLocks {}

/// How an owner came by a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum How {
    /// It had none of that record.
    Fresh,
    /// It was the sole reader, and may write now.
    Upgraded,
    /// It had it before.
    AlreadyHeld,
    /// Records of this kind are not locked for that.
    NotNeeded,
}

/// A lock, as told to whoever asked for it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GrantedLock {
    /// The kind of the record; empty if the name is that of none.
    #[schema(example = "customer")]
    pub(super) kind: String,
    /// Its id.
    #[schema(example = "42")]
    pub(super) id: String,
    /// What for, as asked; `null` where a name was asked for.
    #[schema(value_type = Option<Intent>)]
    pub(super) intent: Option<Intent>,
    /// How it is held, which may be stronger than what was asked for; `null` if nothing was needed.
    pub(super) mode: Option<ModeWord>,
    /// The resource name that stands for the record.
    pub(super) name: JsonName,
    /// Higher than that of every earlier grant in the bucket.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(super) fencing_token: Option<u64>,
    /// How the owner came by it.
    pub(super) how: How,
}

/// Locks that were granted.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Locked {
    /// The owner.
    #[schema(example = "17")]
    pub(super) owner: String,
    /// When it ends unless more is heard of it.
    pub(super) expires_at: At,
    /// In the order asked.
    #[schema(max_items = 60)]
    pub(super) locks: Vec<GrantedLock>,
}

/// Locks that were given back.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Released {
    /// How many.
    pub(super) released: usize,
}

/// Locks that were taken back.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Undone {
    /// How many.
    pub(super) undone: usize,
}

/// An offline lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeldLock {
    /// The kind of the record; empty if the name is that of none.
    #[schema(example = "customer")]
    pub(super) kind: String,
    /// Its id.
    #[schema(example = "42")]
    pub(super) id: String,
    /// The resource name that stands for it.
    pub(super) name: JsonName,
    /// How it is held.
    pub(super) mode: ModeWord,
    /// Whose it is.
    #[schema(example = "17")]
    pub(super) owner: String,
    /// What the owner is called.
    pub(super) label: String,
    /// The instant of the grant.
    pub(super) since: At,
    /// When the owner ends unless more is heard of it.
    #[schema(value_type = Option<At>)]
    pub(super) expires_at: Option<At>,
    /// Higher than that of every earlier grant in the bucket.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(super) fencing_token: u64,
    /// What the owner said of it.
    pub(super) metadata: Option<String>,
}

/// A page of locks, ordered by name.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeldLocks {
    /// At most as many as asked for.
    #[schema(max_items = 1000)]
    pub(super) locks: Vec<HeldLock>,
    /// The `cursor` of the next page; `null` on the last.
    pub(super) next: Option<String>,
}

struct ListParameters;

impl IntoParams for ListParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let filters = [
            parameter("owner", OWNER.schema(), "Only the locks of this owner."),
            parameter("kind", KIND.schema(), "Only locks of records of this kind."),
            parameter("prefix", PREFIX.schema(), "Only resource names that begin with this."),
        ];
        filters.into_iter().chain(cut_parameters()).collect()
    }
}

/// Lock records
///
/// All of them or none, at once: nothing waits. What the owner holds already is kept, and the sole reader of a record may become its
/// writer.
#[utoipa::path(
    post, context_path = BASE, path = "/locks", tag = "locks", operation_id = "lock", request_body = NewLocks, security(("ownerSecret" = [])),
    responses(
        (status = 201, description = "The owner has all of them.", body = Locked),
        (status = 404, description = "`unknown_owner`: it has ended."),
        (status = 423, description = "`locked`: `conflicts` tells who has which of them. None was granted."),
        (status = 503, description = "`recovering`, `unavailable`, `closing`."),
    ),
)]
pub(super) async fn lock(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    InBucket(bucket): InBucket,
    JsonBody(new): JsonBody<NewLocks>,
) -> Read<(StatusCode, Json<Locked>)> {
    let key = OwnerKey { owner: new.owner, secret };
    let locked = desk::lock(&state, &bucket, &key, &new).await?;
    Ok((StatusCode::CREATED, Json(locked)))
}

/// Release locks
///
/// What the owner does not hold, or holds under another token, is passed over: releasing again does no harm.
#[utoipa::path(
    post, context_path = BASE, path = "/locks/release", tag = "locks", operation_id = "unlock", request_body = OldLocks,
    security(("ownerSecret" = [])),
    responses(
        (status = 200, description = "How many were given back.", body = Released),
        (status = 404, description = "`unknown_owner`: it has ended, and its locks are free."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn release(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    InBucket(bucket): InBucket,
    JsonBody(old): JsonBody<OldLocks>,
) -> Read<Json<Released>> {
    let key = OwnerKey { owner: old.owner, secret };
    let released = desk::unlock(&state, &bucket, &key, &old.release).await?;
    Ok(Json(Released { released }))
}

/// Take locks back
///
/// What a failed step was granted: what it took freshly is released, what it upgraded is shared again. What is no longer held under its token
/// is passed over: taking back again does no harm.
#[utoipa::path(
    post, context_path = BASE, path = "/locks/undo", tag = "locks", operation_id = "undoLocks", request_body = UndoneLocks,
    security(("ownerSecret" = [])),
    responses(
        (status = 200, description = "How many were taken back.", body = Undone),
        (status = 404, description = "`unknown_owner`: it has ended, and its locks are free."),
        (status = 503, description = "`unavailable`."),
    ),
)]
pub(super) async fn undo(
    State(state): State<Arc<AppState>>,
    Bearer(secret): Bearer,
    InBucket(bucket): InBucket,
    JsonBody(regretted): JsonBody<UndoneLocks>,
) -> Read<Json<Undone>> {
    let key = OwnerKey { owner: regretted.owner, secret };
    let undone = desk::undo(&state, &bucket, &key, &regretted.locks).await?;
    Ok(Json(Undone { undone }))
}

/// List offline locks
///
/// Everybody who may connect to a bucket sees all of them.
#[utoipa::path(
    get, context_path = BASE, path = "/locks", tag = "locks", operation_id = "listLocks", params(ListParameters),
    responses((status = 200, description = "A page of locks, ordered by name.", body = HeldLocks)),
)]
pub(super) async fn list(
    State(state): State<Arc<AppState>>,
    InBucket(bucket): InBucket,
    uri: Uri,
) -> Read<Told> {
    let parameters = Parameters::parse(&uri)?;
    let owner = parameters.owner("owner")?.map(|owner| owner.to_string());
    let kind = parameters.text("kind", &KIND)?;
    let prefix = parameters.text("prefix", &PREFIX)?.unwrap_or_default();
    let cut = Cut::read(&parameters)?;
    let is_wanted = |lock: &HeldLock| {
        owner.as_ref().is_none_or(|owner| *owner == lock.owner)
            && kind.is_none_or(|kind| kind == lock.kind)
            && lock.name.0.as_name().as_wtf8().starts_with(prefix.as_bytes())
    };
    looks::locks(&state, &bucket, &cut, is_wanted).await
}
