//! Connections that break or fall silent, futures that are dropped, and connections that are closed, while
//! the server lives.

use std::time::Duration;

use lockhouse::core::Acquired;
use lockhouse::remote::connect;
use lockhouse::{ClaimError, HolderKind, LockError, Mode, NameBuf, StoreError};

use crate::offline::restart::{RELEASES, RemoteClient, customers};

const MINUTE: Duration = Duration::from_secs(60);

impl RemoteClient {
    /// The result of the call whose first answer is lost on the way.
    async fn despite_cut<T: Send + 'static>(
        &mut self,
        request: &str,
        call: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.proxy.withhold(request);
        let call = tokio::spawn(call);
        self.proxy.has_withheld().await;
        self.proxy.cut();
        call.await.unwrap()
    }
}

#[tokio::test]
async fn what_was_answered_in_vain_is_answered_again_and_done_once() {
    let mut remote = RemoteClient::new().await;
    let owners = remote.connection.owners();
    let opening = async move { owners.open("Ada", 20 * MINUTE).await };
    let ada = remote.despite_cut("POST /v1/buckets/default/owners ", opening).await.unwrap();
    let asking = ada.clone();
    let lock = async move { asking.lock([customers().for_write(7)]).await };
    let locks = remote.despite_cut("POST /v1/buckets/default/locks ", lock).await.unwrap();
    assert_eq!(locks[0].how, Acquired::Fresh, "as the first answer said");
    assert_eq!(ada.locks().await.unwrap()[0].token, locks[0].token);
    let asking = ada.clone();
    let token = Some(locks[0].token);
    let unlock = async move { asking.unlock(customers().record(7).name(), token).await };
    let unlocked = remote.despite_cut("POST /v1/buckets/default/locks/release ", unlock).await;
    assert_eq!(unlocked, Ok(true));
    let asking = ada.clone();
    let unlock = async move { asking.unlock(customers().record(7).name(), token).await };
    let unlocked = remote.despite_cut("POST /v1/buckets/default/locks/release ", unlock).await;
    assert_eq!(unlocked, Ok(false), "as the first answer said");
    let claims = remote.connection.claims();
    let claiming = async move { claims.claim("seat", "ada", MINUTE).await };
    let claim = remote.despite_cut("POST /v1/buckets/default/claims ", claiming).await.unwrap();
    let releasing = claim.clone();
    let release = async move { releasing.release().await };
    assert_eq!(remote.despite_cut("POST /v1/buckets/default/claims/release ", release).await, Ok(()));
    let asking = ada.clone();
    assert_eq!(
        remote.despite_cut("DELETE /v1/buckets/default/owners/", async move { asking.end().await }).await,
        Ok(true)
    );
    assert_eq!(ada.end().await, Ok(false));
}

#[tokio::test]
async fn an_unassign_that_was_answered_in_vain_spares_what_is_assigned_afterwards() {
    for with_token in [false, true] {
        let remote = RemoteClient::new().await;
        let claims = connect(remote.server.url()).await.unwrap().claims();
        let first = claims.claim("seat", "ada", MINUTE).await.unwrap().finalize().await.unwrap();
        let asking = remote.connection.claims();
        let token = with_token.then_some(first.fencing_token);
        remote.proxy.withhold("DELETE /v1/buckets/default/assignments");
        let unassign = tokio::spawn(async move { asking.unassign("seat", token).await });
        remote.proxy.has_withheld().await;
        let second = claims.claim("seat", "bob", MINUTE).await.unwrap().finalize().await.unwrap();
        remote.proxy.cut();
        let unassigned = unassign.await.unwrap();
        if with_token {
            assert_eq!(unassigned, Ok(true), "as the first answer said");
        } else {
            // A repeat could meet a server that was started in between and knows no keys.
            let refused = unassigned.unwrap_err();
            assert!(matches!(refused, ClaimError::Store(StoreError::OutcomeUnknown { .. })), "{refused}");
        }
        assert_eq!(claims.assignment("seat").await, Ok(Some(second)), "with token: {with_token}");
    }
}

#[tokio::test]
async fn a_release_that_was_answered_in_vain_spares_what_is_locked_afterwards() {
    for release in RELEASES {
        let remote = RemoteClient::new().await;
        let ada = remote.connection.owners().open("Ada", 20 * MINUTE).await.unwrap();
        let locks = ada.lock([customers().for_write(7)]).await.unwrap();
        remote.proxy.withhold("POST /v1/buckets/default/locks/release ");
        let releasing = tokio::spawn(release.carry_out(ada.clone(), locks[0].clone()));
        remote.proxy.has_withheld().await;
        let direct = connect(remote.server.url()).await.unwrap().owners();
        let other_step = direct.resume(ada.id(), ada.secret()).await.unwrap();
        let again = other_step.lock([customers().for_write(7)]).await.unwrap();
        assert_eq!(again[0].how, Acquired::Fresh, "{release:?}");
        remote.proxy.cut();
        let released = releasing.await.unwrap();
        if release.is_by_token() {
            assert_eq!(released, Ok(1), "{release:?}: as the first answer said");
        } else {
            release.assert_unknown(&released);
        }
        assert_eq!(ada.locks().await.unwrap()[0].token, again[0].token, "{release:?}");
    }
}

#[tokio::test]
async fn an_abandoned_call_is_taken_back_before_the_next_call() {
    let remote = RemoteClient::new().await;
    let (ada, bob) = (
        remote.connection.owners().open("Ada", 20 * MINUTE).await.unwrap(),
        remote.connection.owners().open("Bob", 20 * MINUTE).await.unwrap(),
    );
    remote.proxy.withhold("POST /v1/buckets/default/locks ");
    {
        let mut lock = Box::pin(ada.lock([customers().for_write(7)]));
        tokio::select! {
            locks = &mut lock => panic!("{locks:?}"),
            () = remote.proxy.has_withheld() => {}
        }
    }
    let asking = bob.clone();
    let next = tokio::spawn(async move { asking.lock([customers().for_write(7)]).await });
    remote.proxy.cut();
    assert_eq!(next.await.unwrap().unwrap()[0].how, Acquired::Fresh);
    assert!(ada.locks().await.unwrap().is_empty());
}

#[tokio::test]
async fn after_silence_the_outcome_is_unknown_until_the_call_is_repeated() {
    let remote = RemoteClient::new().await;
    let connection = connect(remote.proxy.url()).timeout(Duration::from_millis(600)).await.unwrap();
    let ada = connection.owners().open("Ada", 20 * MINUTE).await.unwrap();
    remote.proxy.withhold("POST /v1/buckets/default/locks ");
    let refused = ada.lock([customers().for_write(7)]).await.unwrap_err();
    assert!(matches!(refused, LockError::Store(StoreError::OutcomeUnknown { .. })), "{refused}");
    remote.proxy.has_withheld().await;
    assert_eq!(ada.lock([customers().for_write(7)]).await.unwrap()[0].how, Acquired::AlreadyHeld);
    remote.proxy.withhold("GET /v1/buckets/default/owners/");
    let refused = ada.info().await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "a question does nothing: {refused}");
}

#[tokio::test]
async fn after_a_close_nothing_is_asked_and_what_was_held_stays() {
    let remote = RemoteClient::new().await;
    let connection = connect(remote.server.url()).await.unwrap();
    let owners = connection.owners();
    let ada = owners.open("Ada", 20 * MINUTE).await.unwrap();
    ada.lock([customers().for_write(7)]).await.unwrap();
    connection.close().await;
    assert_eq!(ada.touch().await, Err(StoreError::Closed));
    assert_eq!(ada.lock([customers().for_write(8)]).await, Err(LockError::Store(StoreError::Closed)));
    let found = remote.connection.owners().resume(ada.id(), ada.secret()).await.unwrap();
    assert_eq!(found.locks().await.unwrap().len(), 1);
}

#[tokio::test]
async fn any_name_is_locked_and_claimed_as_it_is() {
    let remote = RemoteClient::new().await;
    let (owners, claims) = (remote.connection.owners(), remote.connection.claims());
    let (ada, bob) = (owners.open("Ada", MINUTE).await.unwrap(), owners.open("Bob", MINUTE).await.unwrap());
    let odd = [&[0xD800][..], &[0], &[], &[b'a'.into(), b'/'.into(), b'/'.into()], &[0x20, 0x2B, 0x25, 0xE9]];
    for name in odd.map(|units| NameBuf::from_units(units).unwrap()) {
        let locks = ada.lock_names(&[(name.as_name(), Mode::Shared)], None).await.unwrap();
        assert_eq!((&locks[0].name, locks[0].mode), (&name, Mode::Shared));
        assert_eq!(ada.has_lock(name.as_name()).await.unwrap().unwrap().token, locks[0].token);
        let refused = bob.lock_names(&[(name.as_name(), Mode::Exclusive)], None).await.unwrap_err();
        let LockError::Conflict(conflicts) = refused else { panic!("{refused}") };
        assert_eq!(
            (&conflicts[0].name, conflicts[0].holders[0].kind),
            (&name, HolderKind::Offline(ada.id()))
        );
        assert_eq!(ada.unlock_all_but(&[name.as_name()]).await, Ok(0));
        assert_eq!(ada.unlock(name.as_name(), Some(locks[0].token)).await, Ok(true));
        let claim = claims.claim(&name, "ada", MINUTE).await.unwrap();
        assert_eq!(claims.get(&name).await.unwrap().unwrap().resource, name);
        let assignment = claim.finalize().await.unwrap();
        assert_eq!(claims.assignment(&name).await, Ok(Some(assignment)));
        assert_eq!(claims.unassign(&name, None).await, Ok(true));
    }
    assert_eq!(claims.assignments().await, Ok(Vec::new()));
}
