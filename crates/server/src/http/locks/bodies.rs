//! Bodies of requests about locks, and of the answers.

use lockhouse::core::Acquired;
use lockhouse::{Mode, NameBuf};
use lockhouse_wire::decode::{Choice, MODES, Violation};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::schema::{AllOfBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::bounds::RELEASES;
use crate::http::dto::{At, JsonName, ModeWord, record_of};
use crate::http::query::entry::Entry;
use crate::http::request::constraints::{AGAIN, ID, KIND, LOCKS, METADATA, OWNER, RESOURCE, TOKEN};
use crate::http::request::decode::{FromMembers, Members};
use crate::http::request::path::owner;
use crate::http::request::schema::{ObjectSchema, RuleSchema, flag, one_of_named};

/// What a record is locked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Intent {
    Read,
    Write,
}

const INTENTS: Choice<Intent> = Choice(&[("read", Intent::Read), ("write", Intent::Write)]);

/// How the owner came by the lock that is taken back.
const TAKEN: Choice<Acquired> = Choice(&[("fresh", Acquired::Fresh), ("upgraded", Acquired::Upgraded)]);

/// Something to be locked.
#[derive(Clone, Debug)]
pub(crate) enum LockTarget {
    Record {
        record: RecordId,
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
pub(crate) enum Lockable {
    Record(RecordId),
    Name(NameBuf),
}

/// Locks to be.
#[derive(Clone, Debug)]
pub(crate) struct NewLocks {
    pub(crate) owner: u64,
    pub(crate) locks: Vec<LockTarget>,
    pub(crate) metadata: Option<String>,
}

/// A record.
#[derive(Clone, Debug)]
pub(crate) struct RecordId {
    pub(crate) kind: String,
    pub(crate) id: String,
}

/// A lock to be released.
#[derive(Clone, Debug)]
pub(crate) struct Unwanted {
    pub(crate) lockable: Lockable,
    /// Only the lock with this token.
    pub(crate) token: Option<u64>,
}

/// Which locks are released.
#[derive(Clone, Debug)]
pub(crate) enum Release {
    These(Vec<Unwanted>),
    AllBut(Vec<Lockable>),
}

/// Locks to be given back.
#[derive(Clone, Debug)]
pub(crate) struct OldLocks {
    pub(crate) owner: u64,
    /// Only if the owner holds all of these.
    pub(crate) holding: Vec<Unwanted>,
    /// `None`: nothing is given back.
    pub(crate) release: Option<Release>,
}

/// A lock to be taken back.
#[derive(Clone, Debug)]
pub(crate) struct Regretted {
    pub(crate) name: NameBuf,
    pub(crate) token: u64,
    pub(crate) how: Acquired,
    pub(crate) again: u32,
}

/// Locks to be taken back.
#[derive(Clone, Debug)]
pub(crate) struct UndoneLocks {
    pub(crate) owner: u64,
    pub(crate) locks: Vec<Regretted>,
}

impl FromMembers for LockTarget {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        match Lockable::read(members)? {
            Lockable::Record(record) => {
                members.must_not_have(&["mode"], "without kind and id")?;
                Ok(Self::Record { record, intent: members.field("intent").choice(&INTENTS)? })
            }
            Lockable::Name(name) => {
                members.must_not_have(&["intent"], "without name")?;
                Ok(Self::Name { name, mode: members.field("mode").choice(&MODES)? })
            }
        }
    }
}

impl FromMembers for Lockable {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        match members.field("name").if_any(|name| name.name(&RESOURCE))? {
            None => RecordId::read(members).map(Self::Record),
            Some(name) => {
                members.must_not_have(&["kind", "id"], "without name")?;
                Ok(Self::Name(name))
            }
        }
    }
}

impl FromMembers for Regretted {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self {
            name: members.field("name").name(&RESOURCE)?,
            token: members.field("fencingToken").number(&TOKEN)?,
            how: members.field("how").choice(&TAKEN)?,
            again: members.field("again").number_if_any(&AGAIN)?.unwrap_or(0) as u32,
        })
    }
}

impl FromMembers for UndoneLocks {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self { owner: owner(members.field("owner"))?, locks: members.list("locks", LOCKS)? })
    }
}

impl FromMembers for NewLocks {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self {
            owner: owner(members.field("owner"))?,
            locks: members.list("locks", LOCKS)?,
            metadata: members.field("metadata").string_if_any(&METADATA)?,
        })
    }
}

impl FromMembers for RecordId {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self { kind: members.field("kind").string(&KIND)?, id: members.field("id").string(&ID)? })
    }
}

impl FromMembers for Unwanted {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self {
            lockable: Lockable::read(members)?,
            token: members.field("fencingToken").number_if_any(&TOKEN)?,
        })
    }
}

impl FromMembers for OldLocks {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        let owner = owner(members.field("owner"))?;
        let these = members.list_if_any("locks", RELEASES)?;
        let all = members.field("all").flag_or_false()?;
        let sparing = members.list_if_any("sparing", RELEASES)?;
        let holding: Option<Vec<Unwanted>> = members.list_if_any("holding", RELEASES)?;
        let release = match (these, all, sparing) {
            (Some(these), false, None) => Some(Release::These(these)),
            (None, true, sparing) => Some(Release::AllBut(sparing.unwrap_or_default())),
            (None, false, None) if holding.is_some() => None,
            (None, false, _) => {
                return Err(Violation::new("locks", "absent", "there, unless all is true"));
            }
            (Some(_), ..) => {
                let rule = "there without all and sparing";
                return Err(Violation::new("locks", "there with them", rule));
            }
        };
        Ok(Self { owner, holding: holding.unwrap_or_default(), release })
    }
}

/// The schemas of the parts of bodies, each under its name.
pub(crate) fn parts() -> Vec<(String, RefOr<Schema>)> {
    let record = |about: &str| {
        ObjectSchema::new(about)
            .needs("kind", KIND.schema(), "The kind of the record, such as a table.")
            .needs("id", ID.schema(), "Its id within the kind.")
    };
    let name = |about: &str| {
        let resource = "Instead of `kind` and `id`: a resource name as it is.";
        ObjectSchema::new(about).needs("name", RESOURCE.schema(), resource)
    };
    let intent = "What for. What that locks is decided by the lock type of the kind (`serve --lock-type`).";
    let token = "Only the lock with this token; absent: whatever token it has.";
    let record_to_lock = record("A record to be locked.").needs_named("intent", &Intent::name(), intent);
    let name_to_lock =
        name("A name to be locked.").needs_named("mode", &ModeWord::name(), "How it is locked.");
    let of_lock = |part: ObjectSchema| part.may("fencingToken", TOKEN.schema(), token).build();
    let taken = ObjectSchema::new("A lock to be taken back, as it was told when it was granted.")
        .needs("name", RESOURCE.schema(), "The resource name.")
        .needs("fencingToken", TOKEN.schema(), "Its token.")
        .needs_named("how", TAKEN_HOW, "How the owner came by it.")
        .may("again", AGAIN.schema(), "How often the same step was told since that the owner has it already, 0 if absent. What others were told so is not taken back.");
    let parts = [
        (RECORD_TO_LOCK, record_to_lock.build()),
        (NAME_TO_LOCK, name_to_lock.build()),
        (
            TO_LOCK,
            one_of_named(&[RECORD_TO_LOCK, NAME_TO_LOCK], "Something to be locked: a record, or a name."),
        ),
        (RECORD, record("A record.").build()),
        (NAME, name("A name.").build()),
        (LOCKABLE, one_of_named(&[RECORD, NAME], "A record, or a name.")),
        (RECORD_LOCK, of_lock(record("The lock of a record."))),
        (NAME_LOCK, of_lock(name("The lock of a name."))),
        (LOCK, one_of_named(&[RECORD_LOCK, NAME_LOCK], "A lock, by its record or its name.")),
        (TAKEN_LOCK, taken.build()),
        (
            TAKEN_HOW,
            TAKEN.schema().description(Some("How an owner came by a lock that may be taken back.")).into(),
        ),
    ];
    parts.map(|(name, schema)| (name.to_owned(), schema)).into()
}

const RECORD_TO_LOCK: &str = "RecordToLock";
const NAME_TO_LOCK: &str = "NameToLock";
const TO_LOCK: &str = "LockTarget";
const RECORD: &str = "RecordKey";
const NAME: &str = "NameKey";
const LOCKABLE: &str = "Lockable";
const RECORD_LOCK: &str = "RecordLock";
const NAME_LOCK: &str = "NameLock";
const LOCK: &str = "LockKey";
const TAKEN_LOCK: &str = "TakenLock";
const TAKEN_HOW: &str = "TakenHow";

impl PartialSchema for NewLocks {
    fn schema() -> RefOr<Schema> {
        ObjectSchema::new("Locks to be: all of them, or none.")
            .needs("owner", OWNER.schema(), "Who locks.")
            .needs_list(
                "locks",
                Ref::from_schema_name(TO_LOCK),
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
        let holding = "Only if the owner holds all of these; alone: only look whether it does. For the end of a step: the check and the release are one.";
        let object = ObjectSchema::new("Locks to be given back: either `locks`, or `all` of them.")
            .needs("owner", OWNER.schema(), "Whose locks.")
            .may_list(
                "locks",
                Ref::from_schema_name(LOCK),
                RELEASES,
                "These. What the owner does not hold is passed over.",
            )
            .may("all", flag(), "All that the owner holds.")
            .may_list("sparing", Ref::from_schema_name(LOCKABLE), RELEASES, "With `all`: except these.")
            .may_list("holding", Ref::from_schema_name(LOCK), RELEASES, holding)
            .example(json!({"owner": "17", "locks": [{"kind": "customer", "id": "42"}]}));
        let array = || ObjectBuilder::new().schema_type(Type::Array);
        let nothing = || ObjectBuilder::new().schema_type(Type::Null);
        let one_of = |values: Vec<Value>| {
            ObjectBuilder::new().schema_type(SchemaType::AnyValue).enum_values(Some(values))
        };
        let these = ObjectBuilder::new()
            .property("locks", array())
            .required("locks")
            .property("all", one_of(vec![Value::Bool(false), Value::Null]))
            .property("sparing", nothing());
        let none = ObjectBuilder::new()
            .property("locks", nothing())
            .property("all", one_of(vec![Value::Bool(false), Value::Null]))
            .property("sparing", nothing())
            .property("holding", array())
            .required("holding");
        let all = ObjectBuilder::new()
            .property("locks", nothing())
            .property("all", one_of(vec![Value::Bool(true)]))
            .required("all");
        let either = OneOfBuilder::new().item(these).item(all).item(none);
        AllOfBuilder::new().item(object.build()).item(either).into()
    }
}

impl ToSchema for OldLocks {}

impl PartialSchema for UndoneLocks {
    fn schema() -> RefOr<Schema> {
        ObjectSchema::new("Locks to be taken back.")
            .needs("owner", OWNER.schema(), "Whose locks.")
            .needs_list("locks", Ref::from_schema_name(TAKEN_LOCK), LOCKS, "Which. What is no longer held under its token is passed over.")
            .example(json!({"owner": "17", "locks": [{"name": "customer/42", "fencingToken": 18, "how": "fresh"}]}))
            .build()
    }
}

impl ToSchema for UndoneLocks {}

/// How an owner came by a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum How {
    /// It had none of that record.
    Fresh,
    /// It was the sole reader, and may write now.
    Upgraded,
    /// It had it before.
    AlreadyHeld,
    /// Records of this kind are not locked for that.
    NotNeeded,
}

/// A lock, as its owner gets it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantedLock {
    /// The kind of the record; empty if the name is that of none.
    #[schema(example = "customer")]
    pub(crate) kind: String,
    /// Its id.
    #[schema(example = "42")]
    pub(crate) id: String,
    /// What for, as asked; `null` where a name was asked for.
    #[schema(value_type = Option<Intent>)]
    pub(crate) intent: Option<Intent>,
    /// How it is held, which may be stronger than what was asked for; `null` if nothing was needed.
    pub(crate) mode: Option<ModeWord>,
    /// The resource name that stands for the record.
    pub(crate) name: JsonName,
    /// Higher than that of every earlier grant in the bucket.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: Option<u64>,
    /// How the owner came by it.
    pub(crate) how: How,
}

/// Locks that were granted.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Locked {
    /// The owner.
    #[schema(example = "17")]
    pub(crate) owner: String,
    /// When it ends unless more is heard of it.
    pub(crate) expires_at: At,
    /// In the order asked.
    #[schema(max_items = 60)]
    pub(crate) locks: Vec<GrantedLock>,
}

/// Locks that were given back.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Released {
    /// How many.
    pub(crate) released: usize,
}

/// Locks that were taken back.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Undone {
    /// How many.
    pub(crate) undone: usize,
}

/// An offline lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeldLock {
    /// The kind of the record; empty if the name is that of none.
    #[schema(example = "customer")]
    pub(crate) kind: String,
    /// Its id.
    #[schema(example = "42")]
    pub(crate) id: String,
    /// The resource name that stands for it.
    pub(crate) name: JsonName,
    /// How it is held.
    pub(crate) mode: ModeWord,
    /// Whose it is.
    #[schema(example = "17")]
    pub(crate) owner: String,
    /// What the owner is called.
    pub(crate) label: String,
    /// The instant of the grant.
    pub(crate) since: At,
    /// When the owner ends unless more is heard of it.
    #[schema(value_type = Option<At>)]
    pub(crate) expires_at: Option<At>,
    /// Higher than that of every earlier grant in the bucket.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: u64,
    /// What the owner said of it.
    pub(crate) metadata: Option<String>,
}

/// A page of locks, ordered by name.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeldLocks {
    /// At most as many as asked for.
    #[schema(max_items = 1000)]
    pub(crate) locks: Vec<HeldLock>,
    /// The `cursor` of the next page; `null` on the last.
    pub(crate) next: Option<String>,
}

impl HeldLock {
    /// The entry as a lock, if it is one of an owner.
    pub(crate) fn of(entry: Entry) -> Option<Self> {
        let (kind, id) = record_of(&entry.name.0).unwrap_or_default();
        Some(Self {
            kind,
            id,
            name: entry.name,
            mode: entry.mode,
            owner: entry.owner?,
            label: entry.client_id,
            since: entry.since,
            expires_at: entry.expires_at,
            fencing_token: entry.fencing_token?,
            metadata: entry.metadata,
        })
    }
}

impl From<Acquired> for How {
    fn from(how: Acquired) -> Self {
        match how {
            Acquired::AlreadyHeld => Self::AlreadyHeld,
            Acquired::Fresh => Self::Fresh,
            Acquired::Upgraded => Self::Upgraded,
        }
    }
}
