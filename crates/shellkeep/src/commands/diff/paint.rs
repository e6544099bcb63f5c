//! Prints a patch: coloured and sanitised on a terminal, byte for byte elsewhere.

use crate::failure::Failure;
use crate::terminal;
use shellkeep_record::export::patch::{Part, lines};

const PLAIN: &str = "\x1b[0m";
const HEAD: &str = "\x1b[1m";
const HUNK: &str = "\x1b[36m";
const MORE: &str = "\x1b[32m";
const LESS: &str = "\x1b[31m";

/// Prints a patch.
pub fn print(patch: &[u8]) -> Result<(), Failure> {
    if !terminal::is_terminal() {
        return terminal::bytes(patch).map(|_| ());
    }
    let text = String::from_utf8_lossy(patch);
    terminal::bytes(painted(&text, terminal::has_colours()).as_bytes()).map(|_| ())
}

/// The patch with colours, and without control characters that could affect a terminal.
fn painted(patch: &str, colours: bool) -> String {
    let mut shown = String::with_capacity(patch.len() + patch.len() / 8);
    for (part, line) in lines(patch) {
        let colour = match part {
            Part::Head => HEAD,
            Part::Place => HUNK,
            Part::Added => MORE,
            Part::Removed => LESS,
            Part::Context => "",
        };
        let line: String = line
            .chars()
            .map(|c| if (c.is_control() && c != '\t') || terminal::deceives(c) { '\u{fffd}' } else { c })
            .collect();
        if colours && !colour.is_empty() && !line.is_empty() {
            shown += &format!("{colour}{line}{PLAIN}\n");
        } else {
            shown += &line;
            shown.push('\n');
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\u{1b}[2J\n+new\n";

    #[test]
    fn lines_have_the_colour_of_what_they_are() {
        let shown = painted(PATCH, true);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], "\x1b[1m--- a/x\x1b[0m");
        assert_eq!(lines[3], "\x1b[36m@@ -1,2 +1,2 @@\x1b[0m");
        assert_eq!((lines[4], lines[6]), (" same", "\x1b[32m+new\x1b[0m"));
        assert_eq!(lines[5], "\x1b[31m-old\u{fffd}[2J\x1b[0m");
    }

    #[test]
    fn without_colours_there_is_no_escape_at_all() {
        assert!(!painted(PATCH, false).contains('\u{1b}'));
        assert_eq!(painted("a\tb\n", false), "a\tb\n");
    }
}
