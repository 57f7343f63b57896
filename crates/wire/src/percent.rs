//! Percent-encoding (RFC 3986, section 2.1), strictly: decoders elsewhere take a `%` without digits for
//! itself.

use std::borrow::Cow;

/// Whether two hexadecimal digits stand behind each `%` of the text.
pub fn has_whole_escapes(text: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let mut escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').map(|(at, _)| at);
    escapes.all(|at| is_digit(bytes.get(at + 1)) && is_digit(bytes.get(at + 2)))
}

/// The text that is encoded; none if an escape is incomplete, or the bytes are no UTF-8.
///
/// ```
/// use lockhouse_wire::percent_decode;
///
/// assert_eq!(percent_decode("a%20b").as_deref(), Some("a b"));
/// assert_eq!((percent_decode("a%2"), percent_decode("%ff")), (None, None));
/// ```
pub fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8().ok();
    decoded.filter(|_| has_whole_escapes(text))
}
