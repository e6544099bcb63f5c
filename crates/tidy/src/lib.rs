//! The rules of this repository, as functions that read text and return what is wrong with it. Only [`tree`] does I/O,
//! so each rule is tested with a table; `tests/house.rs` runs them over this workspace.

pub mod edges;
pub mod lexemes;
pub mod modules;
pub mod sbom;
pub mod source;
pub mod supply;
pub mod terms;
pub mod tree;
