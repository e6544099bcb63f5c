//! Figures, times and other people's text as they are shown.

use ratatui::text::Span;
use shellkeep_session::Timestamp;

/// A count with its thousands apart: `100,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 session`, `2 sessions`.
pub fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number as u64))
}

/// Bytes in the largest unit that leaves a number before the point: `45.2 MiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let (mut value, mut unit) = (number as f64 / 1024.0, 0);
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// A length of time in its two largest units: `3d 4h`.
pub fn span(seconds: f64) -> String {
    // Negative times do not happen; a cast makes 0 of them.
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// How long ago a time on the wire was: `3m ago`.
pub fn ago(now: Timestamp, at: &str) -> String {
    let Ok(then) = at.parse::<Timestamp>() else { return clean(at) };
    let seconds = now.as_second() - then.as_second();
    match seconds {
        // The daemon's clock may be a little ahead of ours.
        ..=0 => "now".to_owned(),
        1..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// A time on the wire for a list: how long ago it was, or its date if that is more than a week.
pub fn when(now: Timestamp, at: &str) -> String {
    let Ok(then) = at.parse::<Timestamp>() else { return clean(at) };
    match now.as_second() - then.as_second() {
        ..DATED => ago(now, at),
        _ => then.strftime("%Y-%m-%d").to_string(),
    }
}

/// A time on the wire for one thing: to the second, and how long ago it was.
pub fn moment(now: Timestamp, at: &str) -> String {
    match at.parse::<Timestamp>() {
        Ok(then) => format!("{} UTC, {}", then.strftime("%Y-%m-%d %H:%M:%S"), ago(now, at)),
        Err(_) => clean(at),
    }
}

/// A path with the home directory as `~`.
pub fn path(path: &str, home: Option<&str>) -> String {
    match home.filter(|home| home.len() > 1).and_then(|home| path.strip_prefix(home)) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

/// Seconds after which a date says more than a number of days.
const DATED: i64 = 7 * 86_400;

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A rate: exact while it is small.
pub fn rate(per_second: f64) -> String {
    if per_second < 9.95 { format!("{per_second:.1}") } else { count(per_second.round() as u64) }
}

/// Text of others without what drives a terminal or deceives its reader: a directory's name must do neither.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { visible(c) }).collect()
}

/// Whether a character is not seen itself and makes a text look like another: by turning its order round, or by standing
/// between two letters unseen. Those that join letters and signs are left alone; some scripts need them.
pub fn deceives(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Text with line breaks between words, for a terminal of this width. What may be copied is left whole: a command between
/// backticks, and an indented line.
pub fn wrapped(text: &str, width: usize) -> String {
    let line = |line: &str| if line.starts_with(' ') { line.to_owned() } else { wrapped_line(line, width) };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The same for text that begins `indent` columns to the right and goes on below its beginning.
pub fn hanging(text: &str, indent: usize, width: usize) -> String {
    wrapped(text, width.saturating_sub(indent)).replace('\n', &format!("\n{:indent$}", ""))
}

fn wrapped_line(line: &str, limit: usize) -> String {
    let mut in_command = false;
    let parts = line.split(|c: char| {
        in_command ^= c == '`';
        c == ' ' && !in_command
    });
    let (mut out, mut used) = (String::new(), 0);
    for (place, part) in parts.enumerate() {
        let length = width(part);
        if place > 0 && used + 1 + length > limit {
            out.push('\n');
            used = 0;
        } else if place > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(part);
        used += length;
    }
    out
}

/// Text of others on one line, without what could drive the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).map(visible).collect()
}

/// Text cut to a width in columns, with a sign that it was.
pub fn cut(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut columns = 0;
    for c in text.chars() {
        columns += Span::raw(c.to_string()).width();
        if columns >= width {
            break;
        }
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// A line of a log as it would look on a terminal: escape sequences are obeyed or dropped, never passed on.
pub fn log_line(line: &str) -> String {
    let text = without_escapes(line);
    // A carriage return begins the line anew; progress bars live of it.
    let last = text.split('\r').rfind(|part| !part.is_empty()).unwrap_or_default();
    let mut shown = String::with_capacity(last.len());
    let mut column = 0;
    for c in last.chars() {
        if c == '\t' {
            let stop = TAB - column % TAB;
            shown.extend(std::iter::repeat_n(' ', stop));
            column += stop;
        } else {
            shown.push(visible(c));
            column += 1;
        }
    }
    shown
}

/// Columns from one tab stop to the next.
const TAB: usize = 8;

/// Characters that reorder text could make a line say what it does not.
fn visible(c: char) -> char {
    if c.is_control() || deceives(c) { char::REPLACEMENT_CHARACTER } else { c }
}

fn without_escapes(line: &str) -> String {
    const ESCAPE: char = '\u{1b}';
    const BELL: char = '\u{7}';
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c != ESCAPE {
            text.push(c);
            continue;
        }
        match chars.next() {
            // A control sequence ends with a letter or the like.
            Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            // A string (a title, a link) ends with a bell, or with an escape and a backslash.
            Some(']' | 'P' | '_' | '^' | 'X') => {
                while let Some(c) = chars.next() {
                    if c == BELL || (c == ESCAPE && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            // Two bytes of which the first says "and one more".
            Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => drop(chars.next()),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(
            [0, 7, 999, 1000, 100_000, 1_234_567].map(count),
            ["0", "7", "999", "1,000", "100,000", "1,234,567"]
        );
        assert_eq!([0, 1, 2000].map(|number| counted(number, "agent")), ["0 agents", "1 agent", "2,000 agents"]);
        let sizes = [0, 1023, 1024, 1536, 128 << 20, (1 << 30) - 1, u64::MAX];
        assert_eq!(sizes.map(bytes), ["0 B", "1023 B", "1 KiB", "1.5 KiB", "128 MiB", "1 GiB", "16 EiB"]);
        let spans = [0.0, 59.9, 60.0, 3_725.0, 273_600.0];
        assert_eq!(spans.map(span), ["0s", "59s", "1m 0s", "1h 2m", "3d 4h"]);
        assert_eq!([0.0, 3.25, 1234.5].map(rate), ["0.0", "3.2", "1,235"]);
        assert_eq!([0.0, 0.314, 1.0].map(percent), ["0 %", "31 %", "100 %"]);
    }

    #[test]
    fn a_time_is_told_by_its_distance() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        let told = |at: &str| ago(now, at);
        assert_eq!(told("2026-01-02T12:00:03Z"), "now");
        assert_eq!(told("2026-01-02T11:59:18Z"), "42s ago");
        assert_eq!(told("2026-01-02T11:57:00.5Z"), "3m ago");
        assert_eq!(told("2026-01-02T09:00:00Z"), "3h ago");
        assert_eq!(told("2025-12-31T12:00:00Z"), "2d ago");
        assert_eq!(told("soon\n"), "soon ");
    }

    #[test]
    fn a_time_long_ago_is_a_date() {
        let now: Timestamp = "2026-01-12T12:00:00Z".parse().unwrap();
        let shown = ["2026-01-12T11:57:00Z", "2026-01-06T11:00:00Z", "2025-12-31T12:00:00Z"].map(|at| when(now, at));
        assert_eq!(shown, ["3m ago", "6d ago", "2025-12-31"]);
        assert_eq!(moment(now, "2026-01-12T11:57:00.123Z"), "2026-01-12 11:57:00 UTC, 3m ago");
    }

    #[test]
    fn home_is_a_tilde() {
        let home = Some("/home/ann");
        let paths = ["/home/ann", "/home/ann/app", "/home/anna", "/tmp"].map(|at| path(at, home));
        assert_eq!(paths, ["~", "~/app", "/home/anna", "/tmp"]);
        assert_eq!([path("/x", Some("/")), path("/x", None)], ["/x", "/x"]);
    }

    #[test]
    fn nothing_of_others_reaches_the_terminal() {
        assert_eq!(clean("a\nb\tc\x1b[31m\u{202e}"), "a b c\u{fffd}[31m\u{fffd}");
        assert_eq!(log_line("\x1b[1;32m  ➜\x1b[0m  Local:\thttp://x\x07"), "  ➜  Local:     http://x\u{fffd}");
        assert_eq!(log_line("\x1b]0;title\x07one \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "one link");
        assert_eq!(log_line("10%\r50%\r100%\r"), "100%");
        assert_eq!(log_line("\x1b(B\x1b=x\x1b"), "x");
        assert_eq!(log_line("\x1b[unfinished 12"), "nfinished 12");
        assert_eq!(log_line("\x1b]never ended"), "");
    }

    #[test]
    fn lines_are_broken_between_words_and_not_in_commands() {
        assert_eq!(wrapped("one two three", 80), "one two three");
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("one twothree four", 5), "one\ntwothree\nfour");
        assert_eq!(wrapped("undo it with `shellkeep undo demo`, now", 24), "undo it with\n`shellkeep undo demo`,\nnow");
        assert_eq!(
            wrapped("add it:\n  a long command line\nand more text", 9),
            "add it:\n  a long command line\nand more\ntext"
        );
        assert_eq!(wrapped("日本 語日", 5), "日本\n語日");
        assert_eq!(hanging("one two three", 4, 11), "one two\n    three");
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("ab", 1), "…");
        assert_eq!(cut("ab", 0), "");
    }
}
