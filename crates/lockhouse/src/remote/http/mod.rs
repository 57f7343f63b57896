//! The HTTP API of a server: the base of remote owners and claims, and calls for requests that have no type
//! here.
//!
//! ```text
//!   Owner, Claims ──▶ Api: gate, repeats ──▶ Http: one call, one answer ──▶ /v1/buckets/{bucket}
//! ```
//!
//! An [`Owner`](crate::Owner) or a [`Claim`](crate::Claim) lives at the server, not in the connection:
//! nothing of it ends when the client falls silent, but by its own TTL. So nothing here believes that it
//! holds anything; each call asks, and is answered from the durable state.
//!
//! A call whose answer is lost is sent again, with the same `Idempotency-Key`, until an answer comes or the
//! [timeout](super::Connect::timeout) is over. While the same server lives, a repeat is answered as the first
//! was, and never carried out twice. A server that was started anew knows no keys, but its durable state
//! makes the repeat harmless, as the table says. A call that would do harm is not repeated: an
//! [`unassign`](crate::Claims::unassign) without a token, or a release of locks without the tokens of all.
//! `docs/http.md` has all rules.
//!
//! | what happens | what the caller gets | the state |
//! |---|---|---|
//! | the connection is cut, before or after the server acts | the answer, to a repeat | carried out once |
//! | `kill -9` between request and answer of [`lock`](crate::Owner::lock), then a restart | the locks with the same tokens, as already held | held once. A step that fails afterwards leaves them to the next transaction of the owner, or its end |
//! | the same with [`claim`](crate::Claims::claim) | the same claim with the same token | claimed once, as its number rests on the key, which is durable |
//! | the same with [`open`](crate::Owners::open) | the same owner with the same secret | opened once, for the same reason |
//! | the same with [`finalize`](crate::Claims::finalize) | the same assignment | assigned once |
//! | the same with an end, or by token with a release, an unassign, an undo | done; what a repeat finds gone counts as done by it | what a repeat finds gone stays gone; a token names the lock or the assignment that is meant |
//! | the same with the [commit](crate::Step::commit) of a step that releases locks | [`OutcomeUnknown`](crate::StoreError::OutcomeUnknown), if the locks are gone then | the commit happened, or the locks were lost before |
//! | an answer is lost to an unassign without a token, or to a release of locks without the tokens of all | [`OutcomeUnknown`](crate::StoreError::OutcomeUnknown), at once | it happened or not. A repeat could take back a later assignment or lock, so that there is none |
//! | the server loses its store before it knows | the answer of the next server, to a repeat; or [`OutcomeUnknown`](crate::StoreError::OutcomeUnknown) | it happened or not |
//! | the server recovers, or its store is full or away | [`Recovering`](crate::LockError::Recovering), [`Unavailable`](crate::StoreError::Unavailable), with when to try again | nothing has happened; after a lost answer that is not said, but waited out |
//! | the tenant calls too often, or the server has as many connections as it may | the answer to a repeat, after the time that the server names and a little more; beyond the timeout at once [`Unavailable`](crate::StoreError::Unavailable) | carried out once; nothing has happened |
//! | no server, for the timeout | [`Unavailable`](crate::StoreError::Unavailable) | nothing has happened, as nothing was ever sent |
//! | the same after something was sent | [`OutcomeUnknown`](crate::StoreError::OutcomeUnknown) | it happened or not. Asking again is right for everything but an unassign or a release without tokens; a caller that gives up loses at most a TTL |
//! | the server is paused, or the network silent | the answer to a repeat over another connection, or one of the two above | carried out once, perhaps after the caller gave up |
//! | the client is paused or cut off beyond the TTL | [`OwnerEnded`](crate::LockError::OwnerEnded), [`ClaimExpired`](crate::ClaimError::ClaimExpired) or [`ClaimLost`](crate::ClaimError::ClaimLost) at its next call | others may hold by then. Only the [fence](crate::fence) can refuse its writes meanwhile |
//! | the client is killed | – | its locks and claims stay until the TTL, or until another client [resumes](crate::Owners::resume) the owner |
//! | a future is dropped | – | its call goes on in the background, and its result is taken back; other calls of the connection wait for that |
//! | the same to an upgrade in a [step](crate::Step) that then fails | – | the record may stay read-locked, under a token that the step does not know, until the owner's next transaction, or its end |

pub(crate) mod api;
pub(crate) mod call;
pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod problem;
pub(crate) mod views;

pub use self::call::Call;
pub use self::client::{Answer, Http, Unanswered};
pub use self::events::{EMPTY_STREAMS, EventQuery, EventsError, SentEvent, SentEvents};
