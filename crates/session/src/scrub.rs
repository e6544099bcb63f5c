//! What a scrub cannot mask.

/// A copy of what was recorded that a scrub cannot mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfReach {
    /// Backups and logs of the history database.
    HistoryLogs,
    /// Messages in the queue of the history broker.
    BrokerMessages,
    /// The database to which consumers write those messages.
    ConsumerDatabase,
    /// Data directories of nodes that had the session earlier.
    EarlierNodes,
    /// Forks, which are sessions of their own.
    Forks,
}
