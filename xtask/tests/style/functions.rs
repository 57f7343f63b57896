//! The length of functions.

use xtask::style::MAX_FUNCTION_LINES;
use xtask::style::functions::functions;
use xtask::style::rust::Production;
use xtask::style::sources::SourceFile;

use super::{forbid, sources};

#[test]
fn no_function_is_longer_than_70_lines() {
    let is_production = |source: &&SourceFile| source.is_rust() && !source.is_test();
    let mut long = Vec::new();
    for source in sources().iter().filter(is_production) {
        for function in functions(&Production::read(source).unwrap()) {
            if function.lines > MAX_FUNCTION_LINES {
                long.push((function.lines, format!("{}:{} {}", source.name, function.line, function.name)));
            }
        }
    }
    long.sort_by(|a, b| b.cmp(a));
    let long: Vec<String> =
        long.into_iter().map(|(lines, place)| format!("{lines} lines: {place}")).collect();
    forbid(
        "leave decisions in these functions and move steps into functions with names, at most 70 lines",
        &long,
    );
}
