//! The identity map: one object per record within a business transaction.
//! <https://martinfowler.com/eaaCatalog/identityMap.html>

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use lockhouse_core::{Acquired, NameBuf};

use crate::owners::lock::OfflineLock;

/// The objects that were loaded or created, by the type of the object and the name of the record.
#[derive(Debug, Default)]
pub(crate) struct Objects(HashMap<(TypeId, NameBuf), Object>);

#[derive(Debug)]
struct Object {
    value: Arc<dyn Any + Send + Sync>,
    /// The name whose lock guards it; none for a record that is read without a lock.
    guard: Option<NameBuf>,
    /// Whether the present step brought it in.
    is_new: bool,
}

impl Objects {
    pub(crate) fn get<T: Send + Sync + 'static>(&self, record: &NameBuf) -> Option<Arc<T>> {
        let object = self.0.get(&(TypeId::of::<T>(), record.clone()))?;
        object.value.clone().downcast().ok()
    }

    /// The object, if it is guarded by that lock, or, where none is needed, at all.
    pub(crate) fn guarded<T: Send + Sync + 'static>(
        &self,
        record: &NameBuf,
        lock: Option<&OfflineLock>,
    ) -> Option<Arc<T>> {
        let object = self.0.get(&(TypeId::of::<T>(), record.clone()))?;
        let guard = lock.map(|lock| &lock.name);
        (guard.is_none() || guard == object.guard.as_ref()).then(|| self.get(record)).flatten()
    }

    /// Locks that are new: whatever was loaded under an earlier lock of that name may have changed in
    /// between.
    pub(crate) fn locked(&mut self, locks: &[OfflineLock]) {
        for lock in locks.iter().filter(|lock| lock.how == Acquired::Fresh) {
            self.0.retain(|_, object| object.guard.as_ref() != Some(&lock.name));
        }
    }

    pub(crate) fn put<T: Send + Sync + 'static>(
        &mut self,
        record: NameBuf,
        guard: Option<NameBuf>,
        value: T,
    ) -> Arc<T> {
        let value = Arc::new(value);
        self.0.insert((TypeId::of::<T>(), record), Object { value: value.clone(), guard, is_new: true });
        value
    }

    /// The step has succeeded: objects that are guarded no longer go.
    pub(crate) fn settle(&mut self, released: &[NameBuf]) {
        self.0.retain(|_, object| object.guard.as_ref().is_some_and(|guard| !released.contains(guard)));
        self.0.values_mut().for_each(|object| object.is_new = false);
    }

    /// The step was undone, and with it the objects that it brought in.
    pub(crate) fn undo(&mut self) {
        self.0.retain(|_, object| !object.is_new);
    }
}
