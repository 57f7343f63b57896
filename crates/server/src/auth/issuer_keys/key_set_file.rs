//! The file with the keys of an issuer, which the issuer may change at any time.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{KeySet, key_set};
use crate::settings::sections::auth::Algorithm;

/// The least time between two reads of the file, however many callers ask for keys that are not in it.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// The keys that are in a file, as of its last read.
pub(in crate::auth) struct KeySetFile {
    algorithm: Algorithm,
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    keys: Arc<KeySet>,
    /// The text that they are from.
    text: Vec<u8>,
    /// Set until a look reports that they are others than before.
    is_new: bool,
    /// The file when it was read last.
    file: FileState,
    read: Instant,
    /// The fault of the file that was logged last.
    fault: Option<String>,
}

/// What tells a file from its later versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState(Option<(u64, i64, i64, u64)>);

impl FileState {
    pub(super) fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self(metadata.map(|file| (file.ino(), file.mtime(), file.mtime_nsec(), file.len())))
    }
}

impl fmt::Debug for KeySetFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySetFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KeySetFile {
    /// The file, which had that state before it was read.
    ///
    /// # Errors
    ///
    /// The fault of the text.
    pub(super) fn new(
        algorithm: Algorithm,
        path: &Path,
        file: FileState,
        text: Vec<u8>,
    ) -> Result<Self, String> {
        let keys = Arc::new(key_set(algorithm, &text)?);
        let state = State { keys, text, is_new: false, file, read: Instant::now(), fault: None };
        Ok(Self { algorithm, path: path.to_owned(), state: Mutex::new(state) })
    }

    /// The keys as of the last read.
    pub(super) fn keys(&self) -> Arc<KeySet> {
        self.state.lock().keys.clone()
    }

    /// Reads the file if it is another than at the last read. Whether there are other keys than at the last
    /// look.
    pub(super) fn look(&self) -> bool {
        let has_changed = FileState::of(&self.path) != self.state.lock().file;
        if has_changed {
            self.read_again();
        }
        std::mem::take(&mut self.state.lock().is_new)
    }

    /// Reads the file, unless that was done within the last second. Of a file that cannot be used, the former
    /// keys stay.
    pub(super) fn read_again(&self) {
        let mut state = self.state.lock();
        if state.read.elapsed() < READ_PAUSE {
            return;
        }
        state.read = Instant::now();
        state.file = FileState::of(&self.path);
        let read = fs::read(&self.path).map_err(|error| format!("cannot be read ({error})"));
        match read.and_then(|text| Ok((key_set(self.algorithm, &text)?, text))) {
            Ok((keys, text)) => {
                state.fault = None;
                if state.text != text {
                    (state.keys, state.text, state.is_new) = (Arc::new(keys), text, true);
                    tracing::info!("the keys of an issuer in {} are read again", self.path.display());
                }
            }
            Err(fault) => {
                if state.fault.as_ref() != Some(&fault) {
                    tracing::error!(
                        "{} {fault}; the former keys of the issuer stay in use",
                        self.path.display()
                    );
                    state.fault = Some(fault);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected fails")]

    use super::*;

    #[test]
    fn a_file_is_read_at_most_once_in_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let set = |kid: &str| {
            format!(r#"{{"keys":[{{"kty":"oct","kid":"{kid}","k":"{}"}}]}}"#, "A".repeat(44)).into_bytes()
        };
        fs::write(&path, set("2")).unwrap();
        let state = FileState::of(&path);
        let file = KeySetFile::new(Algorithm::HS256, &path, state, set("1")).unwrap();
        let kid = || file.keys()[0].0.clone().unwrap();
        let begin = Instant::now();
        while kid() == "1" {
            file.read_again();
        }
        assert!(begin.elapsed() > READ_PAUSE / 2, "it is read too soon, after {:?}", begin.elapsed());
        assert!(file.look() && !file.look(), "that is reported once");
    }
}
