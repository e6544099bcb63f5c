//! `read_screen`: what the terminal of a command shows.

use super::handler::Handler;
use super::seat::Seat;
use super::target::Target;
use super::text::{self, paragraph};
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_protocol::{ScreenFormat, ScreenResponse};
use shellkeep_runtime::ScreenView;
use std::time::Duration;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("read_screen", DESCRIPTION, Effect::Reads),
    call: |handler, given, context| Box::pin(async move { read(handler, arguments(given)?, context).await }),
};

/// What a reader waits for unless it says otherwise: a program that draws is done after a moment of silence.
pub const QUIET: &str = "quiet:300";

const DESCRIPTION: &str = "Show the screen of a command started with tty=true: its rows, and where the cursor is.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Its id, such as r12.
    id: String,
    /// Up to 10 s: change, match:REGEX or quiet:MS (default quiet:300).
    wait: Option<String>,
}

async fn read(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let run_id = Target::run_with_terminal(&given.id)?;
    let query = translate::screen_query(Some(given.wait.as_deref().unwrap_or(QUIET)), None, None)?;
    let view = seat.screen(&run_id, query).await?;
    show(&seat, view).await
}

/// The screen of a run, for the model.
pub async fn show(seat: &Seat, view: ScreenView) -> Result<CallToolResult, Refusal> {
    let run = seat.engine.runs().view(&seat.session, &view.run_id, Duration::ZERO, 0).await?.run;
    let screen = translate::screen(view, ScreenFormat::Text);
    let mut words = in_words(&screen);
    paragraph(&mut words, &text::standing(&run));
    answer(words, &screen)
}

fn in_words(screen: &ScreenResponse) -> String {
    let ScreenResponse { rows, cols, cursor, .. } = screen;
    let used = screen.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let mut words = screen.lines[..used].join("\n");
    let mut about = format!("{rows} rows, {cols} columns");
    if cursor.visible {
        about.push_str(&format!("; cursor in row {}, column {}", cursor.row + 1, cursor.col + 1));
    }
    if screen.timed_out {
        about.push_str("; what you waited for has not happened yet");
    }
    paragraph(&mut words, &format!("[{about}]"));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_protocol::ScreenCursor;

    #[test]
    fn a_screen_is_its_rows_and_its_cursor() {
        let mut screen = ScreenResponse {
            run_id: "r1".to_owned(),
            rows: 4,
            cols: 80,
            cursor: ScreenCursor { row: 2, col: 1, visible: true },
            alternate: false,
            title: None,
            lines: ["one", "", "$", ""].map(str::to_owned).to_vec(),
            cells: None,
            dump: None,
            version: 1,
            offset: 1,
            masked: false,
            running: true,
            timed_out: false,
        };
        assert_eq!(in_words(&screen), "one\n\n$\n[4 rows, 80 columns; cursor in row 3, column 2]");
        screen.lines.fill(String::new());
        screen.cursor.visible = false;
        screen.timed_out = true;
        assert_eq!(in_words(&screen), "[4 rows, 80 columns; what you waited for has not happened yet]");
    }
}
