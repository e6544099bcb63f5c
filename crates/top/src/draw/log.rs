//! A log, with what was searched for.

use super::parts::{Look, framed, nothing, title};
use crate::log::Log;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use shellkeep_terminal::theme::Level;
use shellkeep_terminal::words;
use std::ops::Range;

/// The pane of a log.
pub fn pane(frame: &mut Frame<'_>, area: Rect, log: &Log, look: Look) {
    let key = &log.which.key;
    let heading = format!("log of {} · {} · session {}", key.service, log.name, key.session);
    let (words, level) = match (&log.problem, log.complete, log.follow) {
        (Some(_), ..) => ("cannot be read", Level::Bad),
        (None, true, _) => ("ended", Level::Past),
        (None, false, true) => ("following", Level::Good),
        (None, false, false) => ("paused; f follows", Level::Near),
    };
    let state = Line::styled(format!(" ● {words} "), look.theme.level(level)).right_aligned();
    let block = framed(title(&words::clean(&heading), look), look)
        .title(state)
        .title_bottom(Line::styled(place(log), look.theme.faint()).right_aligned());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    if log.length() == 0 {
        let words = log.problem.as_deref().unwrap_or("no output yet");
        return nothing(frame, inside, &words::clean(words), look.theme.faint());
    }
    let lines: Vec<Line<'_>> = log.window().map(|line| marked(&line, log, look)).collect();
    frame.render_widget(Paragraph::new(lines), inside);
}

/// Where one is.
fn place(log: &Log) -> String {
    let length = log.length();
    let before = match log.before {
        0 => String::new(),
        bytes => format!("{} before · ", words::bytes(bytes)),
    };
    let lines = format!("line {} of {}", words::count(log.top() as u64 + 1), words::count(length as u64));
    format!(" {before}{lines} ")
}

/// A line without what is scrolled out to the left, with the places that were searched for.
fn marked(line: &str, log: &Log, look: Look) -> Line<'static> {
    let shown: String = line.chars().skip(log.left).collect();
    let Some(wanted) = &log.search else { return Line::raw(shown) };
    let mut spans = Vec::new();
    let mut rest = shown.as_str();
    while let Some(found) = find(rest, wanted) {
        spans.push(Span::raw(rest[..found.start].to_owned()));
        spans.push(Span::styled(rest[found.clone()].to_owned(), look.theme.found()));
        rest = &rest[found.end..];
    }
    spans.push(Span::raw(rest.to_owned()));
    Line::from(spans)
}

/// Where `wanted`, which is in small letters, is in a text, whatever its letters. Small letters may have other lengths
/// than capital ones, so that their places are counted in characters.
fn find(text: &str, wanted: &str) -> Option<Range<usize>> {
    text.char_indices().find_map(|(start, _)| {
        let mut left = wanted;
        for (place, c) in text[start..].char_indices() {
            for small in c.to_lowercase() {
                left = left.strip_prefix(small)?;
            }
            if left.is_empty() {
                return Some(start..start + place + c.len_utf8());
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_search_finds_its_place_whatever_the_letters() {
        assert_eq!(find("an Error", "error"), Some(3..8));
        assert_eq!(find("İstanbul STRASSE", "strasse"), Some(10..17));
        assert_eq!(find("ab", "abc"), None);
        assert_eq!(find("", "x"), None);
    }
}
