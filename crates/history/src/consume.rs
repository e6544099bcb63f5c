//! From the queue of a broker into a database. Any number of consumers may do this at the same time: each message is
//! acknowledged after the database has committed it, and a message that comes again changes nothing.

use crate::broker::{Broker, BrokerError, Deliveries, Entered, Tasks};
use crate::database::{Database, DatabaseError};
use crate::message::{Delivered, Message, MessageError};
use crate::retention::{Passes, Removal, Removed, Retention};
use crate::url::{self, BrokerAddress, Kind};
use crate::{open, received, schema, write};
use std::io;
use std::time::Duration;
use tokio::sync::watch;

/// First and longest pause between attempts to reach database and broker.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often an idle connection to the database is tried.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// What a consumer says about its work.
#[derive(Debug)]
pub enum Report {
    /// It is connected to both.
    Connected,
    /// It cannot work now, and will try again.
    Failed {
        /// Why.
        error: String,
    },
    /// A message was committed and acknowledged.
    Written {
        /// Its records; none if it had parts of recordings.
        records: usize,
    },
    /// A message could not be read and was moved to another queue.
    SetAside {
        /// That queue.
        queue: String,
        /// Why.
        error: String,
    },
    /// What was too old was removed.
    Removed(Removed),
}

/// What a consumer does.
#[derive(Debug, Clone)]
pub struct ConsumeOptions {
    /// The broker.
    pub from: String,
    /// The database.
    pub into: String,
    /// How long history is kept there.
    pub retention: Retention,
}

/// Why a consumer stopped for good: trying again would not help.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// A URL cannot be used, or the tables are newer than this program.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A message is newer than this program.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// There are no threads for the connection.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Why a consumer left its connections.
enum Left {
    /// Trying again may help.
    Failed(String),
    ForGood(ConsumeError),
}

impl From<DatabaseError> for Left {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Failed { reason } | DatabaseError::Taken { reason } => {
                Self::Failed(format!("the database: {reason}"))
            }
            error => Self::ForGood(error.into()),
        }
    }
}

impl From<BrokerError> for Left {
    fn from(error: BrokerError) -> Self {
        Self::Failed(format!("the broker: {error}"))
    }
}

/// What the URL of a database looks like.
const DATABASES: &str = "use postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// Writes what comes out of a queue to a database, until `stop` changes.
pub fn consume(
    options: &ConsumeOptions,
    stop: watch::Receiver<bool>,
    report: impl FnMut(Report),
) -> Result<(), ConsumeError> {
    let ConsumeOptions { from, into, retention } = options;
    let address = BrokerAddress::parse(from)?;
    let reason = match url::kind(into) {
        Ok(Kind::Database) => None,
        Ok(Kind::Broker) => Some("it is a broker; name a database"),
        Err(_) => Some("it names no database"),
    };
    if let Some(reason) = reason {
        return Err(url::bad(into, format!("{reason}; {DATABASES}")).into());
    }
    let tasks = Tasks::new()?;
    let mut consumer = Consumer { stop, report, passes: Passes::new(retention.clone()), pause: PAUSES.0 };
    let within = tasks.enter();
    loop {
        let followed = connect(&within, &address, into)
            .and_then(|(mut database, mut deliveries)| consumer.follow(&mut *database, &mut deliveries));
        let error = match followed {
            Ok(()) => return Ok(()),
            Err(Left::ForGood(error)) => return Err(error),
            Err(Left::Failed(error)) => error,
        };
        (consumer.report)(Report::Failed { error });
        if within.rest(consumer.pause, &mut consumer.stop) {
            return Ok(());
        }
        consumer.pause = (consumer.pause * 2).min(PAUSES.1);
    }
}

fn connect<'a>(
    within: &'a Entered<'a>,
    address: &BrokerAddress,
    into: &str,
) -> Result<(Box<dyn Database>, Deliveries<'a>), Left> {
    let mut database = open::open(into)?;
    schema::migrate(&mut *database)?;
    Ok((database, Broker::open(within, address)?.consume()?))
}

/// Writes a message; how many records it had.
fn write_message(database: &mut dyn Database, message: &Message) -> Result<usize, DatabaseError> {
    match &message.content {
        Delivered::Records(items) => {
            let incoming = items.incoming();
            let records = incoming.len();
            write::write_delivered(database, &message.source, &incoming)?;
            Ok(records)
        }
        Delivered::Proofs(parts) => received::write_parts(database, &message.source, parts).map(|()| 0),
    }
}

struct Consumer<R> {
    stop: watch::Receiver<bool>,
    report: R,
    passes: Passes,
    pause: Duration,
}

impl<R: FnMut(Report)> Consumer<R> {
    /// Writes until that fails or the consumer is asked to stop.
    fn follow(&mut self, database: &mut dyn Database, deliveries: &mut Deliveries) -> Result<(), Left> {
        (self.report)(Report::Connected);
        loop {
            let most = match self.passes.step(|pass| pass.step(database))? {
                Removal::Idle => TRY_EVERY,
                Removal::UnderWay => Duration::ZERO,
                Removal::Done(removed) => {
                    if removed.rows > 0 {
                        (self.report)(Report::Removed(removed));
                    }
                    TRY_EVERY
                }
            };
            let next = deliveries.next(most, &mut self.stop)?;
            if *self.stop.borrow() {
                return Ok(());
            }
            let Some(delivery) = next else {
                database.query("SELECT 1", &[])?;
                continue;
            };
            match Message::decode(&delivery.body) {
                Ok(message) => {
                    let records = write_message(database, &message)?;
                    deliveries.done(&delivery)?;
                    (self.report)(Report::Written { records });
                    self.pause = PAUSES.0;
                }
                Err(error @ MessageError::Newer { .. }) => return Err(Left::ForGood(error.into())),
                Err(error) => {
                    let queue = deliveries.set_aside(&delivery)?;
                    (self.report)(Report::SetAside { queue, error: error.to_string() });
                }
            }
        }
    }
}
