//! The types that a crate shows or that its modules share.

use syn::{Ident, Item, Visibility};

use super::rust::Production;

/// The names of the types of a file that are `pub` or `pub(crate)`, each with its line.
pub fn types(production: &Production) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    collect(&production.items, &mut found);
    found
}

fn collect(items: &[Item], found: &mut Vec<(String, usize)>) {
    for item in items {
        let (visibility, name): (&Visibility, &Ident) = match item {
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Union(item) => (&item.vis, &item.ident),
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    collect(items, found);
                }
                continue;
            }
            _ => continue,
        };
        if is_shared(visibility) {
            found.push((name.to_string(), name.span().start().line));
        }
    }
}

fn is_shared(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(restricted) => restricted.path.is_ident("crate"),
        Visibility::Inherited => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::sources::SourceFile;

    #[test]
    fn types_of_one_module_alone_are_its_own() {
        let text = "pub struct A;\npub(crate) enum B {}\npub(super) struct C;\nstruct D;\nmod m {\n    pub trait E {}\n}\n";
        let source = SourceFile { name: "a.rs".to_owned(), text: text.to_owned() };
        let found = types(&Production::read(&source).unwrap());
        assert_eq!(found, [("A".to_owned(), 1), ("B".to_owned(), 2), ("E".to_owned(), 6)]);
    }
}
