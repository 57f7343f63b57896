//! The identity in whose name a session runs, and its permissions: checked at its beginning, with each
//! resume, and anew whenever the server's settings change or the credential or the certificate ends.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockhouse::BucketKey;
use lockhouse_wire::{Credential, FatalCode, FrameProblem};
use tokio::sync::watch;

use super::session_view::Peer;
use crate::access::Initiator;
use crate::audit::{self, Audit, AuditEvent};
use crate::auth::PresentedCertificate;
use crate::auth::{Authority, Identity, Permissions, Unauthenticated};
use crate::clock::until;
use crate::limits::Network;
use crate::settings::Permission;

/// The identity in whose name a session runs, and its permissions.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) identity: Identity,
    /// The lock table that the connection is about.
    pub(crate) scope: BucketKey,
    permissions: Permissions,
    presented: Presented,
    audit: Arc<Audit>,
    authority: watch::Receiver<Arc<Authority>>,
}

/// The credentials that the client presented, to be checked again.
#[derive(Debug)]
pub(crate) struct Presented {
    pub(crate) credential: Option<Credential<'static>>,
    /// The certificate that stands for the client if there is no credential.
    pub(crate) certificate: PresentedCertificate,
    /// The network that the connection came from, if known.
    pub(crate) from: Option<Network>,
    /// The initiator of the connection.
    pub(crate) initiator: Initiator,
    pub(crate) bucket: String,
    pub(crate) partition: String,
    /// The words of the client about itself.
    pub(crate) user_agent: Option<String>,
}

/// The reason why a session cannot begin, or has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) code: FatalCode,
    pub(crate) problem: FrameProblem<'static>,
}

impl Admission {
    /// Judges the presented credentials.
    pub(crate) fn new(
        mut authority: watch::Receiver<Arc<Authority>>,
        audit: &Arc<Audit>,
        presented: Presented,
    ) -> Result<Self, Denial> {
        // Settings made after this wake `due`.
        let current = authority.borrow_and_update().clone();
        let authenticated = authenticate(&current, &presented);
        let (identity, scope, permissions) =
            authenticated.map_err(|denial| presented.deny(audit, None, denial))?;
        let admission = Self { identity, scope, permissions, presented, audit: audit.clone(), authority };
        if permissions.is_empty() {
            let message =
                format!("the credential has no permission in the bucket {:?}", admission.presented.bucket);
            let denial = Denial { code: FatalCode::Forbidden, problem: FrameProblem::with_message(message) };
            return Err(admission.presented.deny(audit, Some(&admission.identity), denial));
        }
        Ok(admission)
    }

    pub(crate) fn allows(&self, permission: Permission) -> bool {
        self.permissions.has(permission)
    }

    /// What others may see of the connection.
    pub(crate) fn peer(&self) -> Peer {
        let origin = match &self.presented.initiator {
            Initiator::Page(origin) => Some(origin.clone()),
            Initiator::Program | Initiator::UnknownPage => None,
        };
        Peer {
            credential: self.identity.name.clone(),
            address: self.presented.from,
            user_agent: self.presented.user_agent.clone(),
            origin,
        }
    }

    /// The remaining validity of the credential.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let end = self.identity.expires_at?;
        Some(end.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Waits until the credential has to be checked anew.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn due(&mut self) {
        tokio::select! {
            // The server outlives its sessions.
            Ok(()) = self.authority.changed() => {}
            () = until(self.identity.expires_at) => {}
        }
    }

    /// Judges the credential by the present settings: it must still have every permission that it had before.
    pub(crate) fn revalidate(&mut self) -> Result<(), Denial> {
        let current = self.authority.borrow_and_update().clone();
        let denial = match authenticate(&current, &self.presented) {
            Ok((identity, scope, permissions)) if scope == self.scope => {
                match self.permissions.missing_in(permissions) {
                    None => {
                        (self.identity, self.permissions) = (identity, permissions);
                        return Ok(());
                    }
                    Some(taken) => {
                        let message =
                            format!("the permission \"{}\" was taken from the credential", taken.word());
                        Denial { code: FatalCode::Forbidden, problem: FrameProblem::with_message(message) }
                    }
                }
            }
            Ok(_) => {
                let problem = FrameProblem::with_message("the credential is of another tenant now");
                Denial { code: FatalCode::Forbidden, problem }
            }
            Err(denial) => denial,
        };
        Err(self.presented.deny(&self.audit, Some(&self.identity), denial))
    }

    /// Whether a resume may go on with another identity: that needs every permission that the session had
    /// before.
    pub(crate) fn check_resume(&self, next: &Self) -> Result<(), Denial> {
        let Some(missing) = self.permissions.missing_in(next.permissions) else { return Ok(()) };
        let message = format!(
            "the session has the permission \"{}\", which the credential of the resume has not",
            missing.word()
        );
        let denial = Denial { code: FatalCode::Forbidden, problem: FrameProblem::with_message(message) };
        next.note_denied("resume", None, &denial.problem);
        Err(denial)
    }

    /// Notes that the session may not do that.
    pub(crate) fn note_denied(&self, what: &str, name: Option<&dyn fmt::Display>, why: &dyn fmt::Display) {
        self.audit.deny(self.presented.from, &self.event(what, name), why);
    }

    /// Notes a steal that took the name from others.
    pub(crate) fn note_steal(&self, name: &dyn fmt::Display, lost: (u64, &str), why: &str) {
        audit::note(self.presented.from, &self.event("steal", Some(name)), Some(lost), Some(why));
    }

    fn event<'a>(&'a self, what: &'a str, name: Option<&'a dyn fmt::Display>) -> AuditEvent<'a> {
        AuditEvent { who: Some(&self.identity), what, bucket: &self.presented.bucket, name }
    }
}

impl Presented {
    fn deny(&self, audit: &Audit, who: Option<&Identity>, denial: Denial) -> Denial {
        let event = AuditEvent { who, what: "connect", bucket: &self.bucket, name: None };
        audit.deny(self.from, &event, &denial.problem);
        denial
    }
}

fn authenticate(
    authority: &Authority,
    presented: &Presented,
) -> Result<(Identity, BucketKey, Permissions), Denial> {
    let Presented { credential, certificate, from: _, initiator, bucket, partition, user_agent: _ } =
        presented;
    let refused = |why: Unauthenticated| {
        let mut problem = FrameProblem::with_field(
            "credential",
            "an API key, or a token of an issuer that the server knows",
        );
        problem.message = format!("{}: {why}", problem.message).into();
        Denial { code: FatalCode::Unauthenticated, problem }
    };
    let identity = authority.identify(credential.as_ref(), certificate, initiator).map_err(refused)?;
    // The end counts to the millisecond.
    if identity.expires_at.is_some_and(|end| end <= SystemTime::now()) {
        return Err(refused(Unauthenticated::Expired));
    }
    let scope = identity.bucket(bucket.clone(), partition).map_err(|reserved| Denial {
        code: FatalCode::Forbidden,
        problem: FrameProblem::with_message(reserved.to_string()),
    })?;
    let permissions = identity.permissions(bucket);
    Ok((identity, scope, permissions))
}
