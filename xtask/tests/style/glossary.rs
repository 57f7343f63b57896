//! The words of the project.

use std::collections::BTreeSet;

use xtask::style::MAX_GLOSSARY_WORDS;
use xtask::style::glossary::{renamed, words};

use super::{architecture, forbid};

#[test]
fn the_glossary_explains_at_most_40_words() {
    let words =
        words(architecture()).expect("ARCHITECTURE.md has a section \"Glossary\" with `| word | meaning |`");
    assert!(!words.is_empty(), "the glossary is empty");
    assert!(
        words.len() <= MAX_GLOSSARY_WORDS,
        "{} words: take standard ones and those of the specifications out, at most {MAX_GLOSSARY_WORDS} stay",
        words.len()
    );
    let unexplained: Vec<String> =
        words.iter().filter(|[_, meaning]| meaning.is_empty()).map(|[word, _]| (*word).to_owned()).collect();
    forbid("say in one sentence what these words mean", &unexplained);
    let distinct: BTreeSet<String> = words.iter().map(|[word, _]| word.to_lowercase()).collect();
    assert_eq!(distinct.len(), words.len(), "a word is explained once");
}

#[test]
fn the_architecture_says_what_became_of_the_words_of_the_design() {
    let renamed = renamed(architecture()).expect("ARCHITECTURE.md has a table `| design | code |`");
    assert!(!renamed.is_empty(), "the table `| design | code |` is empty");
}
