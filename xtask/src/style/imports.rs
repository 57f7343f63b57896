//! The imports among the files of a crate.
//!
//! An import is a `use` or a path by `crate::`, `super::` or `self::` in production code, resolved to the
//! file of the deepest module that it names. A parent counts as a file like any other. `lib.rs` and `main.rs`
//! do not: they declare modules, and items that they export again are imports of nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ItemMod, ItemUse, Macro, Meta, Path, UseTree, Visibility};

use super::rust::Production;
use super::sources::SourceFile;

/// The imports of a crate.
#[derive(Debug)]
pub struct Imports {
    /// By the path below `src`: the files that are imported, each with its first import.
    edges: BTreeMap<String, BTreeMap<String, Import>>,
}

/// An import, as it stands in a file.
#[derive(Clone, Debug)]
pub struct Import {
    /// The line.
    pub line: usize,
    /// The path, with `::`.
    pub path: String,
}

impl Imports {
    /// Reads the crate in `folder`.
    ///
    /// # Errors
    ///
    /// A file is no Rust.
    pub fn read(folder: &str, sources: &[SourceFile]) -> Result<Self> {
        let files = production_files(folder, sources)?;
        let modules: BTreeMap<Vec<String>, &str> =
            files.keys().filter(|file| !is_root(file)).map(|file| (module_of(file), *file)).collect();
        let mut edges = BTreeMap::new();
        for (file, production) in files.iter().filter(|(file, _)| !is_root(file)) {
            let mut finder = Finder { scope: module_of(file), paths: Vec::new() };
            for item in &production.items {
                finder.visit_item(item);
            }
            let mut imported = BTreeMap::new();
            for (target, path, line) in finder.paths {
                if let Some(to) = deepest(&modules, &target).filter(|to| to != file) {
                    imported.entry(to.to_owned()).or_insert(Import { line, path });
                }
            }
            edges.insert((*file).to_owned(), imported);
        }
        Ok(Self { edges })
    }

    /// The files that count, in their order.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.edges.keys().map(String::as_str)
    }

    /// The imports of a file.
    pub fn of<'a>(&'a self, file: &str) -> impl Iterator<Item = (&'a str, &'a Import)> + use<'a> {
        self.edges.get(file).into_iter().flatten().map(|(to, import)| (to.as_str(), import))
    }
}

/// The production code of a crate, by the path of the file below `src`.
///
/// # Errors
///
/// A file is no Rust.
pub fn production_files<'a>(
    folder: &str,
    sources: &'a [SourceFile],
) -> Result<BTreeMap<&'a str, Production>> {
    let mut files = BTreeMap::new();
    let mut of_tests = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        if let Some(file) = source.below_src(folder) {
            let production = Production::read(source)?;
            for module in &production.test_modules {
                of_tests.insert([module_of(file), module.clone()].concat());
            }
            files.insert(file, production);
        }
    }
    files.retain(|file, _| {
        let module = module_of(file);
        (1..=module.len()).all(|length| !of_tests.contains(&module[..length]))
    });
    Ok(files)
}

fn is_root(file: &str) -> bool {
    matches!(file, "lib.rs" | "main.rs")
}

/// The path of the module whose file this is.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    let parts = stem.split('/').map(str::to_owned);
    if is_root(file) { Vec::new() } else { parts.collect() }
}

/// The file of the deepest module on the way to `target`.
fn deepest<'a>(modules: &BTreeMap<Vec<String>, &'a str>, target: &[String]) -> Option<&'a str> {
    (1..=target.len()).rev().find_map(|length| modules.get(&target[..length]).copied())
}

struct Finder {
    /// The module around, inline ones included.
    scope: Vec<String>,
    /// The imported path, counted from the root of the crate; the path as it is written; its line.
    paths: Vec<(Vec<String>, String, usize)>,
}

impl Finder {
    fn note(&mut self, path: &[&Ident]) {
        let Some(first) = path.first() else { return };
        let mut target = if *first == "crate" { Vec::new() } else { self.scope.clone() };
        let mut names = path.iter().peekable();
        match first.to_string().as_str() {
            "crate" | "self" => _ = names.next(),
            "super" => {}
            _ => return,
        }
        while names.next_if(|name| **name == "super").is_some() {
            target.pop();
        }
        target.extend(names.filter(|name| **name != "self").map(ToString::to_string));
        let names: Vec<String> = path.iter().map(ToString::to_string).collect();
        self.paths.push((target, names.join("::"), line(first.span())));
    }

    fn tree<'a>(&mut self, before: &mut Vec<&'a Ident>, tree: &'a UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(&path.ident);
                self.tree(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(before, tree);
                }
            }
            UseTree::Name(name) => self.note(&[before.as_slice(), &[&name.ident]].concat()),
            UseTree::Rename(name) => self.note(&[before.as_slice(), &[&name.ident]].concat()),
            UseTree::Glob(_) => self.note(before),
        }
    }

    /// The body of a macro is tokens: a path is words between double colons.
    fn tokens(&mut self, stream: TokenStream) {
        let mut path: Vec<Ident> = Vec::new();
        let mut colons = 0;
        for token in stream {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_of_path(&mut path);
                    }
                    path.push(ident);
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.end_of_path(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end_of_path(&mut path);
    }

    fn end_of_path(&mut self, path: &mut Vec<Ident>) {
        if path.len() > 1 {
            self.note(&path.iter().collect::<Vec<_>>());
        }
        path.clear();
    }
}

fn line(span: Span) -> usize {
    span.start().line
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(&mut Vec::new(), &item.tree);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.scope.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.scope.pop();
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.len() > 1 {
            self.note(&path.segments.iter().map(|segment| &segment.ident).collect::<Vec<_>>());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }

    /// `pub(in path)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of the file `a/b.rs` with this text, of a crate with some files.
    fn imported(text: &str) -> Vec<String> {
        let files = [
            ("lib.rs", ""),
            ("x.rs", ""),
            ("a/mod.rs", ""),
            ("a/b.rs", text),
            ("a/c.rs", ""),
            ("a/d/mod.rs", ""),
        ];
        let source = |(name, text): (&str, &str)| SourceFile {
            name: format!("crates/c/src/{name}"),
            text: text.to_owned(),
        };
        let imports = Imports::read("crates/c", &files.map(source)).unwrap();
        imports.of("a/b.rs").map(|(to, _)| to.to_owned()).collect()
    }

    #[test]
    fn a_use_leads_to_the_deepest_module() {
        assert_eq!(imported("use crate::x::{self, Y};"), ["x.rs"]);
        assert_eq!(imported("use super::{c::C, d};"), ["a/c.rs", "a/d/mod.rs"]);
        assert_eq!(imported("use super::*;"), ["a/mod.rs"]);
        assert_eq!(imported("pub(crate) use super::super::x::Y as Z;"), ["x.rs"]);
    }

    #[test]
    fn paths_in_code_attributes_and_macros_count() {
        assert_eq!(
            imported("fn f() -> crate::x::Y { super::c::g::<super::d::T>() }"),
            ["a/c.rs", "a/d/mod.rs", "x.rs"]
        );
        assert_eq!(imported("#[arg(value_parser = crate::x::parse)]\nstruct S;"), ["x.rs"]);
        assert_eq!(imported("fn f() { println!(\"{}\", crate::x::Y); }"), ["x.rs"]);
        assert_eq!(imported("macro_rules! m { () => { $crate::x::Y }; }"), ["x.rs"]);
    }

    #[test]
    fn the_root_visibilities_tests_and_the_file_itself_do_not_count() {
        assert_eq!(imported("use crate::Y;\npub(in crate::a) struct S;"), Vec::<String>::new());
        assert_eq!(imported("#[cfg(test)]\nmod tests { use crate::x::Y; }"), Vec::<String>::new());
        assert_eq!(imported("mod inner { use super::Z; }\nuse self::inner::W;"), Vec::<String>::new());
    }
}
