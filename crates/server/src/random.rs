//! Random numbers.

/// `N` random bytes in hexadecimal.
///
/// # Panics
///
/// If the operating system has no random numbers: nothing could be kept secret then.
pub(crate) fn random_hex<const N: usize>() -> String {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("no random numbers: {error}"));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
