//! The rules of the house, as functions that read text and say what is wrong with it. They do no I/O beyond [`tree`], so
//! each rule is shown to find something by a table; `tests/house.rs` runs them over this workspace.

pub mod edges;
pub mod modules;
pub mod sbom;
pub mod source;
pub mod supply;
pub mod tokens;
pub mod tree;
