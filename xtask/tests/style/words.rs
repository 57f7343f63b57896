//! Words that are gone.

use xtask::style::words::{GONE, found};

use super::{forbid, sources};

#[test]
fn words_that_are_gone_do_not_come_back() {
    let mut back = Vec::new();
    for source in sources().iter().filter(|source| source.is_code()) {
        for (line, gone) in found(source, GONE) {
            back.push(format!("{}:{line}: \"{}\": {}", source.name, gone.words, gone.remedy));
        }
    }
    forbid("write what stands beside each word", &back);
}
