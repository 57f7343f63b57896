//! Which events a reader wants.

use lockhouse_core::{Discipline, NameBuf};

use super::log::BucketEvent;

/// Which events are meant: those to which all parts apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of that name.
    pub name: Option<NameBuf>,
    /// Of the names that begin with these bytes of WTF-8.
    pub prefix: Option<Box<[u8]>>,
    /// Of that discipline.
    pub discipline: Option<Discipline>,
}

impl EventFilter {
    /// Whether the event is meant. Events of owners have no name.
    pub fn admits(&self, event: &BucketEvent) -> bool {
        self.discipline.is_none_or(|it| it == event.discipline) && self.admits_name(event.name.as_ref())
    }

    /// Whether what has that name, or none, is meant.
    pub fn admits_name(&self, name: Option<&NameBuf>) -> bool {
        self.name.as_ref().is_none_or(|it| name == Some(it))
            && self
                .prefix
                .as_ref()
                .is_none_or(|it| name.is_some_and(|name| name.as_name().as_wtf8().starts_with(it)))
    }
}
