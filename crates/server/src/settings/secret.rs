//! Secrets in settings.

use std::borrow::Cow;

/// The prefix of every API key, which distinguishes keys from tokens, and finds them in places where they
/// should not be.
pub(crate) const KEY_PREFIX: &str = "lhk_";

/// Settings whose values are never shown, wherever they stand: an API key that is set by mistake in place of
/// its hash, or of the name of its variable, must not appear in a log.
const SECRETS: &[&str] = &["hash", "key_env"];

pub(super) fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
}

/// The text without the passwords of URLs in it: `USER:…@` and `password=…`.
pub(crate) fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    let mut from = 0;
    while let Some(begin) = text[from..].find("://").map(|at| from + at + 3) {
        let end = text[begin..].find(['/', '?', '"', ' ']).map_or(text.len(), |at| begin + at);
        from = begin;
        let Some(at) = text[begin..end].rfind('@').map(|at| begin + at) else { continue };
        let Some(colon) = text[begin..at].find(':').map(|colon| begin + colon) else { continue };
        text.to_mut().replace_range(colon..at, "");
    }
    let mut from = 0;
    while let Some(begin) = text[from..].find(PASSWORD).map(|at| from + at) {
        let end = text[begin..].find(['&', '"', ' ']).map_or(text.len(), |at| begin + at);
        text.to_mut().replace_range(begin..end, "");
        from = begin;
    }
    text
}

const PASSWORD: &str = "password=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_taken_out_of_a_url_and_nothing_else() {
        for (text, without) in [
            ("postgres://u:p@h:1/d", "postgres://u@h:1/d"),
            ("store = \"postgres://u:p/@h\": x", "store = \"postgres://u:p/@h\": x"),
            ("postgres://u:a:b@c@h/d and http://v:w@x", "postgres://u@h/d and http://v@x"),
            ("postgres://h/d?password=x&y=z", "postgres://h/d?&y=z"),
            ("http://h:1/a@b", "http://h:1/a@b"),
            ("", ""),
        ] {
            assert_eq!(without_passwords(text), without);
        }
    }
}
