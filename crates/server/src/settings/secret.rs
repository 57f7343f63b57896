//! What is secret in settings.

/// What every API key begins with, so that it is told from a token, and found in places where it should not
/// be.
pub(crate) const KEY_PREFIX: &str = "lhk_";

/// Keys whose values nobody is shown, wherever they stand: who mistakes a key for its hash, or for the name
/// of its variable, shall not find it in a log.
const SECRETS: &[&str] = &["hash", "key_env"];

pub(super) fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
}
