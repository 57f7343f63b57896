//! Panics of the program under test, as texts.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic in it becomes an error with the panic's message.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("of unknown kind")))
    })
}

/// Runs `work` without the usual report of panics on stderr: the caller that guards them gives a better
/// report.
pub(crate) fn silenced<T>(work: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = work();
    std::panic::set_hook(hook);
    result
}
