//! The kinds of problems.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::limits::Refused;

/// What kind of problem, as a word that programs can tell apart. The `type` of a problem leads to an
/// explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    BadRequest,
    Unauthenticated,
    Unauthorized,
    Forbidden,
    NotFound,
    UnknownOwner,
    MethodNotAllowed,
    ConflictInFlight,
    Claimed,
    Busy,
    AlreadyAssigned,
    ClaimLost,
    ClaimExpired,
    LockLost,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    IdempotencyMismatch,
    Locked,
    QuotaExceeded,
    RateLimited,
    RequestTimeout,
    Overloaded,
    Internal,
    Recovering,
    Unavailable,
    Closing,
    Moving,
    OutcomeUnknown,
}

/// The facts of a code wherever it occurs: its word, its status, its title, and what to do about it.
pub(crate) struct CodeInfo {
    pub(crate) code: Code,
    pub(crate) word: &'static str,
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    pub(crate) advice: &'static str,
}

impl Code {
    pub(crate) fn kind(self) -> &'static CodeInfo {
        KINDS.iter().find(|kind| kind.code == self).expect("a test looks that every code has its kind")
    }

    pub(crate) fn status(self) -> StatusCode {
        self.kind().status
    }

    /// The kind of refusal that it counts as, if any.
    pub(crate) fn refused(self) -> Option<Refused> {
        match self {
            Self::QuotaExceeded => Some(Refused::Call),
            Self::RateLimited => Some(Refused::TenantRate),
            Self::TooLarge => Some(Refused::BodyBytes),
            Self::RequestTimeout => Some(Refused::BodyTimeout),
            // Overloads by connections are answered before any read, and counted there.
            Self::Overloaded => Some(Refused::LateBody),
            _ => None,
        }
    }
}

const fn kind(
    code: Code,
    word: &'static str,
    status: StatusCode,
    title: &'static str,
    advice: &'static str,
) -> CodeInfo {
    CodeInfo { code, word, status, title, advice }
}

#[rustfmt::skip]
pub(crate) const KINDS: &[CodeInfo] = &[
    kind(Code::BadRequest, "bad_request", StatusCode::BAD_REQUEST, "Not a usable request",
        "The body is no JSON object, or the request cannot be read for another reason. Sending it again will not help."),
    kind(Code::Unauthenticated, "unauthenticated", StatusCode::UNAUTHORIZED, "No valid credential",
        "The server wants to know who calls: send an API key or a token as `Lockhouse-Key`, or as `Authorization: Bearer` where no owner's secret is \
         needed, or come with a client certificate that the server's settings name. A token that has expired must be replaced by a newer one; with the same credential, sending the request again will not help."),
    kind(Code::Unauthorized, "unauthorized", StatusCode::UNAUTHORIZED, "Not the owner's secret",
        "What an owner does needs its secret, as `Authorization: Bearer SECRET`. It was told once, when the owner began."),
    kind(Code::Forbidden, "forbidden", StatusCode::FORBIDDEN, "Not allowed",
        "With `permission`: the credential does not give it in this bucket; whoever gives out credentials has to. Without: the host or the origin is not \
         admitted. Only pages of this machine may connect, and of the origins that `serve --allow-origin` names, and without authentication only programs of \
         this machine."),
    kind(Code::NotFound, "not_found", StatusCode::NOT_FOUND, "Nothing is here",
        "There is no such path, or no such assignment. `/openapi.json` lists the paths."),
    kind(Code::UnknownOwner, "unknown_owner", StatusCode::NOT_FOUND, "No such owner",
        "The owner has ended, because it was told to, because nothing was heard of it for its TTL, or because its longest life was \
         over. All its locks are free. Begin with a new owner, and load anew what it is to edit."),
    kind(Code::MethodNotAllowed, "method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, "Not with this method",
        "The `Allow` header names the methods that the path knows."),
    kind(Code::ConflictInFlight, "conflict_in_flight", StatusCode::CONFLICT, "The first request is still under way",
        "A request with the same `Idempotency-Key` has not been answered yet. Ask again in a moment; you will get its answer."),
    kind(Code::Claimed, "claimed", StatusCode::CONFLICT, "Claimed by somebody else",
        "`holders` tells who claims the resource, `expiresAt` until when, unless the claim is renewed."),
    kind(Code::Busy, "busy", StatusCode::CONFLICT, "Held or waited for in another way",
        "A web lock or an offline lock stands on the name, or somebody waits for it. `holders` tells who."),
    kind(Code::AlreadyAssigned, "already_assigned", StatusCode::CONFLICT, "Assigned for good",
        "A claim of the resource was made final. It can be claimed again once the assignment is deleted."),
    kind(Code::ClaimLost, "claim_lost", StatusCode::CONFLICT, "Another claim stands",
        "The token is not that of the claim that stands, which is not touched, or another claim was made final: then `assignment` tells to whom. Whatever was prepared must not be used."),
    kind(Code::ClaimExpired, "claim_expired", StatusCode::GONE, "No claim stands any more",
        "The claim's TTL is over, or it was released, or made final itself. No other client has the resource: if it is not assigned to you, claim it again, and check what was prepared."),
    kind(Code::LockLost, "lock_lost", StatusCode::CONFLICT, "A lock is not held any more",
        "`lost` names the locks that the owner was to hold and does not: they were stolen, or given back by another step of the owner. Nothing was given \
         back. Others may have changed what the locks guard: load it anew."),
    kind(Code::TooLarge, "too_large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large",
        "A body has at most 256 KiB."),
    kind(Code::UnsupportedMediaType, "unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "Not JSON",
        "A body is sent as `Content-Type: application/json`."),
    kind(Code::Invalid, "invalid", StatusCode::UNPROCESSABLE_ENTITY, "A member or parameter breaks a rule",
        "`field` tells which, `value` what it was, and `rule` what it must be."),
    kind(Code::IdempotencyMismatch, "idempotency_mismatch", StatusCode::UNPROCESSABLE_ENTITY, "The key belongs to another request",
        "The `Idempotency-Key` was used for a request with another query or body. Take a new key for each new request."),
    kind(Code::Locked, "locked", StatusCode::LOCKED, "Locked by somebody else",
        "None of the locks asked for was granted. `conflicts` names those that stand in the way, with their holders. Nothing waits: \
         tell the user who edits, and since when."),
    kind(Code::QuotaExceeded, "quota_exceeded", StatusCode::TOO_MANY_REQUESTS, "A bound of the server is reached",
        "There are as many owners, locks or claims as the server takes on. Some have to end first."),
    kind(Code::RateLimited, "rate_limited", StatusCode::TOO_MANY_REQUESTS, "Too much in too short a time",
        "All that uses the same tenant does more in a second than the operator has set. Nothing was carried out; try again after `Retry-After`."),
    kind(Code::RequestTimeout, "request_timeout", StatusCode::REQUEST_TIMEOUT, "The body did not come in time",
        "The body of a request has to follow its head within a time that the operator has set, 10 s unless told otherwise."),
    kind(Code::Overloaded, "overloaded", StatusCode::SERVICE_UNAVAILABLE, "Too many connections",
        "There are as many connections as the server takes on, in all, from one address or of one tenant. Try again after `Retry-After`, and close \
         what is not used."),
    kind(Code::Internal, "internal", StatusCode::INTERNAL_SERVER_ERROR, "The server failed",
        "This is a fault of the server. It says nothing about the lock table."),
    kind(Code::Recovering, "recovering", StatusCode::SERVICE_UNAVAILABLE, "Recovering from a restart",
        "Those who held web locks before the restart are bringing them back, so that no name gets two holders. Try again after \
         `Retry-After`. Releasing, renewing and finalizing work meanwhile."),
    kind(Code::Unavailable, "unavailable", StatusCode::SERVICE_UNAVAILABLE, "The store refuses",
        "What is to be durable cannot be kept now, such as on a full disk. Nothing has happened; try again after `Retry-After`."),
    kind(Code::Closing, "closing", StatusCode::SERVICE_UNAVAILABLE, "The server stops",
        "Nothing new is granted any more. Try again in a moment, with the server that comes after it."),
    kind(Code::Moving, "moving", StatusCode::SERVICE_UNAVAILABLE, "The bucket moves to another server",
        "The servers of a fleet share the buckets out among themselves, and this one is just handed over, or its server has died. Nothing has happened; try \
         again after `Retry-After`."),
    kind(Code::OutcomeUnknown, "outcome_unknown", StatusCode::GATEWAY_TIMEOUT, "The outcome is unknown",
        "The call was carried out, and the store was lost before it told whether that is kept: it may have happened, or not. With `Retry-After` the same \
         request with the same `Idempotency-Key` may be sent again, to the server that comes after this one. Without, send only what is harmless when \
         done twice, and look what is held before anything else."),
];
