//! A connection to PostgreSQL on which every question has a deadline.

use crate::tier::{Down, OpenError};
use shellkeep_tls::postgres::{self as tls, Tls};
use std::error::Error as _;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};

/// How long the server may take to answer, or to take a connection. A node goes on by itself afterwards.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long it may take to make the tables, once.
const MAKING: Duration = Duration::from_secs(5);

/// Held while tables are made: all nodes may start at once. The number is arbitrary.
const MAKING_LOCK: &str = "SELECT pg_advisory_xact_lock(7433150001)";

/// Whether all tables and the sequence are there: somebody may have dropped some of them, or an older version made them.
const IS_MADE: &str = "SELECT bool_and(to_regclass(wanted) IS NOT NULL) FROM unnest(ARRAY['sk_shared_heads', \
    'sk_shared_log', 'sk_shared_removed', 'sk_shared_removed_by_end', 'sk_shared_agent_services', 'sk_shared_tokens', \
    'sk_shared_tokens_version', 'sk_shared_nodes']) AS wanted";

/// How the client tells that it lacks a setting.
const BAD_SETTINGS: &str = "invalid configuration";

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// The server or the connection failed.
    #[error(transparent)]
    Database(#[from] Error),
    /// The time is up.
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// It is not our table, or a later version's.
    #[error("the tables in this database are not shellkeep's: {0}")]
    Foreign(String),
}

/// A server, connected when it is first used.
pub(super) struct Server {
    config: Config,
    /// None if it is used without TLS.
    tls: Option<Tls>,
    /// Its address without the password, for people.
    shown: String,
    runtime: Runtime,
    live: Option<Client>,
    pub(super) connections: u64,
}

impl Server {
    pub(super) fn new(url: &str) -> Result<Self, OpenError> {
        let shown = without_login(url);
        let wrong = |reason: String| OpenError::BadUrl { url: shown.clone(), reason };
        let (url, asked) = tls::take_from(url).map_err(wrong)?;
        let mut config: Config = url.parse().map_err(|error: Error| wrong(error.to_string()))?;
        let tls = if asked.mode == SslMode::Disable { None } else { Some(Tls::new(&asked).map_err(wrong)?) };
        config.application_name("shellkeep").connect_timeout(PATIENCE).ssl_mode(asked.mode);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wrong(error.to_string()))?;
        Ok(Self { config, tls, shown, runtime, live: None, connections: 0 })
    }

    /// Asks the server. A connection that has broken since it was last used is replaced, and the question is put again:
    /// every question can be repeated.
    pub(super) fn ask<T>(&mut self, question: impl AsyncFn(&mut Client) -> Result<T, Failed>) -> Result<T, Down> {
        let Self { config, tls, shown, runtime, live, connections } = self;
        let asked = runtime.block_on(async {
            if let Some(client) = live.as_mut() {
                match within(PATIENCE, question(client)).await {
                    Err(Failed::Database(error)) if error.is_closed() => {}
                    answer => return answer,
                }
            }
            let client = live.insert(within(PATIENCE, connect(config, tls.as_ref())).await?);
            within(MAKING, make(client)).await?;
            *connections += 1;
            within(PATIENCE, question(client)).await
        });
        asked.map_err(|error| {
            // What was asked may still be under way there: the next question gets another connection.
            *live = None;
            Down { is_refused: is_refused(&error), ..Down::new(format!("{shown}: {}", said(&error))) }
        })
    }
}

async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::time::timeout(time, work).await.unwrap_or(Err(Failed::Late(time)))
}

async fn connect(config: &Config, tls: Option<&Tls>) -> Result<Client, Failed> {
    // A connection ends with its client; what it says then, the client has said too.
    match tls {
        None => {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(async { drop(connection.await) });
            Ok(client)
        }
        Some(tls) => {
            let (client, connection) = config.connect(tls.clone()).await?;
            tokio::spawn(async { drop(connection.await) });
            Ok(client)
        }
    }
}

/// Makes the tables if they are not there.
async fn make(client: &mut Client) -> Result<(), Failed> {
    let is_made = async |client: &tokio_postgres::Client| -> Result<bool, Failed> {
        Ok(client.query_one(IS_MADE, &[]).await?.try_get(0)?)
    };
    if is_made(client).await? {
        return Ok(());
    }
    let making = client.transaction().await?;
    making.batch_execute(MAKING_LOCK).await?;
    if !is_made(making.client()).await? {
        making.batch_execute(include_str!("schema.sql")).await?;
    }
    Ok(making.commit().await?)
}

/// Whether the server refuses this node until the settings are changed.
fn is_refused(failed: &Failed) -> bool {
    let Failed::Database(error) = failed else { return false };
    let refusals = [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ];
    // The client says so itself if the server wants a password and the URL has none.
    error.code().map_or_else(|| error.to_string().starts_with(BAD_SETTINGS), |code| refusals.contains(code))
}

/// What the server said, if it did; its text is not in the error's own.
fn said(failed: &Failed) -> String {
    match failed {
        Failed::Database(error) => {
            let whole = || match error.source() {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            };
            error.as_db_error().map_or_else(whole, |said| said.message().to_owned())
        }
        other => other.to_string(),
    }
}

fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "postgres".to_owned() };
    format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
}
