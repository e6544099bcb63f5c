//! The words that `docs/TERMINOLOGY.md` defines, as names of types.

/// The terms in the first column of the table: `| **merge back** | …` is `MergeBack`.
pub fn terms(table: &str) -> Vec<String> {
    let first_columns = table.lines().filter_map(|line| line.strip_prefix("| **")?.split(" | ").next());
    let words = first_columns.flat_map(|column| column.split("**, **").map(|word| word.trim_end_matches("**")));
    words.map(type_name).collect()
}

fn type_name(term: &str) -> String {
    let capitalised = term.split(' ').map(|word| word[..1].to_uppercase() + &word[1..]);
    capitalised.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_the_name_of_a_type() {
        let table = "| word | is |\n|---|---|\n| **run** | One **command**. |\n| **undo**, **redo** | a |\n| **merge back** | b |\n";
        assert_eq!(terms(table), ["Run", "Undo", "Redo", "MergeBack"]);
    }
}
