//! `POST /v1/backup`: for callers that may read the database file anyway, as its folder has the secret that
//! the call needs. A backup has all tenants in it, so that a credential, too, does not do without that
//! secret.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use lockhouse::store::BackupError;
use lockhouse_wire::decode::Violation;
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::access::Caller;
use super::problem::{Code, Problem};
use super::request::asker::Bearer;
use super::request::body::JsonBody;
use super::request::constraints::FILE;
use super::request::decode::{ApiResult, FromMembers, Members};
use crate::audit::{self, AuditEvent};
use crate::houses::Houses;
use crate::state::AppState;

/// Where the backup is to be.
pub(super) struct NewBackup(PathBuf);

impl FromMembers for NewBackup {
    fn read(members: &Members<'_>) -> Result<Self, Violation> {
        members.field("file").string(&FILE).map(|file| Self(file.into()))
    }
}

/// When a backup that failed may be tried again, about.
const AGAIN: Duration = Duration::from_secs(10);

/// A backup that was written.
#[derive(Debug, Serialize)]
pub(super) struct Backup {
    file: String,
}

pub(super) async fn backup(
    State(state): State<Arc<AppState>>,
    caller: Caller,
    Bearer(secret): Bearer,
    JsonBody(NewBackup(file)): JsonBody<NewBackup>,
) -> ApiResult<Json<Backup>> {
    let known = state.operator.as_ref().is_some_and(|known| known.is(&secret.text));
    let Houses::One(house) = &state.houses else {
        let why = "the tables are in PostgreSQL, which has backups of its own: pg_dump, or pg_basebackup and an archive";
        return Err(Problem::new(Code::Invalid, why));
    };
    let Some(store) = house.store().filter(|_| known) else {
        secret.asker.deny(&state, &file.display(), &"not the secret of the operator");
        let rule = "\"Bearer \" and the secret in the file beside the database that ends in .operator";
        return Err(Problem::field(Code::Unauthorized, "Authorization", rule));
    };
    match store.backup(file.clone()).await {
        Ok(()) => {
            let event = AuditEvent {
                who: Some(&caller.identity),
                what: "backup",
                bucket: "*",
                name: Some(&file.display()),
            };
            audit::note(secret.asker.from, &event, None, Some("by the secret of the operator"));
            Ok(Json(Backup { file: file.display().to_string() }))
        }
        Err(error @ (BackupError::Exists(_) | BackupError::NoFolder(_) | BackupError::Unsupported(..))) => {
            Err(Problem::new(Code::Invalid, error.to_string()))
        }
        Err(error) => Err(Problem::new(Code::Unavailable, error.to_string()).retry_after(AGAIN)),
    }
}

impl crate::store::Operator {
    fn is(&self, secret: &str) -> bool {
        self.secret.as_bytes().ct_eq(secret.as_bytes()).into()
    }
}
