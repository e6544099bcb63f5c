//! The disk space that checkpoints use, of one session or of all.

use crate::client::paths::of_session;
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Colour, Column, Table, TableArgs};
use serde_json::json;
use shellkeep_protocol::{CheckpointUsage, SessionList};
use shellkeep_terminal::words;

/// Sessions asked for at a time.
const PAGE: usize = 1000;

/// What is done before the space is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// Old checkpoints are pruned.
    Thin,
}

/// Shows the space that the checkpoints of a session use, or of all.
pub async fn show(client: &mut Client, session: Option<&str>, before: Before, json: bool) -> Result<(), Failure> {
    let all = session.is_none();
    let asking = async {
        match session {
            Some(session) => Ok(vec![ask(client, session, before).await?]),
            None => of_all(client, before).await,
        }
    };
    let words = match before {
        Before::Nothing => "counting",
        Before::Thin => "pruning old checkpoints",
    };
    let mut uses: Vec<CheckpointUsage> = terminal::patiently(words, asking).await?;
    if json {
        let sum = |part: fn(&CheckpointUsage) -> u64| uses.iter().map(part).sum::<u64>();
        let bytes = sum(|one| one.bytes);
        let mut told = json!({"sessions": uses, "bytes": bytes});
        if before == Before::Thin {
            told["reclaimed"] = sum(|one| one.reclaimed.unwrap_or(0)).into();
        }
        return terminal::json(&told);
    }
    uses.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    let total: u64 = uses.iter().map(|one| one.bytes).sum();
    let sessions = uses.len();
    let rows = uses.into_iter().map(|one| {
        let nearly = one.bytes.saturating_mul(10) > one.limit.saturating_mul(9);
        let back = one.reclaimed.map_or_else(Cell::default, |bytes| {
            let [exact, short] = [bytes.to_string(), words::bytes(bytes)].map(|size| format!("reclaimed {size}"));
            Cell::short(exact, short)
        });
        [
            one.session_id.into(),
            one.checkpoints.to_string().into(),
            Cell::size(one.bytes).in_colour(nearly.then_some(Colour::Yellow)),
            Cell::size(one.limit),
            back,
        ]
    });
    let columns = [
        Column::id("session"),
        Column::number("checkpoints"),
        Column::number("on disk"),
        Column::number("limit"),
        Column::text(""),
    ];
    terminal::show(&Table::new(columns, rows.collect()), TableArgs::default(), "no sessions");
    if all && terminal::is_terminal() {
        terminal::line(format!("{} in {}", words::bytes(total), words::counted(sessions, "session")));
    }
    Ok(())
}

async fn ask(client: &mut Client, session: &str, before: Before) -> Result<CheckpointUsage, Failure> {
    Ok(ask_one(client, &of_session(session, "checkpoints")?, before).await?)
}

async fn ask_one(client: &mut Client, path: &str, before: Before) -> Result<CheckpointUsage, ClientError> {
    match before {
        Before::Nothing => client.get(&format!("{path}/usage")).await,
        Before::Thin => client.post(&format!("{path}/thin"), &json!({})).await,
    }
}

async fn of_all(client: &mut Client, before: Before) -> Result<Vec<CheckpointUsage>, Failure> {
    let mut uses = Vec::new();
    let mut after = String::new();
    loop {
        let page: SessionList = client.get(&format!("/v1/sessions?limit={PAGE}&after={after}")).await?;
        for session in page.sessions {
            match ask_one(client, &of_session(&session.session_id, "checkpoints")?, before).await {
                Ok(usage) => uses.push(usage),
                // It was deleted after the list was read.
                Err(ClientError::Refused(refused)) if refused.problem.status == 404 => {}
                // An unreadable one must not hide the others.
                Err(ClientError::Refused(refused)) => {
                    terminal::notice(&format!("{}: {refused}", session.session_id));
                }
                Err(error) => return Err(error.into()),
            }
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(uses),
        }
    }
}
