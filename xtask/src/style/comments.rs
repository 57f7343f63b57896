//! The width of comments, and the remedy for those that are too wide.

use super::MAX_COLUMNS;
use super::classify::{Class, ClassifiedLine, classify};
use super::prose;
use super::sources::SourceFile;

/// Lines of comments without code beside them that belong together.
struct Block {
    /// The first line, from 0.
    start: usize,
    /// The number of its lines.
    lines: usize,
    /// The blanks before each line.
    indentation: usize,
    marker: Marker,
    /// The text behind the marker, without one blank.
    text: Vec<String>,
}

enum Marker {
    /// Begins each line.
    Line(&'static str),
    /// Begins the block; its lines begin with a star, and its last line has only the end.
    Star(&'static str),
}

const LINE_MARKERS: [&str; 4] = ["//!", "///", "//", "#"];

/// The lines of comments that are wider than [`MAX_COLUMNS`], from 1. Tables, links and single words may be.
pub fn too_wide(source: &SourceFile) -> Vec<usize> {
    let lines = classify(source).unwrap_or_default();
    let mut found = Vec::new();
    for block in blocks(&lines) {
        let text: Vec<&str> = block.text.iter().map(String::as_str).collect();
        let numbers = prose::too_long(&text, block.width());
        found.extend(numbers.into_iter().map(|number| block.line_of(number, &lines)));
    }
    found
}

/// The number of a source's lines of comments without code beside them.
pub fn lines(source: &SourceFile) -> usize {
    blocks(&classify(source).unwrap_or_default()).iter().map(|block| block.lines).sum()
}

/// The source with comments wrapped that are too wide, if there are any that can be.
pub fn wrapped(source: &SourceFile) -> Option<String> {
    let lines = classify(source)?;
    let written: Vec<&str> = source.text.lines().collect();
    let mut new: Vec<String> = Vec::new();
    let mut done = 0;
    for block in blocks(&lines) {
        let text: Vec<&str> = block.text.iter().map(String::as_str).collect();
        if let Some(text) = prose::wrap(&text, block.width()) {
            new.extend(written[done..block.start].iter().map(ToString::to_string));
            new.extend(block.written(&text));
            done = block.start + block.lines;
        }
    }
    new.extend(written[done..].iter().map(ToString::to_string));
    (done > 0).then(|| new.join("\n") + if source.text.ends_with('\n') { "\n" } else { "" })
}

impl Block {
    /// The columns that the text may take.
    fn width(&self) -> usize {
        let before = match self.marker {
            Marker::Line(marker) => marker.len() + 1,
            Marker::Star(_) => " * ".len(),
        };
        MAX_COLUMNS.saturating_sub(self.indentation + before)
    }

    /// The line of the source, from 1, in which the given line of the text stands.
    fn line_of(&self, number: usize, lines: &[ClassifiedLine]) -> usize {
        let has_text_behind_its_begin =
            lines[self.start].iter().map(|c| c.0).collect::<String>().trim_start().len() > "/**".len();
        let skipped = match self.marker {
            Marker::Star(_) if !has_text_behind_its_begin => 1,
            _ => 0,
        };
        self.start + skipped + number + 1
    }

    fn written(&self, text: &[String]) -> Vec<String> {
        let blanks = " ".repeat(self.indentation);
        let line = |marker: &str, text: &str| format!("{blanks}{marker} {text}").trim_end().to_owned();
        match self.marker {
            Marker::Line(marker) => text.iter().map(|text| line(marker, text)).collect(),
            Marker::Star(begin) => {
                let middle = text.iter().map(|text| line(" *", text));
                [format!("{blanks}{begin}")]
                    .into_iter()
                    .chain(middle)
                    .chain([format!("{blanks} */")])
                    .collect()
            }
        }
    }
}

fn blocks(lines: &[ClassifiedLine]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let block = star_block(lines, at).or_else(|| line_block(lines, at));
        at += block.as_ref().map_or(1, |block| block.lines);
        blocks.extend(block);
    }
    blocks
}

/// The indentation and the text of a line that is nothing but comment.
fn comment_of(line: &ClassifiedLine) -> Option<(usize, String)> {
    let indentation = line.iter().take_while(|c| c.0 == ' ').count();
    let rest = &line[indentation..];
    let is_comment = !rest.is_empty() && rest.iter().all(|c| c.1 == Class::Comment || c.0 == ' ');
    (is_comment && line[..indentation].iter().all(|c| c.1 != Class::Literal))
        .then(|| (indentation, rest.iter().map(|c| c.0).collect()))
}

/// The lines from here on that begin with one marker at one indentation.
fn line_block(lines: &[ClassifiedLine], start: usize) -> Option<Block> {
    let (indentation, first) = comment_of(&lines[start])?;
    let marker = marker_of(&first)?;
    let mut text = Vec::new();
    for line in &lines[start..] {
        match comment_of(line) {
            Some((column, comment)) if column == indentation && marker_of(&comment) == Some(marker) => {
                let behind = &comment[marker.len()..];
                text.push(behind.strip_prefix(' ').unwrap_or(behind).to_owned());
            }
            _ => break,
        }
    }
    Some(Block { start, lines: text.len(), indentation, marker: Marker::Line(marker), text })
}

/// A marker has a blank or nothing behind it; `#!` and lines of slashes are none.
fn marker_of(comment: &str) -> Option<&'static str> {
    let has_marker =
        |marker: &&str| comment.strip_prefix(*marker).is_some_and(|t| t.is_empty() || t.starts_with(' '));
    LINE_MARKERS.into_iter().find(has_marker)
}

/// A comment between `/*` and `*/` that begins here, each line of which begins with a star.
fn star_block(lines: &[ClassifiedLine], start: usize) -> Option<Block> {
    let (indentation, first) = comment_of(&lines[start])?;
    let begin = if first.starts_with("/**") { "/**" } else { first.starts_with("/*").then_some("/*")? };
    let mut text = Vec::new();
    for (number, line) in lines[start..].iter().enumerate() {
        let (_, comment) = comment_of(line)?;
        let is_end = comment.ends_with("*/") && (number > 0 || comment.len() > begin.len() + 1);
        let inner = if is_end { comment[..comment.len() - "*/".len()].trim_end() } else { comment.as_str() };
        let inner = match number {
            0 => inner.strip_prefix(begin)?,
            _ if inner.is_empty() => "",
            _ => inner.strip_prefix('*')?,
        };
        let inner = inner.strip_prefix(' ').unwrap_or(inner);
        if !inner.is_empty() || number > 0 && !is_end {
            text.push(inner.to_owned());
        }
        if is_end {
            return Some(Block { start, lines: number + 1, indentation, marker: Marker::Star(begin), text });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> SourceFile {
        SourceFile { name: name.to_owned(), text: text.to_owned() }
    }

    /// Words enough for more than a line.
    fn long() -> String {
        "word ".repeat(30).trim_end().to_owned()
    }

    fn mended(name: &str, text: &str) -> String {
        let mended = wrapped(&source(name, text)).unwrap();
        assert_eq!(wrapped(&source(name, &mended)), None, "mending again changes nothing");
        assert_eq!(too_wide(&source(name, &mended)), Vec::<usize>::new());
        assert_eq!(
            mended.split_whitespace().filter(|word| *word == "word").count(),
            text.split_whitespace().filter(|word| *word == "word").count()
        );
        mended
    }

    #[test]
    fn a_comment_keeps_its_marker_and_its_indentation() {
        let text = format!("    /// {}\n    fn f() {{}} // {}\n", long(), long());
        assert_eq!(too_wide(&source("a.rs", &text)), [1]);
        let mended = mended("a.rs", &text);
        let lines: Vec<&str> = mended.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].len() <= 110 && lines[0].len() > 100, "{}", lines[0]);
        assert!(lines[1].starts_with("    /// word"));
        assert!(lines[2].starts_with("    fn f() {} // word"), "a comment behind code stays");
    }

    #[test]
    fn comments_of_other_kinds_stay_apart() {
        let text = format!("//! a\n// {}\n/// b\n//// c\n", long());
        let mended = mended("a.rs", &text);
        assert!(mended.starts_with("//! a\n// word"));
        assert!(mended.ends_with("word\n/// b\n//// c\n"));
    }

    #[test]
    fn literals_are_no_comments() {
        let text = format!("const A: &str = \"\n// {}\n\";\n", long());
        assert_eq!(wrapped(&source("a.rs", &text)), None);
    }

    #[test]
    fn a_starred_comment_gets_a_line_for_its_begin_and_its_end() {
        let mended = mended("a.ts", &format!("  /** {} */\n  f();\n", long()));
        let lines: Vec<&str> = mended.lines().collect();
        assert_eq!((lines[0], lines[3], lines[4]), ("  /**", "   */", "  f();"));
        assert!(lines[1].starts_with("   * word") && lines[2].starts_with("   * word"));
        let text = format!("/**\n * a\n *\n * {}\n * @param b {}\n */\n", long(), long());
        assert_eq!(too_wide(&source("a.ts", &text)), [4, 5]);
    }

    #[test]
    fn hashes_mark_comments_of_settings() {
        let text = format!("#!/bin/sh\n# {}\na = 1 # {}\n", long(), long());
        assert!(mended("a.toml", &text).starts_with("#!/bin/sh\n# word"));
    }
}
