//! Where the server is: named in the URL, or found by asking Sentinels.

use crate::tier::OpenError;
use redis::{Client, Connection, ErrorKind, RedisError, RedisResult, cmd};
use std::fmt;
use std::time::Duration;

const SENTINEL: &str = "redis+sentinel://";
const SENTINEL_TLS: &str = "rediss+sentinel://";

/// The port of a Sentinel whose address has none.
const SENTINEL_PORT: u16 = 26379;

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// At a URL.
    Fixed {
        /// The URL, with its password.
        url: String,
        /// The same without, for people.
        shown: String,
    },
    /// Wherever the Sentinels say.
    Sentinels {
        /// Their addresses, as `host:port`.
        sentinels: Vec<String>,
        /// Whether they, and the server, are used with TLS.
        has_tls: bool,
        /// What they call the server.
        name: String,
        /// User and password of the server with an `@`, or nothing.
        login: String,
        /// Number of the database.
        database: u32,
    },
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let shown = without_login(url);
        let wrong = |reason: &str| OpenError::BadUrl { url: shown.clone(), reason: reason.to_owned() };
        let plain = url.strip_prefix(SENTINEL).map(|rest| (rest, false));
        let Some((rest, has_tls)) = plain.or(url.strip_prefix(SENTINEL_TLS).map(|rest| (rest, true))) else {
            return match Client::open(url) {
                Ok(_) => Ok(Self::Fixed { url: url.to_owned(), shown }),
                Err(error) => Err(wrong(&error.to_string())),
            };
        };
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (String::new(), rest),
        };
        let (hosts, path) =
            rest.split_once('/').ok_or_else(|| wrong("it does not name the service after the hosts"))?;
        let (name, database) = path.split_once('/').unwrap_or((path, "0"));
        let database = database.parse().map_err(|_| wrong("the database is not a number"))?;
        if name.is_empty() || hosts.split(',').any(str::is_empty) {
            return Err(wrong("a host or the name of the service is missing"));
        }
        let with_port = |host: &str| match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
            _ => format!("{host}:{SENTINEL_PORT}"),
        };
        let sentinels = hosts.split(',').map(with_port).collect();
        Ok(Self::Sentinels { sentinels, has_tls, name: name.to_owned(), login, database })
    }

    /// Connects to the server, which answers within `patience` or not at all. Gives its URL too, with its password.
    pub(super) fn connect(&self, patience: Duration) -> RedisResult<(Connection, String)> {
        match self {
            Self::Fixed { url, .. } => Ok((open(url, patience)?, url.clone())),
            Self::Sentinels { sentinels, has_tls, name, login, database } => {
                let scheme = if *has_tls { "rediss" } else { "redis" };
                let mut last = RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "no Sentinel knows it"));
                for sentinel in sentinels {
                    let found = primary(&format!("{scheme}://{sentinel}"), name, patience)
                        .map(|place| format!("{scheme}://{login}{place}/{database}"))
                        .and_then(|url| Ok((check_primary(open(&url, patience)?)?, url)));
                    match found {
                        Ok(connected) => return Ok(connected),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }
}

fn open(url: &str, patience: Duration) -> RedisResult<Connection> {
    let connection = Client::open(url)?.get_connection_with_timeout(patience)?;
    connection.set_read_timeout(Some(patience))?;
    connection.set_write_timeout(Some(patience))?;
    Ok(connection)
}

/// Where a Sentinel says that the primary is.
fn primary(sentinel: &str, name: &str, patience: Duration) -> RedisResult<String> {
    let mut connection = open(sentinel, patience)?;
    let found: Option<(String, u16)> =
        cmd("SENTINEL").arg("get-master-addr-by-name").arg(name).query(&mut connection)?;
    let unknown = || RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "a Sentinel does not know this name"));
    let (host, port) = found.ok_or_else(unknown)?;
    // An IPv6 address needs brackets in a URL.
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// A Sentinel may name for a while a server that is a replica by now.
fn check_primary(mut connection: Connection) -> RedisResult<Connection> {
    let role: Vec<redis::Value> = cmd("ROLE").query(&mut connection)?;
    match role.first().map(redis::from_redis_value_ref::<String>) {
        Some(Ok(role)) if role == "master" => Ok(connection),
        _ => Err(RedisError::from((ErrorKind::Client, "the server that a Sentinel names is not the primary"))),
    }
}

fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { shown, .. } => f.write_str(shown),
            Self::Sentinels { sentinels, has_tls, name, .. } => {
                let scheme = if *has_tls { SENTINEL_TLS } else { SENTINEL };
                write!(f, "{scheme}{}/{name}", sentinels.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_passwords() {
        for (url, shown) in [
            ("redis://localhost:6379/2", "redis://localhost:6379/2"),
            ("redis://:secret@localhost", "redis://localhost"),
            ("rediss://:secret@localhost:6380", "rediss://localhost:6380"),
            ("redis+sentinel://u:secret@a,b:7/main/3", "redis+sentinel://a:26379,b:7/main"),
            ("rediss+sentinel://u:secret@a/main", "rediss+sentinel://a:26379/main"),
        ] {
            assert_eq!(Address::parse(url).unwrap().to_string(), shown);
        }
        for wrong in [
            "redis://",
            "rediss://:secret@",
            "redis+sentinel://a,b",
            "rediss+sentinel://a,b",
            "redis+sentinel://a,,b/m",
            "redis+sentinel://a/m/x",
        ] {
            let error = Address::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("redis://HOST:PORT/DB") && !error.contains("secret"), "{error}");
        }
    }
}
