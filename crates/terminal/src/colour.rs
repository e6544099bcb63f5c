//! The colours of words on a terminal.

/// The colours in use, by their terminal codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// A heading: less bright than what is below it.
    Dim = 2,
    /// It failed, or something required is missing.
    Red = 31,
    /// All is well.
    Green = 32,
    /// It works, but less well.
    Yellow = 33,
    /// A position in something longer.
    Cyan = 36,
}

impl Colour {
    /// The text in this colour.
    pub fn paint(self, text: &str) -> String {
        format!("\x1b[{}m{text}\x1b[0m", self as u8)
    }
}
