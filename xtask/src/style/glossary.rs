//! The glossary of ARCHITECTURE.md, and the table of words that the code no longer uses.

/// The rows of the table with these two columns, without its head; nothing if there is no such table.
pub fn table<'a>(text: &'a str, columns: [&str; 2]) -> Option<Vec<[&'a str; 2]>> {
    let mut lines = text.lines().skip_while(|line| cells(line) != Some(columns));
    lines.next()?;
    Some(lines.skip(1).map_while(cells).collect())
}

/// The words that the glossary explains.
pub fn words(architecture: &str) -> Option<Vec<[&str; 2]>> {
    let start = architecture.find("\n## Glossary")?;
    table(&architecture[start..], ["word", "meaning"])
}

/// The names in the design, each with the name in the code.
pub fn renamed(architecture: &str) -> Option<Vec<[&str; 2]>> {
    table(architecture, ["design", "code"])
}

fn cells(line: &str) -> Option<[&str; 2]> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let (first, second) = line.split_once('|')?;
    Some([first.trim(), second.trim()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_ends_with_its_last_row() {
        let text = "# A\n\n## Glossary\n\n| word | meaning |\n|---|---|\n| bucket | a lock manager |\n| fence | a guard |\n\n\
                    | design | code |\n|---|---|\n| seal | seed |\n";
        assert_eq!(words(text).unwrap(), [["bucket", "a lock manager"], ["fence", "a guard"]]);
        assert_eq!(renamed(text).unwrap(), [["seal", "seed"]]);
        assert_eq!(words("# A\n"), None);
    }
}
