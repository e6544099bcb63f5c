//! Files that use each other in a circle, and types with too many methods: knowledge that is cut into files is still in
//! one place. The lists are what there is today; their numbers only go down.
#![allow(clippy::expect_used, reason = "a test says what it expected by panicking")]

use shellkeep_tidy::modules::Crate;
use shellkeep_tidy::terms;
use shellkeep_tidy::tree::{self, TextFile};
use std::collections::BTreeMap;

/// Most functions in the `impl` blocks of one type, traits left out. A type with more of them is several.
const MOST_METHODS: usize = 25;

/// How many files of a crate are in circles. A crate that is not listed has none.
const IN_CIRCLES: &[(&str, usize)] = &[];

/// Types with more methods, and how many they have.
const LARGE_TYPES: &[(&str, usize)] =
    &[("crates/runtime/src/engine/handle.rs Engine", 31), ("crates/store/src/store.rs Store", 38)];

/// Crates that may use a defined word for a type of their own: the JSON form of a thing has the name of the thing.
const REPEATS_TERMS: &[&str] = &["crates/protocol"];

/// The crates of this workspace: folder and files.
fn crates() -> Vec<(String, Vec<TextFile>)> {
    let mut crates: Vec<(String, Vec<TextFile>)> = Vec::new();
    for mut file in tree::text_files(&tree::root()).expect("the workspace can be read") {
        let Some((folder, path)) = file.path.split_once("/src/").filter(|(_, path)| path.ends_with(".rs")) else {
            continue;
        };
        let (folder, path) = (folder.to_owned(), path.to_owned());
        file.path = path;
        match crates.iter_mut().find(|(known, _)| *known == folder) {
            Some((_, files)) => files.push(file),
            None => crates.push((folder, vec![file])),
        }
    }
    crates
}

fn read(files: &[TextFile]) -> Crate {
    Crate::read(files.iter().map(|file| (file.path.as_str(), file.text.as_str())))
}

fn allowed(list: &[(&str, usize)], name: &str, otherwise: usize) -> usize {
    list.iter().find(|(known, _)| *known == name).map_or(otherwise, |(_, number)| *number)
}

#[test]
fn files_do_not_use_each_other_in_a_circle() {
    let crates = crates();
    assert!(crates.len() >= 10, "found only {} crates", crates.len());
    for (folder, files) in &crates {
        let found = read(files);
        let circles = found.circles();
        let count: usize = circles.iter().map(Vec::len).sum();
        let most = allowed(IN_CIRCLES, folder, 0);
        assert!(count <= most, "{folder}: {count} files in circles, at most {most}: {circles:#?}");
    }
}

#[test]
fn no_type_has_too_many_methods() {
    let mut wrong = Vec::new();
    for (folder, files) in &crates() {
        for (path, name, count) in read(files).large_types(MOST_METHODS) {
            let name = format!("{folder}/src/{path} {name}");
            let most = allowed(LARGE_TYPES, &name, MOST_METHODS);
            if count > most {
                wrong.push(format!("{name}: {count} methods, at most {most}; it is several types"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_defined_word_is_one_public_type() {
    let table = std::fs::read_to_string(tree::root().join("docs/TERMINOLOGY.md")).expect("the terms can be read");
    let terms = terms::terms(&table);
    assert!(terms.len() > 40, "found only {} terms", terms.len());
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (folder, files) in crates().iter().filter(|(folder, _)| !REPEATS_TERMS.contains(&folder.as_str())) {
        for (path, name) in read(files).public_types() {
            found.entry(name.to_owned()).or_default().push(format!("{folder}/src/{path}"));
        }
    }
    let twice =
        |term: &String| found.get(term).filter(|homes| homes.len() > 1).map(|homes| format!("{term}: {homes:?}"));
    let wrong: Vec<String> = terms.iter().filter_map(twice).collect();
    assert!(wrong.is_empty(), "one word is one thing (docs/TERMINOLOGY.md); rename all but one:\n{}", wrong.join("\n"));
}
