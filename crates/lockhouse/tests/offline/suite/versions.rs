//! Offline locks beside the versions of an application's own records: when a conflict shows, and what a lock
//! is worth to a reader.

use lockhouse::{LockError, Owner};
use rusqlite::Connection;

use super::ground::{Ground, Place};
use super::locks::{MINUTE, customers, is_conflict, two};

/// The application's own database: records, each with a version that every change raises.
struct Application(Connection);

/// A record, as it was loaded.
#[derive(Clone, Debug, PartialEq)]
struct Copy {
    id: u32,
    text: String,
    version: i64,
}

impl Application {
    fn new() -> Self {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "create table records (id integer primary key, text text not null, version integer not null);
             insert into records values (1, 'one', 1), (2, 'two', 1)",
        )
        .unwrap();
        Self(db)
    }

    fn load(&self, id: u32) -> Copy {
        let select = "select text, version from records where id = ?1";
        self.0
            .query_row(select, [id], |row| Ok(Copy { id, text: row.get(0)?, version: row.get(1)? }))
            .unwrap()
    }

    /// The optimistic check: false, and nothing is written, if another user has changed the record since it
    /// was loaded.
    fn save(&self, loaded: &Copy, text: &str) -> bool {
        let update = "update records set text = ?1, version = version + 1 where id = ?2 and version = ?3";
        self.0.execute(update, (text, loaded.id, loaded.version)).unwrap() == 1
    }

    fn is_newest(&self, loaded: &Copy) -> bool {
        self.load(loaded.id) == *loaded
    }
}

/// Another user comes, and does all in one if the record can be had.
async fn pass_by(user: &Owner, application: &Application, text: &str) -> Result<(), LockError> {
    let record = customers().record(1);
    user.lock([record.for_write()]).await?;
    assert!(application.save(&application.load(1), text));
    assert!(user.unlock(record.name(), None).await?);
    Ok(())
}

pub(crate) async fn with_versions_alone_a_conflict_shows_at_the_save_and_with_a_lock_at_the_beginning(
    ground: impl Ground,
) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let application = Application::new();

    // Both work for a quarter of an hour, and one of them for nothing.
    let (of_ada, of_bob) = (application.load(1), application.load(1));
    ground.clock().advance(15 * MINUTE);
    assert!(application.save(&of_ada, "by Ada"));
    assert!(!application.save(&of_bob, "by Bob"), "found out at the end of the work");

    // With a lock the second one does not even begin.
    ada.lock([customers().for_write(1)]).await.unwrap();
    let of_ada = application.load(1);
    assert!(is_conflict(&bob.lock([customers().for_write(1)]).await), "found out before any work");
    ground.clock().advance(15 * MINUTE);
    assert!(application.save(&of_ada, "by Ada again"));
    assert_eq!(application.load(1).text, "by Ada again");
}

/// Bob passes by at every moment of Ada's edit.
pub(crate) async fn what_is_loaded_under_the_lock_is_the_newest_until_it_is_released(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    for moment in 0..4 {
        let application = Application::new();
        let bob_comes = async |now: u32| {
            if now == moment {
                let met = pass_by(&bob, &application, "by Bob").await;
                assert_eq!(met.is_ok(), now == 0, "moment {now}");
            }
        };
        bob_comes(0).await;
        ada.lock([customers().for_write(1)]).await.unwrap();
        bob_comes(1).await;
        let loaded = application.load(1);
        bob_comes(2).await;
        assert!(application.is_newest(&loaded), "moment {moment}");
        bob_comes(3).await;
        assert!(application.save(&loaded, "by Ada"), "moment {moment}");
        ada.unlock_all().await.unwrap();
    }
}

pub(crate) async fn a_copy_from_before_the_lock_is_found_stale_by_its_version(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let application = Application::new();
    let early = application.load(1);
    pass_by(&bob, &application, "by Bob").await.unwrap();
    ada.lock([customers().for_write(1)]).await.unwrap();
    assert!(!application.is_newest(&early), "the lock was granted all the same");
    assert!(!application.save(&early, "by Ada"));
    assert!(application.save(&application.load(1), "by Ada"));
}

/// Records 1 and 2 belong to one customer, whose lock covers both.
pub(crate) async fn members_of_a_group_are_loaded_anew_under_the_lock_of_their_root(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let (root, addresses) = (customers().record(7), customers());
    let application = Application::new();
    let early = [application.load(1), application.load(2)];
    bob.lock([addresses.for_write(1).under(&root)]).await.unwrap();
    assert!(application.save(&application.load(2), "by Bob"));
    bob.unlock_all().await.unwrap();

    // Asked for the first member, she has the second one, too, which has changed since she saw it.
    ada.lock([addresses.for_write(1).under(&root)]).await.unwrap();
    assert_eq!(early.map(|copy| application.is_newest(&copy)), [true, false]);
    let members = [application.load(1), application.load(2)];
    assert!(is_conflict(&bob.lock([addresses.for_write(2).under(&root)]).await));
    assert!(members.iter().all(|member| application.save(member, "by Ada")));
}

pub(crate) async fn after_an_early_release_there_is_no_lock_to_work_under(ground: impl Ground) {
    let (_house, bucket) = ground.bucket().await;
    let (ada, bob) = two(&bucket.owners()).await;
    let record = customers().record(1);
    let token = ada.lock([record.for_write()]).await.unwrap()[0].token;
    assert!(ada.has_lock(record.name()).await.unwrap().is_some());
    assert!(ada.unlock(record.name(), Some(token)).await.unwrap());
    assert_eq!(ada.has_lock(record.name()).await.unwrap(), None, "what asks before it works is refused");
    bob.lock([record.for_write()]).await.unwrap();
    assert!(is_conflict(&ada.lock([record.for_write()]).await));
}
