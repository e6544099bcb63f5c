//! What only a live shell has.

use serde::{Deserialize, Serialize};

/// Most items that a sentence lists, and most variables that are remembered.
const NAMED: usize = 6;
const MOST_VARIABLES: usize = 100;

/// What only the live shell has, apart from processes. It is lost with the shell, and a notice names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unkept {
    /// Open descriptors above standard error: the number and what it leads to, as in `5 (/etc/passwd)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<String>,
    /// Names of variables that are too large to keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

impl Unkept {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty() && self.variables.is_empty()
    }

    /// Adds variables that are too large to keep.
    pub fn add_variables(&mut self, names: impl IntoIterator<Item = String>) {
        let left = MOST_VARIABLES.saturating_sub(self.variables.len());
        self.variables.extend(names.into_iter().take(left));
    }

    /// What there is, one part for each kind.
    pub fn names(&self) -> Vec<String> {
        let kinds = [("open descriptors", &self.descriptors), ("variables too large to keep", &self.variables)];
        let there = kinds.into_iter().filter(|(_, names)| !names.is_empty());
        there.map(|(what, names)| format!("{what} {}", some_of(names))).collect()
    }

    /// What its loss means, in the words of a notice: one part for each kind.
    pub fn losses(&self) -> Vec<String> {
        let kinds = [
            ("open descriptors were closed", &self.descriptors),
            ("variables that were too large to keep are gone", &self.variables),
        ];
        let told = kinds.into_iter().filter(|(_, names)| !names.is_empty());
        told.map(|(what, names)| format!("{what}: {}", some_of(names))).collect()
    }
}

/// The first names, and how many more there are.
fn some_of(names: &[String]) -> String {
    let first = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_was_is_named() {
        assert_eq!(Unkept::default().losses(), Vec::<String>::new());
        let descriptors = (3..11).map(|number| number.to_string()).collect();
        let many = Unkept { descriptors, variables: vec!["BIG".to_owned()] };
        let told = [
            "open descriptors were closed: 3, 4, 5, 6, 7, 8 and 2 more",
            "variables that were too large to keep are gone: BIG",
        ];
        assert_eq!(many.losses(), told);
    }
}
