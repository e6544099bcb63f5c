//! The URLs of history.

use crate::database::DatabaseError;

/// What history is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A database.
    Database,
    /// A broker, from which `shellkeep history consume` writes it to a database.
    Broker,
}

/// What a URL names.
pub fn kind(url: &str) -> Result<Kind, DatabaseError> {
    match url.split_once("://") {
        Some(("postgres" | "postgresql" | "mysql" | "mariadb", rest)) if !rest.is_empty() => Ok(Kind::Database),
        Some(("amqp", _)) => BrokerAddress::parse(url).map(|_| Kind::Broker),
        _ => Err(bad(
            url,
            "use postgres://USER:PASSWORD@HOST:PORT/DATABASE, mysql://USER:PASSWORD@HOST:PORT/DATABASE or \
             amqp://USER:PASSWORD@HOST:PORT/VHOST",
        )),
    }
}

/// A URL without its user and password, for showing.
pub fn without_login(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place)),
        None => url.to_owned(),
    }
}

pub(crate) fn bad(url: &str, reason: impl ToString) -> DatabaseError {
    DatabaseError::BadUrl { url: without_login(url), reason: reason.to_string() }
}

/// The queue, unless the URL names another one.
const QUEUE: &str = "shellkeep.history";

/// The usual port of AMQP.
const PORT: u16 = 5672;

/// The longest name of a queue or a virtual host that AMQP can carry, with room for a suffix.
const MOST_NAME: usize = 200;

/// Where a queue is: `amqp://USER:PASSWORD@HOST:PORT/VHOST?queue=NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerAddress {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub vhost: String,
    pub queue: String,
}

impl BrokerAddress {
    /// Reads a URL. What it leaves out is as RabbitMQ has it after its installation.
    pub(crate) fn parse(url: &str) -> Result<Self, DatabaseError> {
        let wrong = |reason: &str| bad(url, format!("{reason}; use amqp://USER:PASSWORD@HOST:PORT/VHOST?queue=NAME"));
        let decoded = |text: &str| percent_decoded(text).ok_or_else(|| wrong("a % is not followed by two digits"));
        let rest = url.strip_prefix("amqp://").ok_or_else(|| wrong("it does not begin with amqp://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = authority.rsplit_once('@').unwrap_or(("guest:guest", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong("the port is not a number"))?),
            None => (place, PORT),
        };
        let queue = match query.split_once('=') {
            Some(("queue", name)) => decoded(name)?,
            _ if query.is_empty() => QUEUE.to_owned(),
            _ => return Err(wrong("it has a parameter that is not queue")),
        };
        let vhost = if path.is_empty() { "/".to_owned() } else { decoded(path)? };
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        if queue.is_empty() || queue.len() > MOST_NAME || vhost.len() > MOST_NAME {
            return Err(wrong("the queue or the virtual host has no name, or a name of more than 200 bytes"));
        }
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self { host, port, user: decoded(user)?, password: decoded(password)?, vhost, queue })
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_and_passwords_are_not_shown() {
        for url in ["postgres://u:p@h/d", "postgresql://h/d", "mysql://h/d", "mariadb://h/d"] {
            assert_eq!(kind(url), Ok(Kind::Database), "{url}");
        }
        assert_eq!(kind("amqp://u:p@h"), Ok(Kind::Broker));
        for url in ["", "postgres", "postgres://", "sqlite://x", "http://u:secret@h"] {
            let error = kind(url).expect_err(url).to_string();
            assert!(error.contains("postgres://USER") && !error.contains("secret"), "{error}");
        }
        assert_eq!(without_login("mysql://u:p@ss@h:1/d"), "mysql://h:1/d");
    }

    #[test]
    fn the_address_of_a_broker_is_read_from_its_url() {
        let address = |url: &str| BrokerAddress::parse(url).expect(url);
        let full = address("amqp://ann:p%40ss@h.example:1234/%2Fteam?queue=q%20x");
        assert_eq!((full.host.as_str(), full.port, full.user.as_str()), ("h.example", 1234, "ann"));
        assert_eq!((full.password.as_str(), full.vhost.as_str(), full.queue.as_str()), ("p@ss", "/team", "q x"));
        let short = address("amqp://h");
        assert_eq!((short.port, short.user.as_str(), short.vhost.as_str()), (PORT, "guest", "/"));
        assert_eq!(short.queue, QUEUE);
        assert_eq!(address("amqp://u@[::1]:7/").host, "::1");
        for wrong in
            ["amqp://", "amqp://u:secret@", "amqp://h:x", "amqp://h/%zz", "amqp://h?heartbeat=1", "amqp://h?queue="]
        {
            let error = BrokerAddress::parse(wrong).expect_err(wrong).to_string();
            assert!(error.contains("amqp://USER:PASSWORD@HOST:PORT/VHOST") && !error.contains("secret"), "{error}");
        }
    }
}
