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
    /// So many are looked at in one hold of the bucket.
    pub most: usize,
}

/// A part of the assignments that are wanted.
#[derive(Clone, Debug, Default)]
pub struct AssignmentPart {
    /// Those that were found, in the order of their names.
    pub found: Vec<Assignment>,
    /// How many were looked at.
    pub looked_at: usize,
    /// Where the next part starts, unless this was the last.
    pub next: Option<Vec<u8>>,
}

impl Bucket {
    /// The next of the assignments that are wanted. O([`most`](AssignmentQuestion::most)).
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
            let mut part = AssignmentPart::default();
            if let Some(name) = &asked.name {
                let found = manager.assignment_of(name.as_name()).into_iter();
                part.looked_at = 1;
                part.found.extend(found.filter(|it| self.is_wanted(asked, it)).map(|it| view(&self.0, it)));
                return part;
            }
            let from = manager.assignments_from(asked.start.as_slice().max(&asked.prefix));
            for it in from.take_while(|it| it.name.as_name().as_wtf8().starts_with(&asked.prefix)) {
                if part.looked_at == asked.most {
                    part.next = Some(it.name.as_name().as_wtf8().to_vec());
                    break;
                }
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
