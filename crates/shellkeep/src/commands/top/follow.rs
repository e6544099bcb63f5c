//! Follows a log. It requests new output a few times a second, and never more than a screen can show: a service that
//! writes very fast costs no more than a slow one.

use super::poll::{ANSWER_LIMIT, RETRY, service_path};
use crate::client::{Client, ClientError, Endpoint};
use shellkeep_protocol::LogResponse;
use shellkeep_top::wants::{Followed, News};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Bytes to start with, from the end.
const TAIL: u64 = 1 << 20;
/// Bytes asked for at a time. A follower that is further behind skips to the end.
const PAGE: u64 = 256 << 10;
/// How often to ask.
const PAUSE: Duration = Duration::from_millis(200);

/// A position in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// At its last bytes.
    End,
    /// At this byte, and this many bytes behind.
    At { offset: u64, behind: u64 },
}

/// Follows a log until it is complete or the receiver is gone.
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
            // The poller reports that the daemon is gone; here it is enough to retry.
            None => {
                client = None;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Reads one page; an error is the daemon's refusal, `None` means that it does not respond.
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
        Err(ClientError::Refused(refused)) => Some(Err(refused.to_string())),
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
