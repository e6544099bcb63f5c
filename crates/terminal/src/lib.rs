//! What a person sees: words for figures and times, tables, lists of fields.

mod colour;
mod fields;
mod table;
pub mod words;

pub use colour::Colour;
pub use fields::Fields;
pub use table::{Cell, Column, Table};
