//! The terminal of a run.

use super::check::shown;
use crate::refusal::Refusal;
use shellkeep_protocol::{self as wire, ScreenFormat};
use shellkeep_runtime::{
    DEFAULT_SCREEN_PAGE, MAX_SCREEN_PAGE, MAX_WAIT, PastScreen, PastScreenQuery, PastScreens, ScreenColour,
    ScreenCursor, ScreenQuery, ScreenRow, ScreenSpan, ScreenView, ScreenWait, SpanStyle, TerminalSize,
};
use shellkeep_session::RunId;
use std::time::Duration;

/// How long a reader waits for a screen unless it says otherwise.
const DEFAULT_WAIT: f64 = 10.0;
/// The longest silence to wait for.
const MAX_QUIET: Duration = Duration::from_secs(60);

/// The terminal of a command, if it gets one.
pub fn terminal(tty: bool, size: Option<wire::TerminalSize>) -> Result<Option<TerminalSize>, Refusal> {
    match (tty, size) {
        (true, size) => Ok(Some(size.map(terminal_size).unwrap_or_default())),
        (false, None) => Ok(None),
        (false, Some(_)) => Err(Refusal::invalid("tty_size: only a command with a terminal has one; pass tty: true")),
    }
}

/// A size.
pub fn terminal_size(size: wire::TerminalSize) -> TerminalSize {
    TerminalSize { rows: size.rows, cols: size.cols }
}

/// The response to a changed size.
pub fn resized(run_id: &RunId, size: TerminalSize) -> wire::TerminalResized {
    wire::TerminalResized { run_id: run_id.to_string(), rows: size.rows, cols: size.cols }
}

/// A request for a screen.
pub fn screen_query(wait: Option<&str>, timeout: Option<f64>, version: Option<u64>) -> Result<ScreenQuery, Refusal> {
    let wait = match wait {
        None => ScreenWait::Nothing,
        Some("change") => ScreenWait::Change { since: version },
        Some(text) => other_wait(text)?,
    };
    if version.is_some() && !matches!(wait, ScreenWait::Change { .. }) {
        return Err(Refusal::invalid("version: only wait=change compares versions"));
    }
    let seconds = timeout.unwrap_or(DEFAULT_WAIT);
    let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| *timeout <= MAX_WAIT);
    let timeout = timeout.ok_or_else(|| {
        let most = MAX_WAIT.as_secs();
        Refusal::invalid(format!("timeout: {} is not a number of seconds from 0 to {most}", shown(seconds)))
    })?;
    Ok(ScreenQuery { wait, timeout })
}

fn other_wait(text: &str) -> Result<ScreenWait, Refusal> {
    if let Some(pattern) = text.strip_prefix("match:") {
        return Ok(ScreenWait::Match(pattern.to_owned()));
    }
    let quiet = text.strip_prefix("quiet:").and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    quiet.filter(|quiet| *quiet <= MAX_QUIET).map(ScreenWait::Quiet).ok_or_else(|| {
        let (shown, most) = (text.escape_debug(), MAX_QUIET.as_millis());
        Refusal::invalid(format!(
            "wait: '{shown}' is not `change`, `quiet:MS` (0 to {most} milliseconds) or `match:REGULAR_EXPRESSION`"
        ))
    })
}

/// A request for the screens that a run had.
pub fn past_screen_query(params: &wire::PastScreenParams) -> Result<PastScreenQuery, Refusal> {
    let limit = match params.limit.unwrap_or(DEFAULT_SCREEN_PAGE) {
        limit @ 1..=MAX_SCREEN_PAGE => limit,
        limit => return Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_SCREEN_PAGE}"))),
    };
    let from = Duration::from_millis(params.from_ms.unwrap_or(0));
    Ok(PastScreenQuery { from, limit, redact: super::is_on(params.redact) })
}

/// The screens that a run had, for the caller.
pub fn past_screens(list: PastScreens) -> wire::PastScreenList {
    wire::PastScreenList {
        run_id: list.run_id.to_string(),
        screens: list.screens.into_iter().map(past_screen).collect(),
        next: list.next.map(milliseconds),
    }
}

fn past_screen(screen: PastScreen) -> wire::PastScreen {
    let row = |(row, spans): (usize, ScreenRow)| wire::PastScreenRow { row, cells: spans.iter().map(span).collect() };
    wire::PastScreen {
        at_ms: milliseconds(screen.at),
        rows: screen.size.rows,
        cols: screen.size.cols,
        cursor: cursor(screen.cursor),
        alternate: screen.alternate,
        changed: screen.changed.into_iter().map(row).collect(),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn cursor(ScreenCursor { row, col, visible }: ScreenCursor) -> wire::ScreenCursor {
    wire::ScreenCursor { row, col, visible }
}

/// A screen, for the caller.
pub fn screen(view: ScreenView, format: ScreenFormat) -> wire::ScreenResponse {
    let lines = match format {
        ScreenFormat::Ansi => view.rows.iter().map(coloured).collect(),
        ScreenFormat::Text | ScreenFormat::Cells => view.lines(),
    };
    let cells = || view.rows.iter().map(|row| row.iter().map(span).collect()).collect();
    wire::ScreenResponse {
        run_id: view.run_id.to_string(),
        rows: view.size.rows,
        cols: view.size.cols,
        cursor: cursor(view.cursor),
        alternate: view.alternate,
        lines,
        cells: (format == ScreenFormat::Cells).then(cells),
        title: view.title,
        dump: (format == ScreenFormat::Ansi).then_some(view.dump),
        version: view.version,
        offset: view.offset,
        masked: view.masked,
        running: view.running,
        timed_out: view.timed_out,
    }
}

fn span(span: &ScreenSpan) -> wire::ScreenSpan {
    let SpanStyle { foreground, background, bold, faint, italic, underline, strikethrough, blink, inverse } =
        span.style;
    wire::ScreenSpan {
        text: span.text.clone(),
        foreground: foreground.map(colour),
        background: background.map(colour),
        bold,
        faint,
        italic,
        underline,
        strikethrough,
        blink,
        inverse,
    }
}

fn colour(colour: ScreenColour) -> String {
    match colour {
        ScreenColour::Indexed(index) => index.to_string(),
        ScreenColour::Rgb { red, green, blue } => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}

/// A row with escape codes for its colours.
fn coloured(row: &ScreenRow) -> String {
    let piece = |span: &ScreenSpan| match codes(&span.style) {
        codes if codes.is_empty() => span.text.clone(),
        codes => format!("\x1b[{}m{}\x1b[0m", codes.join(";"), span.text),
    };
    row.iter().map(piece).collect()
}

fn codes(style: &SpanStyle) -> Vec<String> {
    let flags = [
        (style.bold, "1"),
        (style.faint, "2"),
        (style.italic, "3"),
        (style.underline, "4"),
        (style.blink, "5"),
        (style.inverse, "7"),
        (style.strikethrough, "9"),
    ];
    let colour = |base: u8, colour: ScreenColour| match colour {
        ScreenColour::Indexed(index) => format!("{};5;{index}", base + 8),
        ScreenColour::Rgb { red, green, blue } => format!("{};2;{red};{green};{blue}", base + 8),
    };
    let flags = flags.into_iter().filter(|(is_on, _)| *is_on).map(|(_, code)| code.to_owned());
    let colours = [(30, style.foreground), (40, style.background)];
    flags.chain(colours.into_iter().filter_map(|(base, given)| given.map(|given| colour(base, given)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_or_refused_with_what_is_valid() {
        let wait = |text| screen_query(Some(text), None, None).map(|query| query.wait);
        assert_eq!(wait("change").unwrap(), ScreenWait::Change { since: None });
        assert_eq!(wait("quiet:300").unwrap(), ScreenWait::Quiet(Duration::from_millis(300)));
        assert_eq!(wait("match:a:b").unwrap(), ScreenWait::Match("a:b".to_owned()));
        for wrong in ["quiet", "quiet:", "quiet:-1", "quiet:60001", "changed"] {
            let refusal = wait(wrong).unwrap_err();
            assert!(refusal.problem().detail.contains("`quiet:MS`"), "{wrong}: {}", refusal.problem());
        }
        let given = screen_query(Some("change"), Some(0.5), Some(7)).unwrap();
        assert_eq!(given.wait, ScreenWait::Change { since: Some(7) });
        for (timeout, version) in [(Some(-1.0), None), (Some(301.0), None), (Some(f64::NAN), None), (None, Some(1))] {
            assert!(screen_query(None, timeout, version).is_err());
        }
    }

    #[test]
    fn colours_are_codes_and_names() {
        let plain = ScreenSpan { text: "a ".to_owned(), style: SpanStyle::default() };
        let style = SpanStyle {
            bold: true,
            foreground: Some(ScreenColour::Indexed(1)),
            background: Some(ScreenColour::Rgb { red: 1, green: 2, blue: 255 }),
            ..SpanStyle::default()
        };
        let bright = ScreenSpan { text: "b".to_owned(), style };
        let named = span(&bright);
        assert_eq!((named.foreground.as_deref(), named.background.as_deref()), (Some("1"), Some("#0102ff")));
        assert_eq!(coloured(&vec![plain, bright]), "a \x1b[1;38;5;1;48;2;1;2;255mb\x1b[0m");
    }
}
