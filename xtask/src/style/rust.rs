//! A Rust file without what only tests build.

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Span, TokenTree};
use syn::spanned::Spanned;
use syn::{Attribute, ImplItem, Item, Meta, TraitItem};

use super::sources::SourceFile;

/// The production code of a Rust file.
#[expect(missing_debug_implementations, reason = "the items have none")]
pub struct Production {
    /// The items, in their order, without those of tests.
    pub items: Vec<Item>,
    /// Modules of this file that only tests build, whose content is in other files; each as its path from
    /// the module of this file.
    pub test_modules: Vec<Vec<String>>,
    /// The number of the file's lines that are tests.
    pub test_lines: usize,
}

impl Production {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file is no Rust.
    pub fn read(source: &SourceFile) -> Result<Self> {
        let file = syn::parse_file(&source.text).with_context(|| format!("cannot read {}", source.name))?;
        let mut strip = Strip { scope: Vec::new(), test_modules: Vec::new(), test_lines: 0 };
        let items = strip.items(file.items);
        Ok(Self { items, test_modules: strip.test_modules, test_lines: strip.test_lines })
    }
}

/// The walk that takes tests out.
struct Strip {
    /// The inline modules around.
    scope: Vec<String>,
    test_modules: Vec<Vec<String>>,
    test_lines: usize,
}

impl Strip {
    fn items(&mut self, items: Vec<Item>) -> Vec<Item> {
        items.into_iter().filter_map(|item| self.item(item)).collect()
    }

    fn item(&mut self, mut item: Item) -> Option<Item> {
        if is_test_only(attributes(&item)) {
            self.test_lines += lines_of(item.span());
            if let Item::Mod(module) = item
                && module.content.is_none()
            {
                self.test_modules.push([self.scope.as_slice(), &[module.ident.to_string()]].concat());
            }
            return None;
        }
        match &mut item {
            Item::Mod(module) => {
                if let Some((_, content)) = &mut module.content {
                    self.scope.push(module.ident.to_string());
                    *content = self.items(std::mem::take(content));
                    self.scope.pop();
                }
            }
            Item::Impl(block) => block.items.retain(|item| match item {
                ImplItem::Fn(function) => self.keeps(&function.attrs, function.span()),
                ImplItem::Const(constant) => self.keeps(&constant.attrs, constant.span()),
                _ => true,
            }),
            Item::Trait(definition) => definition.items.retain(|item| match item {
                TraitItem::Fn(function) => self.keeps(&function.attrs, function.span()),
                _ => true,
            }),
            _ => {}
        }
        Some(item)
    }

    fn keeps(&mut self, attributes: &[Attribute], item: Span) -> bool {
        let is_test = is_test_only(attributes);
        if is_test {
            self.test_lines += lines_of(item);
        }
        !is_test
    }
}

/// Attributes are part of an item.
fn lines_of(item: Span) -> usize {
    item.end().line + 1 - item.start().line
}

/// Whether only tests build what bears these attributes.
fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => asks_for_test(list.tokens.clone().into_iter()),
        _ => false,
    })
}

/// Whether a condition holds in tests only: `test`, `doctest` or `all(…)` with one of them.
fn asks_for_test(condition: impl Iterator<Item = TokenTree>) -> bool {
    let tokens: Vec<TokenTree> = condition.collect();
    let is_test = |token: &TokenTree| matches!(token, TokenTree::Ident(i) if i == "test" || i == "doctest");
    match tokens.as_slice() {
        [token] => is_test(token),
        [TokenTree::Ident(all), TokenTree::Group(group)] if all == "all" => {
            group.delimiter() == Delimiter::Parenthesis
                && group.stream().into_iter().any(|token| is_test(&token))
        }
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Production {
        Production::read(&SourceFile { name: "a.rs".to_owned(), text: text.to_owned() }).unwrap()
    }

    #[test]
    fn tests_are_taken_out() {
        let text = "fn a() {}\n/// Doc.\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[cfg(all(test, unix))]\nmod far;\n\
                    mod c {\n    #[cfg(test)]\n    mod d;\n}\nimpl A {\n    #[cfg(test)]\n    fn e() {}\n}\n";
        let production = read(text);
        assert_eq!(production.items.len(), 3);
        assert_eq!(production.test_modules, [vec!["far".to_owned()], vec!["c".to_owned(), "d".to_owned()]]);
        assert_eq!(production.test_lines, 5 + 2 + 2 + 2);
    }

    #[test]
    fn modules_built_outside_of_tests_too_stay() {
        assert_eq!(
            read("#[cfg(not(test))]\nfn a() {}\n#[cfg(any(test, feature = \"x\"))]\nfn b() {}\n").items.len(),
            2
        );
    }
}
