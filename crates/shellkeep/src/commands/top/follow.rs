//! Follows a log. It asks for what is new a few times a second, and never for more than a person can have missed: a
//! service that writes faster than anybody reads costs no more than one that does not.

use super::poll::{ANSWER_LIMIT, RETRY, service_path};
use crate::client::{Client, ClientError, Endpoint};
use shellkeep_protocol::LogResponse;
use shellkeep_top::wants::{Followed, News};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Bytes to begin with, from the end.
const TAIL: u64 = 1 << 20;
/// Bytes asked for at a time. Who is further behind than this goes on at the end.
const PAGE: u64 = 256 << 10;
/// How often to ask.
const PAUSE: Duration = Duration::from_millis(200);

/// Where in a log one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// At its last bytes.
    End,
    /// At this byte, and behind by so many.
    At { offset: u64, behind: u64 },
}

/// Follows a log until it is complete or nobody listens.
pub async fn follow(endpoint: Endpoint, log: Followed, news: mpsc::Sender<News>) {
    let mut client: Option<Client> = None;
    let mut place = Position::End;
    loop {
        match page(&mut client, &endpoint, &log, place).await {
            Some(Ok(page)) => {
                let (complete, behind) = (page.complete, page.total.saturating_sub(page.next_offset));
                place = Position::At { offset: page.next_offset, behind };
                let unheard = news.send(News::Log { log: log.clone(), page: Ok(Box::new(page)) }).await.is_err();
                if unheard || (complete && behind == 0) {
                    return;
                }
                if behind == 0 {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Some(Err(reason)) => {
                let _ = news.send(News::Log { log, page: Err(reason) }).await;
                return;
            }
            // The poller says that the daemon is gone; here it is enough to try again.
            None => {
                client = None;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Reads one page; an error is the daemon's refusal, nothing means that it does not answer.
async fn page(
    client: &mut Option<Client>,
    endpoint: &Endpoint,
    log: &Followed,
    place: Position,
) -> Option<Result<LogResponse, String>> {
    let client = match client {
        Some(client) => client,
        None => client.insert(timeout(ANSWER_LIMIT, Client::connect(endpoint)).await.ok()?.ok()?),
    };
    let path = format!("{}/logs?{}", service_path(&log.key), query(place));
    match timeout(ANSWER_LIMIT, client.get(&path)).await.ok()? {
        Ok(page) => Some(Ok(page)),
        Err(ClientError::Refused(problem)) => Some(Err(problem.to_string())),
        Err(ClientError::Broken(_)) => None,
    }
}

fn query(place: Position) -> String {
    match place {
        Position::At { offset, behind } if behind <= PAGE => format!("offset={offset}&limit={PAGE}"),
        Position::At { .. } => format!("tail={PAGE}"),
        Position::End => format!("tail={TAIL}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_far_behind_goes_on_at_the_end() {
        assert_eq!(query(Position::End), "tail=1048576");
        assert_eq!(query(Position::At { offset: 7, behind: 0 }), "offset=7&limit=262144");
        assert_eq!(query(Position::At { offset: 7, behind: PAGE + 1 }), "tail=262144");
    }
}
