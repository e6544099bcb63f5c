//! One event in detail: a command as a terminal showed it, everything else field by field.

use super::changed::Changed;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;
use shellkeep_record::Line as Event;
use shellkeep_record::export::ansi::{self, Colour};
use shellkeep_record::export::frames::{TOLD, cut, text};
use shellkeep_record::export::outline::outline;
use shellkeep_record::player::{Kind, kind, span};
use shellkeep_record::runs::is_run;
use shellkeep_session::{Source, Timestamp};
use shellkeep_terminal::theme::{Level, Theme};

/// How many bytes of a text are shown; `o` opens the rest.
const MOST_TEXT: usize = 64 << 10;
/// The colour of a kind of events.
pub fn hue(kind: Kind, theme: Theme) -> Style {
    match kind {
        Kind::Input => theme.painted(Color::Cyan),
        Kind::Model => theme.painted(Color::Magenta),
        Kind::Tool => theme.painted(Color::Blue),
        Kind::Output => theme.painted(Color::Green),
        Kind::Agent => theme.painted(Color::Yellow),
        Kind::Service => theme.painted(Color::LightGreen),
        Kind::Record => theme.painted(Color::Red),
        Kind::Session => theme.faint(),
        Kind::Other => Style::new(),
    }
}

/// The lines of an event, with the files that it changed.
pub fn lines(event: &Event, files: &Changed, began: Option<Timestamp>, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = head(event, began, theme).to_vec();
    match event.author.source {
        Source::Runtime => {}
        Source::Unknown => lines.push(Line::styled("source unknown", theme.faint())),
        Source::Host => lines.push(Line::styled("posted by the host", theme.faint())),
        Source::Agent => {
            let words = ansi::plain(&format!("posted by {}: not verified by shellkeep", event.author));
            lines.push(Line::styled(words, theme.level(Level::Near)));
        }
    }
    lines.push(Line::default());
    if is_run(event) {
        command(&mut lines, &text(event.data.pointer("/parameters/command")), theme);
        printed(&mut lines, event, "output", "stdout", theme);
        if !text(event.data.get("stderr")).is_empty() {
            lines.push(Line::styled("── standard error ──", theme.faint()));
            printed(&mut lines, event, "stderr", "stderr", theme);
        }
        lines.push(Line::default());
        lines.push(ending(&event.data, theme));
    } else if event.event_type == "run_started" {
        command(&mut lines, &text(event.data.get("command")), theme);
    }
    let files = files.lines(theme);
    if is_run(event) && !files.is_empty() {
        lines.push(Line::default());
    }
    lines.extend(files);
    let told: &[&str] = match event.event_type.as_str() {
        _ if is_run(event) => &TOLD,
        "run_started" => &["command"],
        _ => &[],
    };
    match &event.data {
        Value::Object(map) => {
            for (name, value) in map.iter().filter(|(name, _)| !told.contains(&name.as_str())) {
                field(&mut lines, name, value, theme);
            }
        }
        other => field(&mut lines, "data", other, theme),
    }
    if !event.proof.masked.is_empty() {
        let words = format!("{} of its fields are masked permanently", event.proof.masked.len());
        lines.push(Line::styled(words, theme.level(Level::Near)));
    }
    lines
}

/// A text as a terminal would show it.
pub fn terminal(text: &str, theme: Theme) -> Vec<Line<'static>> {
    let row = |line: &Vec<ansi::Span>| {
        Line::from(line.iter().map(|span| Span::styled(span.text.clone(), look(span.style, theme))).collect::<Vec<_>>())
    };
    ansi::lines(text).iter().map(row).collect()
}

/// Type and time, each on its own line: together they are wider than half of a small screen.
fn head(event: &Event, began: Option<Timestamp>, theme: Theme) -> [Line<'static>; 2] {
    let offset = began.map_or(0.0, |began| event.timestamp.duration_since(began).as_secs_f64());
    let style = hue(kind(&event.event_type), theme).add_modifier(Modifier::BOLD);
    [
        Line::styled(ansi::plain(&event.event_type), style),
        Line::styled(format!("{}  +{offset:.1} s", event.timestamp.strftime("%Y-%m-%d %H:%M:%S")), theme.faint()),
    ]
}

fn command(lines: &mut Vec<Line<'static>>, command: &str, theme: Theme) {
    for (number, line) in cut(command, MOST_TEXT).trim_end_matches('\n').split('\n').enumerate() {
        let sign = if number == 0 { "$ " } else { "> " };
        let typed = Span::styled(ansi::plain(line), theme.figure());
        lines.push(Line::from(vec![Span::styled(sign, theme.level(Level::Good)), typed]));
    }
}

/// What a command printed to one stream.
fn printed(lines: &mut Vec<Line<'static>>, event: &Event, name: &str, stream: &str, theme: Theme) {
    let all = text(event.data.get(name));
    let shown = cut(&all, MOST_TEXT);
    lines.extend(terminal(shown, theme));
    let total = event.data.get(format!("{stream}_bytes")).and_then(Value::as_u64).unwrap_or(0);
    let in_file = event.data.get(format!("{stream}_file")).is_some();
    if in_file || shown.len() < all.len() {
        let left = total.max(all.len() as u64).saturating_sub(shown.len() as u64);
        lines.push(Line::styled(format!("… {left} more bytes; o opens all of it"), theme.level(Level::Near)));
    }
}

fn ending(data: &Value, theme: Theme) -> Line<'static> {
    let status = text(data.get("status"));
    let (words, level) = match (status.as_str(), data["exit_code"].as_i64()) {
        ("exited", Some(0)) => ("exit 0".to_owned(), Level::Good),
        ("exited", Some(code)) => (format!("exit {code}"), Level::Bad),
        (other, Some(code)) => (format!("{}, exit {code}", other.replace('_', " ")), Level::Bad),
        (other, None) => (other.replace('_', " "), Level::Bad),
    };
    let took = data["duration"].as_f64().map_or_else(String::new, |seconds| format!("  {}", span(seconds)));
    Line::from(vec![Span::styled(ansi::plain(&words), theme.level(level)), Span::styled(took, theme.faint())])
}

fn field(lines: &mut Vec<Line<'static>>, name: &str, value: &Value, theme: Theme) {
    if name == "notices" {
        for notice in value.as_array().into_iter().flatten() {
            let sentence = ansi::plain(&text(notice.get("message")));
            lines.push(Line::styled(format!("⚠ {sentence}"), theme.level(Level::Near)));
        }
        return;
    }
    let name = Span::styled(format!("{}  ", ansi::plain(name)), theme.faint());
    let shown = match value {
        Value::String(text) => cut(text, MOST_TEXT).to_owned(),
        other => outline(other),
    };
    if shown.is_empty() && !value.is_string() {
        return;
    }
    let mut rows = terminal(cut(&shown, MOST_TEXT), theme);
    if rows.len() <= 1 && !value.is_object() {
        let mut line = Line::from(name);
        line.spans.extend(rows.pop().unwrap_or_default().spans);
        lines.push(line);
    } else {
        lines.push(Line::from(name));
        lines.extend(rows.into_iter().map(|mut row| {
            row.spans.insert(0, Span::raw("  "));
            row
        }));
    }
}

fn look(style: ansi::Style, theme: Theme) -> Style {
    let mut look = Style::new();
    // With NO_COLOR, the output's own colours are dropped too.
    if theme.painted(Color::Red) != Style::new() {
        if let Some(colour) = colour(style.colour) {
            look = look.fg(colour);
        }
        if let Some(colour) = colour(style.behind) {
            look = look.bg(colour);
        }
    }
    for (on, modifier) in [
        (style.bold, Modifier::BOLD),
        (style.dim, Modifier::DIM),
        (style.italic, Modifier::ITALIC),
        (style.underlined, Modifier::UNDERLINED),
        (style.reversed, Modifier::REVERSED),
        (style.struck, Modifier::CROSSED_OUT),
    ] {
        if on {
            look = look.add_modifier(modifier);
        }
    }
    look
}

fn colour(colour: Colour) -> Option<Color> {
    match colour {
        Colour::Default => None,
        Colour::Palette(number) => Some(Color::Indexed(number)),
        Colour::Rgb(red, green, blue) => Some(Color::Rgb(red, green, blue)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(event_type: &str, data: Value) -> Vec<String> {
        let timestamp: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let event = Event {
            seq: 1,
            event_type: event_type.to_owned(),
            timestamp,
            data,
            author: shellkeep_session::Author::runtime(None),
            ..Event::default()
        };
        lines(&event, &Changed::default(), Some(timestamp), Theme::new(false)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_command_is_shown_as_on_a_terminal() {
        let data = json!({"tool_name": "run_command", "parameters": {"command": "make\ntest"}, "run_id": "r1",
            "output": "10%\r99%\n", "stderr": "\u{1b}[31moops\u{1b}[0m\n", "status": "exited", "exit_code": 2,
            "duration": 1.25, "cwd": "/w", "stdout_bytes": 8, "stderr_bytes": 13,
            "notices": [{"code": "not_kept", "message": "set -e was not kept"}]});
        let lines = shown("tool_call", data);
        let expected = [
            "tool_call",
            "2026-01-02 03:04:05  +0.0 s",
            "",
            "$ make",
            "> test",
            "99%",
            "── standard error ──",
            "oops",
            "",
            "exit 2  1.2 s",
            "cwd  /w",
            "⚠ set -e was not kept",
            "run_id  r1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn other_events_are_told_field_by_field() {
        let lines =
            shown("llm_call", json!({"prompt": "two\nlines", "response": "ok", "token_usage": {"in": 1}, "x": null}));
        let expected = ["prompt  ", "  two", "  lines", "response  ok", "token_usage  ", "  in  1"];
        assert_eq!(lines[3..], expected);
        assert!(shown("x_evil", json!({"a\u{1b}[2J": "\u{1b}]0;t\u{7}b"})).iter().all(|line| !line.contains('\u{1b}')));
    }
}
