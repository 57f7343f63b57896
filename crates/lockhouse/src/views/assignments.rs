//! The assignments of a bucket, part by part.

use std::time::SystemTime;

use lockhouse_core::{AssignmentView, FencingToken, NameBuf};

use crate::claims::info::Assignment;
use crate::claims::local::view;
use crate::engine::bucket::Bucket;
use crate::error::StoreError;

/// Which assignments are wanted.
#[derive(Clone, Debug, Default)]
pub struct AssignmentQuestion {
    /// Only that of this name.
    pub name: Option<NameBuf>,
    /// Only names whose WTF-8 begins with this.
    pub prefix: Vec<u8>,
    /// Only names whose WTF-8 is not before this.
    pub start: Vec<u8>,
    /// Only of this claimant.
    pub claimant: Option<String>,
    /// Only the one with this token.
    pub token: Option<FencingToken>,
    /// Only those that became final before that.
    pub before: Option<SystemTime>,
    /// At most so many are found.
    pub most: usize,
    /// At most so many are looked at, in one hold of the bucket.
    pub most_looked_at: usize,
}

/// A part of the assignments that are wanted.
#[derive(Clone, Debug, Default)]
pub struct AssignmentPart {
    /// Those that were found, in the order of their names.
    pub found: Vec<Assignment>,
    /// How many were looked at.
    pub looked_at: usize,
    /// The WTF-8 of the name behind which the next part begins, unless this was the last.
    pub last: Option<Vec<u8>>,
}

impl Bucket {
    /// The next of the assignments that are wanted: a part may have fewer than
    /// [`most`](AssignmentQuestion::most), or none, and not be the last.
    /// O([`most_looked_at`](AssignmentQuestion::most_looked_at)).
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn assignment_part(&self, asked: &AssignmentQuestion) -> Result<AssignmentPart, StoreError> {
        let read = self.0.execute_read(|manager| {
            let (mut part, mut last) = (AssignmentPart::default(), None);
            if let Some(name) = &asked.name {
                let found = manager.assignment_of(name.as_name()).into_iter();
                part.looked_at = 1;
                part.found.extend(found.filter(|it| self.is_wanted(asked, it)).map(|it| view(&self.0, it)));
                return part;
            }
            let from = manager.assignments_from(asked.start.as_slice().max(&asked.prefix));
            for it in from.take_while(|it| it.name.as_name().as_wtf8().starts_with(&asked.prefix)) {
                if part.found.len() == asked.most || part.looked_at == asked.most_looked_at {
                    part.last = last.map(|name: &NameBuf| name.as_name().as_wtf8().to_vec());
                    break;
                }
                last = Some(it.name);
                part.looked_at += 1;
                if self.is_wanted(asked, &it) {
                    part.found.push(view(&self.0, it));
                }
            }
            part
        });
        read.await
    }

    fn is_wanted(&self, asked: &AssignmentQuestion, it: &AssignmentView<'_>) -> bool {
        let name = it.name.as_name().as_wtf8();
        name.starts_with(&asked.prefix)
            && name >= asked.start.as_slice()
            && asked.claimant.as_deref().is_none_or(|claimant| claimant == it.claimant)
            && asked.token.is_none_or(|token| token == it.token)
            && asked.before.is_none_or(|before| self.wall(it.since) < before)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use std::time::Duration;

    use super::*;
    use crate::House;

    #[tokio::test]
    async fn a_part_ends_once_enough_is_found_or_looked_at() {
        let bucket = House::new().bucket("b");
        for (name, claimant) in [("a", "Ada"), ("b", "Bob"), ("c", "Bob"), ("d", "Ada"), ("other", "Ada")] {
            let claim = bucket.claims().claim(name, claimant, Duration::from_secs(60)).await.unwrap();
            claim.finalize().await.unwrap();
        }
        let part = async |claimant: Option<&str>, start: &str, most, most_looked_at| {
            let (claimant, start) = (claimant.map(str::to_owned), start.into());
            let asked =
                AssignmentQuestion { claimant, start, most, most_looked_at, ..AssignmentQuestion::default() };
            let part = bucket.assignment_part(&asked).await.unwrap();
            let last = part.last.map(|name| String::from_utf8(name).unwrap());
            (part.found.len(), part.looked_at, last)
        };
        assert_eq!(part(None, "", 2, 9).await, (2, 2, Some("b".to_owned())));
        assert_eq!(part(Some("Ada"), "", 9, 3).await, (1, 3, Some("c".to_owned())));
        assert_eq!(part(Some("Bob"), "d", 9, 1).await, (0, 1, Some("d".to_owned())));
        assert_eq!(part(Some("Ada"), "d", 9, 2).await, (2, 2, None));
        assert_eq!(part(None, "", 5, 5).await, (5, 5, None));
    }
}
