//! Secrets in settings.

/// The prefix of every API key, which distinguishes keys from tokens, and finds them in places where they
/// should not be.
pub(crate) const KEY_PREFIX: &str = "lhk_";

/// Settings whose values are never shown, wherever they stand: an API key that is set by mistake in place of
/// its hash, or of the name of its variable, must not appear in a log.
const SECRETS: &[&str] = &["hash", "key_env"];

pub(super) fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
}
