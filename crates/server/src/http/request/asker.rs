//! The caller that shows a secret or a token.

use std::fmt::Display;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::request::Parts;

use super::constraints::SECRET;
use super::decode::ApiResult;
use super::headers::bearer;
use crate::audit::AuditEvent;
use crate::http::access::Caller;
use crate::http::problem::Problem;
use crate::limits::{ConnectionPermit, Network};
use crate::state::AppState;

/// The client that shows a secret or a token, and its purpose: noted if the secret is wrong.
pub(crate) struct Asker {
    pub(crate) caller: Caller,
    pub(crate) from: Option<Network>,
    method: Method,
}

impl Asker {
    /// Notes that what he shows is wrong.
    pub(crate) fn deny(&self, state: &AppState, name: &dyn Display, why: &dyn Display) {
        let event = AuditEvent {
            who: Some(&self.caller.identity),
            what: &format!("{} {}", self.method, self.caller.route.path),
            bucket: self.caller.bucket.as_ref().map_or("*", |key| &key.bucket),
            name: Some(name),
        };
        state.audit.deny(self.from, &event, why);
    }
}

impl FromRequestParts<Arc<AppState>> for Asker {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> ApiResult<Self> {
        let caller = Caller::of(parts)?.clone();
        let from = parts.extensions.get::<ConnectionPermit>().map(|permit| permit.from);
        Ok(Self { caller, from, method: parts.method.clone() })
    }
}

/// A secret that is not compared yet, and the client that shows it.
pub(crate) struct PresentedSecret {
    pub(crate) text: String,
    pub(crate) asker: Asker,
}

/// The secret of an owner, as `Authorization: Bearer …`.
pub(crate) struct Bearer(pub(crate) PresentedSecret);

impl FromRequestParts<Arc<AppState>> for Bearer {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> ApiResult<Self> {
        let asker = Asker::from_request_parts(parts, state).await?;
        let Some(text) = bearer(&parts.headers, |secret| SECRET.admits(secret)) else {
            asker.deny(state, &"", &"no secret");
            return Err(Problem::unauthorized());
        };
        Ok(Self(PresentedSecret { text, asker }))
    }
}
