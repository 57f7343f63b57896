//! Paragraphs of comments: which lines flow, where a line may break, and how a paragraph is wrapped anew.

/// A piece of the text of a comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A blank line, a heading, a table, a picture, code: stays as it is.
    Fixed(&'a str),
    /// A paragraph or an item of a list.
    Flow(Paragraph<'a>),
}

/// Lines that flow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paragraph<'a> {
    /// The text before the first line: the mark of a list item with its indentation.
    first: &'a str,
    /// The number of blanks before the other lines.
    hanging: usize,
    /// The lines without that.
    lines: Vec<&'a str>,
}

/// Cuts the text of a comment, without its markers, into pieces.
pub(super) fn pieces<'a>(lines: &[&'a str]) -> Vec<Piece<'a>> {
    let mut cutter = Cutter { pieces: Vec::new(), open: None, item: None, fence: None };
    for line in lines {
        cutter.line(line);
    }
    cutter.close();
    cutter.pieces
}

struct Cutter<'a> {
    pieces: Vec<Piece<'a>>,
    open: Option<Paragraph<'a>>,
    /// The hanging indentation of the list around.
    item: Option<usize>,
    /// The mark that ends the block of code around.
    fence: Option<&'static str>,
}

impl<'a> Cutter<'a> {
    fn line(&mut self, line: &'a str) {
        let text = line.trim_start();
        let indentation = line.len() - text.len();
        if let Some(fence) = self.fence {
            if text.starts_with(fence) {
                self.fence = None;
            }
            return self.fixed(line);
        }
        if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence)) {
            self.fence = Some(fence);
            return self.fixed(line);
        }
        if text.is_empty() || is_fixed(text) {
            return self.fixed(line);
        }
        if let Some(mark) = list_mark(text)
            && (indentation < 4 || self.item.is_some())
        {
            self.close();
            let hanging = indentation + mark;
            self.item = Some(hanging);
            self.open = Some(Paragraph { first: &line[..hanging], hanging, lines: vec![&line[hanging..]] });
            return;
        }
        if let Some(open) = &mut self.open {
            // The second line of an item shows its indentation.
            if open.lines.len() == 1 && !open.first.trim().is_empty() && indentation > 0 {
                open.hanging = indentation;
                self.item = Some(indentation);
            }
            if indentation == open.hanging && !text.starts_with('@') {
                open.lines.push(text);
                return;
            }
            self.close();
        }
        if indentation == 0 {
            self.item = None;
        }
        if indentation == 0 || self.item == Some(indentation) {
            let first = &line[..indentation];
            self.open = Some(Paragraph { first, hanging: indentation, lines: vec![text] });
        } else {
            self.fixed(line);
        }
    }

    fn fixed(&mut self, line: &'a str) {
        self.close();
        self.pieces.push(Piece::Fixed(line));
    }

    fn close(&mut self) {
        if let Some(paragraph) = self.open.take() {
            self.pieces.push(Piece::Flow(paragraph));
        }
    }
}

/// Headings, tables, quotations, definitions of links, pictures, and what other tools read.
fn is_fixed(text: &str) -> bool {
    let is_picture = |c: char| matches!(c, '\u{2500}'..='\u{259f}' | '▲' | '▶' | '▼' | '◀' | '►' | '◄');
    let is_heading = text.trim_start_matches('#').starts_with(' ') && text.starts_with('#');
    is_heading
        || text.starts_with(['|', '>', '<']) && !text.starts_with("<http")
        || text.starts_with('[') && text.contains("]: ")
        || is_directive(text)
        || ["---", "==="].iter().any(|line| text.starts_with(line))
        || text.contains(is_picture)
}

/// A directive that another tool reads, as one line.
fn is_directive(text: &str) -> bool {
    ["biome-ignore", "@ts-", "rustfmt"].iter().any(|word| text.starts_with(word))
}

/// The length of the mark of a list item, with the blanks behind it.
fn list_mark(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let sign = text[digits..].chars().next()?;
    let is_mark = if digits == 0 { "-*+".contains(sign) } else { digits < 3 && ".)".contains(sign) };
    let blanks = text[digits + sign.len_utf8()..].bytes().take_while(|b| *b == b' ').count();
    (is_mark && blanks > 0).then_some(digits + 1 + blanks)
}

impl Paragraph<'_> {
    /// The lines as they are.
    fn as_written(&self) -> Vec<String> {
        let hanging = " ".repeat(self.hanging);
        let prefix = |number| if number == 0 { self.first } else { hanging.as_str() };
        self.lines.iter().enumerate().map(|(number, line)| format!("{}{line}", prefix(number))).collect()
    }

    /// The lines, none longer than `width` if it has two words. Parts between deliberate breaks that fit
    /// already stay as they are.
    fn wrapped(&self, width: usize) -> Vec<String> {
        let hanging = " ".repeat(self.hanging);
        let mut wrapped: Vec<String> = Vec::new();
        for part in self.parts(width) {
            if part.iter().all(|line| fits(line, width.saturating_sub(self.hanging))) {
                wrapped.extend(part.iter().map(|line| format!("{hanging}{line}")));
            } else {
                wrapped.extend(fill(&part.join(" "), &hanging, width));
            }
        }
        if let Some(line) = wrapped.first_mut() {
            line.replace_range(..self.hanging, self.first);
        }
        wrapped
    }

    /// The lines between deliberate breaks: behind a sentence that ends where another word would
    /// have found its place, and around an address with a line of its own.
    fn parts(&self, width: usize) -> Vec<&[&str]> {
        let is_meant = |pair: &[&str]| {
            let next = words(pair[1]).into_iter().next().unwrap_or_default();
            let would_fit = columns(pair[0]) + 1 + columns(&next) + self.hanging <= width;
            let ends = pair[0].ends_with(['.', ':', '!', '?', '>']) || is_address(pair[1]);
            ends && would_fit || is_address(pair[0]) || is_address(pair[1])
        };
        let mut parts = Vec::new();
        let mut start = 0;
        for (at, pair) in self.lines.windows(2).enumerate() {
            if is_meant(pair) {
                parts.push(&self.lines[start..=at]);
                start = at + 1;
            }
        }
        parts.push(&self.lines[start..]);
        parts
    }
}

fn is_address(line: &str) -> bool {
    line.trim_start_matches('<').starts_with("http") && !line.contains(' ')
}

/// The number of columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Whether a line is short enough, or has only one word and cannot be.
fn fits(line: &str, width: usize) -> bool {
    columns(line) <= width || words(line).len() < 2
}

/// The first words that have their place in a line, and so on.
fn fill(text: &str, prefix: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(format!("{prefix}{word}")),
        }
    }
    lines
}

/// The text of a comment with its paragraphs wrapped, if that changes anything.
pub(super) fn wrap(lines: &[&str], width: usize) -> Option<Vec<String>> {
    let mut wrapped = Vec::new();
    for piece in pieces(lines) {
        match piece {
            Piece::Fixed(line) => wrapped.push(line.to_owned()),
            Piece::Flow(paragraph) => wrapped.extend(paragraph.wrapped(width)),
        }
    }
    (wrapped != lines).then_some(wrapped)
}

/// The lines of the text of a comment that are too long, by their number: what a table, the definition of a
/// link, a directive or a single word needs is granted.
pub(super) fn too_long(lines: &[&str], width: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut number = 0;
    for piece in pieces(lines) {
        match piece {
            Piece::Fixed(line) => {
                let text = line.trim_start();
                let is_link = text.starts_with('[') && text.contains("]: ");
                let is_granted = text.starts_with('|') || is_link || is_directive(text);
                if !fits(line, width) && !is_granted {
                    found.push(number);
                }
                number += 1;
            }
            Piece::Flow(paragraph) => {
                let lines = paragraph.as_written();
                let is_long = |(at, line): &(usize, &String)| {
                    let text = if *at == 0 { &line[paragraph.first.len()..] } else { line.trim_start() };
                    columns(line) > width && words(text).len() > 1
                };
                found.extend(lines.iter().enumerate().filter(is_long).map(|(at, _)| number + at));
                number += lines.len();
            }
        }
    }
    found
}

/// The parts that a line may not break: words, links, code between backticks; and a word with the one before
/// it, if it would be the mark of a list or a heading at the begin of a line.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = end_of_word(rest);
        let word = &rest[..end];
        match words.last_mut() {
            Some(last) if is_mark(word) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        rest = rest[end..].trim_start();
    }
    words
}

/// Where the first word ends: at a blank outside of code and links.
fn end_of_word(text: &str) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        at += match c {
            ' ' => return at,
            '`' => end_of_code(&text[at..]),
            '[' => end_of_link(&text[at..]),
            '{' if text[at..].starts_with("{@") => text[at..].find('}').map(|end| end + 1),
            _ => None,
        }
        .unwrap_or(c.len_utf8());
    }
    at
}

/// The length of code between backticks.
fn end_of_code(text: &str) -> Option<usize> {
    let ticks = text.bytes().take_while(|b| *b == b'`').count();
    let mark = &text[..ticks];
    let mut at = ticks;
    loop {
        at += text[at..].find(mark)?;
        let there = text[at..].bytes().take_while(|b| *b == b'`').count();
        at += there;
        if there == ticks {
            return Some(at);
        }
    }
}

/// The length of a link: its text, and its target if it has one.
fn end_of_link(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    for (place, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            at = place + 1;
            break;
        }
    }
    let target = text.get(at..)?;
    match target.chars().next() {
        _ if at == 0 => None,
        Some('(') => target.find(')').map(|end| at + end + 1),
        Some('[') => target.find(']').map(|end| at + end + 1),
        _ => Some(at),
    }
}

fn is_mark(word: &str) -> bool {
    let is_number = |word: &str| {
        word.strip_suffix(['.', ')']).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_line = |sign: char| word.chars().all(|c| c == sign);
    matches!(word, "-" | "*" | "+")
        || word.starts_with(['|', '>'])
        || is_number(word)
        || ['#', '=', '-', '~'].into_iter().any(is_line)
        || word.starts_with("```")
        || word.starts_with('@')
        || is_fixed(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize) -> String {
        let lines: Vec<&str> = text.lines().collect();
        let once = wrap(&lines, width).unwrap_or_else(|| lines.iter().map(ToString::to_string).collect());
        let again: Vec<&str> = once.iter().map(String::as_str).collect();
        assert_eq!(wrap(&again, width), None, "wrapping again changes nothing");
        assert_eq!(too_long(&again, width), Vec::<usize>::new());
        once.join("\n")
    }

    #[test]
    fn a_paragraph_is_filled_from_its_words() {
        assert_eq!(wrapped("one two three four\nfive six", 12), "one two\nthree four\nfive six");
        assert_eq!(wrapped("one two\nthree", 12), "one two\nthree", "what fits stays");
    }

    #[test]
    fn a_line_break_after_a_sentence_stays() {
        assert_eq!(wrapped("One.\nTwo three four five six", 14), "One.\nTwo three four\nfive six");
        assert_eq!(wrapped("One two three four. Five\nsix", 14), "One two three\nfour. Five six");
        assert_eq!(
            wrapped("One two three four\n<https://a.b>\nfive", 14),
            "One two three\nfour\n<https://a.b>\nfive"
        );
    }

    #[test]
    fn items_hang() {
        assert_eq!(wrapped("- one two three\n- four", 9), "- one two\n  three\n- four");
        assert_eq!(wrapped("1. one two three\n   four", 10), "1. one two\n   three\n   four");
        assert_eq!(wrapped("- one\n\n  two three four", 9), "- one\n\n  two\n  three\n  four");
    }

    #[test]
    fn code_tables_headings_and_pictures_stay() {
        for text in [
            "# one two three four",
            "a\n\n    one two three four",
            "```\none two three four\n```",
            "┌─ one two ─┐",
        ] {
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(wrap(&lines, 9), None, "{text}");
            assert_eq!(too_long(&lines, 9).len(), 1, "{text}");
        }
        assert_eq!(wrap(&["| one | two | three |"], 9), None);
        assert_eq!(
            too_long(&["| one | two | three |", "[a]: https://one.two.three"], 9),
            Vec::<usize>::new()
        );
    }

    #[test]
    fn links_and_code_are_words() {
        assert_eq!(
            words("see [`a b`](c d), `x y`. [z w] `v"),
            ["see", "[`a b`](c d),", "`x y`.", "[z w]", "`v"]
        );
        assert_eq!(words("a - b 1. c # d"), ["a -", "b 1.", "c #", "d"]);
        assert_eq!(wrapped("see `one two three` there", 9), "see\n`one two three`\nthere");
    }
}
