//! The amounts of buckets and of their tenants, in order: so that the largest is known at once.

use std::collections::{BTreeSet, HashMap};

use lockhouse::BucketKey;

/// The amounts of all buckets that have any.
#[derive(Debug, Default)]
pub(super) struct UsageIndex {
    all: usize,
    of_tenant: HashMap<String, Holding>,
    /// The tenants by their amounts.
    tenants: BTreeSet<(usize, String)>,
}

/// The amounts of one tenant.
#[derive(Debug, Default)]
struct Holding {
    amount: usize,
    /// The buckets of the tenant by their amounts.
    buckets: BTreeSet<(usize, BucketKey)>,
}

impl UsageIndex {
    /// Puts bucket and tenant where they belong, as the bucket had `before` and has `now`.
    pub(super) fn change(&mut self, bucket: &BucketKey, before: usize, now: usize) {
        if before == now {
            return;
        }
        let tenant = bucket.tenant();
        let mut holding = self.of_tenant.remove(tenant).unwrap_or_default();
        self.tenants.remove(&(holding.amount, tenant.to_owned()));
        holding.buckets.remove(&(before, bucket.clone()));
        holding.amount = holding.amount + now - before;
        self.all = self.all + now - before;
        if now > 0 {
            holding.buckets.insert((now, bucket.clone()));
        }
        if holding.amount > 0 {
            self.tenants.insert((holding.amount, tenant.to_owned()));
            self.of_tenant.insert(tenant.to_owned(), holding);
        }
    }

    /// The sum of all amounts.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// The amount of the tenant.
    pub(super) fn of(&self, tenant: &str) -> usize {
        self.of_tenant.get(tenant).map_or(0, |holding| holding.amount)
    }

    /// The bucket that has most, of the tenant that has most.
    pub(super) fn fullest(&self) -> Option<BucketKey> {
        let (_, hog) = self.tenants.last()?;
        self.fullest_of(hog)
    }

    /// The bucket that has most, of that tenant.
    pub(super) fn fullest_of(&self, tenant: &str) -> Option<BucketKey> {
        self.of_tenant.get(tenant)?.buckets.last().map(|(_, bucket)| bucket.clone())
    }

    /// Whether the index has the amounts of those buckets, in their order.
    #[cfg(test)]
    pub(super) fn check(&self, amounts: &HashMap<BucketKey, usize>) {
        let mut of_tenant: HashMap<&str, usize> = HashMap::new();
        for (bucket, amount) in amounts.iter().filter(|(_, amount)| **amount > 0) {
            *of_tenant.entry(bucket.tenant()).or_default() += amount;
            assert!(self.of_tenant[bucket.tenant()].buckets.contains(&(*amount, bucket.clone())));
        }
        let held: HashMap<&str, usize> =
            self.of_tenant.iter().map(|(tenant, holding)| (&**tenant, holding.amount)).collect();
        assert_eq!(held, of_tenant);
        let ranked: HashMap<&str, usize> =
            self.tenants.iter().map(|(amount, tenant)| (&**tenant, *amount)).collect();
        assert_eq!((self.tenants.len(), ranked), (of_tenant.len(), of_tenant));
        let buckets: usize = self.of_tenant.values().map(|holding| holding.buckets.len()).sum();
        assert_eq!(buckets, amounts.values().filter(|amount| **amount > 0).count());
        assert_eq!(self.all, amounts.values().sum::<usize>());
    }
}
