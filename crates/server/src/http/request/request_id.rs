//! The id of a request: in each line of the log about it, and in its answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::bounds::REQUEST_ID_BYTES;
use crate::random::random_hex;

/// The header with the id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request with these headers, which have it from then on. The client's own id is kept if it is
/// one: of letters, digits, `-`, `_` and `.`, not too long, and the only one.
pub(crate) fn take_request_id(headers: &mut HeaderMap) -> HeaderValue {
    let mut given = headers.get_all(REQUEST_ID).iter();
    let only = given.next().filter(|_| given.next().is_none());
    let id = only.filter(|id| is_sound(id.as_bytes())).cloned().unwrap_or_else(new_id);
    headers.insert(REQUEST_ID, id.clone());
    id
}

fn is_sound(id: &[u8]) -> bool {
    let is_of_id = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (1..=REQUEST_ID_BYTES).contains(&id.len()) && id.iter().all(is_of_id)
}

/// An id that no other request of any process has. It is random, as one that counts would tell each caller
/// how much all others do.
fn new_id() -> HeaderValue {
    HeaderValue::try_from(random_hex::<16>()).expect("hexadecimal digits are visible ASCII")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    fn taken(given: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        given.iter().for_each(|id| _ = headers.append(REQUEST_ID, id.parse().unwrap()));
        let id = take_request_id(&mut headers);
        assert_eq!(headers.get_all(REQUEST_ID).iter().collect::<Vec<_>>(), [&id]);
        id.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_sound_id_is_kept_and_any_other_is_replaced_by_a_new_one() {
        let longest = "a".repeat(REQUEST_ID_BYTES);
        for id in ["0af7651916cd43dd8448eb211c80319c", "a-b_c.D", &longest] {
            assert_eq!(taken(&[id]), id);
        }
        for given in [&[][..], &[""], &["a b"], &["a\"b"], &["a", "b"], &[&(longest + "a")]] {
            let (one, other) = (taken(given), taken(given));
            assert!(is_sound(one.as_bytes()) && one.len() == 32, "{one}");
            assert_ne!(one, other);
        }
    }

    #[test]
    fn no_part_of_an_id_counts_the_requests() {
        let ids: Vec<String> = (0..100).map(|_| taken(&[])).collect();
        for half in [0..16, 16..32] {
            let halves: Vec<&str> = ids.iter().map(|id| &id[half.clone()]).collect();
            assert!(!halves.is_sorted() && BTreeSet::from_iter(&halves).len() == 100, "{ids:?}");
        }
    }
}
