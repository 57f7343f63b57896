//! The width of comments.

use xtask::style::comments::too_wide;

use super::{forbid, sources};

#[test]
fn no_comment_is_wider_than_110_columns() {
    let mut wide = Vec::new();
    for source in sources() {
        for number in too_wide(source) {
            let line = source.text.lines().nth(number - 1).unwrap_or_default();
            wide.push(format!("{}:{number}: {}", source.name, line.trim()));
        }
    }
    forbid("run `cargo xtask fix --comments`; make code and pictures in comments narrower by hand", &wide);
}
