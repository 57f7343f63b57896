//! The class of each character of a source: code, literal or comment.

use std::str::FromStr as _;

use proc_macro2::{LineColumn, TokenStream, TokenTree};

use super::sources::SourceFile;

/// The class of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Names, signs and blanks between them.
    Code,
    /// A string, a character, a number, a regular expression.
    Literal,
    /// A comment with its marker.
    Comment,
}

/// A line of a source.
pub type ClassifiedLine = Vec<(char, Class)>;

/// The lines of a source; `None` of text in which comments cannot be found.
pub fn classify(source: &SourceFile) -> Option<Vec<ClassifiedLine>> {
    let name = source.name.as_str();
    if name.ends_with(".rs") {
        rust(&source.text)
    } else if source.is_code() {
        Some(script(&source.text))
    } else if [".toml", ".script", ".sh"].iter().any(|end| name.ends_with(end)) || name.starts_with(".ci/") {
        Some(source.text.lines().map(hashed).collect())
    } else {
        None
    }
}

fn all_code(text: &str) -> Vec<ClassifiedLine> {
    text.lines().map(|line| line.chars().map(|c| (c, Class::Code)).collect()).collect()
}

/// A line of a language in which comments begin with a hash; one behind code is left alone.
fn hashed(line: &str) -> ClassifiedLine {
    let class = if line.trim_start().starts_with('#') { Class::Comment } else { Class::Code };
    line.chars().map(|c| (c, class)).collect()
}

/// The compiler's own tokens say where literals are; in the rest, slashes begin comments.
fn rust(text: &str) -> Option<Vec<ClassifiedLine>> {
    let mut lines = all_code(text);
    mark_literals(TokenStream::from_str(text).ok()?, &mut lines);
    let mut depth = 0;
    for line in &mut lines {
        let mut at = 0;
        while at < line.len() {
            let pair = (line[at], line.get(at + 1).copied());
            match pair {
                (('/', Class::Code), Some(('/', Class::Code))) if depth == 0 => {
                    line[at..].iter_mut().for_each(|c| c.1 = Class::Comment);
                    break;
                }
                (('/', Class::Code), Some(('*', Class::Code))) => depth += 1,
                (('*', _), Some(('/', _))) if depth > 0 => {
                    depth -= 1;
                    line[at..at + 2].iter_mut().for_each(|c| c.1 = Class::Comment);
                    at += 2;
                    continue;
                }
                _ => {}
            }
            if depth > 0 {
                line[at].1 = Class::Comment;
            }
            at += 1;
        }
    }
    Some(lines)
}

fn mark_literals(stream: TokenStream, lines: &mut [ClassifiedLine]) {
    for token in stream {
        match token {
            TokenTree::Group(group) => mark_literals(group.stream(), lines),
            TokenTree::Literal(literal) => {
                let span = literal.span();
                mark(lines, span.start(), span.end());
            }
            _ => {}
        }
    }
}

/// A doc comment is a literal to the compiler, and a comment here.
fn mark(lines: &mut [ClassifiedLine], start: LineColumn, end: LineColumn) {
    if lines.get(start.line - 1).and_then(|line| line.get(start.column)).is_some_and(|c| c.0 == '/') {
        return;
    }
    for number in start.line..=end.line {
        let Some(line) = lines.get_mut(number - 1) else { return };
        let from = if number == start.line { start.column } else { 0 };
        let to = if number == end.line { end.column } else { line.len() };
        line[from..to].iter_mut().for_each(|c| c.1 = Class::Literal);
    }
}

/// The construct that a scanner of TypeScript or JavaScript is inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Code,
    LineComment,
    BlockComment,
    /// A string that ends with this quote.
    Quote(char),
    /// A regular expression; true within brackets.
    Pattern(bool),
}

/// TypeScript and JavaScript.
fn script(text: &str) -> Vec<ClassifiedLine> {
    let mut lines = all_code(text);
    let mut scanner = Scanner { state: In::Code, templates: Vec::new() };
    for line in &mut lines {
        if !matches!(scanner.state, In::BlockComment | In::Quote('`')) {
            scanner.state = In::Code;
        }
        let mut at = 0;
        while at < line.len() {
            let (taken, class) = scanner.step(line, at);
            let end = (at + taken).min(line.len());
            line[at..end].iter_mut().for_each(|c| c.1 = class);
            at = end;
        }
    }
    lines
}

struct Scanner {
    state: In,
    /// For each template literal whose `${` is open, the braces that are open within.
    templates: Vec<usize>,
}

impl Scanner {
    /// The number of the next characters of one class, and the class.
    fn step(&mut self, line: &ClassifiedLine, at: usize) -> (usize, Class) {
        let (c, next) = (line[at].0, line.get(at + 1).map(|next| next.0));
        let (taken, class, state) = match (self.state, c) {
            (In::LineComment, _) => (1, Class::Comment, self.state),
            (In::BlockComment, '*') if next == Some('/') => (2, Class::Comment, In::Code),
            (In::BlockComment, _) => (1, Class::Comment, self.state),
            (In::Quote(_) | In::Pattern(_), '\\') => (2, Class::Literal, self.state),
            (In::Quote('`'), '$') if next == Some('{') => {
                self.templates.push(0);
                (2, Class::Literal, In::Code)
            }
            (In::Quote(quote), _) => (1, Class::Literal, if c == quote { In::Code } else { self.state }),
            (In::Pattern(false), '/') => (1, Class::Literal, In::Code),
            (In::Pattern(_), '[') => (1, Class::Literal, In::Pattern(true)),
            (In::Pattern(_), ']') => (1, Class::Literal, In::Pattern(false)),
            (In::Pattern(_), _) => (1, Class::Literal, self.state),
            (In::Code, '/') if next == Some('/') => (2, Class::Comment, In::LineComment),
            (In::Code, '/') if next == Some('*') => (2, Class::Comment, In::BlockComment),
            (In::Code, '/') if begins_pattern(&line[..at]) => (1, Class::Literal, In::Pattern(false)),
            (In::Code, '\'' | '"' | '`') => (1, Class::Literal, In::Quote(c)),
            (In::Code, '}') if self.templates.last() == Some(&0) => {
                self.templates.pop();
                (1, Class::Literal, In::Quote('`'))
            }
            (In::Code, _) => (1, Class::Code, In::Code),
        };
        if let (In::Code, In::Code, Some(open)) = (self.state, state, self.templates.last_mut()) {
            match c {
                '{' => *open += 1,
                '}' => *open -= 1,
                _ => {}
            }
        }
        self.state = state;
        (taken, class)
    }
}

/// Whether a slash after this begins a regular expression: behind a value it divides.
fn begins_pattern(before: &[(char, Class)]) -> bool {
    let text: String = before.iter().map(|c| c.0).collect();
    let text = text.trim_end();
    text.is_empty() || text.ends_with(|c| "(,=:[!&|?{};>".contains(c)) || text.ends_with("return")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with literals as `s` and comments as `c`.
    fn shown(name: &str, text: &str) -> String {
        let lines = classify(&SourceFile { name: name.to_owned(), text: text.to_owned() }).unwrap();
        let show = |&(c, class): &(char, Class)| match class {
            Class::Code => c,
            Class::Literal => 's',
            Class::Comment => 'c',
        };
        let lines: Vec<String> = lines.iter().map(|line| line.iter().map(show).collect()).collect();
        lines.join("\n")
    }

    #[test]
    fn rust_has_raw_strings_lifetimes_and_doc_comments() {
        assert_eq!(shown("a.rs", "/// \"a\nf(\"//\", b'\"') // x"), "cccccc\nf(ssss, ssss) cccc");
        assert_eq!(shown("a.rs", "fn f<'a>() { r#\"\n// \"\"#; }"), "fn f<'a>() { sss\nssssss; }");
        assert_eq!(shown("a.rs", "a /* b /* c */\nd */ e"), "a cccccccccccc\ncccc e");
    }

    #[test]
    fn scripts_have_templates_and_patterns() {
        assert_eq!(shown("a.ts", "f(`\n// ${g({ a }, '`')}`) // x"), "f(s\nsssssg({ a }, sss)ss) cccc");
        assert_eq!(shown("a.ts", "a(/[/'\"]/g); b = c / d; // e"), "a(sssssssg); b = c / d; cccc");
        assert_eq!(shown("a.ts", "/** a\n * b */ c(\"/*\")"), "ccccc\nccccccc c(ssss)");
    }

    #[test]
    fn hashes_begin_comments_where_they_begin_lines() {
        assert_eq!(shown("a.toml", "# a\na = \"#\""), "ccc\na = \"#\"");
    }
}
