//! Random numbers.

/// `N` random bytes in hexadecimal.
///
/// # Panics
///
/// If the operating system has no random numbers: nothing could be kept secret then.
pub(crate) fn random_hex<const N: usize>() -> String {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("no random numbers: {error}"));
    let digits = bytes.into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
