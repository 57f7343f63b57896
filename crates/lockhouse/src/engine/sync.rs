//! The primitives by which threads share state: those of the system or, where the interleavings of threads
//! are checked (`cfg(shuttle)`), those of a scheduler that chooses which thread goes on.
//!
//! Such a scheduler runs one thread at a time and switches only in these primitives. A mutex that is held
//! while another of these is used must therefore come from here, or a thread would wait for ever that the
//! scheduler takes for running. The primitives of tokio never call out under a mutex of theirs, and stay as
//! they are.

#[cfg(not(shuttle))]
pub(crate) use self::of_the_system::{
    AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Mutex, spawn, yield_now,
};
#[cfg(shuttle)]
pub(crate) use self::under_check::{
    AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Mutex, spawn, yield_now,
};

#[cfg(not(shuttle))]
mod of_the_system {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize};
    pub(crate) use std::thread::yield_now;

    pub(crate) use parking_lot::Mutex;

    /// Runs a task in the present runtime.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }
}

#[cfg(shuttle)]
mod under_check {
    use std::sync::PoisonError;

    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize};
    pub(crate) use shuttle::thread::yield_now;

    /// As the mutex of the system, it is not poisoned by a panic.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Runs a task among the checked threads.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        shuttle::future::spawn(task);
    }
}
