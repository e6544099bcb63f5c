//! Real databases for tests, and what is in their tables.

use crate::support::skip;
use shellkeep_history::{Database, Value};
use shellkeep_servers::DatabaseServer;
use std::path::Path;

pub use shellkeep_servers::Kind;

/// A running server with a database of its own.
pub struct Server(DatabaseServer);

impl Server {
    /// Starts one with an empty database; nothing if it is not installed, which is a failure in CI.
    pub fn start(kind: Kind) -> Option<Self> {
        let server = DatabaseServer::start(kind).expect("it starts");
        if server.is_none() {
            skip(&format!("{kind:?} is not installed (Debian: postgresql, mariadb-server)"));
        }
        server.map(Self)
    }

    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Takes connections with TLS too.
    pub fn use_tls(&mut self, certificate: &Path, key: &Path) {
        self.0.use_tls(certificate, key).expect("its files can be written");
        self.restart();
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.0.kill().expect("it ends");
    }

    /// Starts it again, after killing it if it runs.
    pub fn restart(&mut self) {
        self.0.restart().expect("it starts");
    }

    /// Asks for rows. A new connection each time: the server may have been killed.
    pub fn ask(&self, sql: &str) -> Vec<Vec<Value>> {
        self.connect().query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
    }

    /// The same, if the server answers and the tables are there.
    pub fn try_ask(&self, sql: &str) -> Option<Vec<Vec<Value>>> {
        Some(shellkeep_history::open(&self.url()).ok()?.query(sql, &[]).ok()?.rows)
    }

    pub fn connect(&self) -> Box<dyn Database> {
        shellkeep_history::open(&self.url()).expect("it answers")
    }

    /// The first value of the first row, as text.
    pub fn text(&self, sql: &str) -> String {
        match &self.ask(sql)[0][0] {
            Value::Int(number) => number.to_string(),
            value => value.as_str().map(str::to_owned).unwrap_or_else(|| format!("{value:?}")),
        }
    }
}
