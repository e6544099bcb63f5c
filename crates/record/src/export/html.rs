//! A recording as one page that a person can send to another: a timeline to open, search and filter. Everything is in the
//! file; it asks for nothing from anywhere, and without its script it still opens and closes.

mod escape;
mod files;

use super::ansi::{self, Colour, Style};
use super::frames::{TOLD, cut, text};
use super::options::{ExportError, Options};
use super::outline::outline;
use crate::line::Line;
use crate::player::{Figure, Kind, Summary, Totals, span};
use crate::runs::{is_run, run_of, with_files};
use escape::escape;
use files::{changed, counts, difference};
use serde_json::Value;
use shellkeep_session::{Source, Timestamp};
use std::fmt::Write as _;
use std::io::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Bytes of one field that are shown.
const MOST_FIELD: usize = 64 << 10;
/// Bytes of a page, beyond which browsers become slow.
const MOST_PAGE: u64 = 64 << 20;
/// Characters of a field that shares a line with others.
const SHORT: usize = 100;
/// A pause of more seconds than this is said between two events.
const PAUSE: f64 = 60.0;

/// What is known of a recording before it is read.
pub(super) struct About {
    /// Number of its last event.
    pub last: u64,
    /// Whether it is whole.
    pub intact: bool,
    /// What the check found, in a sentence.
    pub verdict: String,
    /// A value that no writer of the recording could have known: the nonce.
    pub nonce: String,
}

/// Writes lines as a page.
pub(super) fn write(
    lines: impl Iterator<Item = Result<Line, ExportError>>,
    about: &About,
    options: &Options<'_>,
    out: impl Write,
) -> Result<(), ExportError> {
    let mut out = Counted { out, written: 0 };
    let mut page = Page::new(options);
    let mut lines = lines.peekable();
    let first = match lines.peek() {
        Some(Ok(first)) => Some(first.clone()),
        _ => None,
    };
    out.write_all(head(first.as_ref(), about, options).as_bytes())?;
    let mut shown = 0;
    let mut left = false;
    for row in with_files(lines) {
        let (line, files) = row?;
        left = shown >= options.most_events || out.written > MOST_PAGE;
        if left {
            break;
        }
        out.write_all(page.take(line, files.as_ref()).as_bytes())?;
        shown += 1 + usize::from(files.is_some());
    }
    out.write_all(page.rest().as_bytes())?;
    out.write_all(foot(&page.totals, shown, left, about).as_bytes())?;
    Ok(out.flush()?)
}

fn head(first: Option<&Line>, about: &About, options: &Options<'_>) -> String {
    let nonce = escape(&about.nonce);
    let id = escape(options.session_id);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>session {id}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<h1>session {id}</h1>\n<p class=\"facts\">"
    );
    if let Some(first) = first {
        let mut fact = |name: &str, value: &str| {
            let _ = write!(html, "<span>{name} <b>{}</b></span> ", escape(&ansi::plain(cut(value, 1000))));
        };
        fact("began", &first.timestamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
        for (name, field) in [("agent", "agent"), ("in", "cwd"), ("by", "by")] {
            let value = text(first.data.get(field));
            if !value.is_empty() {
                fact(name, &value);
            }
        }
    }
    let class = if about.intact { "proof" } else { "proof bad" };
    let sign = if about.intact { '✓' } else { '✗' };
    let _ = write!(
        html,
        "<span>last event <b>{}</b></span></p>\n<p class=\"{class}\">{sign} {}</p>\n\
         <div class=\"bar\" hidden><input type=\"search\" placeholder=\"search\" aria-label=\"search\"><output></output></div>\n<main>\n",
        about.last,
        escape(&about.verdict)
    );
    html
}

fn foot(totals: &Totals, shown: usize, left: bool, about: &About) -> String {
    let mut html = String::from("</main>\n");
    // The page is written while it is read, so the sums come last; the style sheet puts them on top.
    let figures = totals.figures();
    if !figures.is_empty() {
        html.push_str("<p class=\"totals\">");
        for Figure { value, name } in figures {
            let class = if name == "failed" && totals.failed > 0 { " class=\"bad\"" } else { "" };
            let _ = write!(html, "<span{class}><b>{value}</b> {name}</span> ");
        }
        html.push_str("</p>\n");
    }
    if left {
        let _ = writeln!(
            html,
            "<p class=\"left\">The first {shown} events are shown. The rest, up to number {}, is left out to keep the page usable; \
             <code>shellkeep export --format jsonl</code> has everything.</p>",
            about.last
        );
    }
    let _ = write!(
        html,
        "<footer>Made by shellkeep. Times are offsets from the first event.</footer>\n<script nonce=\"{}\">\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&about.nonce)
    );
    html
}

/// Where one is in the timeline.
struct Page<'a> {
    options: &'a Options<'a>,
    began: Option<Timestamp>,
    before: Option<Timestamp>,
    totals: Totals,
    /// Commands that have not ended yet.
    started: Vec<Line>,
}

impl<'a> Page<'a> {
    fn new(options: &'a Options<'a>) -> Self {
        Self { options, began: None, before: None, totals: Totals::default(), started: Vec::new() }
    }

    /// Takes an event. Start, end and changed files of a command become one row.
    fn take(&mut self, line: Line, files: Option<&Line>) -> String {
        self.totals.add(&line);
        if let Some(files) = files {
            self.totals.add(files);
        }
        self.began.get_or_insert(line.timestamp);
        if line.event_type == "run_started" {
            self.started.push(line);
            return String::new();
        }
        if is_run(&line) {
            self.started.retain(|started| run_of(started) != run_of(&line));
        }
        self.event(&line, files)
    }

    /// Commands without an end come last: they run, or nobody knows how they ended.
    fn rest(&mut self) -> String {
        std::mem::take(&mut self.started).iter().map(|line| self.event(line, None)).collect()
    }

    fn event(&mut self, line: &Line, files: Option<&Line>) -> String {
        let summary = Summary::of(line);
        let began = self.began.unwrap_or(line.timestamp);
        let mut html = String::new();
        if let Some(before) = self.before.replace(line.timestamp) {
            let pause = line.timestamp.duration_since(before).as_secs_f64();
            if pause > PAUSE {
                let _ = writeln!(html, "<div class=\"gap\">· {} later ·</div>", span(pause));
            }
        }
        let bad = if summary.failed { " bad" } else { "" };
        let turn = if summary.is_turn { " turn" } else { "" };
        let offset = line.timestamp.duration_since(began).as_secs_f64();
        let _ = write!(
            html,
            "<details class=\"e k-{}{bad}{turn}\" id=\"e{}\" data-t=\"{}\"><summary><time title=\"{} · event {}\">+{}</time>\
             <span class=\"type\">{}</span><span class=\"text\">{}</span><span class=\"files\">{}</span><span class=\"end\">{}</span>{}</summary>\n\
             <div class=\"body\">\n",
            class(summary.kind),
            line.seq,
            escape(&line.event_type),
            line.timestamp,
            line.seq,
            clock(offset),
            escape(&line.event_type),
            escape(&summary.text),
            files.map(counts).unwrap_or_default(),
            escape(summary.outcome.as_deref().unwrap_or_default()),
            took(summary.seconds),
        );
        body(&mut html, line);
        match files {
            Some(files) => changed(&mut html, files, self.options),
            None if line.event_type == "checkpoint_created" => difference(&mut html, line, self.options),
            None => {}
        }
        html.push_str("</div></details>\n");
        html
    }
}

fn took(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "<span class=\"took\"></span>".to_owned() };
    // From a millisecond to ten minutes, by powers of ten: short and long ones can be told apart at a glance.
    let share = ((seconds.max(0.0) * 1000.0 + 1.0).log10() / 5.8 * 100.0).clamp(2.0, 100.0);
    format!("<span class=\"took\">{}<i style=\"width:{share:.0}%\"></i></span>", span(seconds))
}

/// What is to be seen of an opened event.
fn body(html: &mut String, line: &Line) {
    let mut told: Vec<&str> = Vec::new();
    html.push_str(&author(line));
    if is_run(line) {
        terminal(html, &line.data);
        told.extend(TOLD);
    } else if line.event_type == "run_started" {
        let _ = writeln!(html, "<pre><span class=\"p\">$ </span>{}</pre>", coloured(&text(line.data.get("command"))));
        told.push("command");
    }
    if let Value::Object(map) = &line.data {
        let rest = || map.iter().filter(|(name, _)| !told.contains(&name.as_str()));
        let short: String = rest().filter_map(|(name, value)| short(name, value)).collect();
        if !short.is_empty() {
            let _ = writeln!(html, "<p class=\"facts\">{short}</p>");
        }
        rest()
            .filter(|(name, value)| self::short(name, value).is_none())
            .for_each(|(name, value)| field(html, name, value));
    } else {
        field(html, "data", &line.data);
    }
    if !line.proof.masked.is_empty() {
        let number = line.proof.masked.len();
        let _ = writeln!(html, "<p class=\"cut\">{number} masked here; the chain still proves the rest.</p>");
    }
}

/// Who an event comes from, where it is not the runtime.
fn author(line: &Line) -> String {
    let words = match line.author.source {
        Source::Runtime => return String::new(),
        Source::Agent => format!("posted by {}: not verified by shellkeep", line.author),
        Source::Host => "posted by the host".to_owned(),
        Source::Unknown => "source unknown: recorded before sources were written down".to_owned(),
    };
    format!("<p class=\"note\">{}</p>\n", escape(&ansi::plain(&words)))
}

/// A command and what it printed.
fn terminal(html: &mut String, data: &Value) {
    // What travels with the event is whole, whatever its length as text is.
    let in_file = |stream: &str| {
        data.get(format!("{stream}_file"))?;
        data.get(format!("{stream}_bytes"))?.as_u64()
    };
    let command = text(data.pointer("/parameters/command"));
    let _ = writeln!(html, "<pre><span class=\"p\">$ </span>{}", coloured(cut(&command, MOST_FIELD)));
    let output = text(data.get("output"));
    html.push_str(&coloured(cut(&output, MOST_FIELD)));
    html.push_str("</pre>\n");
    said_cut(html, &output, in_file("stdout"));
    let errors = text(data.get("stderr"));
    if !errors.is_empty() {
        let _ =
            writeln!(html, "<h4>standard error</h4>\n<pre class=\"err\">{}</pre>", coloured(cut(&errors, MOST_FIELD)));
        said_cut(html, &errors, in_file("stderr"));
    }
}

/// Says how much of a text is not there.
fn said_cut(html: &mut String, text: &str, total: Option<u64>) {
    let shown = cut(text, MOST_FIELD).len() as u64;
    let total = total.unwrap_or(0).max(text.len() as u64);
    if total > shown {
        let _ = writeln!(html, "<p class=\"cut\">… {} of {total} bytes are left out</p>", total - shown);
    }
}

/// A field that is short enough to stand on a line with others.
fn short(name: &str, value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) if text.contains('\n') || text.chars().nth(SHORT).is_some() => return None,
        Value::String(text) => ansi::plain(text),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(format!("<span>{} <b>{}</b></span> ", escape(&ansi::plain(name)), escape(&text)))
}

fn field(html: &mut String, name: &str, value: &Value) {
    if name == "notices"
        && let Some(list) = value.as_array()
    {
        for notice in list {
            let sentence = notice.get("message").map_or_else(|| notice.to_string(), |message| text(Some(message)));
            let _ = writeln!(html, "<p class=\"note\">⚠ {}</p>", escape(&ansi::plain(&sentence)));
        }
        return;
    }
    let shown = match value {
        Value::String(text) => text.clone(),
        other => outline(other),
    };
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(html, "<h4>{}</h4>\n<pre>{}</pre>", escape(&ansi::plain(name)), coloured(cut(&shown, MOST_FIELD)));
    said_cut(html, &shown, None);
}

/// A text with its colours, as a terminal would show it.
fn coloured(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    for (number, line) in ansi::lines(text).iter().enumerate() {
        if number > 0 {
            html.push('\n');
        }
        for span in line {
            if span.style == Style::default() {
                html.push_str(&escape(&span.text));
            } else {
                let _ = write!(html, "<span{}>{}</span>", look(span.style), escape(&span.text));
            }
        }
    }
    html
}

fn look(style: Style) -> String {
    let mut classes = Vec::new();
    for (on, class) in
        [(style.bold, "b"), (style.dim, "d"), (style.italic, "i"), (style.underlined, "u"), (style.struck, "s")]
    {
        if on {
            classes.push(class);
        }
    }
    let (front, behind) = match style.reversed {
        false => (css(style.colour), css(style.behind)),
        true => {
            let behind = css(style.colour).unwrap_or_else(|| "var(--front)".to_owned());
            (Some(css(style.behind).unwrap_or_else(|| "var(--term)".to_owned())), Some(behind))
        }
    };
    let mut attributes = String::new();
    if !classes.is_empty() {
        let _ = write!(attributes, " class=\"{}\"", classes.join(" "));
    }
    let colours = [("color", front), ("background", behind)];
    let colours: Vec<String> =
        colours.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name}:{value}"))).collect();
    if !colours.is_empty() {
        let _ = write!(attributes, " style=\"{}\"", colours.join(";"));
    }
    attributes
}

fn css(colour: Colour) -> Option<String> {
    let (red, green, blue) = match colour {
        Colour::Default => return None,
        Colour::Palette(number) => ansi::rgb(number),
        Colour::Rgb(red, green, blue) => (red, green, blue),
    };
    Some(format!("#{red:02x}{green:02x}{blue:02x}"))
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Input => "input",
        Kind::Model => "model",
        Kind::Tool => "tool",
        Kind::Output => "output",
        Kind::Agent => "agent",
        Kind::Session => "session",
        Kind::Service => "service",
        Kind::Record => "record",
        Kind::Other => "other",
    }
}

/// `1:02:03.4`
fn clock(seconds: f64) -> String {
    let tenths = (seconds.max(0.0) * 10.0) as u64;
    let (hours, minutes, rest) = (tenths / 36_000, tenths / 600 % 60, tenths % 600);
    let rest = format!("{:02}.{}", rest / 10, rest % 10);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest}") } else { format!("{minutes}:{rest}") }
}

/// Counts what is written.
struct Counted<W> {
    out: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
