//! Output for people: figures and times as text, tables, lists of fields, and the terminal while a program draws on it.

mod colour;
mod fields;
pub mod list;
pub mod modes;
pub mod screen;
mod signals;
mod table;
pub mod theme;
pub mod words;

pub use colour::Colour;
pub use fields::Fields;
pub use signals::Signals;
pub use table::{Cell, Column, Table};
