//! The memory that a tenant may use, over all its buckets.

use std::sync::Arc;
use std::time::Duration;

use lockhouse::store::MemoryStore;
use lockhouse::{
    BucketKey, Claim, ClaimError, House, LockError, MemoryBudget, Mode, Name, Options, OwnerError,
};

const TTL: Duration = Duration::from_secs(60);

/// A name that takes some memory, unlike any other with another number.
fn long(number: usize) -> String {
    format!("{number}{}", "n".repeat(2_000))
}

fn of(tenant: &str, bucket: &str) -> BucketKey {
    BucketKey { bucket: bucket.to_owned(), partition: format!("\u{1f}{tenant}\u{1f}\u{1f}\u{1f}") }
}

/// Claims as many names as the budget allows.
async fn fill(house: &House, bucket: BucketKey) -> Vec<Claim> {
    let claims = house.bucket(bucket).claims();
    let mut standing = Vec::new();
    loop {
        match claims.claim(long(standing.len()).as_str(), "ada", TTL).await {
            Ok(claim) => standing.push(claim),
            Err(ClaimError::Quota(quota)) => {
                assert_eq!(
                    quota.to_string(),
                    "tenant: 65536 bytes in memory, but it cannot have more (limits.table_mib_per_tenant)"
                );
                return standing;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn all_buckets_of_a_tenant_share_its_memory_budget_and_no_other_tenant_notices() {
    let budget = MemoryBudget::new(64 << 10);
    let house = House::with_options(&Options::new().memory_budget(&budget));
    let owner = house.bucket(of("loud", "b")).owners().open("Ada", TTL).await.unwrap();
    let mut claims = fill(&house, of("loud", "a")).await;
    assert!((20..=32).contains(&claims.len()), "{} claims of 2 KB", claims.len());
    assert!(budget.taken("loud") <= 64 << 10);

    // Of two together none is locked, though the budget would allow one.
    let wanted = [long(0), long(1)];
    let wanted = wanted.each_ref().map(|name| (Name::new(name).unwrap(), Mode::Exclusive));
    assert!(matches!(owner.lock_names(&wanted, None).await, Err(LockError::Quota(_))));
    let label = "l".repeat(256);
    let mut owners = Vec::new();
    let refused = loop {
        match house.bucket(of("loud", "c")).owners().open(&*label, TTL).await {
            Ok(owner) => owners.push(owner),
            Err(error) => break error,
        }
        assert!(owners.len() < 100);
    };
    assert!(matches!(refused, OwnerError::Quota(_)), "{refused}");
    assert!(fill(&house, of("quiet", "a")).await.len() >= claims.len());

    // A claimant can make its claim final, and memory given back there is free here.
    claims.pop().unwrap().finalize().await.unwrap();
    for claim in claims.drain(..8) {
        claim.release().await.unwrap();
    }
    owner.lock_names(&wanted, None).await.unwrap();
}

#[tokio::test]
async fn recovered_state_counts_though_it_exceeds_the_budget() {
    let store = MemoryStore::new().unwrap();
    let budget = MemoryBudget::new(64 << 10);
    let options = Options::new().memory_budget(&budget);
    let house = House::open(Arc::new(store.reopen()), options.clone()).await.unwrap();
    let claims = fill(&house, of("loud", "a")).await;
    let taken = budget.taken("loud");
    house.close().await;
    let count = claims.len();
    drop((claims, house));

    let budget = MemoryBudget::new(16 << 10);
    let house = House::open(Arc::new(store.reopen()), Options::new().memory_budget(&budget)).await.unwrap();
    assert_eq!(house.bucket(of("loud", "a")).len(), count);
    assert!(budget.taken("loud").abs_diff(taken) <= 8 << 10, "{} and {taken}", budget.taken("loud"));
    let refused = house.bucket(of("loud", "b")).claims().claim("r", "ada", TTL).await;
    assert!(matches!(refused, Err(ClaimError::Quota(_))));
    budget.set(usize::MAX);
    house.bucket(of("loud", "b")).claims().claim("r", "ada", TTL).await.unwrap();
}

#[tokio::test]
async fn a_forgotten_bucket_takes_no_memory() {
    let budget = MemoryBudget::new(64 << 10);
    let house = House::with_options(&Options::new().memory_budget(&budget));
    let agent = house.bucket("b").agent("a").unwrap();
    let lock = agent.locks().request(long(0).as_str()).await.unwrap();
    assert!(budget.taken("default") >= 2_000);
    drop((lock, agent));
    assert_eq!(budget.taken("default"), 0);
}
