//! Bodies of requests to break holds, and of the answers.

use lockhouse::NameBuf;
use lockhouse_wire::decode::Violation;
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::http::dto::{Holder, JsonName};
use crate::http::request::constraints::{LOCKS, REASON, RESOURCE, TOKEN};
use crate::http::request::decode::{FromMembers, Members};
use crate::http::request::schema::{ObjectSchema, RuleSchema};

/// A hold that is meant.
#[derive(Clone, Debug)]
pub(crate) struct MeantHold {
    pub(crate) name: NameBuf,
    pub(crate) token: u64,
}

/// Holds to break.
#[derive(Clone, Debug)]
pub(crate) struct HoldsToBreak {
    pub(crate) holds: Vec<MeantHold>,
    pub(crate) reason: Option<String>,
}

impl FromMembers for MeantHold {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self {
            name: members.field("name").name(&RESOURCE)?,
            token: members.field("fencingToken").number(&TOKEN)?,
        })
    }
}

impl FromMembers for HoldsToBreak {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        Ok(Self {
            holds: members.list("holds", LOCKS)?,
            reason: members.field("reason").string_if_any(&REASON)?,
        })
    }
}

impl PartialSchema for HoldsToBreak {
    fn schema() -> RefOr<Schema> {
        let hold = ObjectSchema::new("A hold.")
            .needs("name", RESOURCE.schema(), "The resource name.")
            .needs("fencingToken", TOKEN.schema(), "The token of the hold: no other hold is meant.")
            .build();
        ObjectSchema::new("Holds to break, of any discipline.")
            .needs_list("holds", hold, LOCKS, "The holds.")
            .may(
                "reason",
                REASON.schema(),
                "Told to the holders, and kept in the audit log and the history. Some servers ask for it.",
            )
            .example(json!({
                "holds": [{"name": "customer/42", "fencingToken": 18}],
                "reason": "Ann is on holiday",
            }))
            .build()
    }
}

impl ToSchema for HoldsToBreak {}

/// What became of the holds.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrokenHolds {
    /// Those that were broken, each with its holder as it was.
    pub(crate) broken: Vec<BrokenHold>,
    /// Those that were not there any more.
    pub(crate) gone: Vec<GoneHold>,
}

/// A hold that was broken.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrokenHold {
    /// The resource name.
    pub(crate) name: JsonName,
    /// The token of the hold.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: u64,
    /// Who held it.
    pub(crate) holder: Holder,
}

/// A hold that was not there any more.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GoneHold {
    /// The resource name.
    pub(crate) name: JsonName,
    /// The token that no hold of the name has.
    #[schema(minimum = 1, maximum = 9007199254740991u64, example = 18)]
    pub(crate) fencing_token: u64,
}
