//! The types that a crate shows or that its modules share.

use syn::{Attribute, Ident, Item, Visibility};

use super::rust::Production;

/// The names of the types of a file that are `pub` or `pub(crate)`, each with its line. The arguments of a
/// command are left out: they bear the name of the command, and no other module uses them.
pub fn types(production: &Production) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    collect(&production.items, &mut found);
    found
}

fn collect(items: &[Item], found: &mut Vec<(String, usize)>) {
    for item in items {
        let (visibility, name, attributes): (&Visibility, &Ident, &[Attribute]) = match item {
            Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Trait(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Type(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Union(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    collect(items, found);
                }
                continue;
            }
            _ => continue,
        };
        if is_shared(visibility) && !attributes.iter().any(derives_arguments) {
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

/// Whether the attribute derives one of clap's traits.
fn derives_arguments(attribute: &Attribute) -> bool {
    let mut derives = false;
    if attribute.path().is_ident("derive") {
        // What is not a list of paths derives nothing that is looked for.
        _ = attribute.parse_nested_meta(|derived| {
            let name = derived.path.segments.last().map(|last| last.ident.to_string());
            derives |= name.is_some_and(|name| ["Args", "Parser", "Subcommand"].contains(&&*name));
            Ok(())
        });
    }
    derives
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

    #[test]
    fn the_arguments_of_a_command_are_its_own() {
        let text =
            "#[derive(Debug, clap::Args)]\npub struct Run;\n#[derive(Clone, Debug)]\npub struct Mode;\n";
        let source = SourceFile { name: "a.rs".to_owned(), text: text.to_owned() };
        let found = types(&Production::read(&source).unwrap());
        assert_eq!(found, [("Mode".to_owned(), 4)]);
    }
}
