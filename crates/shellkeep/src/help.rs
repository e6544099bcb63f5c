//! Help: completed with what a group says of its commands, and wrapped at words to the width of the terminal.

use crate::terminal;
use clap::Command;
use shellkeep_terminal::words;

/// A line that is longer than this was wrapped where it was written, and goes on in the next one.
const FULL: usize = 100;
/// The width of help that is read by a pager or a program.
const USUAL: usize = 80;
/// A text that begins farther to the right, as a share of the width, goes on below its line's beginning.
const FARTHEST: usize = 2;

/// How the paragraph with the exit codes begins.
const EXIT_CODES: &str = "Exit codes:";
/// How the paragraph with the examples begins, also if there is only one.
const EXAMPLES: &str = "Example";

/// Prints the help that was asked for, or what is wrong with the command line, and exits.
pub fn exit(error: &clap::Error) -> ! {
    let (width, has_colours) = match error.use_stderr() {
        true => (terminal::error_width(), terminal::has_error_colours()),
        false => (terminal::width(), terminal::has_colours()),
    };
    if error.use_stderr() {
        // A program looks for words of an error, and finds them on one line.
        terminal::error_text(&rendered(error, width.unwrap_or(usize::MAX), has_colours));
    } else {
        terminal::text(&rendered(error, width.unwrap_or(USUAL), has_colours));
    }
    std::process::exit(error.exit_code())
}

/// The help or the error, for a terminal of this width.
pub fn rendered(error: &clap::Error, width: usize, has_colours: bool) -> String {
    let help = error.render();
    let text = in_words(&if has_colours { help.ansi().to_string() } else { help.to_string() });
    format!("{}\n", wrapped(&text, width).trim_end())
}

/// What the standard library says of a number that it cannot read, for a person.
fn in_words(text: &str) -> String {
    let whole = "it must be a whole number that is not negative";
    text.replace("invalid digit found in string", whole)
        .replace("cannot parse integer from empty string", whole)
        .replace("number too large to fit in target type", "it is too large")
}

/// Gives each subcommand whose help lacks exit codes or an example those of its group.
pub fn completed(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, path: &str) -> Command {
    let (group, path) = (after(&command), format!("{path}{} ", command.get_name()));
    command.mut_subcommands(|leaf| {
        let mut text = after(&leaf);
        if paragraph(&text, EXAMPLES).is_none() {
            add(&mut text, examples(&group, &format!("{path}{}", leaf.get_name())));
        }
        if paragraph(&text, EXIT_CODES).is_none() {
            add(&mut text, paragraph(&group, EXIT_CODES).map(str::to_owned));
        }
        below(leaf.after_help(text), &path)
    })
}

/// What a command's help ends with.
fn after(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

fn add(text: &mut String, paragraph: Option<String>) {
    if let Some(paragraph) = paragraph {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&paragraph);
    }
}

fn paragraph<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    text.split("\n\n").find(|paragraph| paragraph.starts_with(beginning))
}

/// The examples of a group that call this command.
fn examples(group: &str, path: &str) -> Option<String> {
    let calls =
        |line: &&str| line.trim_start().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let lines: Vec<&str> = paragraph(group, EXAMPLES)?.lines().filter(calls).collect();
    let heading = if lines.len() == 1 { "Example:" } else { "Examples:" };
    (!lines.is_empty()).then(|| format!("{heading}\n{}", lines.join("\n")))
}

fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in joined(text) {
        wrap(&mut out, &line, width);
    }
    out
}

/// The lines, with those of one paragraph joined.
fn joined(text: &str) -> Vec<String> {
    let (mut lines, mut goes_on): (Vec<String>, bool) = (Vec::new(), false);
    for line in text.lines() {
        let is_flush = !line.is_empty() && !line.starts_with(' ');
        match lines.last_mut().filter(|_| goes_on && is_flush) {
            Some(last) => {
                last.push(' ');
                last.push_str(line);
            }
            None => lines.push(line.to_owned()),
        }
        goes_on = is_flush && words::width(&plain(line)) > FULL;
    }
    lines
}

/// Adds a line, as several if it is too long. They begin below the text that it ends with: the description of an
/// option, or the line itself.
fn wrap(out: &mut String, line: &str, width: usize) {
    let bare = plain(line);
    let indent = bare.len() - bare.trim_start().len();
    let text = bare[indent..].find("  ").map(|gap| indent + gap).filter(|_| indent > 0);
    let text = text.map(|gap| gap + bare[gap..].len() - bare[gap..].trim_start().len());
    let hanging = text.filter(|text| *text < width / FARTHEST).unwrap_or(indent);
    let (start, rest) = split(line, hanging);
    out.push_str(start);
    let mut used = hanging;
    for (place, word) in rest.split(' ').enumerate() {
        let length = words::width(&plain(word));
        if place > 0 && used + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(hanging));
            used = hanging;
        } else if place > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
}

/// Splits a line after so many visible characters.
fn split(line: &str, column: usize) -> (&str, &str) {
    let (mut seen, mut in_code) = (0, false);
    for (place, c) in line.char_indices() {
        if c == '\x1b' {
            in_code = true;
        }
        if !in_code && seen == column {
            return line.split_at(place);
        }
        match in_code {
            true => in_code = c != 'm',
            false => seen += 1,
        }
    }
    (line, "")
}

/// The text without colours.
fn plain(text: &str) -> String {
    let mut bare = String::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once('\x1b') {
        bare.push_str(before);
        rest = code.split_once('m').map_or("", |(_, after)| after);
    }
    bare + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_descriptions_below_each_other() {
        let text = "Options:\n  -s, --session <S>  The session in which the command runs\n\nEnd";
        let indent = " ".repeat(21);
        let told = format!("Options:\n  -s, --session <S>  The session in which\n{indent}the command runs\n\nEnd\n");
        assert_eq!(wrapped(text, 44), told);
        let coloured = "  \x1b[1m-s\x1b[0m  one two three four";
        assert_eq!(wrapped(coloured, 16), "  \x1b[1m-s\x1b[0m  one two\n      three four\n");
    }

    #[test]
    fn a_number_that_is_none_is_told_in_words() {
        let argument = clap::Arg::new("limit").long("limit").value_parser(clap::value_parser!(u64));
        let command = Command::new("shellkeep").arg(argument);
        for (value, told) in [
            ("x", "invalid value 'x' for '--limit <limit>': it must be a whole number that is not negative"),
            ("99999999999999999999", "it is too large"),
        ] {
            let error = command.clone().try_get_matches_from(["shellkeep", "--limit", value]).unwrap_err();
            assert!(rendered(&error, usize::MAX, false).contains(told), "{error}");
        }
    }

    #[test]
    fn a_paragraph_is_filled_and_a_list_is_not() {
        let long = "word ".repeat(22).trim_end().to_owned();
        let text = format!("{long}\nlast\n\nExamples:\n  shellkeep one\n  shellkeep two\n");
        let told = wrapped(&text, 60);
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 60), "{told}");
        assert_eq!(lines[1].split(' ').count() + lines[0].split(' ').count(), 23, "{told}");
        assert!(told.ends_with("\n\nExamples:\n  shellkeep one\n  shellkeep two\n"), "{told}");
    }
}
