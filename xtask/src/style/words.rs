//! Words that are gone from the code, each with what stands in its place.

use super::classify::{Class, ClassifiedLine, classify};
use super::sources::SourceFile;

/// A word, or several in a row, that must not come back.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    /// The words in small letters with blanks between: `told in` is also `told_in` and `ToldIn`.
    pub words: &'static str,
    /// Where it is looked for.
    pub searched: Searched,
    /// The word to write in its place.
    pub remedy: &'static str,
}

/// Where a word is looked for. Literals are never looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searched {
    /// In names and in comments.
    Everywhere,
    /// In names alone: in a sentence the word says what it always did.
    Names,
}

/// The words that are gone. A word joins once `cargo xtask measure --word WORDS` finds none.
pub const GONE: &[Gone] = &[
    Gone {
        words: "whoever",
        searched: Searched::Everywhere,
        remedy: "name the noun: the caller, the holder, the session",
    },
    Gone {
        words: "nobody",
        searched: Searched::Everywhere,
        remedy: "\"no client\", \"no other session\", \"no holder\"",
    },
    Gone {
        words: "somebody",
        searched: Searched::Everywhere,
        remedy: "name the noun: a client, another holder",
    },
    Gone {
        words: "anybody",
        searched: Searched::Everywhere,
        remedy: "name the noun: any client, any caller",
    },
    Gone { words: "told", searched: Searched::Names, remedy: "announced, sent, reported" },
    Gone { words: "untold", searched: Searched::Names, remedy: "withheld" },
    Gone {
        words: "desk",
        searched: Searched::Everywhere,
        remedy: "the calls of the resource: owners, locks, claims",
    },
    Gone { words: "shelf", searched: Searched::Everywhere, remedy: "the idempotency store" },
    Gone { words: "far away", searched: Searched::Everywhere, remedy: "remote" },
    Gone { words: "room", searched: Searched::Names, remedy: "MemoryBudget, MemoryReservation" },
    Gone { words: "rooms", searched: Searched::Names, remedy: "MemoryBudget, MemoryReservation" },
    Gone { words: "no room", searched: Searched::Names, remedy: "BudgetExceeded" },
    Gone { words: "pace", searched: Searched::Names, remedy: "RateLimiter, CommitDelay" },
    Gone { words: "paces", searched: Searched::Names, remedy: "RateLimiters" },
    Gone { words: "robbed", searched: Searched::Everywhere, remedy: "stolen" },
    Gone { words: "parcel", searched: Searched::Names, remedy: "Deferred" },
    Gone { words: "fate", searched: Searched::Names, remedy: "CommitOutcome" },
    Gone { words: "seal", searched: Searched::Names, remedy: "SecretSeed" },
    Gone { words: "judge anew", searched: Searched::Names, remedy: "revalidate" },
    Gone { words: "greet", searched: Searched::Names, remedy: "read_hello" },
    Gone { words: "keep nothing", searched: Searched::Names, remedy: "execute_read" },
    Gone { words: "badge", searched: Searched::Names, remedy: "Credentials" },
    Gone { words: "deed", searched: Searched::Names, remedy: "AuditEvent" },
    Gone { words: "unheard", searched: Searched::Names, remedy: "ReleaseOnDrop" },
    Gone { words: "clerk", searched: Searched::Everywhere, remedy: "owner client" },
    Gone { words: "weather", searched: Searched::Everywhere, remedy: "fault plan" },
    Gone { words: "tell", searched: Searched::Names, remedy: "announce, send, report" },
    Gone { words: "tells", searched: Searched::Names, remedy: "announces, sends, reports" },
];

/// The lines, from 1, on which a word is found, each with the word.
pub fn found<'a>(source: &SourceFile, gone: &'a [Gone]) -> Vec<(usize, &'a Gone)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(classify(source).unwrap_or_default()) {
        let (names, comment) = (words_of(&line, Class::Code), words_of(&line, Class::Comment));
        let is_here = |gone: &&Gone| {
            let is_said = gone.searched == Searched::Everywhere && contains(&comment, gone.words);
            is_said || contains(&names, gone.words)
        };
        found.extend(gone.iter().filter(is_here).map(|gone| (number, gone)));
    }
    found
}

fn contains(groups: &[Vec<String>], wanted: &str) -> bool {
    let wanted: Vec<&str> = wanted.split(' ').collect();
    groups.iter().any(|words| words.windows(wanted.len()).any(|words| words == wanted))
}

/// The words of a line: those of each name by itself, those of a comment in a row.
fn words_of(line: &ClassifiedLine, class: Class) -> Vec<Vec<String>> {
    let mut groups = vec![Vec::new()];
    let mut word = String::new();
    let mut before = ' ';
    for &(c, of) in line {
        let c = if of == class { c } else { ' ' };
        let is_hump = c.is_uppercase() && before.is_lowercase();
        if (is_hump || !c.is_alphanumeric()) && !word.is_empty() {
            groups.last_mut().unwrap_or(&mut Vec::new()).push(std::mem::take(&mut word));
        }
        if class == Class::Code && !c.is_alphanumeric() && c != '_' {
            groups.push(Vec::new());
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    if !word.is_empty() {
        groups.last_mut().unwrap_or(&mut Vec::new()).push(word);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(words: &'static str, searched: Searched, text: &str) -> Vec<usize> {
        let source = SourceFile { name: "a.rs".to_owned(), text: text.to_owned() };
        let gone = [Gone { words, searched, remedy: "" }];
        found(&source, &gone).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_word_is_found_in_names_of_any_form_and_in_comments() {
        let text = "fn is_told_in() {}\nstruct ToldIn;\n// told in\nlet a = \"told in\";\nlet untold = 1;\nconst TOLD_IN: u8 = 1;\n";
        assert_eq!(lines("told in", Searched::Everywhere, text), [1, 2, 3, 6]);
        assert_eq!(lines("told", Searched::Names, text), [1, 2, 6]);
    }

    #[test]
    fn words_of_two_names_make_no_pair() {
        assert_eq!(lines("far away", Searched::Everywhere, "f(far, away);\n// Far away.\n"), [2]);
    }
}
