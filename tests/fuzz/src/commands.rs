//! Sequences of commands over the core, beside the literal transcription of the specification.

/// The core and the specification agree on every outcome, effect and state over the commands that the bytes
/// choose.
pub fn commands(data: &[u8]) {
    if let Some(difference) = proofs::oracle::disagreement(data) {
        panic!("{difference}");
    }
}
