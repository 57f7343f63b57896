//! Bodies of answers about assignments.

use serde::Serialize;
use utoipa::ToSchema;

/// Whether an assignment was taken back.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unassigned {
    /// False if there was none.
    pub(crate) unassigned: bool,
}
