//! Counts of the web locks that are held.

/// How many web locks are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldCounts {
    pub(crate) all: usize,
    /// By agents of other processes.
    pub(crate) remote: usize,
}

impl HeldCounts {
    #[inline]
    pub(crate) fn add(&mut self, is_remote: bool) {
        self.all += 1;
        self.remote += usize::from(is_remote);
    }

    #[inline]
    pub(crate) fn remove(&mut self, is_remote: bool) {
        self.all -= 1;
        self.remote -= usize::from(is_remote);
    }
}
