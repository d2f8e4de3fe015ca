//! A crate's modules, from its `mod` declarations on, and what each of them imports. Code for
//! tests is left out.

use super::graph::{Graph, Place};
use super::paths::{Written, paths};
use proc_macro2::TokenStream;
use quote::ToTokens;
use std::collections::{BTreeMap, HashMap};
use syn::punctuated::Punctuated;
use syn::{Attribute, ImplItem, Item, Meta, Token, Visibility};

/// The modules of a graph: all files, or the files and folders at the top of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    TopLevel,
    Files,
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TopLevel => "top-level modules",
            Self::Files => "files",
        })
    }
}

/// A crate's files.
#[derive(Default)]
pub struct Modules {
    /// The directory of `lib.rs`.
    dir: String,
    /// By path within the crate: `["wal", "record"]`, and `[]` for `lib.rs`.
    modules: BTreeMap<Vec<String>, Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    /// The paths that a name at the top of the file stands for: child modules and `use`d names.
    names: HashMap<String, Vec<String>>,
    mentions: Vec<Mention>,
}

/// A path within the crate that a module names.
struct Mention {
    path: Vec<String>,
    line: usize,
    /// `pub use`: what it names, others import.
    is_reexport: bool,
}

/// A module that is being read: a file, or a `mod { … }` in it.
struct Scope<'a> {
    path: Vec<String>,
    /// Where the files of child modules are.
    dir: String,
    names: HashMap<String, Vec<String>>,
    files: &'a BTreeMap<String, String>,
}

impl Modules {
    /// Reads a crate's modules out of `files`: the texts below `dir`, by path within it.
    pub fn read(dir: &str, files: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut out = Self {
            dir: dir.to_owned(),
            ..Self::default()
        };
        let root = ["lib.rs", "main.rs"]
            .into_iter()
            .find(|root| files.contains_key(*root));
        let root = root.ok_or("neither lib.rs nor main.rs")?;
        out.file(Vec::new(), root, files)
            .map_err(|e| format!("{dir}/{e}"))?;
        Ok(out)
    }

    fn file(
        &mut self,
        path: Vec<String>,
        file: &str,
        files: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let parsed = syn::parse_file(&files[file]).map_err(|e| format!("{file}: {e}"))?;
        let (dir, stem) = file.rsplit_once('/').unwrap_or(("", file));
        let stem = stem.trim_end_matches(".rs");
        let dir = match stem {
            "lib" | "main" | "mod" => dir.to_owned(),
            _ => join(dir, stem),
        };
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        let mut scope = Scope {
            path: path.clone(),
            dir,
            names: HashMap::new(),
            files,
        };
        self.items(parsed.items, &mut scope, &mut module)?;
        module.names = scope.names;
        self.modules.insert(path, module);
        Ok(())
    }

    /// Reads the items of one file, or of a `mod { … }` in it.
    fn items(
        &mut self,
        mut items: Vec<Item>,
        scope: &mut Scope,
        module: &mut Module,
    ) -> Result<(), String> {
        items.retain(|item| !is_test(attributes(item)));
        for item in &items {
            if let Item::Mod(child) = item {
                let name = child.ident.to_string();
                scope.names.insert(name.clone(), append(&scope.path, &name));
            }
        }
        for item in &items {
            if let Item::Use(import) = item {
                for written in paths(import.tree.to_token_stream()) {
                    if let Some(path) = scope.absolute(&written.segments) {
                        let name = written.renamed.or_else(|| path.last().cloned());
                        scope.names.entry(name.unwrap_or_default()).or_insert(path);
                    }
                }
            }
        }
        for item in items {
            match item {
                Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let path = append(&scope.path, &name);
                    let dir = join(&scope.dir, &name);
                    if let Some((_, items)) = child.content {
                        let mut inner = Scope {
                            path,
                            dir,
                            names: HashMap::new(),
                            files: scope.files,
                        };
                        self.items(items, &mut inner, module)?;
                    } else if !is_test_module(&name) {
                        let candidates = [format!("{dir}.rs"), format!("{dir}/mod.rs")];
                        let file = candidates
                            .iter()
                            .find(|file| scope.files.contains_key(*file));
                        let file = file.ok_or(format!("{dir}.rs: no file for `mod {name}`"))?;
                        self.file(path, file, scope.files)?;
                    }
                }
                Item::Use(import) => {
                    let is_reexport = !matches!(import.vis, Visibility::Inherited);
                    scope.mention(import.tree.to_token_stream(), is_reexport, module);
                }
                Item::Impl(mut block) => {
                    block.items.retain(|item| !is_test(impl_attributes(item)));
                    scope.mention(block.to_token_stream(), false, module);
                }
                _ => scope.mention(item.to_token_stream(), false, module),
            }
        }
        Ok(())
    }

    /// Which module imports which.
    pub fn graph(&self, level: Level) -> Graph {
        let mut graph = Graph::default();
        let name = |path: &[String]| match level {
            Level::TopLevel => path[0].clone(),
            Level::Files => path.join("::"),
        };
        for path in self.modules.keys().filter(|path| !path.is_empty()) {
            graph.node(&name(path));
        }
        for (path, module) in self.modules.iter().filter(|(path, _)| !path.is_empty()) {
            for mention in &module.mentions {
                for target in self.targets(&mention.path) {
                    // A module and its children use each other freely; the graph has the parent's
                    // edge only. A parent that hands on a child's items does not use them.
                    let is_handed_on = mention.is_reexport && target.starts_with(path);
                    if path.starts_with(target) || is_handed_on {
                        continue;
                    }
                    let (from, to) = (graph.node(&name(path)), graph.node(&name(target)));
                    let place = Place {
                        file: join(&self.dir, &module.file),
                        line: mention.line,
                    };
                    graph.edge(from, to, place);
                }
            }
        }
        graph
    }

    /// The modules that a path leads to: the one it names, and the ones that it is imported from.
    fn targets(&self, path: &[String]) -> Vec<&Vec<String>> {
        let mut out: Vec<&Vec<String>> = Vec::new();
        let mut path = path.to_vec();
        loop {
            let longest = (0..=path.len())
                .rev()
                .find_map(|len| self.modules.get_key_value(&path[..len]));
            let Some((name, module)) = longest else {
                return out;
            };
            if out.contains(&name) {
                return out;
            }
            out.push(name);
            let rest = &path[name.len()..];
            match rest.first().and_then(|item| module.names.get(item)) {
                Some(origin) => path = origin.iter().chain(&rest[1..]).cloned().collect(),
                None => return out,
            }
        }
    }
}

impl Scope<'_> {
    fn mention(&self, tokens: TokenStream, is_reexport: bool, module: &mut Module) {
        for Written { segments, line, .. } in paths(tokens) {
            if let Some(path) = self.absolute(&segments) {
                module.mentions.push(Mention {
                    path,
                    line,
                    is_reexport,
                });
            }
        }
    }

    /// The path from the crate's root, unless it leads out of the crate.
    fn absolute(&self, segments: &[String]) -> Option<Vec<String>> {
        let mut base = self.path.clone();
        let mut rest = segments;
        match rest.first()?.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                while let Some(("super", behind)) = rest.split_first().map(|(s, r)| (&**s, r)) {
                    base.pop();
                    rest = behind;
                }
                base.extend_from_slice(rest);
                return Some(base);
            }
            name => base = self.names.get(name)?.clone(),
        }
        base.extend_from_slice(&rest[1..]);
        Some(base)
    }
}

fn append(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    }
}

/// The attributes of `item`, of the variants that are listed.
macro_rules! attributes {
    ($kind:ident, $item:expr, $($variant:ident)*) => {
        match $item {
            $($kind::$variant(item) => &item.attrs,)*
            _ => &[],
        }
    };
}

fn attributes(item: &Item) -> &[Attribute] {
    attributes!(Item, item, Const Enum Fn Impl Macro Mod Static Struct Trait Type Union Use)
}

fn impl_attributes(item: &ImplItem) -> &[Attribute] {
    attributes!(ImplItem, item, Const Fn Type Macro)
}

fn is_test_module(name: &str) -> bool {
    name == "tests" || name.ends_with("_tests")
}

/// Whether only tests have an item with these attributes.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Meta>()
                .is_ok_and(|meta| needs_test(&meta))
    })
}

/// `test`, `all(…, test)`, `any(test, all(test, …))`.
fn needs_test(meta: &Meta) -> bool {
    let Meta::List(list) = meta else {
        return meta.path().is_ident("test");
    };
    let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
        return false;
    };
    if list.path.is_ident("all") {
        parts.iter().any(needs_test)
    } else {
        list.path.is_ident("any") && parts.iter().all(needs_test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(level: Level, files: &[(&str, &str)]) -> Graph {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let files = files.iter().map(owned).collect();
        let modules = Modules::read("crates/x/src", &files).expect("the sources parse");
        modules.graph(level)
    }

    fn shortest(level: Level, files: &[(&str, &str)]) -> String {
        let graph = graph(level, files);
        let cycle = graph.shortest_cycle();
        cycle.map_or(String::new(), |cycle| graph.describe(&cycle))
    }

    #[test]
    fn a_cycle_of_files_is_printed_with_its_imports() {
        let files = [
            ("lib.rs", "mod wal;\nmod config;"),
            ("wal.rs", "use crate::config::{\n    A,\n    B,\n};"),
            (
                "config.rs",
                "\nfn f() -> u8 {\n    log!(crate::wal::SIZE)\n}",
            ),
        ];
        for level in [Level::TopLevel, Level::Files] {
            let printed = "config -> wal -> config\n    \
                           crates/x/src/config.rs:3: config -> wal\n    \
                           crates/x/src/wal.rs:2: wal -> config";
            assert_eq!(shortest(level, &files), printed);
        }
    }

    #[test]
    fn folders_may_be_in_a_cycle_that_their_files_are_not_in() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a/mod.rs", "mod high;\nmod low;"),
            ("a/high.rs", "use crate::b::B;"),
            ("a/low.rs", ""),
            ("b.rs", "use crate::a::low::Low;"),
        ];
        assert!(shortest(Level::TopLevel, &files).starts_with("a -> b -> a\n"));
        assert_eq!(shortest(Level::Files, &files), "");
    }

    #[test]
    fn a_name_leads_to_the_module_that_it_is_handed_on_from() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::Low as Name;"),
            ("a/mod.rs", "mod low;\npub use low::Low;"),
            ("a/low.rs", "use crate::b;\nfn f() { b::g() }"),
            ("b.rs", "use super::Name;"),
        ];
        assert!(shortest(Level::Files, &files).starts_with("a::low -> b -> a::low\n"));
    }

    #[test]
    fn a_module_and_its_children_are_no_cycle() {
        let files = [
            ("lib.rs", "mod a;"),
            (
                "a.rs",
                "mod b;\nuse b::B;\nuse self::b::C;\nmod inner { use super::b::D; }",
            ),
            ("a/b.rs", "use super::A;\nuse crate::a::A2;"),
        ];
        assert_eq!(shortest(Level::Files, &files), "");
    }

    #[test]
    fn code_for_tests_is_left_out() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod testing;"),
            (
                "a.rs",
                "use crate::b::B;\n#[cfg(all(test, unix))]\nmod tests;",
            ),
            (
                "b.rs",
                "#[cfg(test)]\nuse crate::a::A;\n#[cfg(test)]\nmod t { use super::super::a; }",
            ),
        ];
        assert_eq!(shortest(Level::Files, &files), "");
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "#[cfg(any(test, fuzzing))]\nuse crate::a::A;"),
        ];
        assert!(shortest(Level::Files, &files).starts_with("a -> b -> a\n"));
    }

    #[test]
    fn a_module_without_a_file_is_an_error() {
        let files = [("lib.rs".to_owned(), "mod gone;".to_owned())].into();
        let error = Modules::read("src", &files).err();
        assert_eq!(
            error.as_deref(),
            Some("src/gone.rs: no file for `mod gone`")
        );
    }
}
