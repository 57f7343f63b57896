//! The search of logs for secrets, in whatever form, in part or whole.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE, HEXUPPER};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::SECRETS;
use crate::kind::Kind;

/// The findings in the traces.
#[derive(Debug, Default)]
pub struct Found {
    /// Logs with something in them.
    pub logs: usize,
    /// The length of that, in bytes.
    pub bytes: usize,
    /// Different secrets of each kind.
    pub secrets: BTreeMap<Kind, usize>,
    /// The places where a secret stands.
    pub leaks: Vec<Leak>,
}

/// A secret in a log. The secret itself is not reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The name of the log.
    pub log: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The kind of the secret.
    pub kind: Kind,
    /// In which form.
    pub form: &'static str,
}

impl std::fmt::Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {} ({})", self.log, self.line, self.kind.words(), self.form)
    }
}

/// The number of bytes in sequence of a form of a secret that count as a leak: less than half of the shortest
/// one, and more than comes by chance.
const PIECE: usize = 16;

/// The distance between the begins of two pieces. A leak is found for certain if it has this many bytes and
/// those of a piece.
const STEP: usize = 8;

/// A piece with fewer different bytes, such as zeros, may stand anywhere.
const LEAST_DIFFERENT: usize = 6;

/// A secret that is shorter is none: tests make such up, and they may be words.
const SHORTEST: usize = 20;

/// Looks through all logs in the folder for all secrets of the folder.
///
/// # Errors
///
/// Errors of the file system.
pub fn search(folder: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    let mut pieces = Pieces::default();
    let secrets = match fs::read_to_string(folder.join(SECRETS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let secrets = secrets.lines().filter_map(|line| {
        let (kind, secret) = line.split_once('\t')?;
        let kind = Kind::named(kind)?;
        // The frame around a key in a file.
        let is_frame = secret.starts_with("-----");
        Some((kind, kind.essence(secret))).filter(|(_, secret)| secret.len() >= SHORTEST && !is_frame)
    });
    for (kind, secret) in secrets.collect::<HashSet<_>>() {
        *found.secrets.entry(kind).or_default() += 1;
        pieces.add(kind, secret);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let log = fs::read(entry.path())?;
        if entry.file_name() == SECRETS || log.is_empty() {
            continue;
        }
        found.logs += 1;
        found.bytes += log.len();
        let name = entry.file_name().to_string_lossy().into_owned();
        found.leaks.extend(pieces.leaks(&log).map(|(line, kind, form)| Leak {
            log: name.clone(),
            line,
            kind,
            form,
        }));
    }
    found.leaks.sort_by(|a, b| (&a.log, a.line, a.kind).cmp(&(&b.log, b.line, b.kind)));
    Ok(found)
}

/// The pieces that no log may contain.
#[derive(Default)]
struct Pieces(HashMap<[u8; PIECE], (Kind, &'static str), Cheap>);

impl Pieces {
    fn add(&mut self, kind: Kind, secret: &str) {
        for (form, text) in forms(secret) {
            let starts = (0..(text.len() + 1).saturating_sub(PIECE)).step_by(STEP);
            for piece in starts.filter_map(|start| text.as_bytes()[start..].first_chunk::<PIECE>()) {
                if piece.iter().collect::<HashSet<_>>().len() >= LEAST_DIFFERENT {
                    self.0.entry(*piece).or_insert((kind, form));
                }
            }
        }
    }

    /// Line by line, and of each line the first.
    fn leaks<'l>(&'l self, log: &'l [u8]) -> impl Iterator<Item = (usize, Kind, &'static str)> + 'l {
        let known = |window: &[u8]| self.0.get(window).copied();
        let lines = log.split(|byte| *byte == b'\n').enumerate();
        lines.filter_map(move |(at, line)| {
            let (kind, form) = line.windows(PIECE).find_map(known)?;
            Some((at + 1, kind, form))
        })
    }
}

/// The forms that a secret may have.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let mut forms = vec![("as it is", secret.to_owned()), ("in capitals", secret.to_uppercase())];
    let percent = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    forms.push(("percent-encoded", percent));
    let bytes = HEXLOWER_PERMISSIVE.decode(secret.as_bytes()).ok();
    for bytes in [Some(secret.as_bytes().to_vec()), bytes].into_iter().flatten() {
        forms.push(("in hexadecimal", HEXLOWER.encode(&bytes)));
        forms.push(("in hexadecimal", HEXUPPER.encode(&bytes)));
        // The secret may stand within a text that is encoded as a whole.
        for skipped in 0..3 {
            let encoded = [BASE64_NOPAD.encode(&bytes[skipped..]), BASE64URL_NOPAD.encode(&bytes[skipped..])];
            // The last digit has bits of what comes next.
            forms.extend(encoded.map(|text| ("in base64", text[..text.len() - 1].to_owned())));
        }
    }
    forms
}

/// Each piece is looked up at every byte of every log, and no attacker chooses it.
#[derive(Clone, Copy, Default)]
struct Cheap;

impl BuildHasher for Cheap {
    type Hasher = CheapHasher;

    fn build_hasher(&self) -> CheapHasher {
        CheapHasher(0)
    }
}

struct CheapHasher(u64);

impl Hasher for CheapHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::note;

    const SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f001234567";
    const KEY: &str =
        "lhk_a-rather-long-name-of-a-key_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn leaks(log: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        note(
            folder.path(),
            &[(Kind::OwnerSecret, SECRET), (Kind::ApiKey, KEY), (Kind::Token, "e30.e30.short")],
        );
        fs::write(folder.path().join("a.log"), log).unwrap();
        let found = search(folder.path()).unwrap();
        assert_eq!((found.logs, found.bytes), (1, log.len()));
        assert_eq!(found.secrets, BTreeMap::from([(Kind::ApiKey, 1), (Kind::OwnerSecret, 1)]));
        found.leaks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_log_without_secrets_has_no_leak() {
        assert!(leaks("key=\"a-rather-long-name-of-a-key\" denied\n00000000000000000000000\n").is_empty());
    }

    #[test]
    fn a_secret_is_found_in_every_form_and_in_part() {
        for (text, form) in [
            (SECRET.to_owned(), "as it is"),
            (format!("x{}…", &SECRET[7..32]), "as it is"),
            (SECRET.to_uppercase(), "in capitals"),
            (HEXLOWER.encode(SECRET.as_bytes()), "in hexadecimal"),
            (HEXUPPER.encode(SECRET.as_bytes()), "in hexadecimal"),
            (BASE64_NOPAD.encode(format!("a{SECRET}b").as_bytes()), "in base64"),
            (BASE64_NOPAD.encode(&HEXLOWER.decode(SECRET.as_bytes()).unwrap()), "in base64"),
        ] {
            assert_eq!(leaks(&format!("one\ntwo {text} x\n")), [format!("a.log:2: owner's secret ({form})")]);
        }
        assert_eq!(leaks(&format!("Lockhouse-Key: {KEY}")), ["a.log:1: API key (as it is)"]);
    }

    #[test]
    fn a_secret_with_other_characters_is_found_percent_encoded() {
        let forms = forms("a/b c+d/e f+g/h i+j/k l+m");
        let text = "a%2Fb%20c%2Bd%2Fe%20f%2Bg%2Fh%20i%2Bj%2Fk%20l%2Bm";
        assert!(forms.contains(&("percent-encoded", text.to_owned())));
    }
}
