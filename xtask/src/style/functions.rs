//! The length of functions.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Macro, Signature, TraitItemFn};

use super::rust::Production;

/// A function of production code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name alone.
    pub name: String,
    /// The line of `fn`.
    pub line: usize,
    /// The lines from that of `fn` to the closing brace.
    pub lines: usize,
}

/// The functions of a file that have a body, also those within functions and macros.
pub fn functions(production: &Production) -> Vec<Function> {
    let mut finder = Finder::default();
    for item in &production.items {
        finder.visit_item(item);
    }
    finder.found
}

/// The median, the ninth decile and the maximum of lengths.
pub fn spread(mut lengths: Vec<usize>) -> (usize, usize, usize) {
    lengths.sort_unstable();
    let at = |tenths: usize| lengths.get((lengths.len() * tenths / 10).min(lengths.len().saturating_sub(1)));
    let at = |tenths| at(tenths).copied().unwrap_or_default();
    (at(5), at(9), at(10))
}

#[derive(Default)]
struct Finder {
    found: Vec<Function>,
}

impl Finder {
    fn note(&mut self, signature: &Signature, block: &Block) {
        let end = block.brace_token.span.close();
        self.push(signature.ident.to_string(), signature.fn_token.span, end);
    }

    fn push(&mut self, name: String, start: Span, end: Span) {
        let line = start.start().line;
        self.found.push(Function { name, line, lines: end.end().line + 1 - line });
    }

    /// The body of a macro is tokens: a function is `fn`, its name and the next block.
    fn tokens(&mut self, stream: TokenStream) {
        let mut open: Option<(String, Span)> = None;
        let mut before: Option<Span> = None;
        for token in stream {
            let keyword = before.take();
            match token {
                TokenTree::Ident(ident) if ident == "fn" => before = Some(ident.span()),
                TokenTree::Ident(ident) => {
                    if let Some(start) = keyword {
                        open = Some((ident.to_string(), start));
                    }
                }
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Brace
                        && let Some((name, start)) = open.take()
                    {
                        self.push(name, start, group.span_close());
                    }
                    self.tokens(group.stream());
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => open = None,
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.note(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::sources::SourceFile;

    #[test]
    fn a_length_counts_from_fn_to_the_closing_brace() {
        let text = "/// Doc.\n#[inline]\nfn a(\n) {\n    fn b() {}\n}\nimpl A {\n    fn c() {\n    }\n}\ntrait T {\n    fn d();\n\
                    fn e() {}\n}\nmacro_rules! m {\n    () => {\n        fn f() {\n        }\n    };\n}\n";
        let source = SourceFile { name: "a.rs".to_owned(), text: text.to_owned() };
        let found = functions(&Production::read(&source).unwrap());
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, [("a", 3, 4), ("b", 5, 1), ("c", 8, 2), ("e", 13, 1), ("f", 17, 2)]);
    }

    #[test]
    fn the_spread_of_lengths() {
        assert_eq!(spread((1..=10).collect()), (6, 10, 10));
        assert_eq!(spread(Vec::new()), (0, 0, 0));
    }
}
