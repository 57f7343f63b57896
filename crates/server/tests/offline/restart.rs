//! Servers that are killed between a request and its answer, and started anew over the same file.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::core::{Acquired, Unlock};
use lockhouse::remote::{Connection, connect};
use lockhouse::{Acquisition, ClaimError, LockError, LockType, OfflineLock, Owner, RecordKind, StoreError};

use crate::offline::proxy::Proxy;
use crate::process::ServerProcess;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn customers() -> RecordKind {
    RecordKind::new("customer", LockType::ExclusiveWrite)
}

/// A server, the way to it, and a client at its other end.
pub(crate) struct RemoteClient {
    pub(crate) server: ServerProcess,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) connection: Connection,
}

impl RemoteClient {
    pub(crate) async fn new() -> Self {
        Self::with_lease("1s").await
    }

    pub(crate) async fn with_lease(lease: &'static str) -> Self {
        let server = ServerProcess::with_file(lease);
        let proxy = Proxy::new(server.address()).await;
        let connection = connect(proxy.url()).await.unwrap();
        Self { server, proxy, connection }
    }

    /// The result of the call whose first answer is lost with the server that gave it.
    async fn despite_kill<T: Send + 'static>(
        &mut self,
        request: &str,
        call: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.proxy.withhold(request);
        let call = tokio::spawn(call);
        self.proxy.has_withheld().await;
        self.server.restart();
        self.proxy.cut();
        call.await.unwrap()
    }
}

/// A way to give a lock back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Release {
    ByToken,
    Named,
    All,
    /// With a step that relies on the lock under its token, so that this is the one that is released.
    InStep,
    AllInStep,
}

pub(crate) const RELEASES: [Release; 5] =
    [Release::ByToken, Release::Named, Release::All, Release::InStep, Release::AllInStep];

impl Release {
    /// Whether it says which lock of the name is meant, so that it can be repeated.
    pub(crate) fn is_by_token(self) -> bool {
        matches!(self, Self::ByToken | Self::InStep)
    }

    /// How many were given back.
    pub(crate) async fn carry_out(self, owner: Owner, lock: OfflineLock) -> Result<usize, LockError> {
        let (name, held) = (lock.name.as_name(), [(lock.name.as_name(), Some(lock.token))]);
        match self {
            Self::ByToken => owner.unlock_these(&held).await.map_err(LockError::from),
            Self::Named => owner.unlock_these(&[(name, None)]).await.map_err(LockError::from),
            Self::All => owner.unlock_all().await.map_err(LockError::from),
            Self::InStep => owner.commit_step(&held, Some(Unlock::These(&[(name, None)]))).await,
            Self::AllInStep => owner.commit_step(&held, Some(Unlock::AllBut(&[]))).await,
        }
    }

    pub(crate) fn assert_unknown(self, released: &Result<usize, LockError>) {
        let is_unknown = matches!(released, Err(LockError::Store(StoreError::OutcomeUnknown { .. })));
        assert!(is_unknown, "{self:?}: {released:?}");
    }
}

#[tokio::test]
async fn a_lock_whose_answer_was_lost_with_the_server_is_held_once() {
    let mut remote = RemoteClient::new().await;
    let ada = remote.connection.owners().open("Ada", 20 * MINUTE).await.unwrap();
    let asking = ada.clone();
    let lock = async move { asking.lock([customers().for_write(7), customers().for_write(8)]).await };
    let locks = remote.despite_kill("POST /v1/buckets/default/locks ", lock).await.unwrap();
    assert_eq!(locks.iter().map(|lock| lock.how).collect::<Vec<_>>(), [Acquired::AlreadyHeld; 2]);
    assert_eq!(ada.locks().await.unwrap(), locks);
    let bob = remote.connection.owners().open("Bob", MINUTE).await.unwrap();
    assert!(matches!(bob.lock([customers().for_write(7)]).await, Err(LockError::Conflict(_))));
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_with_the_server_is_done() {
    let mut remote = RemoteClient::new().await;
    let ada = remote.connection.owners().open("Ada", 20 * MINUTE).await.unwrap();
    let lock = ada.lock([customers().for_write(7)]).await.unwrap().remove(0);
    let (asking, token) = (ada.clone(), lock.token);
    let release = async move { asking.unlock(lock.name.as_name(), Some(token)).await };
    let released = remote.despite_kill("POST /v1/buckets/default/locks/release ", release).await;
    assert_eq!(released, Ok(true), "it is gone");
    assert!(ada.locks().await.unwrap().is_empty());
    let locks = ada.lock([customers().for_write(7), customers().for_write(8)]).await.unwrap();
    let (asking, acquired) = (ada.clone(), locks.into_iter().map(Acquisition::from).collect::<Vec<_>>());
    let undo = async move { asking.undo(&acquired).await };
    assert_eq!(remote.despite_kill("POST /v1/buckets/default/locks/undo ", undo).await, Ok(2));
    assert!(ada.locks().await.unwrap().is_empty());
    let asking = ada.clone();
    let end = remote.despite_kill("DELETE /v1/buckets/default/owners/", async move { asking.end().await });
    assert_eq!(end.await, Ok(true));
    assert_eq!(ada.info().await, Ok(None));
    let claims = remote.connection.claims();
    let claim = claims.claim("seat", "ada", MINUTE).await.unwrap();
    let releasing = claim.clone();
    let release = async move { releasing.release().await };
    remote.despite_kill("POST /v1/buckets/default/claims/release ", release).await.unwrap();
    assert_eq!(claims.get("seat").await, Ok(None));
    assert_eq!(claim.release().await, Err(ClaimError::ClaimExpired), "there is none to be released any more");
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_with_the_server_spares_what_is_locked_afterwards() {
    for release in RELEASES {
        let mut remote = RemoteClient::new().await;
        let ada = remote.connection.owners().open("Ada", 20 * MINUTE).await.unwrap();
        let locks = ada.lock([customers().for_write(7)]).await.unwrap();
        remote.proxy.withhold("POST /v1/buckets/default/locks/release ");
        let releasing = tokio::spawn(release.carry_out(ada.clone(), locks[0].clone()));
        remote.proxy.has_withheld().await;
        remote.server.restart();
        let direct = connect(remote.server.url()).await.unwrap().owners();
        let other_step = direct.resume(ada.id(), ada.secret()).await.unwrap();
        let again = other_step.lock([customers().for_write(7)]).await.unwrap();
        assert_eq!(again[0].how, Acquired::Fresh, "{release:?}");
        remote.proxy.cut();
        let released = releasing.await.unwrap();
        match release {
            Release::Named | Release::All | Release::AllInStep | Release::InStep => {
                release.assert_unknown(&released);
            }
            Release::ByToken => assert_eq!(released, Ok(1), "the first attempt did it"),
        }
        assert_eq!(ada.locks().await.unwrap()[0].token, again[0].token, "{release:?}");
    }
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_with_the_server_is_the_same_claim() {
    let mut remote = RemoteClient::new().await;
    for (seat, key) in [("1", None), ("2", Some("paying by card"))] {
        let claims = remote.connection.claims();
        let claiming = async move {
            let claiming = claims.claim(seat, "ada", 20 * MINUTE);
            match key {
                Some(key) => claiming.idempotency_key(key).await,
                None => claiming.await,
            }
        };
        let claim = remote.despite_kill("POST /v1/buckets/default/claims ", claiming).await.unwrap();
        let claims = remote.connection.claims();
        let seen = claims.get(seat).await.unwrap().unwrap();
        assert_eq!(seen.fencing_token, claim.fencing_token());
        let again = claims.claim(seat, "ada", 20 * MINUTE).idempotency_key("paying by card").await;
        match key {
            Some(_) => assert_eq!(again.unwrap().token(), claim.token()),
            None => assert!(matches!(again, Err(ClaimError::Claimed { .. }))),
        }
        claim.finalize().await.unwrap();
    }
}

#[tokio::test]
async fn a_finalize_whose_answer_was_lost_with_the_server_answers_the_same() {
    let mut remote = RemoteClient::new().await;
    let claim = remote.connection.claims().claim("seat", "ada", MINUTE).await.unwrap();
    let finalizing = claim.clone();
    let finalize = async move { finalizing.finalize().await };
    let assignment =
        remote.despite_kill("POST /v1/buckets/default/claims/finalize ", finalize).await.unwrap();
    assert_eq!((&*assignment.claimant, assignment.fencing_token), ("ada", claim.fencing_token()));
    assert_eq!(remote.connection.claims().assignments().await, Ok(vec![assignment.clone()]));
    assert_eq!(claim.finalize().await, Ok(assignment));
}

#[tokio::test]
async fn an_unassign_whose_answer_was_lost_with_the_server_spares_what_is_assigned_afterwards() {
    for with_token in [false, true] {
        let mut remote = RemoteClient::new().await;
        let claims = remote.connection.claims();
        let first = claims.claim("seat", "ada", MINUTE).await.unwrap().finalize().await.unwrap();
        let token = with_token.then_some(first.fencing_token);
        remote.proxy.withhold("DELETE /v1/buckets/default/assignments");
        let unassign = tokio::spawn(async move { claims.unassign("seat", token).await });
        remote.proxy.has_withheld().await;
        remote.server.restart();
        let others = connect(remote.server.url()).await.unwrap().claims();
        let second = others.claim("seat", "bob", MINUTE).await.unwrap().finalize().await.unwrap();
        remote.proxy.cut();
        match unassign.await.unwrap() {
            Ok(was) => {
                assert!(with_token && was, "the first attempt did it, and the repeat finds another one");
            }
            Err(error) => {
                let is_unknown = matches!(error, ClaimError::Store(StoreError::OutcomeUnknown { .. }));
                assert!(is_unknown && !with_token, "{error}");
            }
        }
        assert_eq!(others.assignment("seat").await, Ok(Some(second)), "with token: {with_token}");
    }
}

#[tokio::test]
async fn a_recovery_is_reported_with_its_end_and_waited_out_after_a_lost_answer() {
    let mut remote = RemoteClient::with_lease("3s").await;
    // A grant that was announced to an agent has to be recovered.
    let agent = remote.connection.agent("job").unwrap();
    let held = agent.locks().request("n").await.unwrap();
    let ada = remote.connection.owners().open("Ada", 20 * MINUTE).await.unwrap();
    remote.server.restart();
    // A question finds the connection of before broken, so that nothing else is lost with it.
    assert!(ada.info().await.unwrap().is_some());
    let refused = ada.lock([customers().for_write(7)]).await.unwrap_err();
    let LockError::Recovering { retry_after } = refused else { panic!("{refused}") };
    assert!(retry_after > Duration::ZERO && retry_after <= Duration::from_secs(3), "{retry_after:?}");
    let refused = remote.connection.claims().claim("seat", "ada", MINUTE).await.unwrap_err();
    assert!(matches!(refused, ClaimError::Recovering { .. }), "{refused}");
    assert_eq!(ada.touch().await, Ok(true));
    tokio::time::sleep(retry_after).await;
    while let Err(error) = ada.lock([customers().for_write(7)]).await {
        assert!(matches!(error, LockError::Recovering { .. }), "{error}");
    }
    // The first answer was lost, so that "nothing has happened" would be a lie.
    let asking = ada.clone();
    let lock = async move { asking.lock([customers().for_write(8)]).await };
    let locks = remote.despite_kill("POST /v1/buckets/default/locks ", lock).await.unwrap();
    assert_eq!(locks[0].how, Acquired::AlreadyHeld);
    assert_eq!(held.loss(), None);
}

#[tokio::test]
async fn a_server_that_is_away_is_reported_and_found_again() {
    let mut remote = RemoteClient::new().await;
    let connection = connect(remote.server.url()).timeout(Duration::from_millis(500)).await.unwrap();
    let ada = connection.owners().open("Ada", 20 * MINUTE).await.unwrap();
    remote.server.kill();
    let refused = connection.owners().open("Bob", MINUTE).await.unwrap_err();
    // The connection of before may have been used once more, and then the outcome is unknown.
    let lockhouse::OwnerError::Store(StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. }) =
        refused
    else {
        panic!("{refused}");
    };
    let refused = ada.lock([customers().for_write(7)]).await.unwrap_err();
    let LockError::Store(StoreError::Unavailable { why, .. }) = &refused else { panic!("{refused}") };
    assert!(why.starts_with(&format!("{} gives no answer: ", remote.server.url())), "{why}");
    remote.server.start_again();
    assert_eq!(ada.lock([customers().for_write(7)]).await.unwrap()[0].how, Acquired::Fresh);
}
