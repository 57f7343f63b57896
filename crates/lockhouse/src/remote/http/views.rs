//! The bodies of requests and responses, as JSON.

use std::time::{Duration, SystemTime};

use lockhouse_core::{Acquired, FencingToken, HolderKind, Mode, Name, NameBuf, OwnerId};
use lockhouse_wire as wire;
use serde::de::{DeserializeOwned, Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::claims::info::{Assignment, ClaimInfo};
use crate::owners::error;
use crate::owners::lock::{OfflineLock, OwnerInfo};
use crate::snapshot;

/// Reads a body; an error names the member that is to blame.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unusable> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let member = error.path().iter().next().map(|_| error.path().to_string());
        Unusable(member.map(|member| format!("{member}: {}", error.inner())))
    })?;
    json.end().map_err(|_| Unusable(None))?;
    Ok(read)
}

/// Why a body cannot be read: the member and its rule, unless it is no such body at all.
#[derive(Debug)]
pub(super) struct Unusable(pub(super) Option<String>);

/// A resource name; lone surrogates as escapes.
#[derive(Clone, Debug)]
pub(crate) struct JsonName(pub(crate) NameBuf);

impl From<Name<'_>> for JsonName {
    fn from(name: Name<'_>) -> Self {
        Self(name.to_buf())
    }
}

impl Serialize for JsonName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = wire::name_to_json(self.0.as_name());
        RawValue::from_string(json).expect("the protocol's encoder writes JSON").serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        wire::name_from_json(json.get()).map(Self).map_err(|problem| Error::custom(format!("{problem:?}")))
    }
}

/// An instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(pub(crate) SystemTime);

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let instant = humantime::parse_rfc3339(&text);
        instant.map(Self).map_err(|_| Error::invalid_value(Unexpected::Str(&text), &"an instant of RFC 3339"))
    }
}

/// A fencing token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token(pub(crate) FencingToken);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        if (1..FencingToken::LIMIT).contains(&number) {
            Ok(Self(FencingToken::new(number)))
        } else {
            let expected = "an integer from 1 to 2^53 - 1";
            Err(Error::invalid_value(Unexpected::Unsigned(number), &expected))
        }
    }
}

/// The id of an owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id(pub(crate) OwnerId);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number =
            text.parse().map_err(|_| Error::invalid_value(Unexpected::Str(&text), &"the id of an owner"))?;
        Ok(Self(OwnerId::new(number)))
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Mode")]
enum ModeWord {
    Exclusive,
    Shared,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Acquired")]
enum How {
    AlreadyHeld,
    Fresh,
    Upgraded,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Discipline {
    Web,
    Offline { owner: Id },
    Claim,
}

/// A holder of a name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Holder {
    #[serde(flatten)]
    discipline: Discipline,
    label: String,
    #[serde(with = "ModeWord")]
    mode: Mode,
    since: At,
    expires_at: Option<At>,
    metadata: Option<String>,
}

impl From<Holder> for snapshot::Holder {
    fn from(holder: Holder) -> Self {
        let kind = match holder.discipline {
            Discipline::Web => HolderKind::Web,
            Discipline::Offline { owner: Id(owner) } => HolderKind::Offline(owner),
            Discipline::Claim => HolderKind::Claim,
        };
        Self {
            kind,
            client_id: holder.label,
            mode: holder.mode,
            since: holder.since.0,
            expires_at: holder.expires_at.map(|at| at.0),
            metadata: holder.metadata,
        }
    }
}

/// A name that could not be locked.
#[derive(Debug, Deserialize)]
pub(super) struct Conflict {
    name: JsonName,
    holders: Vec<Holder>,
    queued: u32,
}

/// A lock that a step relies on and that is gone.
#[derive(Debug, Deserialize)]
pub(super) struct LostLock {
    pub(super) name: JsonName,
}

impl From<Conflict> for error::Conflict {
    fn from(conflict: Conflict) -> Self {
        let holders = conflict.holders.into_iter().map(Into::into).collect();
        Self { name: conflict.name.0, holders, queued: conflict.queued }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenRequest {
    pub(crate) label: String,
    pub(crate) metadata: Option<String>,
    pub(crate) ttl_ms: u64,
    pub(crate) max_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenedBody {
    pub(crate) owner: Id,
    pub(crate) owner_secret: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerBody {
    label: String,
    metadata: Option<String>,
    since: At,
    ttl_ms: u64,
    expires_at: At,
    ends_at: Option<At>,
    locks: Vec<HeldLock>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeldLock {
    name: JsonName,
    #[serde(with = "ModeWord")]
    mode: Mode,
    fencing_token: Token,
}

impl OwnerBody {
    pub(crate) fn locks(self) -> Vec<OfflineLock> {
        let lock = |HeldLock { name, mode, fencing_token }| OfflineLock {
            name: name.0,
            mode,
            token: fencing_token.0,
            how: Acquired::AlreadyHeld,
        };
        self.locks.into_iter().map(lock).collect()
    }

    pub(crate) fn info(self) -> OwnerInfo {
        OwnerInfo {
            label: self.label,
            metadata: self.metadata,
            ttl: Duration::from_millis(self.ttl_ms),
            since: self.since.0,
            expires_at: self.expires_at.0,
            ends_at: self.ends_at.map(|at| at.0),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct NewLocks {
    pub(crate) owner: Id,
    pub(crate) locks: Vec<LockItem>,
    pub(crate) metadata: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LockItem {
    pub(crate) name: JsonName,
    #[serde(with = "ModeWord")]
    pub(crate) mode: Mode,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LockedBody {
    locks: Vec<GrantedLock>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GrantedLock {
    name: JsonName,
    #[serde(with = "ModeWord")]
    mode: Mode,
    fencing_token: Token,
    #[serde(with = "How")]
    how: Acquired,
}

impl LockedBody {
    pub(crate) fn locks(self) -> Vec<OfflineLock> {
        let lock = |GrantedLock { name, mode, fencing_token, how }| OfflineLock {
            name: name.0,
            mode,
            token: fencing_token.0,
            how,
        };
        self.locks.into_iter().map(lock).collect()
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleaseItem {
    pub(crate) name: JsonName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fencing_token: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ReleaseRequest {
    pub(crate) owner: Id,
    /// These; or else all of them.
    pub(crate) locks: Option<Vec<ReleaseItem>>,
    pub(crate) all: bool,
    /// Except these, of which there must be one.
    pub(crate) sparing: Option<Vec<ReleaseItem>>,
    /// Only if the owner holds all of these, of which there must be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holding: Option<Vec<ReleaseItem>>,
}

impl ReleaseRequest {
    /// A request that releases nothing.
    pub(crate) fn of(owner: Id) -> Self {
        Self { owner, locks: None, all: false, sparing: None, holding: None }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct GivenBack {
    pub(crate) released: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct UndoRequest {
    pub(crate) owner: Id,
    pub(crate) locks: Vec<UndoItem>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UndoItem {
    pub(crate) name: JsonName,
    pub(crate) fencing_token: u64,
    #[serde(with = "How")]
    pub(crate) how: Acquired,
    pub(crate) again: u32,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Undone {
    pub(crate) undone: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimRequest {
    pub(crate) resource: JsonName,
    pub(crate) claimant: String,
    pub(crate) ttl_ms: u64,
    pub(crate) metadata: Option<String>,
    pub(crate) claim_key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimedBody {
    pub(crate) token: String,
    pub(crate) expires_at: At,
    pub(crate) fencing_token: Token,
}

#[derive(Debug, Serialize)]
pub(crate) struct TokenRequest {
    pub(crate) resource: JsonName,
    pub(crate) token: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenewedBody {
    pub(crate) expires_at: At,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimBody {
    resource: JsonName,
    claimant: String,
    fencing_token: Token,
    since: At,
    expires_at: At,
    metadata: Option<String>,
}

impl From<ClaimBody> for ClaimInfo {
    fn from(claim: ClaimBody) -> Self {
        Self {
            resource: claim.resource.0,
            claimant: claim.claimant,
            fencing_token: claim.fencing_token.0,
            since: claim.since.0,
            expires_at: claim.expires_at.0,
            metadata: claim.metadata,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssignmentBody {
    resource: JsonName,
    claimant: String,
    assigned_at: At,
    fencing_token: Token,
}

impl From<AssignmentBody> for Assignment {
    fn from(assignment: AssignmentBody) -> Self {
        Self {
            resource: assignment.resource.0,
            claimant: assignment.claimant,
            fencing_token: assignment.fencing_token.0,
            since: assignment.assigned_at.0,
        }
    }
}

/// A page of a query for assignments.
#[derive(Debug, Deserialize)]
pub(crate) struct Assignments {
    pub(crate) entries: Vec<Entry>,
    pub(crate) next: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    name: JsonName,
    client_id: String,
    since: At,
    fencing_token: Token,
}

impl From<Entry> for Assignment {
    fn from(entry: Entry) -> Self {
        Self {
            resource: entry.name.0,
            claimant: entry.client_id,
            fencing_token: entry.fencing_token.0,
            since: entry.since.0,
        }
    }
}

/// The answer to the release of a claim.
#[derive(Debug, Deserialize)]
pub(crate) struct ReleasedBody {
    pub(crate) released: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UnassignedBody {
    pub(crate) unassigned: bool,
}
