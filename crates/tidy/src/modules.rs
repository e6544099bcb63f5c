//! The modules of a crate: which file uses which, and how many methods a type has. Read from the lexemes of the source,
//! so that `use`, `crate::…`, `super::…` and re-exports are followed to the file that defines a name.

use crate::lexemes::{self, Lexeme};
use std::collections::{BTreeMap, BTreeSet};

/// One file of a crate, read.
#[derive(Debug, Default)]
struct Module {
    path: String,
    /// Names that the file defines, outside of blocks.
    defined: BTreeSet<String>,
    /// Types among them that are `pub`.
    public_types: BTreeSet<String>,
    /// Modules that it declares.
    children: BTreeSet<String>,
    /// Names that it imports, and from where.
    imports: BTreeMap<String, Vec<String>>,
    /// Imports without a name: `as _`.
    unnamed: Vec<Vec<String>>,
    /// Modules of which it imports everything.
    globs: Vec<Vec<String>>,
    /// Paths in its code that begin with `crate`, `super`, `self` or a module that it declares.
    paths: Vec<Vec<String>>,
    /// Words of its code, imports left out.
    words: BTreeSet<String>,
    /// Functions in the `impl` blocks of types, traits left out.
    methods: BTreeMap<String, usize>,
}

/// The modules of a crate, by their path from its root.
#[derive(Debug)]
pub struct Crate {
    modules: BTreeMap<Vec<String>, Module>,
}

/// How many imports are followed to find a definition; more is a circle of imports.
const MOST_HOPS: usize = 16;

impl Crate {
    /// Reads a crate from its files: the path below `src/` and the text of each.
    pub fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let modules = files.into_iter().filter_map(|(path, text)| {
            let name = module_name(path)?;
            Some((name.clone(), read_module(path, &name, text)))
        });
        Self { modules: modules.collect() }
    }

    /// The groups of files that use each other in a circle, each in order.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let names: Vec<&Vec<String>> = self.modules.keys().collect();
        let index = |name: &[String]| names.binary_search_by(|other| other.as_slice().cmp(name)).ok();
        let edges = |name: &Vec<String>| self.uses(name).iter().filter_map(|used| index(used)).collect::<Vec<_>>();
        let graph: Vec<Vec<usize>> = names.iter().map(|name| edges(name)).collect();
        let path = |at: &usize| self.modules[names[*at]].path.as_str();
        let mut circles: Vec<Vec<&str>> = groups(&graph).iter().map(|group| group.iter().map(path).collect()).collect();
        circles.iter_mut().for_each(|circle| circle.sort_unstable());
        circles.sort();
        circles
    }

    /// The types with more than `most` methods, as the file that defines each, its name, and the number.
    pub fn large_types(&self, most: usize) -> Vec<(&str, &str, usize)> {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (name, module) in &self.modules {
            for (owner, count) in &module.methods {
                let home = self.home_of(name, owner).unwrap_or_else(|| name.clone());
                let path = self.modules.get(&home).map_or(module.path.as_str(), |home| home.path.as_str());
                *counts.entry((path, owner)).or_default() += count;
            }
        }
        counts.into_iter().filter(|(_, count)| *count > most).map(|((path, name), count)| (path, name, count)).collect()
    }

    /// The types that are `pub`, each as the file that defines it and its name.
    pub fn public_types(&self) -> impl Iterator<Item = (&str, &str)> {
        self.modules
            .values()
            .flat_map(|module| module.public_types.iter().map(|name| (module.path.as_str(), name.as_str())))
    }

    /// The modules that a module uses.
    fn uses(&self, name: &[String]) -> BTreeSet<Vec<String>> {
        let Some(module) = self.modules.get(name) else { return BTreeSet::new() };
        let imported = module.imports.iter().filter(|(alias, _)| module.words.contains(*alias)).map(|(_, path)| path);
        let paths = imported.chain(&module.unnamed).chain(&module.paths);
        let mut used: BTreeSet<Vec<String>> = paths.filter_map(|path| self.resolve(path, MOST_HOPS)).collect();
        for glob in &module.globs {
            let Some(home) = self.resolve(glob, MOST_HOPS) else { continue };
            let member =
                |word: &String| self.resolve(&[home.as_slice(), std::slice::from_ref(word)].concat(), MOST_HOPS);
            let is_exported = |word: &&String| self.exports(&home, word, MOST_HOPS);
            used.extend(module.words.iter().filter(is_exported).filter_map(member));
        }
        used.remove(name);
        used
    }

    /// Whether a module defines or re-exports a name.
    fn exports(&self, module: &[String], word: &str, hops: usize) -> bool {
        let Some(found) = self.modules.get(module) else { return false };
        let is_here = found.defined.contains(word) || found.children.contains(word) || found.imports.contains_key(word);
        is_here || hops > 0 && found.globs.iter().any(|glob| self.exports(glob, word, hops - 1))
    }

    /// The module that defines what a path from the root names.
    fn resolve(&self, path: &[String], hops: usize) -> Option<Vec<String>> {
        let inside = (0..=path.len()).rev().find(|end| self.modules.contains_key(&path[..*end]))?;
        let (home, rest) = path.split_at(inside);
        let (Some(word), Some(left)) = (rest.first(), hops.checked_sub(1)) else { return Some(home.to_owned()) };
        let module = &self.modules[home];
        if module.defined.contains(word) {
            return Some(home.to_owned());
        }
        if let Some(import) = module.imports.get(word) {
            return self.resolve(&[import, &rest[1..]].concat(), left).or_else(|| Some(home.to_owned()));
        }
        let glob = module.globs.iter().find(|glob| self.exports(glob, word, left));
        match glob {
            Some(glob) => self.resolve(&[glob, rest].concat(), left),
            None => Some(home.to_owned()),
        }
    }

    /// The module that defines the type that is called `word` in a module.
    fn home_of(&self, module: &[String], word: &str) -> Option<Vec<String>> {
        self.resolve(&[module, &[word.to_owned()]].concat(), MOST_HOPS)
    }
}

/// The module of a file below `src/`. The root is empty.
fn module_name(path: &str) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    Some(parts)
}

fn read_module(path: &str, name: &[String], text: &str) -> Module {
    let lexemes = lexemes::without_tests(&lexemes::read(text));
    let mut module = Module { path: path.to_owned(), ..Module::default() };
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(lexeme) = lexemes.get(at) {
        let next = lexemes.get(at + 1);
        match lexeme {
            Lexeme::Mark('{') => depth += 1,
            Lexeme::Mark('}') => depth = depth.saturating_sub(1),
            Lexeme::Word(_) | Lexeme::Path | Lexeme::Mark(_) => {}
        }
        match (lexeme.word(), next) {
            (Some("use"), _) => {
                let mut paths = Vec::new();
                at = read_use(&lexemes, at + 1, &mut Vec::new(), &mut paths);
                for (path, alias) in paths {
                    add_import(&mut module, name, path, alias);
                }
                continue;
            }
            (Some("mod"), Some(Lexeme::Word(child))) if lexemes.get(at + 2) == Some(&Lexeme::Mark(';')) => {
                module.children.insert(child.clone());
                at += 3;
                continue;
            }
            (Some("struct" | "enum" | "trait" | "type" | "const" | "static" | "fn"), Some(Lexeme::Word(word)))
                if depth == 0 =>
            {
                module.defined.insert(word.clone());
                let is_type = lexeme.word().is_some_and(|kind| matches!(kind, "struct" | "enum" | "trait"));
                if is_type && at.checked_sub(1).and_then(|before| lexemes[before].word()) == Some("pub") {
                    module.public_types.insert(word.clone());
                }
            }
            (Some("impl"), _) => {
                if let Some((owner, count)) = lexemes::methods_of(&lexemes[at + 1..]) {
                    *module.methods.entry(owner).or_default() += count;
                }
            }
            (Some(word), Some(Lexeme::Path))
                if !matches!(at.checked_sub(1).map(|before| &lexemes[before]), Some(Lexeme::Path)) =>
            {
                let path = lexemes::path_at(&lexemes, at);
                if matches!(word, "crate" | "super" | "self") || module.children.contains(word) {
                    module.paths.extend(absolute(name, &path, &module.children));
                }
            }
            _ => {}
        }
        if let Lexeme::Word(word) = lexeme {
            module.words.insert(word.clone());
        }
        at += 1;
    }
    module
}

/// Sorts one imported path into a module.
fn add_import(module: &mut Module, name: &[String], path: Vec<String>, alias: Option<String>) {
    let last = path.last().cloned().unwrap_or_default();
    let Some(mut absolute) = absolute(name, &path, &module.children) else { return };
    match (last.as_str(), alias.as_deref()) {
        ("*", _) => {
            absolute.pop();
            module.globs.push(absolute);
        }
        (_, Some("_")) => module.unnamed.push(absolute),
        (_, alias) => drop(module.imports.insert(alias.unwrap_or(&last).to_owned(), absolute)),
    }
}

/// A path from the root of the crate; `None` if it leads to another crate.
fn absolute(module: &[String], path: &[String], children: &BTreeSet<String>) -> Option<Vec<String>> {
    let mut home = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            home.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {}
        first if children.contains(first) => {}
        _ => return None,
    }
    while rest.first().is_some_and(|part| part == "super") {
        home.pop()?;
        rest = &rest[1..];
    }
    home.extend_from_slice(rest);
    Some(home)
}

/// Reads the tree of a `use`, from behind the word to behind its `;`. Adds the paths in it, each with its alias.
fn read_use(
    lexemes: &[Lexeme],
    mut at: usize,
    prefix: &mut Vec<String>,
    paths: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    let depth = prefix.len();
    let mut alias = None;
    let mut is_group = false;
    while let Some(lexeme) = lexemes.get(at) {
        at += 1;
        match lexeme {
            Lexeme::Word(word) if word == "as" => {
                alias = lexemes.get(at).and_then(Lexeme::word).map(str::to_owned);
                at += 1;
            }
            // `a::{self}` and `a::self` are `a`.
            Lexeme::Word(word) if word == "self" && !prefix.is_empty() => {}
            Lexeme::Word(word) => prefix.push(word.clone()),
            Lexeme::Mark('*') => prefix.push("*".to_owned()),
            Lexeme::Mark('{') => {
                is_group = true;
                at = read_use(lexemes, at, prefix, paths);
            }
            Lexeme::Mark(',' | '}' | ';') => {
                if !std::mem::take(&mut is_group) && (prefix.len() > depth || depth > 0) {
                    paths.push((prefix.clone(), alias.take()));
                }
                prefix.truncate(depth);
                if *lexeme != Lexeme::Mark(',') {
                    return at;
                }
            }
            Lexeme::Path | Lexeme::Mark(_) => {}
        }
    }
    at
}

/// The groups of nodes that reach each other, of two and more.
fn groups(graph: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let reach = |from: usize| {
        let (mut open, mut seen) = (graph[from].clone(), BTreeSet::new());
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(&graph[next]);
            }
        }
        seen
    };
    let reached: Vec<BTreeSet<usize>> = (0..graph.len()).map(reach).collect();
    let mut left: BTreeSet<usize> = (0..graph.len()).filter(|node| reached[*node].contains(node)).collect();
    let mut found = Vec::new();
    while let Some(first) = left.pop_first() {
        let others =
            left.iter().copied().filter(|other| reached[first].contains(other) && reached[*other].contains(&first));
        let group: Vec<usize> = std::iter::once(first).chain(others).collect();
        left.retain(|node| !group.contains(node));
        found.push(group);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles<'a>(files: &'a [(&'a str, &'a str)]) -> Vec<Vec<String>> {
        let found = Crate::read(files.iter().copied());
        found.circles().into_iter().map(|circle| circle.into_iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        for (one, other) in [
            ("use crate::b::B;\nstruct A(B);", "use crate::a::A;\nstruct B(A);"),
            ("use super::b::{self, B};\nstruct A(B);", "struct B(crate::a::A);"),
            ("use crate::{b::{B as Other, X}};\nstruct A(Other);", "use super::a::*;\nstruct B(A);"),
            ("use crate::B;\nstruct A(B);", "struct B(super::A);"),
        ] {
            let files = [("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;"), ("a.rs", one), ("b.rs", other)];
            assert_eq!(circles(&files), [["a.rs", "b.rs"]], "{one}");
        }
    }

    #[test]
    fn what_is_no_use_makes_no_circle() {
        for (one, other) in [
            (
                "struct A(crate::b::B);",
                "/// See [`crate::a::A`].\nstruct B; // crate::a::A\nconst C: &str = \"crate::a::A\";",
            ),
            ("struct A(crate::b::B);", "struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }"),
            ("struct A(crate::b::B);", "pub use crate::a::A;\nstruct B;"),
            ("struct A(crate::b::B);\nimpl A { fn new() {} }", "pub use crate::a::*;\nstruct B;\nfn f() { X::new() }"),
        ] {
            let files = [("lib.rs", "mod a;\nmod b;"), ("a.rs", one), ("b.rs", other)];
            assert_eq!(circles(&files), Vec::<Vec<String>>::new(), "{other}");
        }
    }

    #[test]
    fn only_pub_types_are_public() {
        let text = "pub struct A;\npub(crate) enum B {}\nstruct C;\npub trait D {}\npub fn e() {}\npub type F = A;\n\
            #[cfg(test)]\nmod tests { pub struct G; }\n";
        let found = Crate::read([("lib.rs", "mod a;"), ("a.rs", text)]);
        assert_eq!(found.public_types().collect::<Vec<_>>(), [("a.rs", "A"), ("a.rs", "D")]);
    }

    #[test]
    fn a_child_that_uses_its_parent_is_a_circle_if_the_parent_uses_the_child() {
        let child = ("a/c.rs", "use super::A;\npub struct C(A);");
        assert_eq!(circles(&[("a.rs", "mod c;\npub use c::C;\npub struct A;"), child]), Vec::<Vec<String>>::new());
        assert_eq!(circles(&[("a.rs", "mod c;\npub struct A;\nfn f(c: c::C) {}"), child]), [["a.rs", "a/c.rs"]]);
    }

    #[test]
    fn methods_are_counted_over_all_files_of_a_crate() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "pub struct A;\nimpl A { fn one(&self) { fn inner() {} } pub(crate) async fn two() {} }"),
            ("b.rs", "use crate::a::A;\nimpl A { fn three() {} }\nimpl Drop for A { fn drop(&mut self) {} }"),
        ];
        let found = Crate::read(files);
        assert_eq!(found.large_types(2), [("a.rs", "A", 3)]);
        assert!(found.large_types(3).is_empty());
    }
}
