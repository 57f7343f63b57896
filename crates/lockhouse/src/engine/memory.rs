//! How much memory everybody has, and how much he may have.
//!
//! Room is taken in chunks, so that whoever has a little more or less now need not ask.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// How many bytes each tenant has, wherever it has them, and how many each may have. Cheap to clone.
///
/// ```
/// use lockhouse::Rooms;
///
/// let rooms = Rooms::new(100_000);
/// let (mut one, mut another) = (rooms.of("acme"), rooms.of("acme"));
/// assert!(one.make(60_000).is_ok());
/// assert!(another.make(60_000).is_err(), "the same tenant has 120,000 bytes then");
/// assert!(rooms.of("globex").make(60_000).is_ok());
/// drop(one);
/// assert!(another.make(60_000).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Rooms(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    each: AtomicUsize,
    /// Nobody who has none.
    of: Mutex<HashMap<Arc<str>, usize>>,
}

/// What a tenant has in one place; dropped, it has it no more.
#[derive(Debug)]
pub struct Room {
    rooms: Rooms,
    tenant: Arc<str>,
    bytes: usize,
}

/// The tenant has as much as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// How many bytes it may have.
    pub limit: usize,
}

/// What is taken and given back at a time.
const CHUNK: usize = 4096;

impl Rooms {
    /// So many bytes for each tenant.
    pub fn new(each: usize) -> Self {
        Self(Arc::new(Inner { each: each.into(), of: Mutex::default() }))
    }

    /// From now on so many bytes for each. Who has more keeps it.
    pub fn set(&self, each: usize) {
        self.0.each.store(each, Ordering::Relaxed);
    }

    /// A place of that tenant, with nothing in it yet.
    pub fn of(&self, tenant: &str) -> Room {
        Room { rooms: self.clone(), tenant: tenant.into(), bytes: 0 }
    }

    /// How many bytes that tenant has in all its places, in whole chunks.
    pub fn taken(&self, tenant: &str) -> usize {
        self.0.of.lock().get(tenant).copied().unwrap_or_default()
    }
}

impl Room {
    /// Makes room for so many bytes in this place.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the tenant would have more than it may have; what it has is as it was.
    #[inline]
    pub fn make(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes <= self.bytes { Ok(()) } else { self.grow(bytes) }
    }

    /// Whether the tenant has all that it may have, or more.
    pub fn is_full(&self) -> bool {
        self.rooms.taken(&self.tenant) >= self.rooms.0.each.load(Ordering::Relaxed)
    }

    /// So many bytes are in this place now, whether or not there is room.
    #[inline]
    pub fn settle(&mut self, bytes: usize) {
        if bytes > self.bytes || self.bytes - bytes > 2 * CHUNK {
            self.set(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let limit = self.rooms.0.each.load(Ordering::Relaxed);
        let bytes = bytes.next_multiple_of(CHUNK);
        let mut of = self.rooms.0.of.lock();
        let taken = of.entry(self.tenant.clone()).or_default();
        if *taken + (bytes - self.bytes) > limit {
            if *taken == 0 {
                of.remove(&self.tenant);
            }
            return Err(NoRoom { limit });
        }
        *taken += bytes - self.bytes;
        self.bytes = bytes;
        Ok(())
    }

    #[cold]
    fn set(&mut self, bytes: usize) {
        let bytes = bytes.next_multiple_of(CHUNK);
        let mut of = self.rooms.0.of.lock();
        let taken = of.entry(self.tenant.clone()).or_default();
        *taken = *taken + bytes - self.bytes;
        if *taken == 0 {
            of.remove(&self.tenant);
        }
        self.bytes = bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_what_all_its_places_have_and_nothing_once_they_are_gone() {
        let rooms = Rooms::new(10 * CHUNK);
        let mut places: Vec<Room> = (0..5).map(|_| rooms.of("a")).collect();
        places.iter_mut().for_each(|place| place.make(CHUNK + 1).expect("there is room"));
        assert_eq!(rooms.taken("a"), 10 * CHUNK);
        assert_eq!(places[0].make(2 * CHUNK + 1), Err(NoRoom { limit: 10 * CHUNK }));
        assert_eq!(places[0].make(2 * CHUNK), Ok(()), "it has that already");
        let mut other = rooms.of("b");
        assert_eq!(other.make(10 * CHUNK + 1), Err(NoRoom { limit: 10 * CHUNK }));
        assert_eq!(other.make(10 * CHUNK), Ok(()));
        drop(places);
        drop(other);
        assert!(rooms.0.of.lock().is_empty());
    }

    #[test]
    fn what_is_there_counts_though_there_is_no_room_and_goes_with_its_end() {
        let rooms = Rooms::new(CHUNK);
        let mut place = rooms.of("a");
        place.settle(5 * CHUNK);
        assert_eq!(rooms.taken("a"), 5 * CHUNK);
        assert_eq!(place.make(5 * CHUNK), Ok(()));
        assert!(rooms.of("a").make(1).is_err());
        place.settle(0);
        assert!(rooms.0.of.lock().is_empty());
    }

    #[test]
    fn a_little_more_or_less_asks_nobody() {
        let rooms = Rooms::new(usize::MAX);
        let mut place = rooms.of("a");
        place.settle(3 * CHUNK);
        place.settle(CHUNK);
        assert_eq!(rooms.taken("a"), 3 * CHUNK);
        place.settle(CHUNK - 1);
        assert_eq!(rooms.taken("a"), CHUNK);
    }

    #[test]
    fn less_for_each_takes_nothing_away() {
        let rooms = Rooms::new(4 * CHUNK);
        let mut place = rooms.of("a");
        place.make(4 * CHUNK).expect("there is room");
        rooms.set(2 * CHUNK);
        assert_eq!(place.make(3 * CHUNK), Ok(()));
        assert_eq!(place.make(4 * CHUNK + 1), Err(NoRoom { limit: 2 * CHUNK }));
        place.settle(0);
        assert_eq!(place.make(2 * CHUNK), Ok(()));
    }
}
