//! Permissions in buckets.

use std::fmt;

use lockhouse_wire::SCOPE_BYTES;

use crate::settings::sections::auth::{Buckets, Permission};

/// A set of permissions.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Permissions(u8);

/// The permissions in all buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grants(Vec<(Pattern, Permissions)>);

/// A pattern of bucket names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Exactly(String),
    WithPrefix(String),
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Request, Self::Steal, Self::Query, Self::Offline, Self::Claim, Self::Operate];

    /// The word for the permission.
    pub fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Steal => "steal",
            Self::Query => "query",
            Self::Offline => "offline",
            Self::Claim => "claim",
            Self::Operate => "operate",
        }
    }
}

impl Permissions {
    pub(crate) fn all() -> Self {
        Permission::ALL.into_iter().collect()
    }

    pub(crate) fn has(self, permission: Permission) -> bool {
        self.0 & bit(permission) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first of them that the others have not.
    pub(crate) fn missing_in(self, others: Self) -> Option<Permission> {
        self.iter().find(|permission| !others.has(*permission))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |permission| self.has(*permission))
    }
}

fn bit(permission: Permission) -> u8 {
    1 << permission as u8
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |set, permission| set | bit(permission)))
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Permission::word)).finish()
    }
}

impl Grants {
    /// Everything, everywhere.
    pub(crate) fn all() -> Self {
        Self(vec![(Pattern::WithPrefix(String::new()), Permissions::all())])
    }

    /// As the settings or a token say; otherwise the wrong pattern, and the reason.
    pub(crate) fn new(buckets: &Buckets) -> Result<Self, (String, String)> {
        let grant = |(pattern, permissions): (&String, &Vec<Permission>)| {
            let bad = |why: String| Err((pattern.clone(), why));
            if !(1..=SCOPE_BYTES).contains(&pattern.len()) {
                return bad(format!("must be 1 to {SCOPE_BYTES} bytes"));
            }
            if permissions.is_empty() {
                return bad("must have at least one permission".to_owned());
            }
            let read = match pattern.split_once('*') {
                None => Pattern::Exactly(pattern.clone()),
                Some((prefix, "")) => Pattern::WithPrefix(prefix.to_owned()),
                Some(_) => return bad("must be the name of a bucket, or a prefix that ends in *".to_owned()),
            };
            Ok((read, permissions.iter().copied().collect()))
        };
        buckets.iter().map(grant).collect::<Result<_, _>>().map(Self)
    }

    /// The permissions in the bucket.
    pub(crate) fn on(&self, bucket: &str) -> Permissions {
        let fitting = self.0.iter().filter(|(pattern, _)| match pattern {
            Pattern::Exactly(name) => name == bucket,
            Pattern::WithPrefix(prefix) => prefix.is_empty() || bucket.starts_with(prefix),
        });
        fitting.flat_map(|(_, permissions)| permissions.iter()).collect()
    }

    /// The permissions in every bucket there is.
    pub(crate) fn everywhere(&self) -> Permissions {
        let is_all = |pattern: &Pattern| matches!(pattern, Pattern::WithPrefix(prefix) if prefix.is_empty());
        let everywhere = self.0.iter().filter(|(pattern, _)| is_all(pattern));
        everywhere.flat_map(|(_, granted)| granted.iter()).collect()
    }

    /// The permissions in any bucket, whichever.
    pub(crate) fn somewhere(&self) -> Permissions {
        self.0.iter().flat_map(|(_, granted)| granted.iter()).collect()
    }

    /// Each pattern with its permissions, as they were written.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, Permissions)> {
        self.0.iter().map(|(pattern, permissions)| match pattern {
            Pattern::Exactly(name) => (name.clone(), *permissions),
            Pattern::WithPrefix(prefix) => (format!("{prefix}*"), *permissions),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(pairs: &[(&str, &[Permission])]) -> Result<Grants, (String, String)> {
        let buckets = pairs.iter().map(|(pattern, granted)| ((*pattern).to_owned(), granted.to_vec()));
        Grants::new(&buckets.collect())
    }

    #[test]
    fn a_bucket_has_what_all_patterns_that_fit_it_give() {
        use Permission::{Claim, Operate, Query, Request};
        let grants =
            grants(&[("orders", &[Request]), ("ord*", &[Query]), ("orders-old", &[Operate])]).unwrap();
        assert_eq!(grants.on("orders"), [Request, Query].into_iter().collect());
        assert_eq!(grants.on("ord"), [Query].into_iter().collect());
        assert!(grants.on("or").is_empty() && grants.on("Orders").is_empty() && grants.on("").is_empty());
        assert!(grants.everywhere().is_empty());
        assert_eq!(grants.somewhere(), [Request, Query, Operate].into_iter().collect());
        assert_eq!(Grants::all().on("anything"), Permissions::all());
        assert_eq!(Grants::all().everywhere(), Permissions::all());
        assert_eq!(
            Permissions::all().missing_in([Request, Claim].into_iter().collect()),
            Some(Permission::Steal)
        );
    }

    #[test]
    fn a_star_stands_only_at_the_end() {
        for pattern in ["", "a*b", "**", "*a"] {
            assert_eq!(grants(&[(pattern, &[Permission::Query])]).unwrap_err().0, pattern);
        }
        assert!(grants(&[("a", &[])]).is_err());
    }
}
