//! What a command changed in its files, as a patch to show: where it comes from, and what each of its lines is.

use crate::line::Line;

/// Bytes of a patch that are read. Only its first lines are shown.
pub const MOST_BYTES: usize = 256 << 10;
/// Lines of a patch that are shown with a command.
pub const MOST_LINES: usize = 200;
/// Characters of one line of it: a minified file has one line.
const MOST_CHARACTERS: usize = 500;

/// What a checkpoint changed, in git's format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    pub text: String,
    /// Whether files are missing because it would be too long.
    pub is_cut: bool,
}

/// Where the contents of changed files are. A recording has only their number.
pub trait Patches {
    /// What a recorded checkpoint changed. None if it is not kept.
    fn of_checkpoint(&self, checkpoint: &Line) -> Option<Patch>;
}

/// What a line of a patch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The name of a file, and what happened to it.
    Head,
    /// Where in the file the next lines are.
    Place,
    Added,
    Removed,
    /// A line that did not change.
    Context,
}

/// The lines of a patch.
pub fn lines(patch: &str) -> impl Iterator<Item = (Part, &str)> {
    let mut in_head = true;
    patch.split_terminator('\n').map(move |line| {
        if line.starts_with("diff --git ") {
            in_head = true;
        } else if line.starts_with("@@ ") {
            in_head = false;
        }
        let part = match line.as_bytes().first() {
            _ if in_head => Part::Head,
            Some(b'@') => Part::Place,
            Some(b'+') => Part::Added,
            Some(b'-') => Part::Removed,
            _ => Part::Context,
        };
        (part, line)
    })
}

/// The first lines of a patch, each of them cut, and a sentence about what is left out.
pub fn first_lines(patch: &Patch) -> (Vec<(Part, String)>, Option<String>) {
    // The hashes of blobs say nothing to a person.
    let mut all = lines(&patch.text).filter(|(part, line)| *part != Part::Head || !line.starts_with("index "));
    let shown = all.by_ref().take(MOST_LINES).map(|(part, line)| (part, cut(line))).collect();
    let left = match (all.count(), patch.is_cut) {
        (0, false) => None,
        (0, true) => Some("… larger files are left out".to_owned()),
        (1, false) => Some("… 1 more line".to_owned()),
        (left, false) => Some(format!("… {left} more lines")),
        (left, true) => Some(format!("… {left} more lines, and larger files")),
    };
    (shown, left)
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n";

    #[test]
    fn a_line_is_what_its_place_says() {
        let parts: Vec<Part> = lines(PATCH).map(|(part, _)| part).collect();
        use Part::{Added, Context, Head, Place, Removed};
        assert_eq!(parts, [Head, Head, Head, Head, Place, Context, Removed, Added]);
        let (shown, left) = first_lines(&Patch { text: PATCH.to_owned(), is_cut: false });
        assert_eq!((shown.len(), left), (7, None), "without the line of hashes");
    }

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let text = format!("{PATCH}+{}\n{}", "é".repeat(1000), "+x\n".repeat(MOST_LINES));
        let (shown, left) = first_lines(&Patch { text: text.clone(), is_cut: false });
        assert_eq!((shown.len(), left.as_deref()), (MOST_LINES, Some("… 8 more lines")));
        assert_eq!(shown[7].1.chars().count(), MOST_CHARACTERS + 1);
        let (_, left) = first_lines(&Patch { text, is_cut: true });
        assert_eq!(left.as_deref(), Some("… 8 more lines, and larger files"));
        let (shown, left) = first_lines(&Patch { text: String::new(), is_cut: true });
        assert_eq!((shown.len(), left.as_deref()), (0, Some("… larger files are left out")));
    }
}
